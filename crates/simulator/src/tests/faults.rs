//! Every fault, as a client meets it, and what it leaves behind.

use tokio::task::JoinSet;

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
async fn a_refusal_changes_nothing_and_happens_as_often_as_asked() {
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
async fn a_connection_dropped_before_changes_nothing() {
    let rig = rig_with(json!("dropBefore")).await;
    let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
    let error = request.send().await.unwrap_err();
    assert!(error.is_request() && error.status().is_none(), "{error:?}");
    let (machines, entry) = aftermath(&rig).await;
    assert_eq!((machines, &entry["effect"]), (0, &Value::Null));
    assert_eq!(
        (&entry["outcome"], &entry["status"]),
        (&json!("broken"), &Value::Null)
    );
}

#[tokio::test]
async fn a_connection_dropped_after_has_ordered() {
    let rig = rig_with(json!("dropAfter")).await;
    let request = rig.api(Method::POST, SERVERS).json(&body("a", &["t"]));
    let error = request.send().await.unwrap_err();
    assert!(error.is_request() && error.status().is_none(), "{error:?}");
    let (machines, entry) = aftermath(&rig).await;
    let machine = rig.look("machines").await[0]["uuid"].clone();
    assert_eq!((machines, &entry["effect"]["ordered"]), (1, &machine));
    assert_eq!(
        (&entry["outcome"], &entry["status"]),
        (&json!("broken"), &Value::Null)
    );
    assert_eq!(entry["order"], json!({"name": "a", "tags": ["t"]}));
}

#[tokio::test]
async fn a_status_comes_before_or_after_the_effect() {
    let rig = rig_with(json!({"status": {"code": 503}})).await;
    refused(rig.post(SERVERS, &body("a", &[])).await, 503);
    assert_eq!(aftermath(&rig).await.0, 0);

    let rig = rig_with(json!({"status": {"code": 502, "after": true}})).await;
    refused(rig.post(SERVERS, &body("a", &[])).await, 502);
    let (machines, entry) = aftermath(&rig).await;
    assert_eq!((machines, &entry["status"]), (1, &json!(502)));
    assert!(entry["effect"]["ordered"].is_string());

    let rig = rig_with(json!({"status": {"code": 429, "retryAfter": 7}})).await;
    let response = rig
        .api(Method::POST, SERVERS)
        .json(&body("a", &[]))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["retry-after"]
        ),
        (429, &"7".parse().unwrap())
    );
}

#[tokio::test]
async fn a_truncated_answer_has_a_good_head_and_half_a_body() {
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
async fn an_empty_and_an_oversized_body_come_with_status_200() {
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
async fn a_delay_holds_back_the_effect_or_only_the_answer() {
    for before in [true, false] {
        let rig = rig_with(json!({"delay": {"ms": 30_000, "before": before}})).await;
        let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
        let mut waiting = JoinSet::new();
        waiting.spawn(request.send());
        let arrived = async {
            loop {
                let entry = rig.look("ledger").await[0].clone();
                let effect = entry["effect"].is_object();
                if entry.is_object() && (effect || before) {
                    return entry;
                }
                tokio::task::yield_now().await;
            }
        };
        let entry = tokio::time::timeout(Duration::from_secs(10), arrived)
            .await
            .unwrap();
        assert_eq!(entry["outcome"], "pending");
        assert_eq!(
            rig.look("machines").await.as_array().unwrap().len(),
            usize::from(!before)
        );
        assert!(waiting.try_join_next().is_none(), "no answer yet");
    }
}

#[tokio::test]
async fn a_request_that_arrived_takes_effect_though_its_client_hung_up() {
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
async fn several_faults_of_one_rule_hit_together() {
    let rig = rig_with(json!([{"delay": {"ms": 50, "before": false}}, "dropAfter"])).await;
    assert!(
        rig.api(Method::POST, SERVERS)
            .json(&body("a", &[]))
            .send()
            .await
            .is_err()
    );
    assert_eq!(aftermath(&rig).await.0, 1);
}

#[tokio::test]
async fn a_status_comes_without_an_error_record_too() {
    let html = json!({"body": {"text": "<h1>Bad gateway</h1>", "contentType": "text/html"}});
    for (fault, kind, text, machines) in [
        (
            json!([{"status": {"code": 502}}, "emptyBody"]),
            "application/json",
            "",
            0,
        ),
        (
            json!([{"status": {"code": 502}}, html]),
            "text/html",
            "<h1>Bad gateway</h1>",
            0,
        ),
        (
            json!([{"status": {"code": 502, "after": true}}, {"body": {"text": "no"}}]),
            "text/plain; charset=utf-8",
            "no",
            1,
        ),
    ] {
        let rig = rig_with(fault).await;
        let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 502);
        assert_eq!(answer.headers()["content-type"], kind);
        assert_eq!(answer.text().await.unwrap(), text);
        assert_eq!(aftermath(&rig).await.0, machines);
    }
    let rig = rig_with(json!([{"status": {"code": 502}}, "dropAfter"])).await;
    let request = rig.api(Method::POST, SERVERS).json(&body("a", &[]));
    assert!(request.send().await.is_err(), "both at once");
    assert_eq!(aftermath(&rig).await.0, 0);
}
