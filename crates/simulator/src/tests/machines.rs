//! Machines on the control port: their records, and changes by somebody else.

use super::*;

#[tokio::test]
async fn servers_are_shown_with_full_history() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.advance(DELIVERY).await;
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    rig.advance(RELEASE).await;
    let machines = rig.look("machines").await;
    assert_eq!(machines[0], rig.look(&format!("machines/{uuid}")).await);
    let history: Vec<(u64, &str, &str)> = machines[0]["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            let at = step["at"].as_f64().unwrap() - 1_700_000_000.0;
            let text = |name: &str| step[name].as_str().unwrap();
            (
                Duration::from_secs_f64(at).as_secs(),
                text("state"),
                text("cause"),
            )
        })
        .collect();
    assert_eq!(
        history,
        [
            (0, "created", "order"),
            (DELIVERY, "delivered", "pipeline"),
            (DELIVERY, "releasing", "release"),
            (DELIVERY + RELEASE, "released", "release"),
        ]
    );
}

#[tokio::test]
async fn server_can_be_created_outside_the_api() {
    let rig = Rig::new().await;
    let old = json!({"name": "other", "tags": ["x"], "createdAt": START - 1_000});
    let uuid = rig.steer("machines", old).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let record = rig.server(&uuid).await;
    assert_eq!(
        (&record["status"], &record["createdAt"]),
        (&json!("delivered"), &json!(START - 1_000))
    );
    assert_eq!(record["ipAddresses"].as_array().unwrap().len(), 2);
    let waiting = rig
        .steer("machines", json!({"name": "w", "status": "created"}))
        .await;
    let released = rig
        .steer("machines", json!({"name": "r", "status": "released"}))
        .await;
    assert!(released["releasedAt"].is_u64() && released["deliveredAt"].is_u64());
    rig.advance(DELIVERY).await;
    assert_eq!(
        rig.status(waiting["uuid"].as_str().unwrap()).await,
        "delivered"
    );
    assert_eq!(
        rig.look("ledger?method=POST").await,
        json!([]),
        "not over the API"
    );
    let nowhere = json!({"name": "x", "location": "Nowhere"});
    assert_eq!(rig.control(Method::POST, "machines", &nowhere).await.0, 400);
}

#[tokio::test]
async fn their_system_is_a_slug_in_either_form() {
    let rig = Rig::new().await;
    for os in [json!("debian-13"), json!({"slug": "debian-13"})] {
        let made = rig.steer("machines", json!({"name": "a", "os": os})).await;
        assert_eq!(made["os"]["slug"], "debian-13", "{os}");
    }
    let made = rig.steer("machines", json!({"name": "a"})).await;
    assert_eq!(made["os"]["slug"], "ubuntu-2404-lts");
    for bad in [json!(7), json!({}), json!({"slug": "debian-13", "id": 1})] {
        let body = json!({"name": "a", "os": bad});
        let (status, answer) = rig.control(Method::POST, "machines", &body).await;
        assert_eq!(status, 400, "{bad}");
        let told = answer["error"].as_str().unwrap();
        assert!(told.contains("os must be a slug"), "{told}");
    }
}

#[tokio::test]
async fn server_can_be_changed_outside_the_api() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    let path = format!("machines/{uuid}");
    let patch = async |change: Value| {
        let (status, answer) = rig.control(Method::PATCH, &path, &change).await;
        assert_eq!(status, 200, "{answer}");
    };
    patch(json!({"status": "failed", "statusMessage": "disk on fire"})).await;
    rig.advance(DELIVERY).await;
    let record = rig.server(&uuid).await;
    assert_eq!(
        (&record["status"], &record["statusMessage"]),
        (&json!("failed"), &json!("disk on fire"))
    );
    patch(json!({"status": "delivered", "tags": ["u"], "ipAddresses": ["192.0.2.7"]})).await;
    let record = rig.server(&uuid).await;
    assert_eq!(
        (&record["tags"], &record["ipAddresses"][0]["ipAddress"]),
        (&json!(["u"]), &json!("192.0.2.7"))
    );
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, [""; 0]);
    patch(json!({"hidden": true})).await;
    assert_eq!(rig.names(SERVERS).await, [""; 0]);
    refused(rig.get(&format!("{SERVERS}/{uuid}")).await, 404);
    patch(json!({"hidden": false, "status": "releasing"})).await;
    rig.advance(RELEASE).await;
    assert_eq!(rig.status(&uuid).await, "released");
    let (status, _) = rig
        .control(Method::PATCH, "machines/none", &json!({}))
        .await;
    assert_eq!(status, 404);
    let (status, _) = rig
        .control(Method::PATCH, &path, &json!({"staus": "failed"}))
        .await;
    assert_eq!(status, 400);
}
