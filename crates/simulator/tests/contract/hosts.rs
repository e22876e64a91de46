//! Hosts: list, power, installation, labels (section 4.8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, all, order, shape};

cases! {
    contract_hosts ["2.20-1" "2.20-2" "2.20-3" "2.20-4" "2.20-5" "2.20-6" "2.20-7" "2.20-9" "2.20-10" "2.20-11" "2.20-12"
        "2.20-8" "2.20-13" "2.20-14" "2.20-15" "2.20-16" "2.20-17" "2.20-18" "2.21-1" "2.21-2" "2.21-3" "4.8-1" "4.8-2" "4.8-5" "4.8-6" "4.8-7" "4.8-8"
        "4.8-9" "4.8-10" "4.8-15" "4.8-17" "4.8-27"] |rig| {
        rig.delivered(order()).await;
        let (_, list) = rig.get("/v3/host").await;
        let hosts = list.as_array().unwrap();
        let kinds: Vec<_> = hosts.iter().map(|host| host["serverType"].as_u64().unwrap()).collect();
        assert_eq!(kinds, [1, 1, 2]);
        assert!(hosts[0]["fmOrderId"].is_null() && hosts[2]["fmOrderId"].is_u64());
        for host in hosts {
            for text in ["serverName", "liveHostName", "category", "instanceType", "rackName", "brand", "model", "serviceTag"] {
                assert!(host[text].is_string(), "{text}");
            }
            for number in ["id", "serverId", "osId", "dcLocationId", "numCpu"] {
                assert!(host[number].is_u64(), "{number}");
            }
            shape(&host["cpu"], "socket:i cores:i threads:i info:s type:s");
            assert!(host["disk"][0]["size"].as_u64().unwrap() >= 960_000_000_000);
            assert!(host["memory"][0]["size"].as_u64().unwrap() >= 32 << 30);
            assert!(!host["ipAddress"].as_array().unwrap().is_empty());
            assert_eq!(host["status"], "running");
            all(&host["ipAddress"], "ipAddress:s version:i type:i private:i interface:in macAddress:s rDns:s vlanId:in gateway:sn netmask:sn prefix:in");
            for one in host["ipAddress"].as_array().unwrap() {
                let ordinary: std::net::IpAddr = one["ipAddress"].as_str().unwrap().parse().unwrap();
                let version = if ordinary.is_ipv4() { 4 } else { 6 };
                assert_eq!((&one["version"], &one["type"], &one["private"]), (&json!(version), &json!(1), &json!(0)));
            }
            assert!(host["labels"].is_array() && host["uplinks"].is_array() && host["uptime"].is_u64());
            assert!(host["installStatus"].is_null());
        }
        assert_eq!((&hosts[2]["osId"], hosts[2]["ipAddress"].as_array().unwrap().len()), (&json!(102), 2));
        assert_eq!(hosts[0]["uptime"], DELIVERY);
        rig.advance(60).await;
        assert_eq!(rig.get("/v3/host/1001").await.1[0]["uptime"], DELIVERY + 60);
        assert_eq!(rig.get("/v3/host").await.1[2]["uptime"], 60);
        assert_eq!(rig.ranged("/v3/host", "start=1,results=1").await.1[0]["id"], hosts[1]["id"]);
        let (_, now) = rig.get("/v3/host").await;
        assert_eq!(rig.get("/v3/host/1001").await.1[0], now[0]);
        for (action, state) in [("stop", "stopped"), ("start", "running"), ("stop", "stopped"), ("restart", "running")] {
            let (status, result) = rig.send(rig.request("PUT", &format!("/v3/host/1001/{action}"))).await;
            assert_eq!(status, 200);
            shape(&result[0], "result:s timestamp:i");
            assert_eq!(result[0]["result"], "OK");
            let host = rig.get("/v3/host/1001").await.1[0].clone();
            assert_eq!((&host["status"], &host["uptime"]), (&json!(state), &json!(0)));
            rig.refused("PUT", &format!("/v3/host/7/{action}"), Value::Null, 404).await;
        }
        for path in ["/v3/host/7", "/v3/host/7/os/installLog", "/v3/host/x"] {
            rig.refused("GET", path, Value::Null, 404).await;
        }
        let key = "018f0000-0000-7000-8000-000000000000";
        rig.refused("POST", "/v3/host/100001/os/install", json!({"os": {"id": 104}, "sshKeyId": key}), 422).await;
    }

    contract_host_installation ["2.17-1" "2.17-2" "2.17-10" "2.17-3" "2.17-4" "2.17-5" "2.17-6" "2.17-7" "2.17-8" "2.17-9" "2.17-11" "2.17-12"
        "2.17-13" "2.17-17" "2.17-18" "2.22-1" "2.22-2" "2.22-3" "2.22-4" "3.3-1" "3.3-2" "4.8-11" "4.8-12" "4.8-13" "4.8-14" "4.8-16"] |rig| {
        let path = "/v3/host/1001/os/install";
        let key = "018f0000-0000-7000-8000-000000000000";
        let status = async || rig.get("/v3/host/1001").await.1[0]["installStatus"].clone();
        assert_eq!(status().await, Value::Null);
        let wanted = json!({"os": {"id": 104}, "sshKeyId": key, "quickFormat": true, "postInstallScript": "#!/bin/bash\n"});
        let (code, echo) = rig.call("POST", path, wanted.clone()).await;
        assert_eq!((code, &echo[0]["os"]), (200, &wanted["os"]));
        assert!(echo[0]["hostname"].as_str().unwrap().starts_with("Server"));
        let (_, other) = rig.call("POST", "/v3/host/1002/os/install", wanted.clone()).await;
        assert_ne!(other[0]["hostname"], echo[0]["hostname"]);
        assert_eq!(status().await, "created");
        rig.refused("POST", path, wanted.clone(), 422).await;
        rig.advance(60).await;
        assert_eq!(status().await, "installing");
        rig.advance(240).await;
        assert_eq!(status().await, "finished");
        let (_, log) = rig.get("/v3/host/1001/os/installLog").await;
        all(&log, "id:i issueOpen:i dateStamp:i issueCategory:s issueDescription:s issueResolved:s catName:s");
        assert_eq!(rig.ranged("/v3/host/1001/os/installLog", "start=1,results=1").await.1[0], log[1]);
        for bad in [
            json!({"sshKeyId": key}),
            json!({"os": {"id": 104}}),
            json!({"os": {"id": 104}, "sshKeyId": "no uuid"}),
            json!({"os": {"id": 7}, "sshKeyId": key}),
            json!({"os": {"id": 104}, "sshKeyId": key, "more": 1}),
            json!({"os": {"id": 114}, "sshKeyId": key}),
            json!({"os": {"id": 114, "kernelParams": "siderolink.api=nonsense"}, "sshKeyId": key}),
            json!({"os": {"id": 114, "kernelParams": "siderolink.api"}, "sshKeyId": key}),
            json!({"os": {"id": 114, "kernelParams": "factoryhash=a siderolink.api=https://h"}, "sshKeyId": key}),
            json!({"os": {"id": 104}, "sshKeyUuid": key}),
        ] {
            rig.refused("POST", path, bad, 422).await;
        }
        for params in ["siderolink.api=https://hub.example net.ifnames=0", "factoryhash=abc"] {
            let wanted = json!({"os": {"id": 114, "kernelParams": params}, "sshKeyId": key, "hostname": "n.example"});
            let (status, echo) = rig.call("POST", path, wanted).await;
            assert_eq!((status, &echo[0]["quickFormat"]), (200, &json!(true)), "{params}");
            rig.advance(300).await;
            assert_eq!(rig.get("/v3/host/1001").await.1[0]["liveHostName"], "n");
        }
        rig.steer("settings", json!({"commandFailureRate": 1.0})).await;
        rig.call("POST", path, wanted).await;
        rig.advance(300).await;
        assert_eq!(status().await, "failed");
        rig.turn("installKernelParams", "list").await;
        // A value is optional there, a key is not.
        for (param, status) in [(json!({"key": "quiet"}), 200), (json!({"key": "quiet", "value": null}), 200), (json!({"key": "quiet", "value": 1}), 422),
            (json!({"value": "x"}), 422), (json!({"key": "", "value": "x"}), 422), (json!({"key": "siderolink.api"}), 422)] {
            rig.advance(300).await;
            let list = json!([{"key": "siderolink.api", "value": "grpc://hub.example:8090?jointoken=t"}, param]);
            let list = match param["key"] == "siderolink.api" { true => json!([param]), false => list };
            assert_eq!(rig.call("POST", path, json!({"os": {"id": 114, "kernelParams": list}, "sshKeyId": key})).await.0, status, "{param}");
        }
    }

    contract_pages_of_hosts ["4.8-3"] |rig| {
        rig.turn("hostPaging", "token").await;
        let first = || rig.request("GET", "/v3/host").header("RANGED-DATA", "start=0,results=1");
        let answer = first().send().await.unwrap();
        let token = answer.headers()["page-token"].clone();
        // Both by the simulator's clock.
        for (name, time) in [("date", "22:13:20 GMT"), ("expires", "22:18:20 GMT")] {
            assert!(answer.headers()[name].to_str().unwrap().ends_with(time), "{name}");
        }
        let next = || rig.request("GET", "/v3/host").header("PAGE-TOKEN", token.clone());
        assert_eq!(rig.send(next()).await.1[0]["id"], 1_002);
        assert!(!next().send().await.unwrap().headers().contains_key("page-token"));
        rig.advance(300).await;
        assert_eq!(rig.send(next()).await.0, 422);
    }

    contract_labels_of_hosts ["2.20-19" "4.8-4" "4.8-28" "4.8-29"] |rig| {

        rig.delivered(order()).await;
        let label = async |id: u32, labels: &[(&str, &str)]| {
            let labels: Vec<_> = labels.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
            rig.steer("hosts", json!({"id": id, "labels": labels})).await;
        };
        label(1_001, &[("role", "db"), ("zone-1", "north")]).await;
        label(1_002, &[("role", "web")]).await;
        assert_eq!(rig.get("/v3/host/1001").await.1[0]["labels"], json!([{"key": "role", "value": "db"}, {"key": "zone-1", "value": "north"}]));
        let ids = |list: &Value| list.as_array().unwrap().iter().map(|host| host["id"].as_u64().unwrap()).collect::<Vec<_>>();
        let ask = |labels: &str| {
            let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("labels", labels).finish();
            rig.request("GET", &format!("/v3/host?{query}"))
        };
        for (labels, found) in [
            ("", vec![1_001, 1_002, 100_001]),
            ("role = 'db'", vec![1_001]),
            ("role != 'db'", vec![1_002]),
            ("role LIKE '%b'", vec![1_001, 1_002]),
            ("role LIKE 'w%' OR zone-1 = 'north'", vec![1_001, 1_002]),
            ("role LIKE '%b' AND zone-1 = 'north'", vec![1_001]),
            ("rack = 'a'", vec![]),
        ] {
            let (status, list) = rig.send(ask(labels)).await;
            assert_eq!((status, ids(&list)), (200, found), "{labels}");
        }
        let page = ask("role LIKE '%b'").header("RANGED-DATA", "start=1,results=1");
        assert_eq!(ids(&rig.send(page).await.1), [1_002], "pages are of what is left");
        for bad in ["role", "role = db", "role = 'db' NOR role = 'web'"] {
            assert_eq!(rig.send(ask(bad)).await.0, 422, "{bad}");
        }
        let token = ask("role = 'db'").header("PAGE-TOKEN", "any");
        assert_eq!(ids(&rig.send(token).await.1), [1_001, 1_002, 100_001], "the query counts for nothing");
        rig.turn("hostPaging", "token").await;
        let first = ask("role LIKE '%b'").header("RANGED-DATA", "start=0,results=1").send().await.unwrap();
        let token = first.headers()["page-token"].clone();
        let second = ask("role = 'db'").header("PAGE-TOKEN", token);
        assert_eq!(ids(&rig.send(second).await.1), [1_002], "the first page's filter goes on");
        let url = format!("{}/_simulator/hosts", rig.running.control_url());
        let long = "x".repeat(151);
        for (key, value) in [("9a", "x"), ("A", "x"), ("a.b", "x"), ("a", long.as_str())] {
            let wanted = json!({"id": 1_001, "labels": [{"key": key, "value": value}]});
            assert_eq!(rig.send(rig.client.post(&url).json(&wanted)).await.0, 400, "{key}");
        }
    }
}
