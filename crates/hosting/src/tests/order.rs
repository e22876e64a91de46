//! The outcomes of an order, case by case.

use serde_json::{Value, json};

use super::{
    ORDER_TAG, UUID, order, record,
    script::{Script, answer, cut},
};
use crate::transport::{Cut, Response};
use hosting_types::OrderResult;

async fn outcome(response: Response) -> OrderResult {
    let (client, script) = Script::client(vec![Ok(response)]);
    let outcome = client.order(&order(), ORDER_TAG).await;
    assert_eq!(script.requests().len(), 1);
    outcome
}

fn sample_error() -> Box<dyn std::error::Error + Send + Sync> {
    "a cause".into()
}

fn changed(field: &str, value: Value) -> Value {
    let mut record = record();
    record[field] = value;
    record
}

#[tokio::test]
async fn a_success_with_one_marked_record_is_created() {
    for status in [200, 201, 202] {
        for body in [record(), json!([record()])] {
            match outcome(answer(status, body.to_string())).await {
                OrderResult::Created(server) => assert_eq!(server.id.as_str(), UUID),
                other => panic!("{status}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn success_without_own_record_is_unknown() {
    let error = json!({"errorCode": 1, "errorMessage": "no", "errors": []});
    let bodies = [
        json!([]).to_string(),
        json!({}).to_string(),
        json!(null).to_string(),
        String::new(),
        "<html>fine</html>".to_owned(),
        record().to_string()[..40].to_owned(),
        json!([record(), record()]).to_string(),
        json!([record(), null]).to_string(),
        changed("uuid", json!(null)).to_string(),
        changed("uuid", json!("")).to_string(),
        changed("uuid", json!("17")).to_string(),
        changed("tags", json!([])).to_string(),
        changed("tags", json!(null)).to_string(),
        changed("tags", json!(7)).to_string(),
        changed("tags", json!(["fmo-order:another"])).to_string(),
        error.to_string(),
        json!([error]).to_string(),
    ];
    for body in bodies {
        let outcome = outcome(answer(200, body.clone())).await;
        assert!(matches!(outcome, OrderResult::Unknown(_)), "{body}");
    }
}

#[tokio::test]
async fn only_a_certain_status_is_a_refusal() {
    let certain = [400, 401, 403, 404, 405, 413, 415, 422, 429];
    for status in (300..600).filter(|status| *status != 304) {
        // A record in the body changes nothing: the status decides.
        let outcome = outcome(answer(status, record().to_string())).await;
        match outcome {
            OrderResult::Refused(error) => {
                assert!(certain.contains(&status), "{status}");
                assert!(!error.may_have_taken_effect());
                assert_eq!(error.status(), Some(status));
            }
            OrderResult::Unknown(_) => assert!(!certain.contains(&status), "{status}"),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_success_that_breaks_off_is_unknown() {
    // Even if the received part makes a record.
    let broken = cut(
        answer(200, record().to_string()),
        Cut::Broken(sample_error()),
    );
    assert!(matches!(outcome(broken).await, OrderResult::Unknown(_)));
    let large = cut(answer(200, record().to_string()), Cut::TooLarge);
    assert!(matches!(outcome(large).await, OrderResult::Unknown(_)));
}
