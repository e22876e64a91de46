//! Switches about keys, whitelists, the password and stored SSH keys (sections 4.1, 4.2, 4.8 and 5).

use serde_json::json;

use crate::acts;
use crate::rig::{SERVERS, with};

const KEYS: &str = "/v3/sshKey";

acts! {
    contract_act_wrong_key "wrongKey" |rig| {
        let url = format!("{}{SERVERS}", rig.running.api_url());
        let missing = rig.send(rig.client.get(&url)).await.0;
        let unknown = rig.send(rig.client.get(&url).header("PRIVATE-TOKEN", "wrong")).await.0;
        rig.steer("keys", json!({"key": "contract-key", "valid": false})).await;
        [missing, unknown, rig.get(SERVERS).await.0]
    } "answer403" => [403, 403, 403], "answer401" => [401, 401, 401];

    contract_act_whitelist_active "whitelistActive" |rig| {
        let mut seen = Vec::new();
        for entry in [json!({"ipRange": "127.0.0.0/8"}), json!({"ipRange": "127.0.0.0/8", "active": null}),
            json!({"ipRange": "127.0.0.0/8", "active": 0})] {
            let (status, added) = rig.call("POST", "/v3/account/apiKey/1/whitelist", entry).await;
            seen.push((status, added[0]["active"].clone()));
        }
        seen
    } "required" => [[422, null], [422, null], [200, 0]], "optional" => [[200, 1], [200, 1], [200, 0]];

    contract_act_reset_logged_in "resetLoggedIn" |rig| {
        let path = "/v3/account/password/reset";
        [
            rig.call("POST", path, json!({"emailAddress": "owner@example.com"})).await.0,
            rig.call("PUT", &format!("{path}/validate"), json!({"newPassword": "x", "resetHash": "wrong"})).await.0,
        ]
    } "accept" => [204, 403], "refuse422" => [422, 422];

    contract_act_duplicate_key_name "duplicateKeyName" |rig| {
        let key = json!({"name": "me", "publicKey": "ssh-rsa AAAA"});
        let other = json!({"name": "you", "publicKey": "ssh-rsa AAAA"});
        [
            rig.call("POST", KEYS, key.clone()).await.0,
            rig.call("POST", KEYS, key).await.0,
            rig.call("POST", KEYS, other).await.0,
        ]
    } "accept" => [200, 200, 200], "refuse422" => [200, 422, 200];

    contract_act_unknown_ssh_key "unknownSshKey" |rig| {
        let (_, stored) = rig.call("POST", KEYS, json!({"name": "me", "publicKey": "ssh-rsa AAAA"})).await;
        let nobody = "018f0000-0000-7000-8000-000000000000";
        let uuid = rig.delivered(with("sshKey", json!([stored[0]["uuid"]]))).await;
        let one = format!("{SERVERS}/{uuid}");
        [
            rig.call("POST", SERVERS, with("sshKey", json!([stored[0]["uuid"], nobody]))).await.0,
            rig.call("PATCH", &one, json!({"sshKey": [nobody]})).await.0,
            rig.call("POST", "/v3/host/1001/os/install", json!({"os": {"id": 104}, "sshKeyId": nobody})).await.0,
            rig.call("POST", "/v3/host/1002/os/install", json!({"os": {"id": 104}, "sshKeyId": stored[0]["uuid"]})).await.0,
        ]
    } "accept" => [200, 200, 200, 200], "refuse422" => [422, 422, 422, 200];

    contract_act_public_keys "publicKeys" |rig| {
        let uuid = rig.delivered(with("sshKey", json!(["ssh-ed25519 AAAAC3 me@here"]))).await;
        [
            rig.call("POST", SERVERS, with("sshKey", json!(["anything"]))).await.0,
            rig.call("PATCH", &format!("{SERVERS}/{uuid}"), json!({"sshKey": ["anything"]})).await.0,
            rig.call("POST", KEYS, json!({"name": "me", "publicKey": "anything"})).await.0,
            rig.call("POST", SERVERS, with("sshKey", json!([""]))).await.0,
        ]
    } "openssh" => [422, 422, 422, 422], "any" => [200, 200, 200, 422];
}
