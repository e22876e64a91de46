//! DELETE of a server, in every state.

use super::*;

async fn release(rig: &Rig, uuid: &str) -> (u16, Value) {
    rig.delete(&format!("{SERVERS}/{uuid}")).await
}

#[tokio::test]
async fn a_delivered_machine_is_released_in_its_own_time() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.advance(DELIVERY).await;
    let (status, answer) = release(&rig, &uuid).await;
    assert_eq!((status, &answer[0]["status"]), (200, &json!("releasing")));
    rig.advance(RELEASE - 1).await;
    let (status, again) = release(&rig, &uuid).await;
    assert_eq!(
        (status, &again[0]["status"]),
        (200, &json!("releasing")),
        "idempotent"
    );
    rig.advance(1).await;
    let record = rig.server(&uuid).await;
    assert_eq!(record["status"], "released");
    assert_eq!(record["releasedAt"], START + DELIVERY + RELEASE);
    assert_eq!(record["deliveredAt"], START + DELIVERY);
    refused(release(&rig, &uuid).await, 422);
    let effects: Vec<Value> = rig
        .look("ledger?method=DELETE")
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["effect"].clone())
        .collect();
    assert_eq!(
        effects,
        [json!({"released": uuid}), Value::Null, Value::Null]
    );
}

#[tokio::test]
async fn a_waiting_machine_is_released_and_never_delivered() {
    let rig = Rig::observed().await;
    let uuid = rig.order("a", &[]).await;
    rig.advance(DELIVERY / 2).await;
    assert_eq!(release(&rig, &uuid).await.0, 200);
    rig.advance(DELIVERY).await;
    let record = rig.server(&uuid).await;
    assert_eq!(
        (&record["status"], &record["deliveredAt"]),
        (&json!("released"), &json!(0))
    );
}

#[tokio::test]
async fn a_failed_machine_cannot_be_released() {
    for profile in [Profile::Document, Profile::Observed] {
        let rig = Rig::with(Options {
            failure_rate: 1.0,
            ..options(profile)
        })
        .await;
        let uuid = rig.order("a", &[]).await;
        rig.advance(DELIVERY).await;
        refused(release(&rig, &uuid).await, 422);
        assert_eq!(rig.status(&uuid).await, "failed");
        rig.turn("releaseFailed", "accept").await;
        assert_eq!(release(&rig, &uuid).await.0, 200);
    }
}

#[tokio::test]
async fn what_is_not_documented_follows_the_switches() {
    let rig = Rig::new().await;
    rig.turn("releaseWhileWaiting", "refuse409").await;
    rig.turn("releaseReleasing", "refuse409").await;
    rig.turn("releaseReleased", "answer200").await;
    let uuid = rig.order("a", &[]).await;
    refused(release(&rig, &uuid).await, 409);
    assert_eq!(rig.status(&uuid).await, "created");
    rig.advance(DELIVERY).await;
    assert_eq!(release(&rig, &uuid).await.0, 200);
    refused(release(&rig, &uuid).await, 409);
    rig.advance(RELEASE).await;
    let (status, answer) = release(&rig, &uuid).await;
    assert_eq!((status, &answer[0]["status"]), (200, &json!("released")));
}

#[tokio::test]
async fn nothing_of_that_name_is_404() {
    let rig = Rig::new().await;
    refused(
        release(&rig, "0192f0c1-7d7a-7b3a-8000-000000000001").await,
        404,
    );
}
