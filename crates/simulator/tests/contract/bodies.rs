//! What request bodies may hold where no field's own row says it: empty texts,
//! null, repetitions, read-only fields, proper host names (sections 1 and 2).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, START, names, order, with};

const HOST_KEY: &str = "018f0000-0000-7000-8000-000000000000";

cases! {
    contract_empty_texts ["1-22"] |rig| {
        for field in ["name", "location", "instanceType"] {
            let record = rig.refused("POST", SERVERS, with(field, json!("")), 422).await;
            assert_eq!(record["errors"][0]["property"], field);
        }
        let param = |key: &str, value: &str| {
            json!({"slug": "talos-omni-1110", "kernelParams": [{"key": key, "value": value}]})
        };
        rig.refused("POST", SERVERS, with("os", json!({"slug": ""})), 422).await;
        rig.refused("POST", SERVERS, with("os", param("", "x")), 422).await;
        rig.ordered(with("os", param("quiet", ""))).await;
        for key in [json!({"name": "", "publicKey": "ssh-rsa AAAA"}), json!({"name": "x", "publicKey": ""})] {
            rig.refused("POST", "/v3/sshKey", key, 422).await;
        }
    }

    contract_null_is_left_out ["1-23"] |rig| {
        let mut wanted = order();
        for field in ["userData", "contractId", "overflow"] {
            wanted[field] = Value::Null;
        }
        let uuid = rig.delivered(wanted).await;
        for field in ["name", "location", "instanceType", "os"] {
            rig.refused("POST", SERVERS, with(field, Value::Null), 422).await;
        }
        let before = rig.server(&uuid).await;
        let nothing = json!({"name": null, "sshKey": null, "postInstallScript": null, "os": null, "userData": null});
        let (status, again) = rig.call("PATCH", &format!("{SERVERS}/{uuid}"), nothing).await;
        assert_eq!((status, &again[0]), (200, &before));
        let record = rig.refused("POST", "/v3/flexMetal/tags", json!({"tag": null}), 422).await;
        assert_eq!(record["errors"][0]["property"], "tag");
        let counted = json!({"tag": "x", "resources": null});
        assert_eq!(rig.call("POST", "/v3/flexMetal/tags", counted).await.0, 200);
        let entry = json!({"ipRange": "127.0.0.0/8", "ipStart": null, "ipEnd": null, "comments": null, "active": 1,
            "id": null, "updatedAt": null});
        assert_eq!(rig.call("POST", "/v3/account/apiKey/1/whitelist", entry).await.0, 200);
        let install = json!({"os": {"id": 104, "kernelParams": null}, "sshKeyId": HOST_KEY, "hostname": null,
            "postInstallScript": null, "quickFormat": null});
        assert_eq!(rig.call("POST", "/v3/host/1001/os/install", install).await.0, 200);
    }

    contract_proper_host_names ["2.7-29"] |rig| {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        let named = |name: &str| {
            let mut wanted = with("os", json!({"slug": "talos-omni-1110"}));
            wanted["name"] = json!(name);
            wanted
        };
        for good in ["n", "node-1", "1.node", "Node.Example", label.as_str(), longest.as_str()] {
            let uuid = rig.ordered(named(good)).await;
            assert_eq!(rig.server(&uuid).await["name"], good);
        }
        let (long_label, long_name) = (format!("{label}a"), format!("{longest}a"));
        for bad in ["-a", "a-", "a.-b", "a_b", "a b", "a..b", ".a", "a.", "ä", long_label.as_str(), long_name.as_str()] {
            rig.refused("POST", SERVERS, named(bad), 422).await;
        }
        rig.ordered(with("name", json!("a_b"))).await;
    }

    contract_a_tag_named_twice ["2.7-30"] |rig| {
        let uuid = rig.ordered(with("tags", json!(["b", "a", "b"]))).await;
        assert_eq!(rig.server(&uuid).await["tags"], json!(["b", "a"]));
        let mut many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
        many.push("t0".to_owned());
        rig.refused("POST", SERVERS, with("tags", json!(many)), 422).await;
    }

    contract_a_tag_and_its_own_name ["4.6-23"] |rig| {
        let uuid = rig.ordered(order()).await;
        rig.refused("PUT", "/v3/flexMetal/tags/t", json!({"tag": "t"}), 409).await;
        assert_eq!(rig.server(&uuid).await["tags"], json!(["t"]));
        assert_eq!(names(&rig.get("/v3/flexMetal/tags").await.1, "tag"), ["t"]);
    }

    contract_stored_keys_in_requests ["2.19-8" "4.8-32" "2.17-21"] |rig| {
        let sent = json!({"name": "me", "publicKey": "ssh-rsa AAAA", "uuid": HOST_KEY, "createdAt": 7});
        let (status, stored) = rig.call("POST", "/v3/sshKey", sent).await;
        assert_eq!((status, &stored[0]["name"], &stored[0]["createdAt"]), (200, &json!("me"), &json!(START)));
        assert_ne!(stored[0]["uuid"], HOST_KEY);
        let install = |key: &Value| json!({"os": {"id": 104}, "sshKeyId": key});
        let first = rig.call("POST", "/v3/host/1001/os/install", install(&json!(HOST_KEY))).await;
        assert_eq!(first.0, 200, "nobody stored it");
        rig.turn("unknownSshKey", "refuse422").await;
        let record = rig.refused("POST", "/v3/host/1002/os/install", install(&json!(HOST_KEY)), 422).await;
        assert_eq!(record["errors"][0]["property"], "sshKeyId");
        let last = rig.call("POST", "/v3/host/1002/os/install", install(&stored[0]["uuid"])).await;
        assert_eq!(last.0, 200);
        // A re-installation of a server is under the same rule.
        let uuid = rig.delivered(order()).await;
        let keys = json!({"sshKey": [HOST_KEY]});
        rig.refused("PATCH", &format!("{SERVERS}/{uuid}"), keys.clone(), 422).await;
        rig.turn("unknownSshKey", "accept").await;
        assert_eq!(rig.call("PATCH", &format!("{SERVERS}/{uuid}"), keys).await.0, 200);
    }
}
