//! Orders, servers, commands, tags and their rules.

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, RELEASE, SERVERS, START, order, shape, with};

cases! {
    contract_order_rules ["2.7-1" "2.7-2" "2.7-3" "2.7-4" "2.7-5" "2.7-7" "2.7-9" "2.7-10" "2.7-13" "2.7-14" "2.7-16" "2.7-18" "2.7-20"
        "2.7-22" "2.7-24" "2.8-12" "2.7-23" "2.8-1" "2.8-4" "2.8-5" "2.8-6" "2.8-7" "2.8-10" "2.8-13" "2.8-14" "4.4-12" "2.2-6" "8-1" "8-2" "8-3" "7-4"] |rig| {
        let many: Vec<String> = (0..61).map(|number| format!("t{number}")).collect();
        let os = |extra: Value| {
            let mut os = json!({"slug": "ubuntu-2404-lts"});
            os.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            os
        };
        for (field, bad, blamed) in [
            ("name", Value::Null, "name"),
            ("location", json!("Moon"), "location"),
            ("location", json!("eu: rotterdam"), "location"),
            ("instanceType", json!("bm0"), "instanceType"),
            ("os", Value::Null, "os"),
            ("os", json!({"slug": "none"}), "os.slug"),
            ("os", os(json!({"kernelParams": [{"key": "a"}]})), "os.kernelParams[0].value"),
            ("os", os(json!({"partitions": [{"target": "/", "size": 1}]})), "os.partitions[0].filesystem"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": 0}]})), "os.partitions[0].size"),
            ("os", os(json!({"ipxeScriptUrl": "http://a"})), "os.ipxeScriptUrl"),
            ("os", json!({"slug": "custom-ipxe"}), "os.ipxeScriptUrl"),
            ("sshKey", Value::Null, "sshKey"),
            ("sshKey", json!(["nonsense"]), "sshKey[0]"),
            ("postInstallScript", json!("echo"), "postInstallScript"),
            ("userData", json!({"data": 1}), "userData.data"),
            ("userData", json!({"data": "no base64!", "isBase64": true}), "userData.data"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": -1}, {"target": "/a", "filesystem": "xfs", "size": -1}]})), "os.partitions"),
            ("os", os(json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": 1}, {"target": "/", "filesystem": "xfs", "size": 1}]})), "os.partitions"),
            ("tags", json!(["no blank"]), "tags[0]"),
            ("tags", json!(many), "tags"),
            ("contractId", json!("small"), "contractId"),
            ("overflow", json!("yes"), "overflow"),
            ("more", json!(1), "more"),
        ] {
            let record = rig.refused("POST", SERVERS, with(field, bad), 422).await;
            let properties: Vec<_> = record["errors"].as_array().unwrap().iter().map(|e| e["property"].clone()).collect();
            assert!(properties.contains(&json!(blamed)), "{blamed}: {record}");
        }
        let mut proper = with("os", json!({"slug": "talos-omni-1110"}));
        proper["name"] = json!("under_score");
        rig.refused("POST", SERVERS, proper, 422).await;
        assert_eq!(rig.get(SERVERS).await.1, json!([]));
        let rest = json!({"partitions": [{"target": "/", "filesystem": "xfs", "size": -1}]});
        rig.ordered(with("os", os(rest))).await;
        rig.ordered(with("os", json!({"slug": "custom-ipxe", "ipxeScriptUrl": "https://boot.example/x"}))).await;
    }

    contract_order_takes_what_clients_send ["2.7-8" "2.7-15" "2.7-17" "2.7-21" "2.8-8" "4.4-10" "4.4-11" "1-14" "1-15" "1-1" "1-3" "9-1"] |rig| {
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
        rig.turn("missingSshKey", "accept").await;
        rig.turn("fileSystems", "enforce").await;
        wanted["sshKey"] = Value::Null;
        wanted["tags"] = json!(["made:here"]);
        rig.ordered(wanted).await;
        assert_eq!(rig.get("/v3/flexMetal/tags/made:here").await.0, 200);
        let swap = json!({"slug": "debian-13", "partitions": [{"target": "/", "filesystem": "zfs", "size": 1}]});
        rig.refused("POST", SERVERS, with("os", swap), 422).await;
        for text in ["", "{", "[]", "7"] {
            let answer = rig.request("POST", SERVERS).body(text).send().await.unwrap();
            assert_eq!(answer.status(), 400, "{text}");
            assert_eq!(answer.headers()["content-type"], "application/json");
        }
        let without = rig.client.get(format!("{}/flexMetal/servers", rig.running.api_url()));
        assert_eq!(rig.send(without.header("PRIVATE-TOKEN", "contract-key")).await.0, 404);
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
        rig.advance(100_000_000).await;
        assert_eq!(status(&uuid).await, "released");
        assert_eq!(rig.get(SERVERS).await.1[0]["uuid"], uuid.as_str());

        rig.steer("settings", json!({"failureRate": 1.0})).await;
        let failed = rig.delivered(order()).await;
        let record = rig.server(&failed).await;
        assert_eq!(record["status"], "failed");
        assert!(!record["statusMessage"].as_str().unwrap().is_empty());
        rig.refused("DELETE", &format!("{SERVERS}/{failed}"), Value::Null, 422).await;
        assert_eq!(status(&failed).await, "failed");

        rig.steer("settings", json!({"failureRate": 0.0})).await;
        rig.turn("stateView", "long").await;
        let long = rig.ordered(order()).await;
        rig.advance(DELIVERY / 2).await;
        let middle = status(&long).await;
        assert!(!["created", "delivered"].contains(&middle.as_str().unwrap()), "{middle}");
        assert_eq!(rig.delete(&format!("{SERVERS}/{long}")).await.1[0]["status"], "releasing");
    }

    contract_server_list ["3.1-2" "4.4-1" "4.4-2" "4.4-3" "4.4-4" "4.4-5" "4.4-6" "4.4-7" "4.4-8" "4.4-9" "8-4" "8-6" "8-7" "8-8"] |rig| {
        for number in 0..55 {
            rig.ordered(with("name", json!(format!("n{number}")))).await;
        }
        let count = async |range: &str| rig.ranged(SERVERS, range).await.1.as_array().unwrap().len();
        assert_eq!(rig.get(SERVERS).await.1.as_array().unwrap().len(), 15);
        assert_eq!(count("start=0,results=50").await, 50);
        assert_eq!(count("start=50,results=50").await, 5);
        assert_eq!(count("start=55,results=50").await, 0);
        assert_eq!(rig.ranged(SERVERS, "start=7,results=1").await.1[0]["name"], "n7");
        for bad in ["nonsense", "start=0,results=0", "start=0,results=51"] {
            assert_eq!(rig.ranged(SERVERS, bad).await.0, 422, "{bad}");
        }
        rig.turn("resultsAbove50", "clamp").await;
        assert_eq!(count("start=0,results=100").await, 50);
        let mut tagged = with("tags", json!(["t", "u"]));
        tagged["name"] = json!("tagged");
        let uuid = rig.ordered(tagged).await;
        let names = async |query: &str| {
            let (status, list) = rig.get(&format!("{SERVERS}?{query}")).await;
            assert_eq!(status, 200, "{list}");
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("tag=t&tag=u").await, ["tagged"]);
        assert_eq!(names("tag=u&status=creating").await, ["tagged"]);
        assert!(names("tag=u&status=provisioning").await.is_empty());
        rig.advance(DELIVERY).await;
        assert_eq!(names("tag=u&status=delivered").await, ["tagged"]);
        rig.delete(&format!("{SERVERS}/{uuid}")).await;
        assert_eq!(names("status=releasing").await, ["tagged"]);
        rig.advance(RELEASE).await;
        assert_eq!(names("status=released").await, ["tagged"]);
        assert!(names("status=failed").await.is_empty());
        assert_eq!(names("tag=u").await, ["tagged"]);
        rig.refused("GET", &format!("{SERVERS}?status=sleeping"), Value::Null, 422).await;
    }

    contract_reinstallation ["2.9-1" "2.9-2" "2.9-3" "2.9-4" "2.9-5" "2.9-6" "2.9-8" "3.1-12" "4.4-16" "4.4-17" "4.4-18" "4.4-19" "4.4-20" "4.5-3"
        "4.5-10" "2.12-3" "2.12-8" "2.12-9"] |rig| {
        let uuid = rig.ordered(order()).await;
        let (path, commands) = (format!("{SERVERS}/{uuid}"), format!("{SERVERS}/{uuid}/commands"));
        rig.refused("PATCH", &path, json!({}), 422).await;
        rig.advance(DELIVERY).await;
        rig.call("POST", &commands, json!({"command": "reboot"})).await;
        let wanted = json!({"name": "again", "os": {"slug": "debian-13"}, "sshKey": ["ssh-rsa AAAA"],
            "postInstallScript": "#!/bin/sh\n", "userData": {"data": "", "isBase64": false}});
        let (status, answer) = rig.call("PATCH", &format!("{path}?wipeDisk=false"), wanted).await;
        assert_eq!((status, &answer[0]["status"], &answer[0]["name"]), (200, &json!("delivered"), &json!("again")));
        rig.refused("PATCH", &path, json!({}), 409).await;
        rig.refused("POST", &commands, json!({"command": "reboot"}), 409).await;
        let (_, tracked) = rig.get(&format!("{commands}?type=update-server")).await;
        assert_eq!(tracked.as_array().unwrap().len(), 1);
        assert_eq!(tracked[0]["state"], "pending");
        shape(&tracked[0]["payload"], "command:s");
        rig.advance(300).await;
        assert_eq!(rig.get(&format!("{commands}?type=update-server")).await.1[0]["state"], "finished");
        assert_eq!(rig.server(&uuid).await["os"]["slug"], "debian-13");
        assert_eq!(rig.call("PATCH", &path, json!({})).await.1[0]["os"]["slug"], "debian-13");
        rig.advance(300).await;
        for bad in [json!({"more": 1}), json!({"os": {"slug": "none"}}), json!({"postInstallScript": "x"})] {
            rig.refused("PATCH", &path, bad, 422).await;
        }
        rig.refused("PATCH", &format!("{path}?wipeDisk=maybe"), json!({}), 422).await;
        rig.turn("commandKeys", "snake").await;
        for (word, payload) in [("emptyArray", json!([])), ("null", Value::Null)] {
            rig.turn("updatePayload", word).await;
            let (_, tracked) = rig.get(&format!("{commands}?type=update-server")).await;
            shape(&tracked[0], "uuid:s server_uuid:s payload:an state:s created_at:s updated_at:s");
            assert_eq!(tracked[0]["payload"], payload);
        }
        rig.turn("reinstallSshKey", "required").await;
        rig.refused("PATCH", &path, json!({"os": {"slug": "debian-13"}}), 422).await;
        let effects = rig.look("ledger?method=PATCH").await;
        let wiped: Vec<_> = effects.as_array().unwrap().iter().filter_map(|e| e["effect"]["wipeDisk"].as_bool()).collect();
        assert_eq!(wiped, [false, true]);
    }

    contract_commands ["2.12-1" "2.12-2" "2.12-4" "2.12-6" "2.12-7" "2.12-10" "2.12-5" "3.2-1" "3.2-2" "3.2-3" "3.2-4" "4.5-1" "4.5-2" "4.5-4" "4.5-5" "4.5-6" "4.5-7"
        "4.5-8" "4.5-9"] |rig| {
        let uuid = rig.ordered(order()).await;
        let path = format!("{SERVERS}/{uuid}/commands");
        rig.refused("POST", &path, json!({"command": "reboot"}), 422).await;
        rig.advance(DELIVERY).await;
        let mut sent = Vec::new();
        for word in ["reboot", "power_on", "power_off", "shutdown"] {
            let (status, command) = rig.call("POST", &path, json!({"command": word})).await;
            assert_eq!(status, 200);
            shape(&command[0], "uuid:s serverUuid:s payload:o state:s createdAt:s updatedAt:s");
            assert_eq!((&command[0]["payload"]["command"], &command[0]["state"]), (&json!(word), &json!("pending")));
            assert_eq!(command[0]["serverUuid"], uuid.as_str());
            assert_eq!(command[0]["createdAt"], "2023-11-14T22:18:20.000Z");
            sent.push(command[0]["uuid"].clone());
        }
        let (_, list) = rig.get(&path).await;
        let listed: Vec<_> = list.as_array().unwrap().iter().rev().map(|one| one["uuid"].clone()).collect();
        assert_eq!(listed, sent);
        assert_eq!(rig.ranged(&path, "start=1,results=1").await.1[0], list[1]);
        rig.steer("settings", json!({"commandFailureRate": 1.0})).await;
        rig.call("POST", &path, json!({"command": "reboot"})).await;
        rig.advance(10).await;
        let states = async || rig.get(&path).await.1.as_array().unwrap().iter().map(|one| one["state"].clone()).collect::<Vec<_>>();
        let ended = states().await;
        assert_eq!(ended, ["failed", "finished", "finished", "finished", "finished"]);
        rig.advance(100_000).await;
        assert_eq!(states().await, ended);
        let one = sent[0].as_str().unwrap();
        assert_eq!(rig.get(&format!("{path}/{one}")).await.1[0]["state"], "finished");
        for bad in [json!({}), json!({"command": "explode"}), json!({"command": "update-server"})] {
            rig.refused("POST", &path, bad, 422).await;
        }
        rig.refused("GET", &format!("{path}/{uuid}"), Value::Null, 404).await;
        rig.refused("GET", &format!("{SERVERS}/{one}/commands"), Value::Null, 404).await;
    }

    contract_listing_and_password ["2.10-1" "2.10-2" "2.11-1" "2.11-2" "2.11-3" "4.4-25" "4.4-26" "4.4-27" "8-11"] |rig| {
        let uuid = rig.ordered(with("os", json!({"slug": "windows-2022"}))).await;
        let linux = rig.ordered(order()).await;
        let of = |uuid: &str, what: &str| format!("{SERVERS}/{uuid}/{what}");
        assert_eq!(rig.get(&of(&uuid, "lshw")).await, (200, json!([{"createdAt": 0, "lshw": null}])));
        rig.refused("GET", &of(&uuid, "rootPassword"), Value::Null, 404).await;
        rig.advance(DELIVERY + 60).await;
        let (_, listing) = rig.get(&of(&uuid, "lshw")).await;
        shape(&listing[0], "createdAt:i lshw:o");
        assert_eq!(listing[0]["createdAt"], START + DELIVERY + 60);
        let (status, password) = rig.get(&of(&uuid, "rootPassword")).await;
        assert_eq!(status, 200);
        shape(&password[0], "rootPassword:s");
        rig.refused("GET", &of(&linux, "rootPassword"), Value::Null, 404).await;
        rig.advance(24 * 3_600 - 61).await;
        assert_eq!(rig.get(&of(&uuid, "rootPassword")).await.0, 200);
        rig.advance(1).await;
        rig.refused("GET", &of(&uuid, "rootPassword"), Value::Null, 404).await;
    }

    contract_tags ["4.6-1" "4.6-2" "4.6-3" "4.6-4" "4.6-5" "4.6-6" "4.6-7" "4.6-8" "4.6-9" "4.6-10" "4.6-11" "4.6-12" "4.6-13" "4.6-14"
        "4.6-15" "4.6-16" "4.6-17" "4.6-18" "4.6-19" "2.13-1" "2.13-2" "2.13-3" "2.13-4" "2.13-5" "2.13-6" "2.2-7" "8-5" "2.6-12"] |rig| {
        const TAGS: &str = "/v3/flexMetal/tags";
        let many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
        let uuid = rig.ordered(with("tags", json!(many))).await;
        assert_eq!(rig.get(TAGS).await.1.as_array().unwrap().len(), 25);
        assert_eq!(rig.ranged(TAGS, "start=59,results=9").await.1[0]["tag"], "t59");
        let put = |tag: &str| format!("{SERVERS}/{uuid}/tag/{tag}");
        rig.refused("POST", &put("more"), Value::Null, 422).await;
        rig.refused("POST", &put("no%20blank"), Value::Null, 422).await;
        assert_eq!(rig.call("POST", &put("t7"), Value::Null).await.1[0]["tags"], json!(many));
        rig.delete(&put("t0")).await;
        rig.refused("DELETE", &put("t0"), Value::Null, 404).await;
        assert_eq!(rig.get(&format!("{TAGS}/t0")).await.1[0]["resources"]["count"], 0);
        let (_, tagged) = rig.call("POST", &put("fresh"), Value::Null).await;
        assert_eq!(tagged[0]["tags"][59], "fresh");
        let (_, one) = rig.get(&format!("{TAGS}/fresh")).await;
        shape(&one[0], "tag:s resources:o");
        shape(&one[0]["resources"], "count:i flexMetalServers:o");
        shape(&one[0]["resources"]["flexMetalServers"], "count:i");
        let counts = json!({"count": 1, "flexMetalServers": {"count": 1}});
        assert_eq!(one[0]["resources"], counts);
        let gone = rig.ordered(with("tags", json!(["gone"]))).await;
        rig.delete(&format!("{SERVERS}/{gone}")).await;
        rig.advance(RELEASE).await;
        assert_eq!(rig.get(&format!("{TAGS}/gone")).await.1[0]["resources"]["count"], 0);
        let (_, counted) = rig.call("POST", TAGS, json!({"tag": "counted", "resources": counts})).await;
        assert_eq!(counted[0]["resources"], json!({"count": 0, "flexMetalServers": {"count": 0}}));
        let nobody = "018f0000-0000-7000-8000-000000000000";
        rig.refused("POST", &format!("{SERVERS}/{nobody}/tag/a"), Value::Null, 404).await;
        rig.refused("DELETE", &format!("{SERVERS}/{nobody}/tag/a"), Value::Null, 404).await;
        let (status, made) = rig.call("POST", TAGS, json!({"tag": "made"})).await;
        assert_eq!((status, &made[0]["tag"]), (200, &json!("made")));
        let twice = rig.refused("POST", TAGS, json!({"tag": "made"}), 422).await;
        assert_eq!(twice["errors"], json!([]));
        rig.refused("POST", TAGS, json!({"tag": "no blank"}), 422).await;
        rig.refused("PUT", &format!("{TAGS}/fresh"), json!({"tag": "made"}), 409).await;
        rig.refused("PUT", &format!("{TAGS}/fresh"), json!({"tag": "no blank"}), 422).await;
        assert_eq!(rig.call("PUT", &format!("{TAGS}/fresh"), json!({"tag": "newer"})).await.1[0]["tag"], "newer");
        assert_eq!(rig.server(&uuid).await["tags"][59], "newer");
        assert_eq!(rig.delete(&format!("{TAGS}/newer")).await, (204, Value::Null));
        assert_eq!(rig.server(&uuid).await["tags"].as_array().unwrap().len(), 59);
        for method in ["GET", "PUT", "DELETE"] {
            rig.refused(method, &format!("{TAGS}/newer"), json!({"tag": "x"}), 404).await;
        }
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
