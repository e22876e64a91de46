//! Servers: record, states, list (sections 2.6, 3.1 and 4.4).

use serde_json::{Value, json};
use simulator::{ClockMode, Options};

use crate::cases;
use crate::rig::{DELIVERY, RELEASE, Rig, SERVERS, START, all, order, shape, with};

cases! {
    contract_server_record ["2.6-1" "2.6-2" "2.6-3" "2.6-4" "2.6-5" "2.6-6" "2.6-7" "2.6-8" "2.6-9" "2.6-10" "2.6-12" "2.6-13"
        "2.6-14" "2.6-15" "2.6-17" "2.6-18" "2.6-20" "2.6-21" "1-9" "1-11"] |rig| {
        const RECORD: &str = "uuid:u name:s status:s statusMessage:s location:o instanceType:o os:o ipAddresses:a tags:a createdAt:i \
            deliveredAt:i? releasedAt:i? contractId:s?";
        let mut wanted = order();
        wanted["postInstallScript"] = json!("#!/bin/sh\n");
        wanted["userData"] = json!({"data": "x", "isBase64": false});
        let uuid = rig.delivered(wanted.clone()).await;
        assert_ne!(rig.ordered(wanted).await, uuid, "names need not be unique");
        let one = format!("{SERVERS}/{uuid}");
        let record = rig.server(&uuid).await;
        assert_eq!(record["createdAt"], START);
        assert_eq!(record["deliveredAt"], START + DELIVERY);
        assert_eq!((record.get("releasedAt"), record.get("contractId")), (None, None));
        assert_eq!((&record["statusMessage"], &record["os"]), (&json!(""), &json!({"slug": "ubuntu-2404-lts"})));
        shape(&record["location"], "id:i name:s");
        shape(&record["instanceType"], "id:i name:s");
        all(&record["ipAddresses"], "ipAddress:s");
        let mut seen = vec![record];
        seen.push(rig.get(SERVERS).await.1[0].clone());
        seen.push(rig.call("POST", &format!("{one}/tag/x"), Value::Null).await.1[0].clone());
        seen.push(rig.delete(&format!("{one}/tag/x")).await.1[0].clone());
        seen.push(rig.call("PATCH", &one, json!({})).await.1[0].clone());
        seen.push(rig.delete(&one).await.1[0].clone());
        for record in &seen {
            shape(record, RECORD);
            assert_eq!(record.get("releasedAt"), None);
        }
        rig.advance(RELEASE).await;
        let released = rig.server(&uuid).await;
        shape(&released, RECORD);
        assert_eq!(released["releasedAt"], START + DELIVERY + RELEASE);
    }

    contract_addresses ["2.6-11"] |rig| {

        let uuid = rig.delivered(order()).await;
        let record = rig.server(&uuid).await;
        let of = |record: &Value| record["ipAddresses"].as_array().unwrap().iter()
            .map(|one| one["ipAddress"].as_str().unwrap().parse::<std::net::IpAddr>().unwrap().is_ipv4()).collect::<Vec<_>>();
        assert_eq!(of(&record), [true, false]);
    }

    contract_states ["3.1-1" "3.1-3" "3.1-5" "3.1-6" "3.1-7" "3.1-8" "3.1-9" "3.1-10" "3.1-11" "3.1-13" "4.4-15" "4.4-21" "4.4-22" "4.4-23"
        "4.4-24" "1-7" "7-9"] |rig| {
        let status = async |uuid: &str| rig.server(uuid).await["status"].clone();
        let uuid = rig.ordered(order()).await;
        let path = format!("{SERVERS}/{uuid}");
        assert_eq!(status(&uuid).await, "created");
        rig.advance(DELIVERY).await;
        assert_eq!(status(&uuid).await, "delivered");
        assert_eq!(rig.server(&uuid).await["ipAddresses"].as_array().unwrap().len(), 2);
        let (code, released) = rig.delete(&path).await;
        assert_eq!((code, &released[0]["status"]), (200, &json!("releasing")));
        assert_eq!(rig.delete(&path).await, (200, released));
        rig.advance(RELEASE).await;
        rig.refused("DELETE", &path, Value::Null, 422).await;
        let effects = rig.look("ledger?method=DELETE").await;
        let effects: Vec<_> = effects.as_array().unwrap().iter().map(|entry| entry["effect"].clone()).collect();
        assert_eq!(effects, [json!({"released": uuid}), Value::Null, Value::Null], "the first alone does something");
        rig.advance(100_000_000).await;
        assert_eq!(status(&uuid).await, "released");
        assert_eq!(rig.get(SERVERS).await.1[0]["uuid"], uuid.as_str());

        rig.steer("settings", json!({"failureRate": 1.0})).await;
        let failed = rig.delivered(order()).await;
        let record = rig.server(&failed).await;
        assert_eq!(record["status"], "failed");
        assert!(!record["statusMessage"].as_str().unwrap().is_empty());
        rig.refused("DELETE", &format!("{SERVERS}/{failed}"), Value::Null, 422).await;
        rig.advance(100_000).await;
        assert_eq!(status(&failed).await, "failed");

        rig.steer("settings", json!({"failureRate": 0.0})).await;
        rig.turn("stateView", "long").await;
        let long = rig.ordered(order()).await;
        let walked = rig.ordered(order()).await;
        rig.advance(DELIVERY / 2).await;
        assert_eq!(rig.delete(&format!("{SERVERS}/{long}")).await.1[0]["status"], "releasing");
        let fresh = rig.ordered(order()).await;
        let mut words = Vec::new();
        for _ in 0..=30 {
            let record = rig.server(&fresh).await;
            let word = record["status"].as_str().unwrap().to_owned();
            let configured = ["network_configured", "provisioning", "provisioned", "delivered"].contains(&word.as_str());
            assert_eq!(record["ipAddresses"].as_array().unwrap().len(), if configured { 2 } else { 0 }, "{word}");
            words.push(word);
            rig.advance(10).await;
        }
        // Released while it waited: never delivered.
        let record = rig.server(&long).await;
        assert_eq!((&record["status"], record.get("deliveredAt")), (&json!("released"), None));
        words.dedup();
        assert_eq!(words, ["created", "discovering", "discovered", "allocating", "allocated", "configuring_network",
            "network_configured", "provisioning", "provisioned", "delivered"]);
        assert_eq!(status(&walked).await, "delivered");
    }

    contract_delivery_takes_minutes ["3.1-14"] |rig| {

        // As the program starts without any flag, but for the clock.
        let slow = Rig::with(Options { clock: ClockMode::Driven, api_key: Some(rig.running.api_key.clone()), seed: Some(1), ..Options::default() }).await;
        for _ in 0..20 {
            slow.ordered(order()).await;
        }
        let delivered = async || slow.ranged(&format!("{SERVERS}?status=delivered"), "start=0,results=50").await.1.as_array().unwrap().len();
        slow.advance(179).await;
        assert_eq!(delivered().await, 0);
        slow.advance(241).await;
        assert!((1..20).contains(&delivered().await), "they differ");
        slow.advance(480).await;
        assert_eq!(delivered().await, 20);
    }

    contract_server_list ["3.1-2" "4.4-1" "4.4-2" "4.4-3" "4.4-4" "4.4-5" "4.4-6" "4.4-7" "4.4-8" "4.4-9" "8-4" "8-6" "8-7" "8-8" "8-9" "8-10"] |rig| {
        for number in 0..55 {
            rig.ordered(with("name", json!(format!("n{number}")))).await;
        }
        let answer = rig.request("GET", SERVERS).header("RANGED-DATA", "start=0,results=50").send().await.unwrap();
        // Nothing beside the records: neither a number nor a way on.
        let mut headers: Vec<_> = answer.headers().keys().map(|name| name.as_str().to_owned()).collect();
        headers.retain(|name| !["content-type", "content-length", "date"].contains(&name.as_str()));
        assert!(headers.is_empty(), "{headers:?}");
        rig.steer("faults", json!({"fault": "emptyList", "count": 1})).await;
        assert_eq!(rig.get(SERVERS).await, (200, json!([])), "an empty page alone proves nothing");
        let mut tagged = with("tags", json!(["t", "u"]));
        tagged["name"] = json!("tagged");
        let uuid = rig.ordered(tagged).await;
        let names = async |query: &str| {
            let (status, list) = rig.get(&format!("{SERVERS}?{query}")).await;
            assert_eq!(status, 200, "{list}");
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("tag=t&tag=u").await, ["tagged"]);
        rig.ordered(with("tags", json!(["w"]))).await;
        for none in ["tag=u&tag=w", "tag=w&tag=u", "tag=u&tag=none"] {
            assert!(names(none).await.is_empty(), "{none}");
        }
        assert_eq!(names("tag=&status=").await.len(), 15, "an empty filter is none");
        assert_eq!(names("tag=u&status=creating").await, ["tagged"]);
        assert!(names("tag=u&status=provisioning").await.is_empty());
        rig.advance(DELIVERY).await;
        assert_eq!(names("tag=u&status=delivered").await, ["tagged"]);
        rig.delete(&format!("{SERVERS}/{uuid}")).await;
        assert_eq!(names("status=releasing").await, ["tagged"]);
        rig.advance(RELEASE).await;
        assert_eq!(names("status=released").await, ["tagged"]);
        assert!(names("status=failed").await.is_empty());
        rig.steer("settings", json!({"failureRate": 1.0})).await;
        rig.delivered(with("name", json!("broken"))).await;
        assert_eq!(names("status=failed").await, ["broken"]);
        rig.steer("settings", json!({"failureRate": 0.0})).await;
        rig.turn("stateView", "long").await;
        rig.ordered(with("tags", json!(["v"]))).await;
        let words = async || (names("tag=v&status=creating").await.len(), names("tag=v&status=provisioning").await.len());
        rig.advance(DELIVERY / 2).await;
        assert_eq!(words().await, (1, 0));
        rig.advance(DELIVERY / 2 - 10).await;
        assert_eq!(words().await, (0, 1));
        assert_eq!(names("tag=u").await, ["tagged"]);
        rig.refused("GET", &format!("{SERVERS}?status=sleeping"), Value::Null, 422).await;
    }
}
