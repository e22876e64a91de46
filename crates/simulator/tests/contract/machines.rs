//! What follows a server's delivery and release: hardware listing, root
//! password, commands (sections 2.8, 2.10, 2.11, 3.2 and 4.5).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, RELEASE, SERVERS, START, names, order, with};

cases! {
    contract_first_listing ["2.10-4"] |rig| {
        let uuid = rig.delivered(order()).await;
        let one = format!("{SERVERS}/{uuid}");
        let listing = async || rig.get(&format!("{one}/lshw")).await.1[0].clone();
        rig.advance(59).await;
        assert_eq!(listing().await, json!({"createdAt": 0, "lshw": null}));
        rig.advance(1).await;
        let first = listing().await;
        assert_eq!((&first["createdAt"], first["lshw"].is_object()), (&json!(START + DELIVERY + 60), true));
        assert_eq!(rig.call("PATCH", &one, json!({})).await.0, 200);
        for _ in 0..2 {
            assert_eq!(listing().await, first);
            rig.advance(300).await;
        }
    }

    contract_a_release_takes_password_and_commands ["2.11-4" "3.2-5"] |rig| {
        let uuid = rig.delivered(with("os", json!({"slug": "windows-2022"}))).await;
        let one = format!("{SERVERS}/{uuid}");
        let password = format!("{one}/rootPassword");
        assert_eq!(rig.get(&password).await.0, 200);
        let (_, done) = rig.call("POST", &format!("{one}/commands"), json!({"command": "reboot"})).await;
        rig.advance(10).await;
        let (_, pending) = rig.call("POST", &format!("{one}/commands"), json!({"command": "reboot"})).await;
        rig.advance(1).await;
        assert_eq!(rig.delete(&one).await.1[0]["status"], "releasing");
        for _ in 0..2 {
            rig.refused("GET", &password, Value::Null, 404).await;
            for (command, state, updated) in [(&done, "finished", "22:18:30"), (&pending, "failed", "22:18:31")] {
                let uuid = command[0]["uuid"].as_str().unwrap();
                let (_, now) = rig.get(&format!("{one}/commands/{uuid}")).await;
                assert_eq!(now[0]["state"], state);
                assert_eq!(now[0]["updatedAt"], format!("2023-11-14T{updated}.000Z"));
            }
            rig.advance(RELEASE + 60).await;
        }
    }

    contract_only_delivered_servers_take_commands ["4.5-11" "4.5-9"] |rig| {
        let uuid = rig.ordered(order()).await;
        let one = format!("{SERVERS}/{uuid}");
        let send = async |status| rig.refused("POST", &format!("{one}/commands"), json!({"command": "reboot"}), status).await;
        send(422).await;
        rig.advance(DELIVERY).await;
        assert_eq!(rig.call("POST", &format!("{one}/commands"), json!({"command": "reboot"})).await.0, 200);
        rig.delete(&one).await;
        send(422).await;
        rig.advance(RELEASE).await;
        send(422).await;
        rig.steer("settings", json!({"failureRate": 1.0})).await;
        let failed = rig.delivered(order()).await;
        let path = format!("{SERVERS}/{failed}/commands");
        rig.refused("POST", &path, json!({"command": "reboot"}), 422).await;
        rig.turn("commandUndelivered", "accept").await;
        assert_eq!(rig.call("POST", &path, json!({"command": "reboot"})).await.0, 200);
    }

    contract_slugs_of_clients ["2.8-3"] |rig| {
        let (_, list) = rig.get("/v3/operatingsystem").await;
        let known = names(&list, "slug");
        for slug in ["debian-12", "custom-ipxe", "talos-omni-177", "talos-omni-184", "talos-omni-190", "talos-omni-1116", "talos-omni-1123"] {
            assert!(known.contains(&slug), "{slug}");
        }
    }
}
