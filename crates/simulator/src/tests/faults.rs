//! Every fault, as a client meets it, and what it leaves behind.

use super::*;

async fn rig_with(fault: Value) -> Rig {
    let rig = Rig::new().await;
    let rule = json!({"match": {"method": "POST", "path": SERVERS}, "fault": fault, "count": 1});
    rig.steer("faults", rule).await;
    rig
}

/// Machines there are, and the ledger's last entry.
async fn aftermath(rig: &Rig) -> (usize, Value) {
    let machines = rig.look("machines").await.as_array().unwrap().len();
    let ledger = rig.look("ledger").await;
    (machines, ledger.as_array().unwrap().last().unwrap().clone())
}

#[tokio::test]
async fn refusal_obeys_count_and_changes_nothing() {
    let rig = rig_with(json!({"refuse": {"status": 422, "message": "not today"}})).await;
    assert_eq!(
        refused(rig.post(SERVERS, &body("a", &[])).await, 422),
        "not today"
    );
    let (machines, entry) = aftermath(&rig).await;
    assert_eq!(
        (machines, &entry["effect"], &entry["status"]),
        (0, &Value::Null, &json!(422))
    );
    assert_eq!(entry["fault"]["id"], 1);
    rig.order("a", &[]).await;
    let rules = rig.look("faults").await;
    assert_eq!(
        (&rules[0]["matched"], &rules[0]["applied"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn ledger_has_effect_of_dropped_connection() {
    for (fault, made) in [
        (json!("dropBefore"), 0),
        (json!("dropAfter"), 1),
        // Several faults of one rule hit together.
        (json!([{"delay": {"ms": 50}}, "dropAfter"]), 1),
        (json!([{"status": {"code": 502}}, "dropAfter"]), 0),
    ] {
        let rig = rig_with(fault.clone()).await;
        let request = rig.api(Method::POST, SERVERS).json(&body("a", &["t"]));
        let error = request.send().await.unwrap_err();
        assert!(error.is_request() && error.status().is_none(), "{error:?}");
        let (machines, entry) = aftermath(&rig).await;
        assert_eq!((machines, entry["effect"].is_object()), (made, made == 1));
        assert_eq!(
            (&entry["outcome"], &entry["status"]),
            (&json!("broken"), &Value::Null),
            "{fault}"
        );
        assert_eq!(entry["order"], json!({"name": "a", "tags": ["t"]}));
        if made == 1 {
            let machine = rig.look("machines").await[0]["uuid"].clone();
            assert_eq!(entry["effect"], json!({"ordered": machine}));
        }
    }
}

#[tokio::test]
async fn truncated_answer_has_only_half_its_body() {
    let rig = rig_with(json!("truncate")).await;
    let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let promised = response.content_length().unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(u64::try_from(first.len()).unwrap(), promised / 2);
    assert!(response.chunk().await.is_err());
    assert_eq!(aftermath(&rig).await.0, 1);
}

#[tokio::test]
async fn empty_or_oversized_body_has_status_200() {
    let rig = rig_with(json!("emptyBody")).await;
    let response = rig
        .api(Method::POST, SERVERS)
        .json(&body("a", &[]))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            response.bytes().await.unwrap().len()
        ),
        (200, 0)
    );
    assert_eq!(aftermath(&rig).await.0, 1);

    let rig = rig_with(json!({"oversize": {"bytes": 3_000_000}})).await;
    let response = rig
        .api(Method::POST, SERVERS)
        .json(&body("a", &[]))
        .send()
        .await
        .unwrap();
    let text = response.text().await.unwrap();
    assert!(text.len() > 3_000_000);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer[0]["name"], "a");
}

#[tokio::test]
async fn abandoned_request_still_takes_effect() {
    let rig = rig_with(json!({"delay": {"ms": 200, "before": true}})).await;
    let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
    let error = request
        .timeout(Duration::from_millis(100))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout());
    let ordered = async {
        while rig.look("machines").await == json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ordered)
        .await
        .unwrap();
}

#[tokio::test]
async fn installation_log_explains_the_failure() {
    let rig = Rig::new().await;
    let key = "018f0000-0000-7000-8000-000000000000";
    let install = json!({"os": {"id": 104}, "sshKeyId": key});
    let fail = json!({"fault": {"fail": {"message": "disk broke"}}, "count": 1});
    rig.steer("faults", fail).await;
    let last = async |host: &str| {
        let answer = rig
            .post(&format!("/v3/host/{host}/os/install"), &install)
            .await;
        assert_eq!(answer.0, 200, "{}", answer.1);
        rig.advance(300).await;
        let (_, log) = rig.get(&format!("/v3/host/{host}/os/installLog")).await;
        log.as_array().unwrap().last().unwrap().clone()
    };
    let failed = last("1001").await;
    assert_eq!(
        failed["issueDescription"],
        "Installation failed: disk broke"
    );
    assert_eq!(
        (&failed["issueOpen"], &failed["issueResolved"]),
        (&json!(1), &json!(""))
    );
    rig.steer("settings", json!({"commandFailureRate": 1}))
        .await;
    let failed = last("1002").await;
    assert_eq!(failed["issueDescription"], "Installation failed");
}
