//! Faults that distort lists.

use super::*;

#[tokio::test]
async fn a_stale_list_shows_the_past() {
    let rig = Rig::new().await;
    let uuid = rig.order("old", &["t"]).await;
    rig.advance(DELIVERY).await;
    rig.delete(&format!("{SERVERS}/{uuid}/tag/t")).await;
    rig.advance(10).await;
    rig.order("new", &["t"]).await;
    let rule =
        json!({"match": {"path": "/v3/flexMetal/*"}, "fault": {"staleList": {"seconds": 20}}});
    rig.steer("faults", rule).await;
    let (_, list) = rig.get("/v3/flexMetal/servers?tag=t").await;
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(
        (&list[0]["name"], &list[0]["status"]),
        (&json!("old"), &json!("created"))
    );
    assert_eq!(
        (&list[0]["tags"], &list[0]["ipAddresses"]),
        (&json!(["t"]), &json!([]))
    );
    assert_eq!(rig.status(&uuid).await, "created");
    let (status, _) = rig.control(Method::DELETE, "faults", &Value::Null).await;
    assert_eq!(status, 204);
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, ["new"]);
}

#[tokio::test]
async fn a_falsely_empty_list_still_says_200() {
    let rig = Rig::new().await;
    rig.order("a", &["t"]).await;
    let rule = json!({"match": {"method": "GET", "path": "/v3/flexMetal/*"}, "fault": "emptyList"});
    let id = rig.steer("faults", rule).await["id"].clone();
    assert_eq!(rig.get(SERVERS).await, (200, json!([])));
    assert_eq!(rig.get("/v3/flexMetal/tags").await, (200, json!([])));
    refused(rig.get("/v3/flexMetal/tags/t").await, 404);
    let (status, _) = rig
        .control(Method::DELETE, &format!("faults/{id}"), &Value::Null)
        .await;
    assert_eq!(status, 204);
    assert_eq!(rig.names(SERVERS).await, ["a"]);
    let (status, _) = rig
        .control(Method::DELETE, &format!("faults/{id}"), &Value::Null)
        .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn pages_shift_by_one_record_after_the_first() {
    let rig = Rig::new().await;
    for number in 0..6 {
        rig.order(&format!("n{number}"), &[]).await;
    }
    let two_pages = async || {
        let (_, first) = rig.ranged(SERVERS, "start=0,results=3").await;
        let (_, second) = rig.ranged(SERVERS, "start=3,results=3").await;
        [names(&first), names(&second)].concat()
    };
    for (fault, expected) in [
        ("shiftedPage", vec!["n0", "n1", "n2", "n4", "n5"]),
        ("repeatedPage", vec!["n0", "n1", "n2", "n2", "n3", "n4"]),
    ] {
        let id = rig.steer("faults", json!({"fault": fault})).await["id"].clone();
        assert_eq!(two_pages().await, expected, "{fault}");
        rig.control(Method::DELETE, &format!("faults/{id}"), &Value::Null)
            .await;
    }
}

#[tokio::test]
async fn one_record_is_listed_twice() {
    let rig = Rig::new().await;
    for name in ["a", "b"] {
        rig.order(name, &[]).await;
    }
    rig.steer("faults", json!({"fault": "repeatedRecord"}))
        .await;
    assert_eq!(rig.names(SERVERS).await, ["a", "a", "b"]);
    let (_, second) = rig.ranged(SERVERS, "start=2,results=2").await;
    assert_eq!(names(&second), ["b"]);
}

#[tokio::test]
async fn identifiers_are_shown_in_capital_letters() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.steer("faults", json!({"fault": "upperCase"})).await;
    let shouted = uuid.to_uppercase();
    let (_, list) = rig.get(SERVERS).await;
    assert_eq!(list[0]["uuid"], json!(shouted));
    assert_eq!(list[0]["tags"], json!(["t"]));
    let (_, one) = rig.get(&format!("{SERVERS}/{shouted}")).await;
    assert_eq!(one[0]["uuid"], json!(shouted));
}
