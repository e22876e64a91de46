//! Keys, whitelists, the password, SSH keys, errors, health.

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, START, error_record, order, shape};

cases! {
    contract_keys ["5-1" "5-4" "7-2" "2.2-1" "2.2-2" "2.2-3" "2.2-4" "4.1-10"] |rig| {
        for (method, path) in [("GET", SERVERS), ("PUT", "/v3/account/password"), ("GET", "/v3/account/apiKey/1/whitelist")] {
            let method = || method.parse::<reqwest::Method>().unwrap();
            let url = format!("{}{path}", rig.running.api_url());
            let (status, record) = rig.send(rig.client.request(method(), &url)).await;
            assert_eq!(status, 403);
            error_record(&record);
            let wrong = rig.client.request(method(), &url).header("PRIVATE-TOKEN", "wrong");
            assert_eq!(rig.send(wrong).await.0, 403);
        }
        rig.steer("keys", json!({"key": "contract-key", "valid": false})).await;
        rig.refused("GET", SERVERS, Value::Null, 403).await;
    }

    contract_whitelist ["2.1-1" "2.1-2" "2.1-3" "2.1-4" "2.1-5" "2.1-6" "2.1-7" "2.1-8" "2.1-9" "2.1-10" "2.1-11" "4.1-1" "4.1-2" "4.1-3" "4.1-4"
        "4.1-5" "4.1-6" "4.1-7" "4.1-8" "4.1-9" "4.1-12" "5-2" "5-3"] |rig| {
        const LIST: &str = "/v3/account/apiKey/1/whitelist";
        assert_eq!(rig.get(LIST).await, (200, json!([])));
        let entry = json!({"ipRange": "127.0.0.0/8", "comments": "here", "active": 1});
        let (status, added) = rig.call("POST", LIST, entry.clone()).await;
        assert_eq!((status, added.as_array().unwrap().len()), (200, 1));
        shape(&added[0], "id:i ipStart:sn ipEnd:sn ipRange:sn comments:sn active:i updatedAt:i");
        assert_eq!(added[0]["updatedAt"], START);
        assert_eq!(rig.ranged(LIST, "start=1,results=1").await, (200, json!([])));
        for (field, bad) in [("ipRange", json!("x")), ("ipStart", json!("127.0.0.1")), ("active", json!(2)), ("active", Value::Null), ("more", json!(1))] {
            let mut broken = entry.clone();
            broken[field] = bad;
            rig.refused("POST", LIST, broken, 422).await;
        }
        let mixed = json!({"ipStart": "127.0.0.1", "ipEnd": "::1", "active": 1});
        rig.refused("POST", LIST, mixed, 422).await;
        let one = format!("{LIST}/{}", added[0]["id"]);
        let ends = json!({"ipStart": "127.0.0.1", "ipEnd": "127.0.0.9", "active": 1});
        let (status, changed) = rig.call("PUT", &one, ends).await;
        assert_eq!((status, &changed[0]["ipEnd"]), (200, &json!("127.0.0.9")));
        rig.refused("PUT", &one, json!({}), 422).await;
        rig.refused("PUT", &format!("{LIST}/77"), entry.clone(), 404).await;
        rig.refused("DELETE", &format!("{LIST}/77"), Value::Null, 404).await;
        for path in ["/v3/account/apiKey/9/whitelist", "/v3/account/apiKey/x/whitelist"] {
            rig.refused("GET", path, Value::Null, 404).await;
            rig.refused("POST", path, entry.clone(), 404).await;
        }
        assert_eq!(rig.delete(&one).await, (204, Value::Null));
        let elsewhere = json!({"ipRange": "192.0.2.0/24", "active": 0});
        let (_, off) = rig.call("POST", LIST, elsewhere).await;
        assert_eq!(rig.get(SERVERS).await.0, 200);
        let on = json!({"ipRange": "192.0.2.0/24", "active": 1});
        rig.call("PUT", &format!("{LIST}/{}", off[0]["id"]), on).await;
        rig.refused("GET", SERVERS, Value::Null, 403).await;
    }

    contract_password ["4.2-1" "4.2-2" "4.2-3" "4.2-4" "4.2-5" "4.2-6" "4.2-7" "4.2-8" "4.2-9" "4.2-10" "4.2-12" "4.2-13" "4.2-14"
        "7-1" "7-5" "8-12"] |rig| {
        const PATH: &str = "/v3/account/password";
        let change = |current: &str| json!({"currentPassword": current, "newPassword": "next"});
        rig.refused("PUT", PATH, change("wrong"), 401).await;
        assert_eq!(rig.call("PUT", PATH, change("correct-horse")).await, (204, Value::Null));
        for body in [json!({}), json!({"currentPassword": "", "newPassword": "x"})] {
            rig.refused("PUT", PATH, body, 422).await;
        }
        for _ in 0..3 {
            rig.refused("PUT", PATH, change("wrong"), 401).await;
        }
        rig.refused("PUT", PATH, change("next"), 429).await;
        let reset = "/v3/account/password/reset";
        for email in ["nobody@example.com", "owner@example.com"] {
            assert_eq!(rig.call("POST", reset, json!({"emailAddress": email})).await, (204, Value::Null));
        }
        rig.refused("POST", reset, json!({}), 422).await;
        let hash = rig.look("accounts").await[0]["resetHash"].clone();
        let validate = "/v3/account/password/reset/validate";
        rig.refused("PUT", validate, json!({"newPassword": "x", "resetHash": "wrong"}), 403).await;
        rig.refused("PUT", validate, json!({"newPassword": "x"}), 422).await;
        let right = json!({"newPassword": "x", "resetHash": hash});
        assert_eq!(rig.call("PUT", validate, right.clone()).await, (204, Value::Null));
        rig.refused("PUT", validate, right.clone(), 403).await;
        rig.turn("resetLoggedIn", "refuse422").await;
        rig.refused("POST", reset, json!({"emailAddress": "owner@example.com"}), 422).await;
        rig.refused("PUT", validate, right, 422).await;
    }

    contract_ssh_keys ["4.8-19" "4.8-20" "4.8-21" "4.8-22" "4.8-23" "4.8-24" "4.8-25" "4.8-26" "2.7-6" "2.19-1" "2.19-2" "2.19-3" "2.19-4" "2.19-5" "2.19-6" "2.19-7"] |rig| {
        const KEYS: &str = "/v3/sshKey";
        let key = json!({"name": "me", "publicKey": "ssh-ed25519 AAAAC3 me@here"});
        let (status, stored) = rig.call("POST", KEYS, key.clone()).await;
        assert_eq!((status, &stored[0]["publicKey"]), (200, &key["publicKey"]));
        shape(&stored[0], "uuid:s name:s publicKey:s createdAt:i");
        assert_eq!(rig.get(KEYS).await.1, stored);
        let one = format!("{KEYS}/{}", stored[0]["uuid"].as_str().unwrap());
        assert_eq!(rig.get(&one).await.1, stored);
        let mut wanted = order();
        wanted["sshKey"] = json!([stored[0]["uuid"], "ssh-rsa AAAA"]);
        let uuid = rig.ordered(wanted).await;
        for bad in [json!({"name": "x"}), json!({"publicKey": "ssh-rsa AAAA"}), json!({"name": "x", "publicKey": "x"})] {
            rig.refused("POST", KEYS, bad, 422).await;
        }
        assert_eq!(rig.delete(&one).await, (204, Value::Null));
        assert_eq!(rig.call("POST", KEYS, key).await.1[0]["name"], "me");
        assert_eq!(rig.call("POST", KEYS, json!({"name": "me", "publicKey": "ssh-rsa AAAA"})).await.0, 200);
        rig.refused("PUT", &one, json!({"name": "you"}), 405).await;
        rig.refused("DELETE", &one, Value::Null, 404).await;
        rig.refused("GET", &one, Value::Null, 404).await;
        rig.refused("DELETE", "/v3/sshKey/none", Value::Null, 400).await;
        assert_eq!(rig.server(&uuid).await["uuid"], uuid.as_str());
    }

    contract_every_call ["1-4" "1-5" "1-8" "1-13" "2.2-5" "4.4-28" "7-3" "7-6" "4.1-11" "4.2-11"] |rig| {
        let typed = rig.request("GET", SERVERS).header("Content-Type", "application/json");
        assert_eq!(rig.send(typed).await, (200, json!([])));
        let uuid = rig.ordered(order()).await;
        let (_, one) = rig.get(&format!("{SERVERS}/{uuid}/")).await;
        assert_eq!(one.as_array().unwrap().len(), 1);
        assert_eq!(rig.get(&format!("{SERVERS}/{uuid}")).await.1, one);
        rig.refused("GET", "/v3/none", Value::Null, 404).await;
        rig.refused("PUT", SERVERS, json!({}), 405).await;
        let nobody = "018f0000-0000-7000-8000-000000000000";
        for (method, rest) in [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/lshw"), ("GET", "/rootPassword"),
            ("GET", "/commands"), ("POST", "/commands"), ("POST", "/tag/x"), ("DELETE", "/tag/x")] {
            let record = rig.refused(method, &format!("{SERVERS}/{nobody}{rest}"), json!({}), 404).await;
            assert_eq!(record["errorCode"], 10_001);
        }
        for (method, path) in [("GET", SERVERS), ("GET", "/v3/account/apiKey/1/whitelist"), ("PUT", "/v3/account/password")] {
            rig.steer("faults", json!({"fault": {"status": {"code": 500}}, "count": 1})).await;
            rig.refused(method, path, json!({}), 500).await;
        }
    }

    contract_health ["2.23-1" "4.9-1" "4.9-2" "4.9-3"] |rig| {
        let bare = || rig.client.get(format!("{}/v3/health", rig.running.api_url()));
        assert_eq!(rig.send(bare()).await, (200, json!({"status": "OK"})));
        rig.steer("faults", json!({"match": {"path": "/v3/health"}, "fault": {"status": {"code": 503}}})).await;
        assert_eq!(rig.send(bare()).await.0, 503);
    }

    contract_accounts ["5-6"] |rig| {
        let uuid = rig.ordered(order()).await;
        rig.steer("accounts", json!({"name": "other", "key": "other-key"})).await;
        let url = format!("{}{SERVERS}/{uuid}", rig.running.api_url());
        let other = rig.client.get(url).header("PRIVATE-TOKEN", "other-key");
        assert_eq!(rig.send(other).await.0, 404);
    }
}
