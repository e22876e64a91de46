//! Re-installation, commands, hardware listing, root password (sections 4.4 and 4.5).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, SERVERS, START, order, shape, with};

cases! {
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
        for _ in 0..2 {
            assert_eq!(rig.server(&uuid).await["status"], "delivered", "before it is done");
            rig.advance(100).await;
        }
        rig.refused("PATCH", &path, json!({}), 409).await;
        rig.refused("POST", &commands, json!({"command": "reboot"}), 409).await;
        let (_, tracked) = rig.get(&format!("{commands}?type=update-server")).await;
        assert_eq!(tracked.as_array().unwrap().len(), 1);
        assert_eq!(tracked[0]["state"], "pending");
        shape(&tracked[0]["payload"], "command:s");
        rig.advance(100).await;
        assert_eq!(rig.get(&format!("{commands}?type=update-server")).await.1[0]["state"], "finished");
        assert_eq!(rig.server(&uuid).await["os"]["slug"], "debian-13");
        assert_eq!(rig.call("PATCH", &path, json!({})).await.1[0]["os"]["slug"], "debian-13");
        rig.advance(300).await;
        for bad in [json!({"more": 1}), json!({"os": {"slug": "none"}}), json!({"postInstallScript": "x"}), json!({"sshKey": ["nonsense"]}),
            json!({"sshKey": "ssh-rsa AAAA"}), json!({"userData": "x"}), json!({"userData": {"data": 1}}), json!({"userData": {"data": "", "isBase64": 1}}),
            json!({"userData": {"data": "no base64!", "isBase64": true}})] {
            rig.refused("PATCH", &path, bad, 422).await;
        }
        rig.refused("PATCH", &format!("{path}?wipeDisk=maybe"), json!({}), 422).await;
        let effects = rig.look("ledger?method=PATCH").await;
        let wiped: Vec<_> = effects.as_array().unwrap().iter().filter_map(|e| e["effect"]["wipeDisk"].as_bool()).collect();
        assert_eq!(wiped, [false, true]);
    }

    contract_commands ["2.12-1" "2.12-2" "2.12-4" "2.12-6" "2.12-7" "2.12-10" "2.12-5" "3.2-1" "3.2-2" "3.2-3" "3.2-4" "4.5-1" "4.5-2" "4.5-4" "4.5-5" "4.5-6" "4.5-7"
        "4.5-8" "4.5-9" "8-5"] |rig| {
        let uuid = rig.ordered(order()).await;
        let path = format!("{SERVERS}/{uuid}/commands");
        rig.refused("POST", &path, json!({"command": "reboot"}), 422).await;
        rig.advance(DELIVERY).await;
        let mut sent = Vec::new();
        for word in ["reboot", "power_on", "power_off", "shutdown"] {
            let (status, command) = rig.call("POST", &path, json!({"command": word})).await;
            assert_eq!(status, 200);
            shape(&command[0], "uuid:u serverUuid:u payload:o state:s createdAt:s updatedAt:s");
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
        let (_, then) = rig.get(&path).await;
        for command in then.as_array().unwrap() {
            let times = (&command["createdAt"], &command["updatedAt"]);
            assert_eq!(times, (&json!("2023-11-14T22:18:20.000Z"), &json!("2023-11-14T22:18:30.000Z")));
        }
        rig.advance(100_000).await;
        assert_eq!(rig.get(&path).await.1, then);
        for _ in 0..26 {
            rig.call("POST", &path, json!({"command": "reboot"})).await;
        }
        assert_eq!(rig.get(&path).await.1.as_array().unwrap().len(), 25);
        let one = sent[0].as_str().unwrap();
        assert_eq!(rig.get(&format!("{path}/{one}")).await.1[0]["state"], "finished");
        for bad in [json!({}), json!({"command": "explode"}), json!({"command": "update-server"})] {
            rig.refused("POST", &path, bad, 422).await;
        }
        rig.refused("GET", &format!("{path}/{uuid}"), Value::Null, 404).await;
        let other = format!("{SERVERS}/{}/commands", rig.delivered(order()).await);
        rig.refused("GET", &format!("{other}/{one}"), Value::Null, 404).await;
        assert_eq!(rig.get(&other).await, (200, json!([])));
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
        // An installation makes another one.
        assert_eq!(rig.call("PATCH", &format!("{SERVERS}/{uuid}"), json!({})).await.0, 200);
        rig.refused("GET", &of(&uuid, "rootPassword"), Value::Null, 404).await;
        rig.advance(300).await;
        let (status, next) = rig.get(&of(&uuid, "rootPassword")).await;
        assert_eq!(status, 200);
        assert_ne!(next, password);
    }
}
