//! Error answers: their kind, their text, and how long to wait.

use std::time::Duration;

use serde_json::json;

use super::script::{Script, answer, with_header};
use super::{KEY, id};
use crate::transport::{Response, TransportError};
use crate::{Error, Refusal};

async fn error(response: Response) -> Error {
    let (client, _) = Script::client(vec![Ok(response)]);
    client.server(&id()).await.unwrap_err()
}

async fn refusal(body: impl Into<Vec<u8>>) -> Refusal {
    match error(answer(422, body)).await {
        Error::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn not_modified_is_no_answer_and_leaves_doubt() {
    let error = error(answer(304, "")).await;
    assert_eq!(
        (error.category(), error.status()),
        ("UnexpectedAnswer", Some(304))
    );
    assert!(!error.is_retryable_as_is() && error.may_have_taken_effect());
}

#[tokio::test]
async fn a_request_that_cannot_be_built_was_not_sent() {
    let (client, _) = Script::client(vec![Err(TransportError::Build("odd".into()))]);
    let error = client.server(&id()).await.unwrap_err();
    assert_eq!(
        (error.category(), error.status()),
        ("RequestNotBuilt", None)
    );
    assert!(!error.is_retryable_as_is() && !error.may_have_taken_effect());
}

#[tokio::test]
async fn the_error_record_is_read_alone_and_in_an_array() {
    let record = json!({"errorCode": 10001, "errorMessage": "Entity not found",
        "errors": [{"property": "name", "message": "is taken"}]});
    for body in [record.clone(), json!([record])] {
        let refusal = refusal(body.to_string()).await;
        assert_eq!(refusal.code, Some(10001));
        assert_eq!(refusal.message, "Entity not found");
        assert_eq!(refusal.fields, [("name".to_owned(), "is taken".to_owned())]);
        assert_eq!(
            refusal.to_string(),
            "status 422, code 10001: Entity not found (name: is taken)"
        );
    }
}

#[tokio::test]
async fn a_body_in_another_form_still_says_something() {
    let cases = [
        ("", "Unprocessable Entity"),
        ("null", "Unprocessable Entity"),
        ("[]", "Unprocessable Entity"),
        ("{}", "Unprocessable Entity"),
        ("\"out of order\"", "out of order"),
        ("out of\r\norder", "out of order"),
        (
            r#"{"errorMessage":null,"errors":null}"#,
            "Unprocessable Entity",
        ),
        (r#"{"message":"blocked"}"#, "blocked"),
        (
            "<html><head><title>Bad gateway</title><style>p{a:b}</style>\
             <script>alert('x')</script></head><p>Try later</p>",
            "Bad gateway Try later",
        ),
        ("<", "Unprocessable Entity"),
        ("<script>alert(1)", "Unprocessable Entity"),
    ];
    for (body, message) in cases {
        assert_eq!(refusal(body).await.message, message, "{body}");
    }
}

#[tokio::test]
async fn texts_are_cleaned_capped_and_free_of_the_key() {
    let long = refusal("x".repeat(100_000)).await;
    assert_eq!(long.message.len(), 1024);

    // Cut within the key: no part of it may be left.
    let edge = refusal(format!("{}{KEY}", "x".repeat(1010))).await;
    assert!(!edge.message.contains(&KEY[..4]), "{}", edge.message);

    // Split by a control character, escaped, and in a field.
    let (front, back) = KEY.split_at(9);
    let split = refusal(format!("{front}\u{200b}{back}")).await;
    assert_eq!(split.message, "[API key]");
    let escaped = refusal(format!("not json: {}", KEY.replace('/', "\\/"))).await;
    assert_eq!(escaped.message, "not json: [API key]");
    let encoded = refusal("?token=k3y%2FOf%2Ban-Account%3D0123456789&a").await;
    assert_eq!(encoded.message, "?token=[API key]&a");
    // Cut in the echo.
    let begin = refusal(format!("no such key: {}...", &KEY[..20])).await;
    assert_eq!(begin.message, "no such key: [API key]...");
    let field = json!({"errorCode": 1, "errorMessage": KEY,
        "errors": [{"property": KEY, "message": format!("a {KEY}")}]});
    let field = refusal(field.to_string()).await;
    assert_eq!(field.message, "[API key]");
    assert_eq!(
        field.fields,
        [("[API key]".to_owned(), "a [API key]".to_owned())]
    );

    let many: Vec<_> = (0..1000)
        .map(|n| json!({"property": n.to_string(), "message": "m"}))
        .collect();
    let many = json!({"errorCode": 1, "errorMessage": "m", "errors": many});
    assert_eq!(refusal(many.to_string()).await.fields.len(), 16);
}

#[tokio::test]
async fn an_undecodable_answer_shows_nothing_of_its_body() {
    let error = error(answer(200, format!("[{KEY}, \"secret\"]"))).await;
    let text = format!("{error:?} {}", error.explain());
    assert!(!text.contains(KEY) && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    let waits = async |status: u16, header: &str, date: Option<&str>| {
        let mut response = with_header(answer(status, ""), "retry-after", header);
        if let Some(date) = date {
            response = with_header(response, "date", date);
        }
        error(response).await.retry_after()
    };
    let wait = async |header: &str, date: Option<&str>| waits(429, header, date).await;
    let now = Some("Sat, 21 Nov 2026 09:00:00 GMT");
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(wait("17", None).await, seconds(17));
    assert_eq!(
        wait("Sat, 21 Nov 2026 09:01:30 GMT", now).await,
        seconds(90)
    );
    assert_eq!(wait("Sat, 21 Nov 2026 08:00:00 GMT", now).await, seconds(0));
    assert_eq!(wait("18446744073709551615", None).await, seconds(86_400));
    assert_eq!(
        wait("Fri, 21 Nov 2036 08:00:00 GMT", now).await,
        seconds(86_400)
    );
    assert_eq!(
        wait("Mon, 01 Jan 2001 00:00:00 GMT", None).await,
        seconds(0)
    );
    // With any answer, not only with 429.
    for status in [301, 403, 409, 422, 500, 503] {
        assert_eq!(waits(status, "120", None).await, seconds(120), "{status}");
    }
    assert_eq!(wait("soon", None).await, None);
    assert_eq!(wait("-5", None).await, None);
}

#[tokio::test]
async fn causes_are_cleaned_and_capped_as_other_texts() {
    let cause = format!("bad\u{1b}[2J\r\nline {}", "x".repeat(100_000));
    let (client, _) = Script::client(vec![Err(TransportError::Interrupted(cause.into()))]);
    let told = client.server(&id()).await.unwrap_err().explain();
    assert!(told.contains("bad [2J line x"), "{told}");
    assert!(!told.chars().any(char::is_control) && told.len() < 2048);
}

#[tokio::test]
async fn the_causes_are_told_once_each() {
    let (client, _) = Script::client(vec![Err(TransportError::Connect("refused".into()))]);
    let error = client.server(&id()).await.unwrap_err();
    assert_eq!(
        error.explain(),
        "the request was not sent: no connection to the hosting API: refused"
    );
    let error = client.tag("a b").await.unwrap_err();
    assert_eq!(error.explain().matches("1 to 64").count(), 1);
}
