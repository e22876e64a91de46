//! The outcomes of an order, case by case.

use serde_json::{Value, json};

use super::script::{Script, answer, cut};
use super::{KEY, ORDER_TAG, UUID, order, record};
use crate::error::NotSent;
use crate::transport::{Cut, Response, TransportError};
use crate::{Error, OrderOutcome};

async fn outcome(result: Result<Response, TransportError>) -> OrderOutcome {
    let (client, script) = Script::client(vec![result]);
    let outcome = client.order(&order(), ORDER_TAG).await;
    assert_eq!(script.requests().len(), 1);
    outcome
}

fn cause() -> Box<dyn std::error::Error + Send + Sync> {
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
            match outcome(Ok(answer(status, body.to_string()))).await {
                OrderOutcome::Created(server) => assert_eq!(server.id.as_str(), UUID),
                other => panic!("{status}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_success_that_does_not_prove_itself_is_unknown() {
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
        let outcome = outcome(Ok(answer(200, body.clone()))).await;
        assert!(matches!(outcome, OrderOutcome::Unknown(_)), "{body}");
    }
}

#[tokio::test]
async fn only_a_status_that_leaves_no_doubt_is_a_refusal() {
    let certain = [400, 401, 403, 404, 405, 413, 415, 422, 429];
    for status in (300..600).filter(|status| *status != 304) {
        // A record in the body changes nothing: the status has spoken.
        let outcome = outcome(Ok(answer(status, record().to_string()))).await;
        match outcome {
            OrderOutcome::Refused(error) => {
                assert!(certain.contains(&status), "{status}");
                assert!(!error.may_have_taken_effect());
                assert_eq!(error.status(), Some(status));
            }
            OrderOutcome::Unknown(_) => assert!(!certain.contains(&status), "{status}"),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_refusal_stays_one_when_its_text_breaks_off() {
    let broken = cut(answer(422, "{\"errorCo"), Cut::Broken(cause()));
    assert!(matches!(
        outcome(Ok(broken)).await,
        OrderOutcome::Refused(_)
    ));
    let large = cut(answer(403, "x"), Cut::TooLarge);
    assert!(matches!(
        outcome(Ok(large)).await,
        OrderOutcome::Refused(Error::AccessDenied(_))
    ));
}

#[tokio::test]
async fn a_success_that_breaks_off_is_unknown() {
    // Even where what came would make a record.
    let broken = cut(answer(200, record().to_string()), Cut::Broken(cause()));
    assert!(matches!(
        outcome(Ok(broken)).await,
        OrderOutcome::Unknown(_)
    ));
    let large = cut(answer(200, record().to_string()), Cut::TooLarge);
    assert!(matches!(outcome(Ok(large)).await, OrderOutcome::Unknown(_)));
}

#[tokio::test]
async fn what_never_left_is_not_sent() {
    for error in [
        TransportError::Connect(cause()),
        TransportError::Build(cause()),
    ] {
        assert!(matches!(
            outcome(Err(error)).await,
            OrderOutcome::NotSent(Error::NotSent(_))
        ));
    }
    let interrupted = outcome(Err(TransportError::Interrupted(cause()))).await;
    match interrupted {
        OrderOutcome::Unknown(why) => assert!(why.contains("a cause"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_order_that_breaks_a_rule_makes_no_request() {
    let (client, script) = Script::client(Vec::new());
    let mut unnamed = order();
    unnamed.name.clear();
    let mut unmarked = order();
    unmarked.tags.pop();
    for order in [unnamed, unmarked] {
        match client.order(&order, ORDER_TAG).await {
            OrderOutcome::NotSent(error) => {
                assert!(matches!(error, Error::NotSent(NotSent::Request(_))));
                assert!(!error.is_retryable_as_is());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn the_reason_of_an_unknown_outcome_is_safe_to_show() {
    let body = format!("\u{1b}[31m{KEY}\u{1b}[0m failed\r\nforged: line");
    match outcome(Ok(answer(502, body))).await {
        OrderOutcome::Unknown(why) => {
            assert!(why.contains("failed"), "{why}");
            assert!(!why.contains(KEY), "{why}");
            assert!(!why.contains(char::is_control), "{why:?}");
        }
        other => panic!("{other:?}"),
    }
}
