//! Whitelists, the password, several accounts.

use super::*;

const LIST: &str = "/v3/account/apiKey/1/whitelist";

async fn put(rig: &Rig, path: &str, body: &Value) -> (u16, Value) {
    read(rig.api(Method::PUT, path).json(body).send().await.unwrap()).await
}

#[tokio::test]
async fn a_whitelist_is_kept_and_enforced() {
    let rig = Rig::with(Options {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..options(Profile::Document)
    })
    .await;
    assert_eq!(rig.get(LIST).await, (200, json!([])));
    let entry = json!({"ipRange": "127.0.0.0/8", "comments": "me", "active": 1});
    let (status, added) = rig.post(LIST, &entry).await;
    assert_eq!(status, 200, "{added}");
    assert_eq!(added[0]["ipRange"], "127.0.0.0/8");
    assert_eq!(added[0]["ipStart"], Value::Null);
    assert_eq!(added[0]["updatedAt"], START);
    assert_eq!(rig.get(LIST).await.1, added);
    let from = async |address: &str| {
        let request = rig
            .api(Method::GET, SERVERS)
            .header("X-Forwarded-For", address);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(from("127.0.0.9").await, 200);
    assert_eq!(from("192.0.2.7").await, 403);
    assert_eq!(from("127.0.0.9, 192.0.2.7").await, 403);
    let one = format!("{LIST}/{}", added[0]["id"]);
    let wider = json!({"ipStart": "192.0.2.1", "ipEnd": "192.0.2.9", "active": 1});
    let (status, changed) = put(&rig, &one, &wider).await;
    assert_eq!((status, &changed[0]["ipRange"]), (200, &Value::Null));
    assert_eq!(from("192.0.2.7").await, 200);
    refused(rig.get(SERVERS).await, 403);
    let remove = rig
        .api(Method::DELETE, &one)
        .header("X-Forwarded-For", "192.0.2.7");
    assert_eq!(remove.send().await.unwrap().status(), 204);
    assert_eq!(rig.get(SERVERS).await.0, 200);
    refused(rig.delete(&one).await, 404);
    refused(put(&rig, &one, &wider).await, 404);
    refused(rig.get("/v3/account/apiKey/7/whitelist").await, 404);
    for bad in [
        json!({"ipRange": "x", "active": 1}),
        json!({"active": 1}),
        json!({"ipRange": "127.0.0.1"}),
        json!({"ipRange": "127.0.0.1", "active": 2}),
        json!({"ipRange": "127.0.0.1", "active": 1, "more": 1}),
    ] {
        refused(rig.post(LIST, &bad).await, 422);
    }
    for (bad, blamed) in [
        (json!({"ipStart": "127.0.0.1", "active": 1}), "ipRange"),
        (json!({"ipEnd": "127.0.0.1", "active": 1}), "ipRange"),
        (
            json!({"ipStart": "127.0.0.2", "ipEnd": "127.0.0.1", "active": 1}),
            "ipRange",
        ),
        (
            json!({"ipRange": "127.0.0.1", "active": 1, "id": "x"}),
            "id",
        ),
        (
            json!({"ipRange": "127.0.0.1", "active": 1, "updatedAt": []}),
            "updatedAt",
        ),
    ] {
        let (status, record) = rig.post(LIST, &bad).await;
        assert_eq!(record["errors"][0]["property"], blamed, "{bad}");
        refused((status, record), 422);
    }
    // A record that was read can be sent back as it is.
    let (_, whole) = rig.post(LIST, &entry).await;
    let one = format!("{LIST}/{}", whole[0]["id"]);
    assert_eq!(put(&rig, &one, &whole[0]).await, (200, whole));
}

#[tokio::test]
async fn nobody_is_believed_without_a_trusted_proxy() {
    let rig = Rig::new().await;
    let entry = json!({"ipRange": "192.0.2.0/24", "active": 1});
    assert_eq!(rig.post(LIST, &entry).await.0, 200);
    let request = rig
        .api(Method::GET, SERVERS)
        .header("X-Forwarded-For", "192.0.2.7");
    assert_eq!(request.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn the_password_is_changed_throttled_and_reset() {
    let rig = Rig::new().await;
    let path = "/v3/account/password";
    let change = |current: &str| json!({"currentPassword": current, "newPassword": "next"});
    refused(put(&rig, path, &change("wrong")).await, 401);
    assert_eq!(
        put(&rig, path, &change("correct-horse")).await,
        (204, Value::Null)
    );
    for _ in 0..3 {
        refused(put(&rig, path, &change("correct-horse")).await, 401);
    }
    refused(put(&rig, path, &change("next")).await, 429);
    refused(put(&rig, path, &json!({"newPassword": "x"})).await, 422);

    let ask = async |email: &str| {
        rig.post(
            "/v3/account/password/reset",
            &json!({"emailAddress": email}),
        )
        .await
    };
    assert_eq!(ask("stranger@example.com").await.0, 204);
    assert_eq!(rig.look("accounts").await[0]["resetHash"], Value::Null);
    assert_eq!(ask("owner@example.com").await.0, 204);
    let hash = rig.look("accounts").await[0]["resetHash"].clone();
    let validate = "/v3/account/password/reset/validate";
    let wrong = json!({"newPassword": "reset", "resetHash": "wrong"});
    refused(put(&rig, validate, &wrong).await, 403);
    let right = json!({"newPassword": "reset", "resetHash": hash});
    assert_eq!(put(&rig, validate, &right).await.0, 204);
    refused(put(&rig, validate, &right).await, 403);
    rig.advance(15 * 60).await;
    assert_eq!(put(&rig, path, &change("reset")).await.0, 204);
    rig.turn("resetLoggedIn", "refuse422").await;
    refused(ask("owner@example.com").await, 422);
    refused(put(&rig, validate, &right).await, 422);
    let ledger = rig.look("ledger").await.to_string();
    assert!(!ledger.contains("correct-horse") && !ledger.contains(hash.as_str().unwrap()));
}

#[tokio::test]
async fn accounts_from_a_file_see_nothing_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.json");
    let text = json!({"accounts": [
        {"name": "blue", "keys": [{"key": "blue-1"}, {"key": "blue-2"}],
            "quota": [{"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quota": 1}]},
        {"name": "green", "keys": [{"key": "green-1"}]},
    ]});
    std::fs::write(&file, text.to_string()).unwrap();
    let rig = Rig::with(Options {
        accounts: Some(file),
        api_key: None,
        ..options(Profile::Document)
    })
    .await;
    assert_eq!(rig.running.api_key, "blue-1");
    let uuid = rig.order("a", &["t"]).await;
    let with = async |key: &str, path: &str| {
        let url = format!("{}{path}", rig.running.api_url());
        read(
            rig.client
                .get(url)
                .header("PRIVATE-TOKEN", key)
                .send()
                .await
                .unwrap(),
        )
        .await
    };
    let one = format!("{SERVERS}/{uuid}");
    assert_eq!(with("blue-2", &one).await.0, 200);
    refused(with("green-1", &one).await, 404);
    assert_eq!(with("green-1", SERVERS).await, (200, json!([])));
    assert_eq!(
        with("green-1", "/v3/flexMetal/tags").await,
        (200, json!([]))
    );
    refused(with("green-1", LIST).await, 404);
    refused(rig.post(SERVERS, &body("b", &[])).await, 422);
    assert_eq!(rig.look("machines?account=green").await, json!([]));
    assert_eq!(
        rig.look("ledger?account=green")
            .await
            .as_array()
            .unwrap()
            .len(),
        4
    );
}
