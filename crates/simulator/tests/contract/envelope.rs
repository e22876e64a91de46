//! What is around records and errors: arrays, content types, statuses that
//! every operation may have (sections 1, 2.2 and 7).

use serde_json::{Value, json};

use crate::cases;
use crate::page::operations;
use crate::rig::{Rig, SERVERS, error_record, order, shape, with};

const TAGS: &str = "/v3/flexMetal/tags";

/// A path of the page with something in the place of each parameter.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true => "1",
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Status and content type of an answer to a tag, sent with this header.
async fn typed(rig: &Rig, kind: Option<&str>, body: &'static str) -> (u16, String) {
    let mut request = rig.request("POST", TAGS).body(body);
    if let Some(kind) = kind {
        request = request.header("Content-Type", kind);
    }
    let answer = request.send().await.unwrap();
    let kind = answer.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    (answer.status().as_u16(), kind)
}

cases! {
    contract_one_record_comes_in_an_array ["1-18"] |rig| {
        let uuid = rig.delivered(with("os", json!({"slug": "windows-2022"}))).await;
        let key = json!({"name": "me", "publicKey": "ssh-rsa AAAA"});
        let (_, stored) = rig.call("POST", "/v3/sshKey", key.clone()).await;
        let stored = stored[0]["uuid"].as_str().unwrap().to_owned();
        let install = json!({"os": {"id": 104}, "sshKeyId": stored});
        let of = |rest: &str| format!("{SERVERS}/{uuid}{rest}");
        for (method, path, body) in [
            ("GET", of("/lshw"), Value::Null),
            ("GET", of("/rootPassword"), Value::Null),
            ("POST", of("/commands"), json!({"command": "reboot"})),
            ("POST", TAGS.to_owned(), json!({"tag": "x"})),
            ("GET", format!("{TAGS}/x"), Value::Null),
            ("PUT", format!("{TAGS}/x"), json!({"tag": "y"})),
            ("POST", "/v3/sshKey".to_owned(), key),
            ("GET", format!("/v3/sshKey/{stored}"), Value::Null),
            ("GET", "/v3/host/1001".to_owned(), Value::Null),
            ("PUT", "/v3/host/1001/stop".to_owned(), Value::Null),
            ("POST", "/v3/host/1001/os/install".to_owned(), install),
        ] {
            let (status, answer) = rig.call(method, &path, body).await;
            assert_eq!(status, 200, "{method} {path}: {answer}");
            assert_eq!(answer.as_array().map(Vec::len), Some(1), "{method} {path}: {answer}");
        }
        assert!(rig.get("/v3/health").await.1.is_object());
    }

    contract_content_types ["1-3" "1-20" "1-21"] |rig| {
        let kinds = [
            Some("application/json"), None, Some("text/plain"), Some("application/x-www-form-urlencoded"),
            Some("application/json; charset=utf-8"),
        ];
        for (kind, body) in kinds.into_iter().zip(
            [r#"{"tag": "a"}"#, r#"{"tag": "b"}"#, r#"{"tag": "c"}"#, r#"{"tag": "d"}"#, r#"{"tag": "e"}"#],
        ) {
            assert_eq!(typed(&rig, kind, body).await, (200, "application/json".into()), "{kind:?}");
        }
        for (body, status) in [("tag=f", 400), (r#"{"tag": "no blank"}"#, 422)] {
            assert_eq!(typed(&rig, None, body).await, (status, "application/json".into()), "{body}");
        }
    }

    contract_errors_of_every_operation ["7-11" "7-12" "7-13"] |rig| {
        for operation in operations() {
            let (method, path) = operation.split_once(' ').unwrap();
            let path = filled(path);
            let url = format!("{}{path}", rig.running.api_url());
            let keyless = rig.client.request(method.parse().unwrap(), url).json(&json!({}));
            let (status, record) = rig.send(keyless).await;
            match operation {
                "GET /v3/health" => assert_eq!(status, 200),
                _ => {
                    assert_eq!(status, 403, "{operation}");
                    error_record(&record);
                }
            }
            rig.steer("faults", json!({"fault": {"status": {"code": 500}}, "count": 1})).await;
            rig.refused(method, &path, json!({}), 500).await;
        }
        rig.steer("faults", json!({"fault": {"status": {"code": 503}}, "count": 1})).await;
        rig.refused("GET", "/v3/health", Value::Null, 503).await;
    }

    contract_every_error_has_its_record ["2.2-8" "7-14"] |rig| {
        rig.ordered(order()).await;
        rig.call("POST", TAGS, json!({"tag": "x"})).await;
        let change = json!({"currentPassword": "wrong", "newPassword": "x"});
        for _ in 0..5 {
            rig.refused("PUT", "/v3/account/password", change.clone(), 401).await;
        }
        let mut codes = Vec::new();
        for (method, path, body, status) in [
            ("DELETE", "/v3/sshKey/none", json!({}), 400),
            ("DELETE", TAGS, json!({}), 405),
            ("PUT", "/v3/flexMetal/tags/x", json!({"tag": "t"}), 409),
            ("POST", TAGS, json!({"tag": "no blank"}), 422),
            ("POST", TAGS, json!({"tag": "t"}), 422),
            ("PUT", "/v3/account/password", change, 429),
        ] {
            let record = rig.refused(method, path, body, status).await;
            shape(&record, "errorCode:i errorMessage:s errors:a");
            assert!(!record["errorMessage"].as_str().unwrap().is_empty(), "{record}");
            codes.push(record["errorCode"].as_i64().unwrap());
        }
        assert!(!codes.contains(&10_001), "that is for what is not there: {codes:?}");
        let record = rig.refused("GET", "/v3/flexMetal/tags/none", Value::Null, 404).await;
        assert_eq!(record["errorCode"], 10_001);
    }
}
