//! Pages, filters, order and lag of the server list, and the faults that
//! distort lists.

use super::*;

async fn with_machines(number: usize) -> Rig {
    let rig = Rig::new().await;
    for index in 0..number {
        rig.order(&format!("n{index}"), &["all"]).await;
    }
    rig
}

#[tokio::test]
async fn pages_are_15_by_default_and_50_at_most() {
    let rig = with_machines(60).await;
    assert_eq!(rig.names(SERVERS).await.len(), 15);
    let (_, page) = rig.ranged(SERVERS, "start=0,results=50").await;
    assert_eq!(page.as_array().unwrap().len(), 50);
    let (_, page) = rig.ranged(SERVERS, "start=50,results=50").await;
    assert_eq!(
        names(&page),
        (50..60).map(|n| format!("n{n}")).collect::<Vec<_>>()
    );
    assert_eq!(
        rig.ranged(SERVERS, "start=60,results=50").await,
        (200, json!([]))
    );
    refused(rig.ranged(SERVERS, "start=0,results=51").await, 422);
    refused(rig.ranged(SERVERS, "nonsense").await, 422);
    rig.turn("resultsAbove50", "clamp").await;
    let (_, page) = rig.ranged(SERVERS, "start=0,results=100").await;
    assert_eq!(page.as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn all_given_tags_must_match() {
    let rig = Rig::new().await;
    rig.order("both", &["x", "y"]).await;
    rig.order("one", &["x"]).await;
    rig.order("none", &[]).await;
    assert_eq!(
        rig.names("/v3/flexMetal/servers?tag=x").await,
        ["both", "one"]
    );
    assert_eq!(
        rig.names("/v3/flexMetal/servers?tag=y&tag=x").await,
        ["both"]
    );
    assert_eq!(
        rig.names("/v3/flexMetal/servers?tag=x&tag=z").await,
        [""; 0]
    );
    assert_eq!(
        rig.names("/v3/flexMetal/servers?tag=&status=").await.len(),
        3
    );
}

#[tokio::test]
async fn the_status_filter_has_words_of_its_own() {
    let rig = Rig::new().await;
    let old = rig.order("old", &["t"]).await;
    rig.advance(DELIVERY).await;
    rig.order("new", &["t"]).await;
    let of = |status| format!("{SERVERS}?tag=t&status={status}");
    assert_eq!(rig.names(&of("delivered")).await, ["old"]);
    assert_eq!(rig.names(&of("creating")).await, ["new"]);
    assert_eq!(rig.names(&of("provisioning")).await, [""; 0]);
    rig.delete(&format!("{SERVERS}/{old}")).await;
    assert_eq!(rig.names(&of("releasing")).await, ["old"]);
    rig.advance(RELEASE).await;
    assert_eq!(rig.names(&of("released")).await, ["old"]);
    assert_eq!(rig.names(&of("delivered")).await, [""; 0]);
    refused(rig.get(&of("created")).await, 422);
    rig.turn("unknownStatusFilter", "matchRecord").await;
    assert_eq!(rig.names(&of("created")).await, ["new"]);
    assert_eq!(rig.names(&of("nonsense")).await, [""; 0]);
}

#[tokio::test]
async fn released_records_stay_in_the_unfiltered_list_for_ever() {
    let rig = Rig::new().await;
    let uuid = rig.order("gone", &[]).await;
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    rig.advance(100_000_000).await;
    let (_, list) = rig.get(SERVERS).await;
    assert_eq!(list[0]["status"], "released");
}

#[tokio::test]
async fn order_and_needed_filters_follow_the_switches() {
    let rig = with_machines(3).await;
    assert_eq!(rig.names(SERVERS).await, ["n0", "n1", "n2"]);
    rig.turn("listOrder", "newestFirst").await;
    assert_eq!(
        rig.names("/v3/flexMetal/servers?tag=all").await,
        ["n2", "n1", "n0"]
    );
    rig.turn("listFilters", "required").await;
    refused(rig.get(SERVERS).await, 422);
    refused(rig.get("/v3/flexMetal/servers?status=creating").await, 422);
    assert_eq!(
        rig.names("/v3/flexMetal/servers?status=creating&tag=all")
            .await
            .len(),
        3
    );
}

#[tokio::test]
async fn a_lagging_list_and_tag_look_up_show_a_machine_later_than_its_get() {
    let lag = Duration::from_secs(60);
    let rig = Rig::with(Options {
        list_lag: lag,
        ..options(Profile::Document)
    })
    .await;
    let uuid = rig.order("late", &["t"]).await;
    assert_eq!(rig.status(&uuid).await, "created");
    rig.advance(59).await;
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, [""; 0]);
    assert_eq!(rig.names(SERVERS).await, [""; 0]);
    refused(rig.get("/v3/flexMetal/tags/t").await, 404);
    rig.advance(1).await;
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, ["late"]);
    assert_eq!(rig.get("/v3/flexMetal/tags/t").await.0, 200);
}

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
