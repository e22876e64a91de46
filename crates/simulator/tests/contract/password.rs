//! The password and the stored SSH keys (sections 4.2 and 4.8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, order, shape};

cases! {
    contract_password ["4.2-1" "4.2-2" "4.2-3" "4.2-4" "4.2-5" "4.2-6" "4.2-7" "4.2-8" "4.2-9" "4.2-10" "4.2-12" "4.2-13" "4.2-14"
        "7-1" "7-5" "8-12"] |rig| {
        const PATH: &str = "/v3/account/password";
        let change = |current: &str| json!({"currentPassword": current, "newPassword": "next"});
        rig.refused("PUT", PATH, change("wrong"), 401).await;
        assert_eq!(rig.call("PUT", PATH, change("correct-horse")).await, (204, Value::Null));
        for body in [json!({}), json!({"currentPassword": "", "newPassword": "x"})] {
            rig.refused("PUT", PATH, body, 422).await;
        }
        // The new one is the present one now, and the old one is none.
        assert_eq!(rig.call("PUT", PATH, change("next")).await.0, 204);
        rig.refused("PUT", PATH, change("correct-horse"), 401).await;
        rig.refused("PUT", PATH, change("wrong"), 401).await;
        rig.refused("PUT", PATH, change("next"), 429).await;
        let reset = "/v3/account/password/reset";
        let hash = async || rig.look("accounts").await[0]["resetHash"].clone();
        assert_eq!(rig.call("POST", reset, json!({"emailAddress": "nobody@example.com"})).await, (204, Value::Null));
        assert_eq!(hash().await, Value::Null, "nobody's reset makes no hash");
        assert_eq!(rig.call("POST", reset, json!({"emailAddress": "owner@example.com"})).await, (204, Value::Null));
        rig.refused("POST", reset, json!({}), 422).await;
        let hash = hash().await;
        assert!(hash.is_string());
        let validate = "/v3/account/password/reset/validate";
        rig.refused("PUT", validate, json!({"newPassword": "x", "resetHash": "wrong"}), 403).await;
        rig.refused("PUT", validate, json!({"newPassword": "x"}), 422).await;
        let right = json!({"newPassword": "x", "resetHash": hash});
        assert_eq!(rig.call("PUT", validate, right.clone()).await, (204, Value::Null));
        rig.refused("PUT", validate, right.clone(), 403).await;
        rig.advance(24 * 3_600).await;
        rig.refused("PUT", PATH, change("next"), 401).await;
        assert_eq!(rig.call("PUT", PATH, change("x")).await.0, 204);
        rig.turn("resetLoggedIn", "refuse422").await;
        rig.refused("POST", reset, json!({"emailAddress": "owner@example.com"}), 422).await;
        rig.refused("PUT", validate, right, 422).await;
    }

    contract_ssh_keys ["4.8-19" "4.8-20" "4.8-21" "4.8-22" "4.8-23" "4.8-24" "4.8-25" "4.8-26" "2.7-6" "2.19-1" "2.19-2" "2.19-3" "2.19-4" "2.19-5" "2.19-6" "2.19-7" "2.7-27"] |rig| {
        const KEYS: &str = "/v3/sshKey";
        let key = json!({"name": "me", "publicKey": "ssh-ed25519 AAAAC3 me@here"});
        let (status, stored) = rig.call("POST", KEYS, key.clone()).await;
        assert_eq!((status, &stored[0]["publicKey"]), (200, &key["publicKey"]));
        shape(&stored[0], "uuid:u name:s publicKey:s createdAt:i");
        assert_eq!(rig.get(KEYS).await.1, stored);
        let one = format!("{KEYS}/{}", stored[0]["uuid"].as_str().unwrap());
        assert_eq!(rig.get(&one).await.1, stored);
        let mut wanted = order();
        wanted["sshKey"] = json!([stored[0]["uuid"], "ssh-rsa AAAA"]);
        let uuid = rig.ordered(wanted.clone()).await;
        let before = rig.server(&uuid).await;
        for bad in [json!({"name": "x"}), json!({"publicKey": "ssh-rsa AAAA"}), json!({"name": "x", "publicKey": "x"})] {
            rig.refused("POST", KEYS, bad, 422).await;
        }
        assert_eq!(rig.delete(&one).await, (204, Value::Null));
        assert_eq!(rig.call("POST", KEYS, key).await.1[0]["name"], "me");
        assert_eq!(rig.call("POST", KEYS, json!({"name": "me", "publicKey": "ssh-rsa AAAA"})).await.0, 200);
        let (_, all) = rig.ranged(KEYS, "start=0,results=1").await;
        assert_eq!(all.as_array().unwrap().len(), 2, "all at once");
        rig.refused("PUT", &one, json!({"name": "you"}), 405).await;
        rig.refused("DELETE", &one, Value::Null, 404).await;
        rig.refused("GET", &one, Value::Null, 404).await;
        rig.refused("DELETE", "/v3/sshKey/none", Value::Null, 400).await;
        assert_eq!(rig.server(&uuid).await, before);
        // The server has it on its disk; a new order finds it no more.
        rig.ordered(wanted.clone()).await;
        rig.turn("unknownSshKey", "refuse422").await;
        rig.refused("POST", SERVERS, wanted, 422).await;
    }
}
