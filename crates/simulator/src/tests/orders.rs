//! From the order to the delivery.

use super::*;

#[tokio::test]
async fn an_order_is_delivered_when_its_time_has_come() {
    let rig = Rig::new().await;
    let (status, answer) = rig.post(SERVERS, &body("web-1", &["a:b"])).await;
    assert_eq!(status, 200);
    assert_eq!(
        answer.as_array().unwrap().len(),
        1,
        "an array around the single record"
    );
    let uuid = answer[0]["uuid"].as_str().unwrap().to_owned();
    assert_eq!(
        answer[0],
        json!({
            "uuid": uuid,
            "name": "web-1",
            "status": "created",
            "statusMessage": "",
            "location": {"id": 6, "name": "EU: Rotterdam"},
            "instanceType": {"id": 1, "name": "bm7.std.8"},
            "os": {"slug": "ubuntu-2404-lts"},
            "ipAddresses": [],
            "tags": ["a:b"],
            "createdAt": START,
        })
    );
    rig.advance(DELIVERY - 1).await;
    assert_eq!(rig.status(&uuid).await, "created");
    rig.advance(1).await;
    let record = rig.server(&uuid).await;
    assert_eq!(record["status"], "delivered");
    assert_eq!(record["deliveredAt"], START + DELIVERY);
    assert_eq!(record["ipAddresses"].as_array().unwrap().len(), 2);
    assert_eq!(record.get("releasedAt"), None);
}

#[tokio::test]
async fn the_long_view_shows_the_whole_pipeline() {
    let rig = Rig::observed().await;
    let uuid = rig.order("a", &[]).await;
    let mut seen = Vec::new();
    for _ in 0..=DELIVERY / 10 {
        let record = rig.server(&uuid).await;
        let word = record["status"].as_str().unwrap().to_owned();
        let addressed = !record["ipAddresses"].as_array().unwrap().is_empty();
        let late = [
            "network_configured",
            "provisioning",
            "provisioned",
            "delivered",
        ];
        assert_eq!(addressed, late.contains(&word.as_str()), "{word}");
        if seen.last() != Some(&word) {
            seen.push(word);
        }
        rig.advance(10).await;
    }
    assert_eq!(
        seen,
        [
            "created",
            "discovering",
            "discovered",
            "allocating",
            "allocated",
            "configuring_network",
            "network_configured",
            "provisioning",
            "provisioned",
            "delivered"
        ]
    );
}

#[tokio::test]
async fn a_failure_has_a_cause_and_stays() {
    let rig = Rig::with(Options {
        failure_rate: 1.0,
        ..options(Profile::Document)
    })
    .await;
    let uuid = rig.order("a", &[]).await;
    rig.advance(DELIVERY).await;
    let record = rig.server(&uuid).await;
    assert_eq!(record["status"], "failed");
    assert!(!record["statusMessage"].as_str().unwrap().is_empty());
    assert_eq!(record.get("deliveredAt"), None);
    rig.advance(100_000).await;
    assert_eq!(rig.status(&uuid).await, "failed");
}

#[tokio::test]
async fn a_refused_order_orders_nothing() {
    let rig = Rig::new().await;
    let mut wrong = body("a", &["no blank"]);
    wrong["location"] = json!("Nowhere");
    let (status, record) = rig.post(SERVERS, &wrong).await;
    let blamed: Vec<&str> = record["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|breach| breach["property"].as_str().unwrap())
        .collect();
    assert_eq!(blamed, ["location", "tags[0]"]);
    refused((status, record), 422);
    assert_eq!(rig.look("machines").await, json!([]));
}

#[tokio::test]
async fn the_profiles_differ_about_a_missing_ssh_key() {
    let mut order = body("a", &[]);
    order.as_object_mut().unwrap().remove("sshKey");
    let rig = Rig::new().await;
    refused(rig.post(SERVERS, &order).await, 422);
    order["sshKey"] = json!([]);
    assert_eq!(rig.post(SERVERS, &order).await.0, 200);
    order.as_object_mut().unwrap().remove("sshKey");
    assert_eq!(Rig::observed().await.post(SERVERS, &order).await.0, 200);
}

#[tokio::test]
async fn answers_take_the_form_that_the_switches_say() {
    let rig = Rig::new().await;
    rig.turn("singleAnswer", "object").await;
    rig.turn("absentFields", "zero").await;
    rig.turn("idleMessage", "null").await;
    rig.turn("addresses", "none").await;
    let (_, record) = rig.post(SERVERS, &body("a", &[])).await;
    assert_eq!(record["contractId"], "");
    assert_eq!(
        (&record["deliveredAt"], &record["releasedAt"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(record["statusMessage"], Value::Null);
    rig.advance(DELIVERY).await;
    let uuid = record["uuid"].as_str().unwrap();
    let (_, record) = rig.get(&format!("{SERVERS}/{uuid}")).await;
    assert_eq!(
        (&record["status"], &record["ipAddresses"]),
        (&json!("delivered"), &json!([]))
    );
}

#[tokio::test]
async fn the_same_seed_and_requests_give_the_same_answers() {
    let story = || async {
        let delivery = Delivery {
            min: Duration::from_secs(10),
            max: Duration::from_secs(900),
        };
        let rig = Rig::with(Options {
            delivery,
            failure_rate: 0.5,
            ..options(Profile::Observed)
        })
        .await;
        for number in 0..10 {
            rig.order(&format!("n{number}"), &[]).await;
            rig.advance(45).await;
        }
        rig.get(SERVERS).await
    };
    assert_eq!(story().await, story().await);
}
