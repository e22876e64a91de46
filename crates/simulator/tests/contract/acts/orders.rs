//! Switches about orders and quota (sections 2.7, 2.8 and 4.7).

use serde_json::{Value, json};

use crate::acts;
use crate::acts::present;
use crate::rig::{SERVERS, order, with};

const PLACE: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";
const USAGE: &str = "/v3/flexMetal/usage";

/// The status that an order with this system is answered with.
async fn with_system(rig: &crate::rig::Rig, os: Value) -> u16 {
    rig.call("POST", SERVERS, with("os", os)).await.0
}

acts! {
    contract_act_missing_ssh_key "missingSshKey" |rig| {
        let mut without = order();
        without.as_object_mut().unwrap().remove("sshKey");
        [
            rig.call("POST", SERVERS, without).await.0,
            rig.call("POST", SERVERS, with("sshKey", Value::Null)).await.0,
            rig.call("POST", SERVERS, with("sshKey", json!([]))).await.0,
        ]
    } "refuse422" => [422, 422, 200], "accept" => [200, 200, 200];

    contract_act_catalogue_names "catalogueNames" |rig| {
        let mut seen = Vec::new();
        for (field, name) in [("location", "eu: rotterdam"), ("instanceType", "BM7.Std.8"), ("location", "eu: nowhere")] {
            let (status, server) = rig.call("POST", SERVERS, with(field, json!(name))).await;
            seen.push((status, server[0][field]["name"].clone()));
        }
        seen
    } "exact" => [[422, null], [422, null], [422, null]], "caseless" => [[200, PLACE], [200, KIND], [422, null]];

    contract_act_ipxe_script_url "ipxeScriptUrl" |rig| {
        [
            with_system(rig, json!({"slug": "custom-ipxe"})).await,
            with_system(rig, json!({"slug": "debian-13", "ipxeScriptUrl": "https://boot.example/x"})).await,
            with_system(rig, json!({"slug": "custom-ipxe", "ipxeScriptUrl": "https://boot.example/x"})).await,
        ]
    } "enforce" => [422, 422, 200], "ignore" => [200, 200, 200];

    contract_act_file_systems "fileSystems" |rig| {
        let mut seen = Vec::new();
        for word in ["zfs", "Ext4", "ext2", "ext3", "ext4", "xfs", "swap"] {
            let disk = json!([{"target": "/", "filesystem": word, "size": 1}]);
            seen.push(with_system(rig, json!({"slug": "debian-13", "partitions": disk})).await);
        }
        seen
    } "any" => [200, 200, 200, 200, 200, 200, 200], "enforce" => [422, 422, 200, 200, 200, 200, 200];

    contract_act_siderolink_api "siderolinkApi" |rig| {
        let hub = json!([{"key": "siderolink.api", "value": "https://hub.example"}]);
        [
            with_system(rig, json!({"slug": "talos-omni-1110"})).await,
            with_system(rig, json!({"slug": "talos-omni-1110", "kernelParams": hub})).await,
            with_system(rig, json!({"slug": "debian-13"})).await,
        ]
    } "optional" => [200, 200, 200], "required" => [422, 200, 200];

    contract_act_unknown_contract "unknownContract" |rig| {
        let (status, server) = rig.call("POST", SERVERS, with("contractId", json!("NOBODY"))).await;
        let contract = (status == 200).then(|| present(&server[0], &["contractId"]));
        (status, contract)
    } "refuse422" => [422, null], "onDemand" => [200, {}];

    contract_act_exhausted "exhausted" |rig| {
        let pool = |more: Value| {
            let mut pool = json!({"location": PLACE, "instanceType": KIND});
            pool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            pool
        };
        rig.steer("availability", pool(json!({"stock": 0}))).await;
        let stock = rig.call("POST", SERVERS, order()).await.0;
        rig.steer("availability", pool(json!({"stock": null}))).await;
        rig.steer("quota", pool(json!({"quota": 0}))).await;
        let demand = rig.call("POST", SERVERS, order()).await.0;
        rig.steer("quota", pool(json!({"quota": 0, "quotaType": "commit", "contractId": "C"}))).await;
        [stock, demand, rig.call("POST", SERVERS, with("contractId", json!("C"))).await.0]
    } "refuse422" => [422, 422, 422], "refuse409" => [409, 409, 409];

    contract_act_usage_open_end "usageOpenEnd" |rig| {
        let ended = rig.delivered(order()).await;
        rig.delivered(order()).await;
        rig.delete(&format!("{SERVERS}/{ended}")).await;
        rig.advance(60).await;
        let (_, usage) = rig.get(USAGE).await;
        [usage[0]["endedAt"].clone(), usage[1]["endedAt"].clone()]
    } "now" => ["2023-11-14T22:23:20.000Z", "2023-11-14T22:24:20.000Z"], "null" => ["2023-11-14T22:23:20.000Z", null];

    contract_act_usage_dates "usageDates" |rig| {
        rig.delivered(order()).await;
        rig.advance(40 * 86_400).await;
        rig.get(USAGE).await.1[0]["startedAt"].clone()
    } "month" => "2023-12-01T00:00:00.000Z", "all" => "2023-11-14T22:18:20.000Z";

    contract_act_bandwidth_out "bandwidthOut" |rig| {
        rig.delivered(order()).await;
        rig.advance(60).await;
        let (_, usage) = rig.get(USAGE).await;
        usage[0].get("bandwidthOut").map(Value::is_u64)
    } "omit" => null, "show" => true;
}
