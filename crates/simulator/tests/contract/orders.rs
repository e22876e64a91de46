//! The order of a server and its rules (sections 2.7 and 2.8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, order, with};

cases! {
    contract_order_rules ["2.6-19" "2.7-1" "2.7-2" "2.7-3" "2.7-4" "2.7-5" "2.7-9" "2.7-10" "2.7-13" "2.7-14" "2.7-16" "2.7-20"
        "2.7-22" "2.7-24" "2.8-12" "2.7-23" "2.8-1" "2.8-4" "2.8-5" "2.8-6" "2.8-7" "2.8-10" "2.8-13" "2.8-14" "4.4-12" "2.2-6" "8-1" "8-2" "8-3" "7-4"] |rig| {
        let many: Vec<String> = (0..61).map(|number| format!("t{number}")).collect();
        let os = |extra: Value| {
            let mut os = json!({"slug": "ubuntu-2404-lts"});
            os.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            os
        };
        for (field, bad, blamed) in [
            ("name", Value::Null, "name"),
            ("name", json!(7), "name"),
            ("location", json!("Moon"), "location"),
            ("location", json!("eu: rotterdam"), "location"),
            ("instanceType", json!("bm0"), "instanceType"),
            ("os", Value::Null, "os"),
            ("os", json!("debian-13"), "os"),
            ("os", os(json!({"other": 1})), "os.other"),
            ("os", os(json!({"kernelParams": {}})), "os.kernelParams"),
            ("os", json!({"slug": "none"}), "os.slug"),
            ("os", os(json!({"kernelParams": [{"key": "a"}]})), "os.kernelParams[0].value"),
            ("os", os(json!({"kernelParams": [{"value": "a"}]})), "os.kernelParams[0].key"),
            ("os", os(json!({"partitions": [{"filesystem": "xfs", "size": 1}]})), "os.partitions[0].target"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs"}]})), "os.partitions[0].size"),
            ("os", json!({"slug": "freebsd-14"}), "os.slug"),
            ("os", json!({"slug": "debian-11"}), "os.slug"),
            ("os", os(json!({"partitions": [{"target": "/", "size": 1}]})), "os.partitions[0].filesystem"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": 0}]})), "os.partitions[0].size"),
            ("os", os(json!({"ipxeScriptUrl": "http://a"})), "os.ipxeScriptUrl"),
            ("os", json!({"slug": "custom-ipxe"}), "os.ipxeScriptUrl"),
            ("sshKey", Value::Null, "sshKey"),
            ("sshKey", json!("ssh-ed25519 AAAA"), "sshKey"),
            ("sshKey", json!(["nonsense"]), "sshKey[0]"),
            ("sshKey", json!([5]), "sshKey[0]"),
            ("postInstallScript", json!("echo"), "postInstallScript"),
            ("userData", json!({"data": 1}), "userData.data"),
            ("userData", json!({"data": "no base64!", "isBase64": true}), "userData.data"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": -1}, {"target": "/a", "filesystem": "xfs", "size": -1}]})), "os.partitions"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": 1}, {"target": "/", "filesystem": "xfs", "size": 1}]})), "os.partitions"),
            ("tags", json!(["no blank"]), "tags[0]"),
            ("tags", json!(["fine", ""]), "tags[1]"),
            ("tags", json!(["t".repeat(65)]), "tags[0]"),
            ("contractId", json!("C".repeat(241)), "contractId"),
            ("tags", json!(many), "tags"),
            ("contractId", json!("small"), "contractId"),
            ("overflow", json!("yes"), "overflow"),
            ("more", json!(1), "more"),
        ] {
            let record = rig.refused("POST", SERVERS, with(field, bad), 422).await;
            let properties: Vec<_> = record["errors"].as_array().unwrap().iter().map(|e| e["property"].clone()).collect();
            assert_eq!(properties, [blamed], "{record}");
        }
        // All that is wrong is told at once.
        let record = rig.refused("POST", SERVERS, json!({"tags": ["a b"]}), 422).await;
        let properties: Vec<_> = record["errors"].as_array().unwrap().iter().map(|e| e["property"].clone()).collect();
        assert_eq!(properties, ["name", "location", "instanceType", "os", "sshKey", "tags[0]"]);
        // A type that is offered, and not there.
        let mut elsewhere = with("location", json!("AU: Sydney"));
        elsewhere["instanceType"] = json!("bm9.hmm.gpu.4rtx4000.64");
        let record = rig.refused("POST", SERVERS, elsewhere, 422).await;
        assert_eq!((&record["errorCode"], &record["errors"][0]["property"]), (&json!(10_004), &json!("instanceType")));
        let mut proper = with("os", json!({"slug": "talos-omni-1110"}));
        proper["name"] = json!("under_score");
        rig.refused("POST", SERVERS, proper, 422).await;
        assert_eq!(rig.get(SERVERS).await.1, json!([]));
        let rest = json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": -1}]});
        rig.ordered(with("os", os(rest))).await;
        let longest = "C".repeat(240);
        rig.steer("quota", json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quotaType": "commit",
            "contractId": longest, "quota": 1})).await;
        let mut limits = with("contractId", json!(longest));
        limits["tags"] = json!([many[..59].to_vec(), vec!["t".repeat(64)]].concat());
        let uuid = rig.ordered(limits).await;
        assert_eq!(rig.server(&uuid).await["tags"].as_array().unwrap().len(), 60);
        rig.ordered(with("os", json!({"slug": "custom-ipxe", "ipxeScriptUrl": "https://boot.example/x"}))).await;
    }

    contract_order_takes_what_clients_send ["2.7-8" "2.7-15" "2.7-17" "2.7-21" "2.8-8" "4.4-10" "4.4-11" "1-15" "1-1" "1-3" "9-1"] |rig| {
        let mut wanted = order();
        for list in ["tags", "userData"] {
            wanted[list] = Value::Null;
        }
        wanted["os"]["kernelParams"] = Value::Null;
        wanted["os"]["partitions"] = Value::Null;
        wanted["os"]["ipxeScriptUrl"] = json!("");
        wanted["postInstallScript"] = json!("");
        wanted["contractId"] = json!("");
        let first = rig.ordered(wanted.clone()).await;
        assert_ne!(rig.ordered(wanted.clone()).await, first);
        assert_eq!(rig.server(&first).await["ipAddresses"], json!([]));
        wanted["tags"] = json!(["made:here"]);
        rig.ordered(wanted).await;
        for spelling in ["made:here", "made%3Ahere"] {
            assert_eq!(rig.get(&format!("/v3/flexMetal/tags/{spelling}")).await.0, 200, "{spelling}");
        }
        for text in ["", "{", "[]", "7"] {
            let answer = rig.request("POST", SERVERS).body(text).send().await.unwrap();
            assert_eq!(answer.status(), 400, "{text}");
            assert_eq!(answer.headers()["content-type"], "application/json");
        }
        let without = rig.client.get(format!("{}/flexMetal/servers", rig.running.api_url()));
        assert_eq!(rig.send(without.header("PRIVATE-TOKEN", "contract-key")).await.0, 404);
    }

    contract_orders_by_system ["2.7-7" "2.7-11" "2.7-12" "2.8-9" "2.8-15"] |rig| {

        let hub = json!([{"key": "siderolink.api", "value": "https://hub.example"}]);
        let talos = json!({"slug": "talos-omni-1110", "kernelParams": hub});
        let ipxe = json!({"slug": "custom-ipxe", "ipxeScriptUrl": "https://boot.example/x"});
        for os in [json!({"slug": "windows-2022"}), talos, ipxe] {
            // No keys, and a script that no shell on Linux would take.
            let mut wanted = with("os", os.clone());
            wanted["name"] = json!("node-1");
            wanted["postInstallScript"] = json!("Write-Host hello");
            let uuid = rig.ordered(wanted).await;
            assert_eq!(rig.server(&uuid).await["os"]["slug"], os["slug"]);
        }
        rig.refused("POST", SERVERS, with("postInstallScript", json!("Write-Host hello")), 422).await;
        let swap = json!({"slug": "debian-13", "partitions": [{"target": "swap", "filesystem": "swap", "size": 8192},
            {"target": "/", "filesystem": "ext4", "size": -1}]});
        rig.ordered(with("os", swap)).await;
    }

    contract_contracts_and_overflow ["2.6-16" "2.7-18" "2.7-19"] |rig| {

        let offer = |more: Value| {
            let mut offer = json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8"});
            offer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            offer
        };
        rig.steer("quota", offer(json!({"quotaType": "commit", "contractId": "C", "quota": 1}))).await;
        let mut wanted = with("contractId", json!("C"));
        let used = async || {
            let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
            let pools = quota[0]["quotaUsage"].as_array().unwrap().clone();
            let here = pools.iter().filter(|pool| pool["instanceType"]["name"] == "bm7.std.8");
            here.map(|pool| (pool["quotaType"].as_str().unwrap().to_owned(), pool["usage"].as_u64().unwrap())).collect::<Vec<_>>()
        };
        let pools = |demand: u64, commit: u64| vec![("onDemand".to_owned(), demand), ("commit".to_owned(), commit)];
        let committed = rig.ordered(wanted.clone()).await;
        assert_eq!(rig.server(&committed).await["contractId"], "C");
        assert_eq!(used().await, pools(0, 1));
        for overflow in [Value::Null, json!(false)] {
            wanted["overflow"] = overflow;
            rig.refused("POST", SERVERS, wanted.clone(), 422).await;
        }
        wanted["overflow"] = json!(true);
        let spilled = rig.ordered(wanted.clone()).await;
        assert_eq!(rig.server(&spilled).await.get("contractId"), None);
        assert_eq!(used().await, pools(1, 1));
        // Nothing on demand is kept back for the contract.
        rig.steer("availability", offer(json!({"stock": 1}))).await;
        rig.ordered(order()).await;
        rig.refused("POST", SERVERS, wanted, 422).await;
    }

    contract_quota_answers ["4.4-13" "4.4-14"] |rig| {
        let quota = json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quota": 1});
        rig.steer("quota", quota).await;
        rig.ordered(order()).await;
        rig.refused("POST", SERVERS, order(), 422).await;
        rig.refused("POST", SERVERS, with("contractId", json!("NONE")), 422).await;
        rig.steer("availability", json!({"location": "JP: Tokyo", "instanceType": "bm7.std.8", "stock": 0})).await;
        rig.refused("POST", SERVERS, with("location", json!("JP: Tokyo")), 422).await;
    }
}
