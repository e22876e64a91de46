//! Hosts: who is among them, what else their record has, what an installation
//! fills in (sections 2.20 and 4.8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, RELEASE, SERVERS, order};

cases! {
    contract_servers_among_hosts ["2.20-20" "2.20-21"] |rig| {
        let hosts = async || rig.get("/v3/host").await.1.as_array().unwrap().clone();
        assert_eq!(hosts().await.len(), 2);
        let uuid = rig.ordered(order()).await;
        let one = format!("{SERVERS}/{uuid}");
        assert_eq!(hosts().await.len(), 2, "not before its delivery");
        rig.advance(DELIVERY).await;
        let host = hosts().await[2].clone();
        let path = format!("/v3/host/{}", host["id"]);
        let plain = async || {
            let (status, now) = rig.get(&path).await;
            assert_eq!((status, &now[0]["installStatus"], &now[0]["labels"]), (200, &Value::Null, &json!([])));
            assert_eq!(rig.get(&format!("{path}/os/installLog")).await, (200, json!([])));
        };
        plain().await;
        assert_eq!(rig.call("PATCH", &one, json!({})).await.0, 200);
        for _ in 0..3 {
            plain().await;
            rig.advance(150).await;
        }
        rig.delete(&one).await;
        for _ in 0..2 {
            assert_eq!(hosts().await.len(), 2, "not from its release on");
            for what in ["", "/os/installLog"] {
                rig.refused("GET", &format!("{path}{what}"), Value::Null, 404).await;
            }
            rig.refused("PUT", &format!("{path}/stop"), Value::Null, 404).await;
            rig.advance(RELEASE).await;
        }
    }

    contract_more_fields_of_hosts ["2.20-22" "2.20-23" "2.20-25" "4.8-30"] |rig| {
        rig.delivered(order()).await;
        let (_, list) = rig.get("/v3/host").await;
        let came = ["2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.000Z", "2023-11-14T22:18:20.000Z"];
        let hosts = list.as_array().unwrap();
        assert_eq!(hosts.len(), came.len());
        for (host, came) in hosts.iter().zip(came) {
            for number in ["userId", "currencyId", "cpuLoad", "memUsed", "memMax", "memFree"] {
                assert!(host[number].is_u64(), "{number}");
            }
            assert!(host["pricePerMonth"].as_str().unwrap().parse::<u64>().is_ok());
            assert_eq!((&host["cpuInfo"], &host["cpuType"]), (&host["cpu"]["info"], &host["cpu"]["type"]));
            let bytes = host["memory"][0]["size"].as_u64().unwrap();
            assert_eq!(host["memMax"].as_u64().unwrap() << 20, bytes, "megabytes there, bytes here");
            for disk in host["disk"].as_array().unwrap() {
                assert!(!disk["diskSerial"].as_str().unwrap().is_empty());
            }
            assert_eq!(host["dateActive"], came);
            let (status, alone) = rig.get(&format!("/v3/host/{}", host["id"])).await;
            assert_eq!((status, alone), (200, json!([host])));
        }
    }

    contract_uptime_of_hosts ["2.20-15" "4.8-6"] |rig| {
        let uuid = rig.delivered(order()).await;
        let told = async |host: &str| {
            let record = rig.get(&format!("/v3/host/{host}")).await.1[0].clone();
            (record["uptime"].as_u64().unwrap(), record["dateActive"].clone())
        };
        for (host, before) in [("1001", DELIVERY), ("100001", 0)] {
            let turn = async |what: &str| rig.send(rig.request("PUT", &format!("/v3/host/{host}/{what}"))).await.0;
            let state = async || rig.get(&format!("/v3/host/{host}")).await.1[0]["status"].clone();
            let (uptime, active) = told(host).await;
            // The machine has aged with the first of the two.
            let age = uptime - before;
            rig.advance(1_000).await;
            assert_eq!(told(host).await, (before + age + 1_000, active.clone()));
            // It runs: nothing is started.
            assert_eq!(turn("start").await, 200);
            assert_eq!(told(host).await.0, before + age + 1_000);
            for (action, word, uptime) in [("restart", "running", 10), ("stop", "stopped", 0), ("start", "running", 10)] {
                assert_eq!(turn(action).await, 200);
                rig.advance(10).await;
                assert_eq!((told(host).await, state().await), ((uptime, active.clone()), json!(word)), "{host}: {action}");
            }
        }
        // Commands turn power too, when they are done.
        for (command, uptime) in [("power_on", 110), ("reboot", 90), ("shutdown", 0)] {
            let path = format!("{SERVERS}/{uuid}/commands");
            assert_eq!(rig.call("POST", &path, json!({"command": command})).await.0, 200);
            rig.advance(100).await;
            assert_eq!(told("100001").await.0, uptime, "{command}");
        }
        assert_eq!(rig.look(&format!("machines/{uuid}")).await["power"], false);
    }

    contract_list_of_systems ["4.8-31"] |rig| {
        let (status, list) = rig.get("/v3/operatingsystem").await;
        assert_eq!(status, 200);
        let shown = rig.look("catalogue").await;
        let kept = |list: &Value| list.as_array().unwrap().iter().map(|one| one["slug"].clone()).collect::<Vec<_>>();
        assert_eq!(kept(&list), kept(&shown["operatingSystems"]), "all of them");
        assert_eq!(rig.ranged("/v3/operatingsystem", "start=1,results=1").await, (200, list));
    }

    contract_what_an_installation_fills_in ["4.8-33"] |rig| {
        let install = async |hostname: Value, quick: Value| {
            let key = "018f0000-0000-7000-8000-000000000000";
            let body = json!({"os": {"id": 104}, "sshKeyId": key, "hostname": hostname, "quickFormat": quick});
            let (status, echo) = rig.call("POST", "/v3/host/1001/os/install", body).await;
            assert_eq!((status, &echo[0]["sshKeyId"], &echo[0]["os"]), (200, &json!(key), &json!({"id": 104})));
            rig.advance(300).await;
            echo[0].clone()
        };
        let filled = install(Value::Null, Value::Null).await;
        let name = filled["hostname"].as_str().unwrap();
        assert!(name.starts_with("Server") && name.len() > "Server".len(), "{name}");
        assert_eq!(filled["quickFormat"], true);
        assert_eq!(rig.get("/v3/host/1001").await.1[0]["serverName"], name);
        let kept = install(json!("db.example"), json!(false)).await;
        assert_eq!((&kept["hostname"], &kept["quickFormat"]), (&json!("db.example"), &json!(false)));
    }
}
