//! Switches about hosts and their installation (sections 2.17, 2.20 and 4.8).

use serde_json::{Value, json};

use crate::acts;
use crate::rig::Rig;

const HOST: &str = "/v3/host/1001";
const KEY: &str = "018f0000-0000-7000-8000-000000000000";
/// What every installation takes, in seconds.
const INSTALL: u64 = 300;
const LINUX: u64 = 104;
const WINDOWS: u64 = 121;
const TALOS: u64 = 114;

/// Asks for an installation and waits for its end; the status.
async fn install(rig: &Rig, body: Value) -> u16 {
    let (status, _) = rig.call("POST", &format!("{HOST}/os/install"), body).await;
    rig.advance(INSTALL).await;
    status
}

acts! {
    contract_act_host_status "hostStatus" |rig| {
        let mut seen = Vec::new();
        for action in ["start", "stop"] {
            rig.send(rig.request("PUT", &format!("{HOST}/{action}"))).await;
            seen.push(rig.get(HOST).await.1[0]["status"].clone());
            seen.push(rig.get("/v3/host").await.1[0]["status"].clone());
        }
        seen
    } "running" => ["running", "running", "stopped", "stopped"], "on" => ["on", "on", "off", "off"],
      "active" => ["active", "active", "active", "active"];

    contract_act_host_paging "hostPaging" |rig| {
        let first = rig.request("GET", "/v3/host").header("RANGED-DATA", "start=0,results=1");
        let answer = first.send().await.unwrap();
        let token = answer.headers().get("page-token").cloned();
        let next = rig.request("GET", "/v3/host").header("PAGE-TOKEN", token.clone().unwrap_or_else(|| "none".parse().unwrap()));
        (token.is_some(), rig.send(next).await.1[0]["id"].clone())
    } "range" => [false, 1001], "token" => [true, 1002];

    // One name, the other, both good, and each of both bad in turn.
    contract_act_install_key "installKey" |rig| {
        let mut seen = Vec::new();
        for (id, uuid) in [(json!(KEY), None), (json!("nonsense"), None), (Value::Null, Some(KEY)), (Value::Null, Some("nonsense")),
            (json!(KEY), Some(KEY)), (json!(KEY), Some("nonsense")), (json!("nonsense"), Some(KEY))] {
            let mut body = json!({"os": {"id": LINUX}});
            if !id.is_null() {
                body["sshKeyId"] = id;
            }
            if let Some(uuid) = uuid {
                body["sshKeyUuid"] = json!(uuid);
            }
            seen.push(install(rig, body).await);
        }
        seen
    } "sshKeyId" => [200, 422, 422, 422, 422, 422, 422], "sshKeyUuid" => [422, 422, 200, 422, 422, 422, 422],
      "both" => [200, 422, 200, 422, 200, 422, 422];

    contract_act_install_key_needed "installKeyNeeded" |rig| {
        [
            install(rig, json!({"os": {"id": LINUX}})).await,
            install(rig, json!({"os": {"id": WINDOWS}})).await,
            install(rig, json!({"os": {"id": TALOS, "kernelParams": "factoryhash=abc"}})).await,
            install(rig, json!({"os": {"id": LINUX}, "sshKeyId": KEY})).await,
        ]
    } "always" => [422, 422, 422, 200], "linux" => [422, 200, 200, 200];

    // Either form, one that is neither, a list without a key, and a Linux without any.
    contract_act_install_kernel_params "installKernelParams" |rig| {
        let with = |params: Value| json!({"os": {"id": TALOS, "kernelParams": params}, "sshKeyId": KEY});
        [
            install(rig, with(json!("factoryhash=abc"))).await,
            install(rig, with(json!([{"key": "factoryhash", "value": "abc"}]))).await,
            install(rig, with(json!(7))).await,
            install(rig, with(json!([{"value": "abc"}]))).await,
            install(rig, json!({"os": {"id": LINUX}, "sshKeyId": KEY})).await,
        ]
    } "text" => [200, 422, 422, 422, 200], "list" => [422, 200, 422, 422, 200], "both" => [200, 200, 422, 422, 200];

    contract_act_install_busy "installBusy" |rig| {
        let wanted = json!({"os": {"id": LINUX}, "sshKeyId": KEY});
        let first = rig.call("POST", &format!("{HOST}/os/install"), wanted.clone()).await.0;
        let second = rig.call("POST", &format!("{HOST}/os/install"), wanted.clone()).await.0;
        rig.advance(INSTALL).await;
        [first, second, install(rig, wanted).await]
    } "refuse422" => [200, 422, 200], "accept" => [200, 200, 200];

    contract_act_factory_params "factoryParams" |rig| {
        let with = |params: &str| json!({"os": {"id": TALOS, "kernelParams": params}, "sshKeyId": KEY});
        [
            install(rig, with("factoryhash=abc")).await,
            install(rig, with("factoryhash=abc net.ifnames=1")).await,
            install(rig, with("factoryhash=abc siderolink.api=https://hub.example")).await,
        ]
    } "refuse422" => [200, 422, 422], "accept" => [200, 200, 422];
}
