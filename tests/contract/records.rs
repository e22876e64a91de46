//! Section 2 and the catalogue: shapes of records.

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, SERVERS, START, order, shape, with};

fn all(list: &Value, fields: &str) {
    let records = list.as_array().unwrap();
    assert!(!records.is_empty());
    for record in records {
        shape(record, fields);
    }
}

fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let records = list.as_array().unwrap().iter();
    records
        .filter_map(|record| record[field].as_str())
        .collect()
}

cases! {
    contract_locations ["2.3-1" "2.3-2" "2.3-3" "2.3-4" "2.3-5" "2.3-6" "2.3-7" "2.3-8" "2.3-9" "4.3-1" "4.3-5"] |rig| {
        let (status, list) = rig.get("/v3/flexMetal/location").await;
        assert_eq!(status, 200);
        all(&list, "id:i name:s shortName:s displayName:s countryId:i countryName:s countryShortName:s");
        let known = names(&list, "name");
        for name in ["EU: Rotterdam", "EU: Montreuil 1", "US: Ashburn - VA", "US: Dallas - TX",
            "US: Los Angeles - CA", "JP: Tokyo", "HK: Hong Kong", "BR: Sao Paulo", "AE: Dubai", "AU: Sydney"] {
            assert!(known.contains(&name), "{name}");
        }
        assert_eq!(rig.ranged("/v3/flexMetal/location", "start=0,results=1").await.1, list);
        rig.refused("POST", "/v3/flexMetal/location", json!({}), 405).await;
    }

    contract_instance_types ["2.4-1" "2.4-2" "2.4-3" "2.4-4" "2.4-5" "2.4-6" "2.4-7" "2.4-8" "2.4-9" "2.4-10" "2.4-11"
        "2.4-12" "2.4-13" "2.4-14" "2.4-15" "4.3-2" "4.3-3" "4.3-6" "9-2"] |rig| {
        let at = async |id: &str| rig.get(&format!("/v3/flexMetal/location/{id}/instanceTypes")).await;
        let (status, list) = at("6").await;
        assert_eq!(status, 200);
        all(&list, "id:i locationId:i name:s sockets:i cores:i memory:i memoryType:s storage:i storageType:s generationName:s");
        let known = names(&list, "name");
        for name in ["bm7.std.8", "bm7.hmm.8", "bm8.std.32", "bm9.hmm.32", "bm9.std.32", "bm9.hmm.12", "bm9.hmm.gpu.4rtx4000.64"] {
            assert!(known.contains(&name), "{name}");
        }
        let smallest = list.as_array().unwrap().iter().find(|kind| kind["name"] == "bm7.std.8").unwrap();
        assert_eq!((&smallest["locationId"], &smallest["memory"], &smallest["storage"]), (&json!(6), &json!(32), &json!(960)));
        assert_ne!(at("30").await.1.as_array().unwrap().len(), known.len());
        assert_eq!(at("7").await.0, 404);
        assert_eq!(at("here").await.0, 404);
        rig.refused("PUT", "/v3/flexMetal/location/6/instanceTypes", json!({}), 405).await;
    }

    contract_plans ["2.5-1" "2.5-2" "2.5-3" "2.5-4" "2.5-5" "2.5-6" "2.5-7" "2.5-8" "2.5-9" "2.5-10" "2.5-11" "2.5-12" "4.3-4"] |rig| {
        let (status, list) = rig.get("/v3/flexMetal/plans").await;
        assert_eq!(status, 200);
        all(&list, "name:s hardwareDetails:o locations:a");
        let mut words = std::collections::BTreeSet::new();
        for plan in list.as_array().unwrap() {
            let hardware = &plan["hardwareDetails"];
            shape(hardware, "cpu:o memory:o disks:a networkInterfaces:a gpu:no");
            shape(&hardware["cpu"], "name:s baseClock:i cpuCount:i cpuCores:i totalCores:i");
            shape(&hardware["memory"], "type:s size:i");
            assert_eq!(hardware["memory"]["type"], "ddr4");
            all(&hardware["disks"], "type:s size:i");
            all(&hardware["networkInterfaces"], "type:s count:i");
            assert_eq!(hardware["gpu"].is_object(), plan["name"].as_str().unwrap().contains("gpu"));
            if hardware["gpu"].is_object() {
                shape(&hardware["gpu"], "name:s vram:i");
            }
            all(&plan["locations"], "name:s dcCode:s availability:s");
            words.extend(names(&plan["locations"], "availability"));
        }
        let known = ["high", "medium", "low", "unavailable"];
        assert!(words.len() > 2 && words.iter().all(|word| known.contains(word)), "{words:?}");
        assert_eq!(list[0]["locations"][0]["dcCode"], "nlrtm1");
        assert_eq!((&list[0]["hardwareDetails"]["memory"]["size"], &list[0]["hardwareDetails"]["disks"][0]), (&json!(32), &json!({"type": "ssd", "size": 960})));
        assert_eq!(list[0]["hardwareDetails"]["cpu"]["baseClock"], 3_700);
    }

    contract_server_record ["2.6-1" "2.6-2" "2.6-3" "2.6-4" "2.6-5" "2.6-6" "2.6-7" "2.6-8" "2.6-9" "2.6-10" "2.6-12" "2.6-13"
        "2.6-14" "2.6-15" "2.6-16" "2.6-17" "2.6-18" "2.6-20" "2.6-21" "1-9" "1-11"] |rig| {
        const RECORD: &str = "uuid:s name:s status:s statusMessage:s location:o instanceType:o os:o ipAddresses:a tags:a createdAt:i \
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
        }
        rig.turn("absentFields", "zero").await;
        let record = rig.server(&uuid).await;
        assert_eq!((&record["releasedAt"], &record["contractId"]), (&json!(0), &json!("")));
    }

    contract_operating_systems ["2.18-1" "2.18-2" "2.18-3" "2.18-4" "2.18-5" "2.18-6" "2.18-7" "2.8-2" "2.8-3" "4.8-18"] |rig| {
        let (status, list) = rig.get("/v3/operatingsystem").await;
        assert_eq!(status, 200);
        all(&list, "id:i name:s slug:s osGroup:i isOdp:i availableForFlexMetal:i active:i");
        let slugs = names(&list, "slug");
        for slug in ["ubuntu-2204-lts", "ubuntu-2404-lts", "talos-omni-1110", "debian-13", "debian-12", "custom-ipxe"] {
            assert!(slugs.contains(&slug), "{slug}");
        }
        assert_eq!(rig.ranged("/v3/operatingsystem", "start=0,results=1").await.1, list);
    }

    contract_quota_and_usage ["2.14-1" "2.14-2" "2.14-3" "2.14-4" "2.14-5" "2.14-6" "2.14-7" "2.14-8" "2.14-9"
        "2.16-1" "2.16-2" "2.16-3" "2.16-4" "2.16-5" "2.15-1" "2.15-2" "2.15-3" "2.15-4" "2.15-5" "2.15-7" "2.15-8" "2.15-9" "1-10" "4.7-1" "4.7-2" "4.7-3"
        "4.7-4" "4.7-5" "4.7-6" "4.7-7" "4.7-8"] |rig| {
        let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
        all(&quota, "location:o quotaUsage:a");
        all(&quota[0]["quotaUsage"], "instanceType:o quotaType:s contractId:s quota:i usage:i");
        shape(&quota[0]["location"], "id:i name:s");
        let pool = &quota[0]["quotaUsage"][0];
        shape(&pool["instanceType"], "id:i name:s");
        assert_eq!((&pool["quotaType"], &pool["contractId"], &pool["usage"]), (&json!("onDemand"), &json!(""), &json!(0)));
        rig.delivered(order()).await;
        rig.advance(823 * 60).await;
        let (_, usage) = rig.get("/v3/flexMetal/usage").await;
        all(&usage, "server:o startedAt:s endedAt:s totalHours:i totalMinutes:i bandwidthIn:i totalEgressBytes:i");
        assert_eq!((&usage[0]["totalMinutes"], &usage[0]["totalHours"]), (&json!(823), &json!(14)));
        assert_eq!(usage[0]["startedAt"], "2023-11-14T22:18:20.000Z");
        let minutes = async |query: &str| rig.get(&format!("/v3/flexMetal/usage?{query}")).await.1[0]["totalMinutes"].clone();
        assert_eq!(minutes("endDate=2023-11-14").await, 102);
        assert_eq!(minutes("startDate=2023-11-14&endDate=2023-11-15").await, 823);
        rig.advance(40 * 86_400).await;
        // All of December so far: the clock stands at Christmas.
        let (_, month) = rig.get("/v3/flexMetal/usage").await;
        assert_eq!(month[0]["startedAt"], "2023-12-01T00:00:00.000Z");
        for bad in ["startDate=01-01-2023", "endDate=x", "startDate=2023-02-01&endDate=2023-01-01"] {
            rig.refused("GET", &format!("/v3/flexMetal/usage?{bad}"), Value::Null, 422).await;
        }
        rig.refused("POST", "/v3/flexMetal/usage", json!({}), 405).await;
        rig.steer("quota", json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quotaType": "commit",
            "contractId": "C", "quota": 2})).await;
        rig.ordered(with("contractId", json!("C"))).await;
        let (_, commits) = rig.get("/v3/flexMetal/capacity/commit").await;
        all(&commits, "location:o commits:a");
        shape(&commits[0]["location"], "id:i name:s shortName:s displayName:s countryId:i countryName:s countryShortName:s");
        assert_eq!(commits[0]["commits"][0]["instanceType"]["generationName"], "bm7");
        let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
        let pools: Vec<_> = quota[0]["quotaUsage"].as_array().unwrap().iter()
            .filter(|pool| pool["instanceType"]["name"] == "bm7.std.8")
            .map(|pool| (pool["quotaType"].clone(), pool["contractId"].clone(), pool["quota"].clone(), pool["usage"].clone()))
            .collect();
        assert!(pools.contains(&(json!("commit"), json!("C"), json!(2), json!(1))), "{pools:?}");
        all(&commits[0]["commits"], "instanceType:o capacity:i inUse:i");
        assert_eq!((&commits[0]["commits"][0]["capacity"], &commits[0]["commits"][0]["inUse"]), (&json!(2), &json!(1)));
    }

    contract_hosts ["2.20-1" "2.20-2" "2.20-3" "2.20-4" "2.20-5" "2.20-6" "2.20-7" "2.20-9" "2.20-10" "2.20-11" "2.20-12"
        "2.20-8" "2.20-13" "2.20-14" "2.20-15" "2.20-16" "2.20-17" "2.20-18" "2.21-1" "2.21-2" "2.21-3" "4.8-1" "4.8-2" "4.8-5" "4.8-6" "4.8-7" "4.8-8"
        "4.8-9" "4.8-10" "4.8-15" "4.8-17"] |rig| {
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
            assert!(host["labels"].is_array() && host["uplinks"].is_array() && host["uptime"].is_u64());
            assert!(host["installStatus"].is_null());
        }
        assert_eq!(rig.ranged("/v3/host", "start=1,results=1").await.1[0]["id"], hosts[1]["id"]);
        assert_eq!(rig.get("/v3/host/1001").await.1[0], hosts[0]);
        for (action, state) in [("stop", "stopped"), ("start", "running"), ("restart", "running")] {
            let (status, result) = rig.send(rig.request("PUT", &format!("/v3/host/1001/{action}"))).await;
            assert_eq!(status, 200);
            shape(&result[0], "result:s timestamp:i");
            assert_eq!(result[0]["result"], "OK");
            let (_, now) = rig.get("/v3/host/1001/status").await;
            assert_eq!(now[0]["result"], state);
            rig.refused("PUT", &format!("/v3/host/7/{action}"), Value::Null, 404).await;
        }
        for path in ["/v3/host/7", "/v3/host/7/status", "/v3/host/7/os/installLog", "/v3/host/x"] {
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
        let wanted = json!({"os": {"id": 104}, "sshKeyId": key, "quickFormat": true, "postInstallScript": "#!/bin/bash\n"});
        let (code, echo) = rig.call("POST", path, wanted.clone()).await;
        assert_eq!((code, &echo[0]["os"]), (200, &wanted["os"]));
        assert!(echo[0]["hostname"].as_str().unwrap().starts_with("Server"));
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
            json!({"os": {"id": 114, "kernelParams": "factoryhash=a siderolink.api=https://h"}, "sshKeyId": key}),
            json!({"os": {"id": 104}, "sshKeyUuid": key}),
        ] {
            rig.refused("POST", path, bad, 422).await;
        }
        for params in ["siderolink.api=https://hub.example net.ifnames=0", "factoryhash=abc"] {
            let wanted = json!({"os": {"id": 114, "kernelParams": params}, "sshKeyId": key, "hostname": "n.example"});
            let (status, echo) = rig.call("POST", path, wanted).await;
            assert_eq!((status, &echo[0]["quickFormat"]), (200, &json!(true)), "{params}");
            assert_eq!(rig.get("/v3/host/1001").await.1[0]["liveHostName"], "n");
            rig.advance(300).await;
        }
        rig.turn("installKey", "sshKeyUuid").await;
        rig.turn("installKeyNeeded", "linux").await;
        rig.turn("installKernelParams", "list").await;
        let list = json!([{"key": "factoryhash", "value": "abc"}]);
        assert_eq!(rig.call("POST", path, json!({"os": {"id": 114, "kernelParams": list}})).await.0, 200);
        rig.refused("POST", path, json!({"os": {"id": 104}}), 422).await;
    }

    contract_pages_of_hosts ["4.8-3"] |rig| {
        rig.turn("hostPaging", "token").await;
        let first = || rig.request("GET", "/v3/host").header("RANGED-DATA", "start=0,results=1");
        let answer = first().send().await.unwrap();
        let token = answer.headers()["page-token"].clone();
        assert!(answer.headers()["expires"].to_str().unwrap().ends_with("22:18:20 GMT"));
        let next = || rig.request("GET", "/v3/host").header("PAGE-TOKEN", token.clone());
        assert_eq!(rig.send(next()).await.1[0]["id"], 1_002);
        rig.advance(300).await;
        assert_eq!(rig.send(next()).await.0, 422);
    }
}
