//! What holds for every call: paths, bodies, errors, lost answers (sections 1 and 7).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, error_record, order, with};

cases! {
    contract_every_call ["1-4" "1-5" "1-8" "1-13" "2.2-5" "4.4-28" "7-3" "7-6" "4.1-11" "4.2-11" "1-14" "1-17" "4.4-29"] |rig| {
        let typed = rig.request("GET", SERVERS).header("Content-Type", "application/json");
        assert_eq!(rig.send(typed).await, (200, json!([])));
        let uuid = rig.ordered(order()).await;
        for path in ["/v3/flexMetal/location", "/v3/flexMetal/tags", "/v3/host", "/v3/operatingsystem"] {
            let (status, list) = rig.get(&format!("{path}/")).await;
            assert_eq!((status, list), rig.get(path).await, "{path}");
        }
        rig.call("POST", "/v3/flexMetal/tags/", json!({"tag": "slash"})).await;
        let bare = rig.request("DELETE", "/v3/flexMetal/tags/slash/").header("Content-Type", "application/json");
        assert_eq!(rig.send(bare).await, (204, Value::Null));
        let released = rig.ordered(order()).await;
        let bare = rig.request("DELETE", &format!("{SERVERS}/{released}")).header("Content-Type", "application/json");
        assert_eq!(rig.send(bare).await.1[0]["status"], "releasing");
        let (_, one) = rig.get(&format!("{SERVERS}/{uuid}/")).await;
        assert_eq!(one.as_array().unwrap().len(), 1);
        assert_eq!(rig.get(&format!("{SERVERS}/{uuid}")).await.1, one);
        rig.refused("GET", "/v3/none", Value::Null, 404).await;
        // HEAD is a method like any other; an answer to it has no body.
        for (path, status, allowed) in [(SERVERS, 405, Some("GET,POST")), ("/v3/health", 405, Some("GET")), ("/v3/host/1001/start", 405, Some("PUT")), ("/v3/none", 404, None)] {
            let answer = rig.request("HEAD", path).send().await.unwrap();
            let methods = answer.headers().get("allow").map(|methods| methods.to_str().unwrap().to_owned());
            assert_eq!((answer.status().as_u16(), methods.as_deref()), (status, allowed), "{path}");
        }
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
        let one = format!("{SERVERS}/{}", rig.delivered(order()).await);
        let entry = "/v3/account/apiKey/1/whitelist";
        for (method, path) in [("POST", "/v3/flexMetal/tags"), ("PUT", "/v3/flexMetal/tags/t"), ("PATCH", one.as_str()), ("POST", entry),
            ("PUT", "/v3/account/password"), ("POST", "/v3/account/password/reset"), ("POST", "/v3/sshKey"), ("POST", "/v3/host/1001/os/install")] {
            for text in ["", "{", "[]"] {
                let (status, record) = rig.send(rig.request(method, path).body(text)).await;
                assert_eq!(status, 400, "{method} {path} {text:?}");
                error_record(&record);
            }
        }
        let more = |mut body: Value| {
            body["more"] = json!(1);
            body
        };
        for (method, path, body) in [("POST", "/v3/flexMetal/tags", json!({"tag": "x"})), ("PATCH", one.as_str(), json!({})),
            ("POST", &format!("{one}/commands"), json!({"command": "reboot"})), ("POST", "/v3/sshKey", json!({"name": "x", "publicKey": "ssh-rsa AAAA"})),
            ("POST", "/v3/account/password/reset", json!({"emailAddress": "owner@example.com"}))] {
            rig.refused(method, path, more(body), 422).await;
        }
        rig.turn("unknownFields", "ignore").await;
        assert_eq!(rig.call("POST", "/v3/flexMetal/tags", more(json!({"tag": "x"}))).await.0, 200);
    }

    contract_answers_get_lost ["1-16" "7-7" "7-8"] |rig| {

        let orders = json!({"method": "POST", "path": SERVERS});
        let slow = json!([{"delay": {"ms": 20, "before": true}}, {"delay": {"ms": 20}}]);
        rig.steer("faults", json!({"match": orders, "fault": slow, "count": 1})).await;
        rig.ordered(order()).await;
        rig.steer("faults", json!({"match": orders, "fault": "dropAfter", "count": 1})).await;
        assert!(rig.request("POST", SERVERS).json(&with("name", json!("lost"))).send().await.is_err());
        assert_eq!(rig.get(SERVERS).await.1[1]["name"], "lost", "the work went on");
        for code in [429, 503] {
            rig.steer("faults", json!({"fault": {"status": {"code": code, "retryAfter": 7}}, "count": 1})).await;
            let answer = rig.request("GET", SERVERS).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (code, &"7".parse().unwrap()));
        }
        let html = json!({"body": {"text": "<h1>Bad gateway</h1>", "contentType": "text/html"}});
        let plain = json!({"body": {"text": "no"}});
        for (fault, kind, text) in [(json!("emptyBody"), "", ""), (plain, "text/plain", "no"), (html, "text/html", "<h1>Bad gateway</h1>")] {
            rig.steer("faults", json!({"fault": [{"status": {"code": 502}}, fault], "count": 1})).await;
            let answer = rig.request("GET", SERVERS).send().await.unwrap();
            assert_eq!(answer.status(), 502);
            let sent = answer.headers().get("content-type").map(|sent| sent.to_str().unwrap().to_owned());
            assert!(sent.is_some_and(|sent| sent.starts_with(kind)));
            assert_eq!(answer.text().await.unwrap(), text);
        }
    }

    contract_health ["2.23-1" "4.9-1" "4.9-2" "4.9-3"] |rig| {
        let bare = || rig.client.get(format!("{}/v3/health", rig.running.api_url()));
        assert_eq!(rig.send(bare()).await, (200, json!({"status": "OK"})));
        rig.steer("faults", json!({"match": {"path": "/v3/health"}, "fault": {"status": {"code": 503}}})).await;
        assert_eq!(rig.send(bare()).await.0, 503);
    }
}
