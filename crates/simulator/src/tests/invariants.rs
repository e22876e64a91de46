//! The judge finds what must not happen, and nothing else.

use super::*;

const ONE: &str = "fmo-order:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000001";
const ONE_LATER: &str = "fmo-order:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000002";
const TWO: &str = "fmo-order:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb00000001";
const MARK: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The broken rules.
async fn broken(rig: &Rig) -> Vec<String> {
    let report = rig.look("invariants").await;
    let violations = report["violations"].as_array().unwrap().iter();
    violations
        .map(|violation| violation["rule"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn new_order_after_release_is_no_violation() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.order("b", &[TWO]).await;
    rig.advance(DELIVERY).await;
    rig.delete(&format!("{SERVERS}/{first}")).await;
    rig.advance(RELEASE).await;
    let second = rig.order("a", &[ONE_LATER]).await;
    let report = rig.look("invariants?prefix=fmo-order:").await;
    assert_eq!(report["violations"], json!([]));
    let mark = &report["marks"][MARK];
    assert_eq!(mark["orders"].as_array().unwrap().len(), 2);
    assert_eq!(mark["releases"][0]["machine"], first);
    let live: Vec<&Value> = mark["machines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|machine| machine["live"] == true)
        .map(|machine| &machine["machine"])
        .collect();
    assert_eq!(live, [&json!(second)]);
    assert_eq!(report["marks"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn duplicate_live_servers_stay_reported() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.advance(10).await;
    let second = rig.order("a", &[ONE_LATER]).await;
    assert_eq!(broken(&rig).await, ["twoLiveMachines"]);
    rig.delete(&format!("{SERVERS}/{second}")).await;
    rig.advance(RELEASE).await;
    let report = rig.look("invariants").await;
    assert_eq!(report["violations"][0]["machines"], json!([first, second]));
    assert_eq!(report["violations"][0]["mark"], MARK);
    assert_eq!(report["violations"][0]["since"], 1_700_000_010.0);
}

#[tokio::test]
async fn tag_used_twice_is_reported_after_release() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.delete(&format!("{SERVERS}/{first}")).await;
    rig.advance(RELEASE).await;
    rig.delete(&format!("/v3/flexMetal/tags/{ONE}")).await;
    rig.control(Method::DELETE, "ledger", &Value::Null).await;
    rig.order("a", &[ONE]).await;
    assert_eq!(broken(&rig).await, ["orderedTwice"]);
}

#[tokio::test]
async fn release_without_order_tag_is_reported() {
    let rig = Rig::new().await;
    let other = rig
        .steer("machines", json!({"name": "other", "tags": ["x"]}))
        .await;
    rig.delete(&format!("{SERVERS}/{}", other["uuid"].as_str().unwrap()))
        .await;
    let report = rig.look("invariants").await;
    assert_eq!(report["violations"][0]["rule"], "releasedWithoutMark");
    assert_eq!(report["violations"][0]["machine"], other["uuid"]);
    assert_eq!(report["violations"][0]["tags"], json!(["x"]));
}

#[tokio::test]
async fn owner_hash_may_move_to_another_server() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.advance(10).await;
    rig.delete(&format!("{SERVERS}/{first}/tag/{ONE}")).await;
    rig.advance(10).await;
    rig.order("a", &[ONE_LATER]).await;
    assert_eq!(broken(&rig).await, [""; 0]);
    rig.post(&format!("{SERVERS}/{first}/tag/{ONE}"), &Value::Null)
        .await;
    assert_eq!(broken(&rig).await, ["twoLiveMachines"]);
}

#[tokio::test]
async fn tags_with_another_prefix_are_ignored() {
    let rig = Rig::new().await;
    rig.order("a", &[ONE]).await;
    rig.order("b", &[ONE]).await;
    assert_eq!(
        rig.look("invariants?prefix=other:").await,
        json!({"violations": [], "marks": {}})
    );
}

/// A request with a key other than the rig's, or with none.
async fn call(rig: &Rig, key: Option<&str>, path: &str) -> u16 {
    let url = format!("{}{path}", rig.running.api_url());
    let request = rig.client.get(url);
    let request = match key {
        Some(key) => request.header("PRIVATE-TOKEN", key),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn unknown_and_missing_keys_are_reported() {
    let rig = Rig::new().await;
    assert_eq!(call(&rig, None, "/v3/health").await, 200);
    assert_eq!(call(&rig, None, "/favicon.ico").await, 403);
    assert_eq!(broken(&rig).await, [""; 0]);
    assert_eq!(call(&rig, None, SERVERS).await, 403);
    for _ in 0..2 {
        assert_eq!(call(&rig, Some("someoneelse"), SERVERS).await, 403);
    }
    rig.control(Method::DELETE, "ledger", &Value::Null).await;
    let report = rig.look("invariants").await;
    let [keyless, foreign] = report["violations"].as_array().unwrap().as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        *keyless,
        json!({"rule": "foreignKey", "keyId": null, "first": 3, "calls": 1})
    );
    assert_eq!(
        (&foreign["first"], &foreign["calls"]),
        (&json!(4), &json!(2))
    );
    assert_eq!(foreign["keyId"].as_str().unwrap().len(), 8);
}

#[tokio::test]
async fn key_refused_on_purpose_is_not_unknown() {
    let rig = Rig::new().await;
    rig.steer("keys", json!({"key": "old", "valid": true}))
        .await;
    assert_eq!(call(&rig, Some("old"), SERVERS).await, 200);
    rig.steer("keys", json!({"key": "old", "valid": false}))
        .await;
    assert_eq!(call(&rig, Some("old"), SERVERS).await, 403);
    // A new key that is in use before it is entered here.
    assert_eq!(call(&rig, Some("new"), SERVERS).await, 403);
    assert_eq!(broken(&rig).await, ["foreignKey"]);
    rig.steer("keys", json!({"key": "new", "valid": true}))
        .await;
    assert_eq!(broken(&rig).await, [""; 0]);
    let elsewhere = json!({"ipRange": "192.0.2.0/24", "active": 1});
    assert_eq!(
        rig.post("/v3/account/apiKey/1/whitelist", &elsewhere)
            .await
            .0,
        200
    );
    refused(rig.get(SERVERS).await, 403);
    // Not a foreign key, but nobody should do that to himself.
    assert_eq!(broken(&rig).await, ["lockedOut"]);
}

#[tokio::test]
async fn self_inflicted_lockout_is_reported() {
    const LIST: &str = "/v3/account/apiKey/1/whitelist";
    let rig = Rig::new().await;
    let here = json!({"ipRange": "127.0.0.0/8", "active": 1});
    let elsewhere = json!({"ipRange": "192.0.2.0/24", "active": 1});
    assert_eq!(rig.post(LIST, &here).await.0, 200);
    assert_eq!(rig.post(LIST, &elsewhere).await.0, 200);
    assert_eq!(broken(&rig).await, [""; 0]);
    let (_, list) = rig.get(LIST).await;
    let id = |place: usize| list[place]["id"].clone();
    let one = |id: Value| format!("{LIST}/{id}");
    // One that changes nothing for the sender, and then the one that does.
    let other = rig.api(Method::DELETE, &one(json!(99))).send().await;
    assert_eq!(other.unwrap().status(), 404);
    assert_eq!(broken(&rig).await, [""; 0]);
    let last = rig.api(Method::DELETE, &one(id(0))).send().await;
    assert_eq!(last.unwrap().status(), 204);
    refused(rig.get(LIST).await, 403);
    let report = rig.look("invariants").await;
    let [locked_out] = report["violations"].as_array().unwrap().as_slice() else {
        panic!("{report}");
    };
    assert_eq!(locked_out["rule"], "lockedOut");
    assert_eq!(
        (&locked_out["first"], &locked_out["calls"]),
        (&json!(5), &json!(1))
    );
    assert_eq!(locked_out["keyId"].as_str().unwrap().len(), 8);
}

#[tokio::test]
async fn access_to_another_account_is_reported() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &[]).await;
    rig.steer("accounts", json!({"name": "other", "key": "other-key"}))
        .await;
    rig.steer("accounts", json!({"name": "third", "key": "third-key"}))
        .await;
    assert_eq!(call(&rig, Some("other-key"), SERVERS).await, 200);
    assert_eq!(broken(&rig).await, [""; 0]);
    let url = format!("{}{SERVERS}/{uuid}", rig.running.api_url());
    let release = rig.client.delete(url).header("PRIVATE-TOKEN", "other-key");
    assert_eq!(release.send().await.unwrap().status(), 404);
    for account in ["main", "other"] {
        let report = rig.look(&format!("invariants?account={account}")).await;
        assert_eq!(
            report["violations"],
            json!([{"rule": "foreignResource", "account": "other", "owner": "main",
                "kind": "server", "id": uuid, "first": 3, "calls": 1}])
        );
    }
    // Its own host is its own; a machine is a host before it is delivered, too.
    for (path, status) in [
        ("/v3/host/1003", 200),
        ("/v3/host/1001/os/installLog", 404),
        ("/v3/host/100001", 404),
        // A number that names no host there, and none that is anywhere.
        ("/v3/flexMetal/tags/1001", 404),
        ("/v3/host/7", 404),
    ] {
        assert_eq!(call(&rig, Some("other-key"), path).await, status, "{path}");
    }
    let report = rig.look("invariants").await;
    let hosts = report["violations"].as_array().unwrap();
    let mut hosts: Vec<_> = hosts.iter().map(|one| (&one["kind"], &one["id"])).collect();
    hosts.retain(|(kind, _)| **kind == "host");
    assert_eq!(
        json!(hosts),
        json!([["host", "100001"], ["host", "1001"]]),
        "{report}"
    );
    let report = rig.look("invariants?account=third").await;
    assert_eq!(report["violations"], json!([]));
}
