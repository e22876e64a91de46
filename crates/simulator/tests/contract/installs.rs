//! The installation of hosts: forms of the request, and what is seen after it (sections 2.17, 2.20 and 2.22).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{Rig, START};

const PATH: &str = "/v3/host/1001/os/install";
const KEY: &str = "018f0000-0000-7000-8000-000000000000";
const LINUX: u64 = 104;
const TALOS: u64 = 114;
/// What every installation takes, in seconds.
const INSTALL: u64 = 300;

/// Asks for an installation and waits for its end; the answer.
async fn install(rig: &Rig, body: Value) -> (u16, Value) {
    let answer = rig.call("POST", PATH, body).await;
    rig.advance(INSTALL).await;
    answer
}

/// A body of the Kubernetes-focused system with these kernel parameters.
fn talos(params: &Value) -> Value {
    json!({"os": {"id": TALOS, "kernelParams": params}, "sshKeyId": KEY})
}

cases! {
    contract_types_of_an_installation ["2.17-1" "2.17-3" "2.17-6" "2.17-7" "2.17-9" "4.8-16"] |rig| {
        for (field, bad, blamed) in [
            ("hostname", json!(7), "hostname"),
            ("os", json!("debian-13"), "os"),
            ("os", json!({"id": "104"}), "os.id"),
            ("os", json!({"id": 104.5}), "os.id"),
            ("postInstallScript", json!(7), "postInstallScript"),
            ("postInstallScript", json!(["#!/bin/bash"]), "postInstallScript"),
            ("quickFormat", json!("yes"), "quickFormat"),
            ("quickFormat", json!(1), "quickFormat"),
            ("sshKeyId", json!(7), "sshKeyId"),
            ("sshKeyId", json!("ssh-rsa AAAA"), "sshKeyId"),
        ] {
            let mut body = json!({"os": {"id": LINUX}, "sshKeyId": KEY});
            body[field] = bad;
            let record = rig.refused("POST", PATH, body, 422).await;
            let blame = record["errors"].as_array().unwrap().iter().any(|error| error["property"] == blamed);
            assert!(blame, "{blamed}: {record}");
        }
        assert_eq!(rig.get("/v3/host/1001").await.1[0]["installStatus"], Value::Null);
        for quick in [true, false] {
            let (status, echo) = install(&rig, json!({"os": {"id": LINUX}, "sshKeyId": KEY, "quickFormat": quick})).await;
            assert_eq!((status, &echo[0]["quickFormat"]), (200, &json!(quick)));
        }
    }

    contract_names_of_installed_hosts ["2.17-1" "2.17-2" "2.20-2" "2.20-6" "4.8-12"] |rig| {
        for (os, params, name) in [(TALOS, "factoryhash=abc", "node-1"), (LINUX, "", "node-1.rack.example")] {
            let mut body = json!({"os": {"id": os}, "sshKeyId": KEY, "hostname": "node-1.rack.example"});
            if !params.is_empty() {
                body["os"]["kernelParams"] = json!(params);
            }
            let (status, echo) = install(&rig, body.clone()).await;
            assert_eq!((status, &echo[0]["hostname"], &echo[0]["os"]), (200, &body["hostname"], &body["os"]), "the answer has the whole name");
            let (_, host) = rig.get("/v3/host/1001").await;
            assert_eq!((&host[0]["liveHostName"], &host[0]["serverName"]), (&json!(name), &json!(name)));
            assert_eq!((&host[0]["osId"], &host[0]["installStatus"]), (&json!(os), &json!("finished")));
        }
    }

    contract_system_of_a_host ["2.20-2" "2.20-6" "3.3-1"] |rig| {
        // What was last installed to its end.
        let shown = async || {
            let host = rig.get("/v3/host/1001").await.1[0].clone();
            ["osId", "serverName", "liveHostName"].map(|field| host[field].clone())
        };
        let ask = async |os: u64, name: &str| {
            let body = json!({"os": {"id": os}, "sshKeyId": KEY, "hostname": name});
            assert_eq!(rig.call("POST", PATH, body).await.0, 200);
        };
        let fresh = [json!(0), json!("host-1001"), json!("host-1001")];
        assert_eq!(shown().await, fresh);
        ask(LINUX, "first").await;
        rig.advance(INSTALL - 1).await;
        assert_eq!(shown().await, fresh);
        rig.advance(1).await;
        let first = [json!(LINUX), json!("first"), json!("first")];
        assert_eq!(shown().await, first);
        rig.steer("settings", json!({"commandFailureRate": 1.0})).await;
        ask(101, "second").await;
        rig.advance(INSTALL).await;
        assert_eq!(shown().await, first);
    }

    contract_key_of_an_installation ["2.17-7" "2.17-8"] |rig| {
        for (switch, good, other) in [("sshKeyId", "sshKeyId", "sshKeyUuid"), ("sshKeyUuid", "sshKeyUuid", "sshKeyId")] {
            rig.turn("installKey", switch).await;
            rig.refused("POST", PATH, json!({"os": {"id": LINUX}, other: KEY}), 422).await;
            rig.refused("POST", PATH, json!({"os": {"id": LINUX}, good: KEY, other: KEY}), 422).await;
            rig.refused("POST", PATH, json!({"os": {"id": LINUX}, good: "nonsense"}), 422).await;
            assert_eq!(install(&rig, json!({"os": {"id": LINUX}, good: KEY})).await.0, 200);
        }
        // Where both are taken, both are read.
        rig.turn("installKey", "both").await;
        rig.turn("unknownSshKey", "refuse422").await;
        let (_, stored) = rig.call("POST", "/v3/sshKey", json!({"name": "me", "publicKey": "ssh-rsa AAAA"})).await;
        let with = |id: &Value, uuid: &Value| json!({"os": {"id": LINUX}, "sshKeyId": id, "sshKeyUuid": uuid});
        let good = &stored[0]["uuid"];
        for (id, uuid, blamed) in [(&json!(KEY), good, "sshKeyId"), (good, &json!(KEY), "sshKeyUuid"), (good, &json!("nonsense"), "sshKeyUuid")] {
            let record = rig.refused("POST", PATH, with(id, uuid), 422).await;
            assert_eq!(record["errors"][0]["property"], blamed);
        }
        assert_eq!(install(&rig, with(good, good)).await.0, 200);
    }

    contract_kernel_parameters_of_an_installation ["2.17-4" "2.17-5" "2.17-15"] |rig| {
        let list = |key: &str, value: &str| json!([{"key": key, "value": value}]);
        rig.refused("POST", PATH, talos(&list("factoryhash", "abc")), 422).await;
        // Classic and predictable names of interfaces.
        for word in ["net.ifnames=0", "net.ifnames=1"] {
            let params = format!("siderolink.api=https://hub.example {word}");
            assert_eq!(install(&rig, talos(&json!(params))).await.0, 200, "{word}");
        }
        rig.turn("installKernelParams", "list").await;
        for bad in [json!("factoryhash=abc"), json!(7), json!(["factoryhash=abc"]), json!([{"value": "abc"}]), json!([{"key": "", "value": "abc"}]),
            json!([{"key": 1, "value": "abc"}]), json!([{"key": "factoryhash", "value": 1}]), json!([{"key": "factoryhash", "value": "abc", "more": 1}])] {
            rig.refused("POST", PATH, talos(&bad), 422).await;
        }
        assert_eq!(install(&rig, talos(&list("factoryhash", "abc"))).await.0, 200);
        let hub = json!([{"key": "siderolink.api", "value": "https://hub.example"}, {"key": "net.ifnames", "value": "0"}]);
        assert_eq!(install(&rig, talos(&hub)).await.0, 200);
    }

    contract_times_of_an_installation_log ["2.22-1" "2.22-2" "3.3-1"] |rig| {
        rig.advance(1_000).await;
        let begin = START + 1_000;
        assert_eq!(install(&rig, json!({"os": {"id": LINUX}, "sshKeyId": KEY})).await.0, 200);
        let (_, log) = rig.get("/v3/host/1001/os/installLog").await;
        let stamps: Vec<_> = log.as_array().unwrap().iter().map(|line| line["dateStamp"].as_u64().unwrap()).collect();
        assert_eq!((stamps[0], stamps[stamps.len() - 1]), (begin, begin + INSTALL));
        assert!(stamps.is_sorted());
        let ids: std::collections::BTreeSet<_> = log.as_array().unwrap().iter().map(|line| line["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), stamps.len(), "an id names one line");
        let last = &log[stamps.len() - 1];
        assert_eq!((&last["issueOpen"], &last["issueResolved"]), (&json!(0), &json!("resolved")));
        rig.steer("settings", json!({"commandFailureRate": 1.0})).await;
        install(&rig, json!({"os": {"id": LINUX}, "sshKeyId": KEY})).await;
        let (_, log) = rig.get("/v3/host/1001/os/installLog").await;
        assert_eq!(log.as_array().unwrap().last().unwrap()["issueOpen"], 1, "what failed stays open");
    }
}
