//! Switches about commands and re-installations (sections 2.9, 2.12, 4.4 and 4.5).

use serde_json::{Value, json};

use crate::acts;
use crate::rig::{Rig, SERVERS, order};

/// What every re-installation takes, in seconds.
const INSTALL: u64 = 300;

/// The path of a delivered server.
async fn server(rig: &Rig) -> String {
    format!("{SERVERS}/{}", rig.delivered(order()).await)
}

/// Sends a command; the status.
async fn command(rig: &Rig, server: &str, word: &str) -> u16 {
    let path = format!("{server}/commands");
    rig.call("POST", &path, json!({"command": word})).await.0
}

acts! {
    contract_act_command_undelivered "commandUndelivered" |rig| {
        let waiting = format!("{SERVERS}/{}", rig.ordered(order()).await);
        command(rig, &waiting, "reboot").await
    } "refuse422" => 422, "accept" => 200;

    contract_act_command_busy "commandBusy" |rig| {
        let one = server(rig).await;
        let first = command(rig, &one, "reboot").await;
        let second = command(rig, &one, "reboot").await;
        rig.advance(10).await;
        [first, second, command(rig, &one, "reboot").await]
    } "accept" => [200, 200, 200], "refuse409" => [200, 409, 200];

    contract_act_command_order "commandOrder" |rig| {
        let one = server(rig).await;
        for word in ["power_off", "power_on"] {
            command(rig, &one, word).await;
        }
        let (_, list) = rig.get(&format!("{one}/commands")).await;
        [list[0]["payload"]["command"].clone(), list[1]["payload"]["command"].clone()]
    } "newestFirst" => ["power_on", "power_off"], "oldestFirst" => ["power_off", "power_on"];

    contract_act_command_keys "commandKeys" |rig| {
        let one = server(rig).await;
        command(rig, &one, "reboot").await;
        let (_, list) = rig.get(&format!("{one}/commands")).await;
        let mut keys: Vec<_> = list[0].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    } "camel" => ["createdAt", "payload", "serverUuid", "state", "updatedAt", "uuid"],
      "snake" => ["created_at", "payload", "server_uuid", "state", "updated_at", "uuid"];

    contract_act_command_type "commandType" |rig| {
        let one = server(rig).await;
        command(rig, &one, "reboot").await;
        rig.call("PATCH", &one, json!({})).await;
        rig.get(&format!("{one}/commands?type=update-server")).await.1.as_array().unwrap().len()
    } "filter" => 1, "ignore" => 2;

    contract_act_update_payload "updatePayload" |rig| {
        let one = server(rig).await;
        command(rig, &one, "reboot").await;
        rig.call("PATCH", &one, json!({})).await;
        let (_, list) = rig.get(&format!("{one}/commands")).await;
        assert_eq!(list[1]["payload"], json!({"command": "reboot"}));
        list[0]["payload"].clone()
    } "object" => {"command": "update-server"}, "emptyArray" => [], "null" => null;

    contract_act_reinstall_busy "reinstallBusy" |rig| {
        let one = server(rig).await;
        let first = rig.call("PATCH", &one, json!({})).await.0;
        let second = rig.call("PATCH", &one, json!({})).await.0;
        let between = command(rig, &one, "reboot").await;
        rig.advance(INSTALL).await;
        [first, second, between, rig.call("PATCH", &one, json!({})).await.0]
    } "refuse409" => [200, 409, 409, 200], "accept" => [200, 200, 200, 200];

    contract_act_reinstall_undelivered "reinstallUndelivered" |rig| {
        let waiting = format!("{SERVERS}/{}", rig.ordered(order()).await);
        rig.call("PATCH", &waiting, json!({})).await.0
    } "refuse422" => 422, "refuse409" => 409;

    contract_act_reinstall_ssh_key "reinstallSshKey" |rig| {
        let one = server(rig).await;
        let mut seen = Vec::new();
        for (slug, keys) in [("debian-13", Value::Null), ("debian-13", json!([])), ("debian-13", json!(["ssh-rsa AAAA"])),
            ("windows-2022", Value::Null), ("talos-omni-1110", Value::Null)] {
            let wanted = json!({"os": {"slug": slug}, "sshKey": keys, "name": "node-1"});
            seen.push(rig.call("PATCH", &one, wanted).await.0);
            rig.advance(INSTALL).await;
        }
        seen
    } "optional" => [200, 200, 200, 200, 200], "required" => [422, 422, 200, 200, 200];
}
