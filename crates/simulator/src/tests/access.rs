//! Keys, paths, methods, bodies.

use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn only_a_valid_key_is_let_in() {
    let rig = Rig::new().await;
    let url = format!("{}{SERVERS}", rig.running.api_url());
    let without = read(rig.client.get(&url).send().await.unwrap()).await;
    assert_eq!(refused(without, 403), "Invalid credentials");
    let wrong = rig.client.get(&url).header("PRIVATE-TOKEN", "wrong");
    refused(read(wrong.send().await.unwrap()).await, 403);
    assert_eq!(rig.get(SERVERS).await, (200, json!([])));
}

#[tokio::test]
async fn keys_come_and_go_while_it_runs() {
    let rig = Rig::new().await;
    let with = |key: &'static str| {
        rig.client
            .get(format!("{}{SERVERS}", rig.running.api_url()))
            .header("PRIVATE-TOKEN", key)
    };
    rig.steer("keys", json!({"key": "next", "valid": true}))
        .await;
    assert_eq!(with("next").send().await.unwrap().status(), 200);
    rig.steer("keys", json!({"key": "test-key", "valid": false}))
        .await;
    refused(rig.get(SERVERS).await, 403);
    rig.turn("wrongKey", "answer401").await;
    refused(rig.get(SERVERS).await, 401);
    let keys = rig.look("keys").await;
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert!(!keys.to_string().contains("test-key"));
}

#[tokio::test]
async fn a_refused_request_changes_nothing() {
    let rig = Rig::new().await;
    rig.steer("keys", json!({"key": "test-key", "valid": false}))
        .await;
    refused(rig.post(SERVERS, &body("a", &["t"])).await, 403);
    assert_eq!(rig.look("machines").await, json!([]));
    assert_eq!(rig.look("ledger").await[0]["effect"], Value::Null);
}

#[tokio::test]
async fn both_forms_of_a_trailing_slash_are_one_path() {
    let rig = Rig::new().await;
    let (_, bare) = rig.get("/v3/flexMetal/location").await;
    let (status, slash) = rig.get("/v3/flexMetal/location/").await;
    assert_eq!((status, &slash), (200, &bare));
    rig.order("a", &["x"]).await;
    assert_eq!(rig.names("/v3/flexMetal/servers/?tag=x").await, ["a"]);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_cannot_be_done_405() {
    let rig = Rig::new().await;
    assert_eq!(
        refused(rig.get("/v3/nothing").await, 404),
        "Entity not found"
    );
    refused(rig.get(&format!("{SERVERS}/no-uuid")).await, 404);
    refused(
        rig.get(&format!("{SERVERS}/0192f0c1-7d7a-7b3a-8000-000000000001"))
            .await,
        404,
    );
    refused(rig.delete("/v3/flexMetal/plans").await, 405);
}

#[tokio::test]
async fn a_path_that_is_no_text_names_nothing() {
    let rig = Rig::new().await;
    for path in [
        "/v3/flexMetal/tags/%FF",
        "/v3/flexMetal/servers/%C3%28",
        "/v3/flexMetal/location/%FF/instanceTypes",
        "/v3/host/%FF",
        "/v3/sshKey/%FF",
        "/v3/account/apiKey/%FF/whitelist",
    ] {
        refused(rig.get(path).await, 404);
    }
    let uuid = rig.order("a", &["t"]).await;
    refused(rig.delete(&format!("{SERVERS}/{uuid}/tag/%FF")).await, 404);
}

#[tokio::test]
async fn bodies_that_are_no_object_or_too_long_are_refused() {
    let rig = Rig::new().await;
    for text in ["", "{", "[]", "7"] {
        let request = rig.api(Method::POST, SERVERS).body(text);
        refused(read(request.send().await.unwrap()).await, 400);
    }
    let long = "x".repeat(1024 * 1024 + 1);
    let request = rig.api(Method::POST, SERVERS).body(long);
    refused(read(request.send().await.unwrap()).await, 413);
}

#[tokio::test]
async fn dropping_it_closes_both_ports() {
    let Rig { running, client } = Rig::new().await;
    let (api, control) = (running.api, running.control);
    drop(running);
    for address in [api, control] {
        // The listening task ends in its own time: try until it has.
        let gone = async {
            while client
                .get(format!("http://{address}/"))
                .send()
                .await
                .is_ok()
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn stopping_it_breaks_off_what_is_in_flight() {
    let rig = Rig::new().await;
    rig.steer(
        "faults",
        json!({"fault": {"delay": {"ms": 60_000, "before": true}}}),
    )
    .await;
    let request = rig
        .api(Method::GET, SERVERS)
        .timeout(Duration::from_secs(50));
    let mut waiting = JoinSet::new();
    waiting.spawn(request.send());
    let arrived = async {
        while rig.look("ledger").await == json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), arrived)
        .await
        .unwrap();
    let Rig { running, client } = rig;
    let url = running.api_url();
    let stopped = tokio::time::timeout(Duration::from_secs(10), running.stop());
    stopped.await.unwrap();
    let broken_off = waiting.join_next().await.unwrap();
    assert!(broken_off.unwrap().is_err());
    assert!(client.get(url).send().await.is_err());
}
