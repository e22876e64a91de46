//! Who is let in, and the end of it all.

use tokio::task::JoinSet;

use super::*;

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
async fn forwarded_address_needs_trusted_proxy() {
    let list = "/v3/account/apiKey/1/whitelist";
    let entry = json!({"ipRange": "127.0.0.0/8", "active": 1});
    for (trusted, stranger) in [(true, 403), (false, 200)] {
        let mut options = options(Profile::Document);
        if trusted {
            options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        }
        let rig = Rig::with(options).await;
        assert_eq!(rig.post(list, &entry).await.0, 200);
        for (address, status) in [
            ("127.0.0.9", 200),
            ("192.0.2.7", stranger),
            // The nearest one counts.
            ("127.0.0.9, 192.0.2.7", stranger),
        ] {
            let request = rig
                .api(Method::GET, SERVERS)
                .header("X-Forwarded-For", address);
            assert_eq!(request.send().await.unwrap().status(), status, "{address}");
        }
    }
}

#[tokio::test]
async fn accounts_file_sets_keys_and_quota() {
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
    let uuid = rig.order("a", &[]).await;
    refused(rig.post(SERVERS, &body("b", &[])).await, 422);
    for (key, status) in [("blue-2", 200), ("green-1", 404)] {
        let url = format!("{}{SERVERS}/{uuid}", rig.running.api_url());
        let request = rig.client.get(url).header("PRIVATE-TOKEN", key);
        assert_eq!(request.send().await.unwrap().status(), status, "{key}");
    }
    assert_eq!(rig.look("machines?account=green").await, json!([]));
    let ledger = rig.look("ledger?account=green").await;
    assert_eq!(ledger.as_array().unwrap().len(), 1);
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
