//! Keys, whitelists and accounts (sections 4.1 and 5).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, SERVERS, START, error_record, order, shape};

cases! {
    contract_keys ["5-1" "5-4" "7-2" "2.2-1" "2.2-2" "2.2-3" "2.2-4" "4.1-10" "5-5"] |rig| {
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
        let (_, second) = rig.call("POST", LIST, json!({"ipStart": "10.0.0.1", "ipEnd": "10.0.0.1", "active": 0})).await;
        assert_eq!(second.as_array().unwrap().len(), 1);
        assert_ne!(second[0]["id"], added[0]["id"]);
        assert_eq!(rig.get(LIST).await.1, json!([added[0], second[0]]));
        for (field, bad) in [("ipRange", json!("x")), ("ipStart", json!("127.0.0.1")), ("active", json!(2)), ("active", Value::Null), ("more", json!(1))] {
            let mut broken = entry.clone();
            broken[field] = bad;
            rig.refused("POST", LIST, broken, 422).await;
        }
        for (start, end) in [(json!("127.0.0.1"), json!("::1")), (json!("127.0.0.1"), Value::Null), (Value::Null, json!("127.0.0.1")),
            (json!("127.0.0.9"), json!("127.0.0.1")), (Value::Null, Value::Null)] {
            rig.refused("POST", LIST, json!({"ipStart": start, "ipEnd": end, "active": 1}), 422).await;
        }
        assert_eq!(rig.ranged(LIST, "start=1,results=1").await, (200, second));
        let one = format!("{LIST}/{}", added[0]["id"]);
        let ends = json!({"ipStart": "127.0.0.1", "ipEnd": "127.0.0.9", "active": 1});
        rig.advance(60).await;
        let (status, changed) = rig.call("PUT", &one, ends).await;
        assert_eq!((status, &changed[0]["ipEnd"], &changed[0]["ipRange"]), (200, &json!("127.0.0.9"), &Value::Null));
        assert_eq!(changed.as_array().unwrap().len(), 1);
        assert_eq!(changed[0]["updatedAt"], START + 60);
        assert_eq!(rig.get(LIST).await.1[0], changed[0], "and it is kept");
        rig.refused("PUT", &one, json!({}), 422).await;
        rig.refused("PUT", &format!("{LIST}/77"), entry.clone(), 404).await;
        rig.refused("DELETE", &format!("{LIST}/77"), Value::Null, 404).await;
        for id in ["x", "1.5", "-1"] {
            rig.refused("PUT", &format!("{LIST}/{id}"), entry.clone(), 404).await;
            rig.refused("DELETE", &format!("{LIST}/{id}"), Value::Null, 404).await;
        }
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
        // Another key of the account, which the whitelist does not limit, moves the range.
        rig.steer("keys", json!({"key": "open-key", "valid": true})).await;
        for (first, last, status) in [("127.0.0.2", "127.255.255.255", 403), ("127.0.0.0", "127.0.0.1", 200), ("126.0.0.0", "127.0.0.0", 403),
            ("127.0.0.1", "127.0.0.1", 200), ("::", "ffff::", 403)] {
            let range = json!({"ipStart": first, "ipEnd": last, "active": 1});
            let url = format!("{}{LIST}/{}", rig.running.api_url(), off[0]["id"]);
            let put = rig.client.put(url).header("PRIVATE-TOKEN", "open-key").json(&range);
            assert_eq!(rig.send(put).await.0, 200);
            assert_eq!(rig.get(SERVERS).await.0, status, "{first} to {last}");
        }
    }

    contract_accounts ["5-6"] |rig| {
        let uuid = rig.delivered(order()).await;
        let (_, key) = rig.call("POST", "/v3/sshKey", json!({"name": "me", "publicKey": "ssh-rsa AAAA"})).await;
        rig.steer("accounts", json!({"name": "other", "key": "other-key"})).await;
        let call = async |method: &str, path: &str| {
            let body = match path {
                path if path.contains("/tags/") => json!({"tag": "x"}),
                path if path.ends_with("/commands") => json!({"command": "reboot"}),
                _ => json!({"ipRange": "10.0.0.0/8", "active": 1}),
            };
            let url = format!("{}{path}", rig.running.api_url());
            let request = rig.client.request(method.parse().unwrap(), url).header("PRIVATE-TOKEN", "other-key");
            rig.send(request.json(&body)).await
        };
        let key = format!("/v3/sshKey/{}", key[0]["uuid"].as_str().unwrap());
        let server = |rest: &str| format!("{SERVERS}/{uuid}{rest}");
        for (method, path) in [("GET", server("")), ("DELETE", server("")), ("GET", server("/commands")), ("POST", server("/commands")),
            ("GET", server("/lshw")), ("POST", server("/tag/x")), ("GET", "/v3/flexMetal/tags/t".into()), ("PUT", "/v3/flexMetal/tags/t".into()),
            ("DELETE", "/v3/flexMetal/tags/t".into()), ("GET", key.clone()), ("DELETE", key), ("GET", "/v3/account/apiKey/1/whitelist".into()),
            ("POST", "/v3/account/apiKey/1/whitelist".into()), ("GET", "/v3/host/1001".into()), ("PUT", "/v3/host/1001/stop".into()),
            ("GET", "/v3/host/100001".into()), ("PUT", "/v3/host/100001/stop".into())] {
            let (status, record) = call(method, &path).await;
            assert_eq!(status, 404, "{method} {path}");
            error_record(&record);
        }
        for path in [SERVERS, "/v3/flexMetal/tags", "/v3/sshKey", "/v3/flexMetal/usage"] {
            assert_eq!(call("GET", path).await, (200, json!([])), "{path}");
        }
        assert_eq!(rig.server(&uuid).await["tags"], json!(["t"]));
        // No two accounts share a host, an order's number or an address.
        let url = format!("{}{SERVERS}", rig.running.api_url());
        let ordered = rig.client.post(url).header("PRIVATE-TOKEN", "other-key").json(&order());
        assert_eq!(rig.send(ordered).await.0, 200);
        rig.advance(DELIVERY).await;
        let (mine, others) = (rig.get("/v3/host").await.1, call("GET", "/v3/host").await.1);
        for (host, other) in mine.as_array().unwrap().iter().zip(others.as_array().unwrap()) {
            assert_eq!((&host["status"], &other["status"]), (&json!("running"), &json!("running")));
            for field in ["id", "serverId"] {
                assert_ne!(host[field], other[field]);
            }
            let addresses = |host: &Value| -> Vec<Value> {
                host["ipAddress"].as_array().unwrap().iter().map(|one| one["ipAddress"].clone()).collect()
            };
            assert!(!addresses(other).is_empty() && addresses(other).iter().all(|one| !addresses(host).contains(one)));
        }
        assert_eq!((&mine[2]["fmOrderId"], &others[2]["fmOrderId"]), (&json!(1), &json!(2)));
    }
}
