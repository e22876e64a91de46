//! Error answers: their kind, their text, and how long to wait.

use std::time::Duration;

use serde_json::json;

use super::{
    KEY, id,
    script::{Script, answer, with_header},
};
use crate::transport::{Response, TransportError};
use hosting_types::{Error, Refusal};

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
async fn unbuildable_request_is_not_sent() {
    let (client, _) = Script::client(vec![Err(TransportError::Build("odd".into()))]);
    let error = client.server(&id()).await.unwrap_err();
    assert_eq!(
        (error.category(), error.status()),
        ("RequestNotBuilt", None)
    );
    assert!(!error.is_retryable_as_is() && !error.may_have_taken_effect());
}

#[tokio::test]
async fn error_record_is_read_alone_or_in_array() {
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
async fn body_of_another_form_is_not_shown() {
    let bodies = [
        "",
        "null",
        "[]",
        "{}",
        "7",
        "\"c4nary\"",
        "c4nary",
        r#"{"errorMessage":null,"errors":null}"#,
        r#"{"message":"c4nary"}"#,
        r#"{"error":"c4nary","detail":"c4nary"}"#,
        r#"{"kind":"Status","message":"secrets c4nary is forbidden","code":403}"#,
        r#"{"errors":[{"property":"c4nary","message":"c4nary"}]}"#,
        r#"{"errorCode":"c4nary","errors":[{"property":"c4nary","message":"c4nary"}]}"#,
        r#"[["c4nary"]]"#,
        "<html><head><title>c4nary</title></head></html>",
        "{\"errorMessage\":\"c4nary",
    ];
    for body in bodies {
        let refusal = refusal(body).await;
        assert_eq!(
            refusal.to_string(),
            "status 422: Unprocessable Entity",
            "{body}"
        );
        assert!(!format!("{refusal:?}").contains("c4nary"), "{body}");
    }
    let odd = error(answer(599, "c4nary")).await;
    assert!(!odd.explain().contains("c4nary") && odd.explain().contains("599"));
}

#[tokio::test]
async fn answer_from_elsewhere_names_base_url() {
    let page = || answer(404, "<html>c4nary</html>");
    let html = |response| with_header(response, "content-type", "Text/HTML; charset=utf-8");
    let to = |place| with_header(answer(302, ""), "location", place);
    let hint = "the answer is text/html, not JSON; check baseURL";
    for (response, expected) in [
        (html(page()), format!("status 404: Not Found; {hint}")),
        (
            html(answer(403, "")),
            format!("status 403: Forbidden; {hint}"),
        ),
        (
            to("https://user:pw@login.example.com/c4nary"),
            "status 302: Found; it redirects to login.example.com; check baseURL".to_owned(),
        ),
        (
            to("/c4nary"),
            "status 302: Found; it redirects to another path; check baseURL".to_owned(),
        ),
        // The same without HTML, and answers of a gateway while the API is down.
        (page(), "status 404: Not Found".to_owned()),
        (html(answer(502, "")), "status 502: Bad Gateway".to_owned()),
    ] {
        let text = error(response).await.refusal().unwrap().to_string();
        assert_eq!(text, expected);
    }
    let (client, _) = Script::client(vec![Ok(html(answer(200, "<html>c4nary</html>")))]);
    let text = client.server(&id()).await.unwrap_err().explain();
    assert!(text.contains(hint) && !text.contains("c4nary"), "{text}");
    // The API's own refusal.
    let record = saying("no");
    let own = with_header(answer(404, record), "content-type", "application/json");
    assert!(!error(own).await.explain().contains("baseURL"));
}

/// An error record with this text.
fn saying(text: &str) -> String {
    json!({"errorCode": 1, "errorMessage": text, "errors": []}).to_string()
}

#[tokio::test]
async fn what_is_shown_of_a_refusal_is_short() {
    let entry = json!({"property": "p".repeat(1500), "message": "m".repeat(1500)});
    let record =
        json!({"errorCode": 1, "errorMessage": "x".repeat(2000), "errors": vec![entry; 16]});
    let long = error(answer(422, record.to_string())).await;
    let text = long.refusal().unwrap().to_string();
    assert!(text.len() <= 520 && text.ends_with('…'), "{}", text.len());
    assert!(long.explain().len() <= 1030, "{}", long.explain().len());
}

#[tokio::test]
async fn nothing_that_is_shown_reorders_or_hides_text() {
    let tricks = "a\u{61C}\u{200B}\u{200E}\u{200F}\u{202A}\u{202E}\u{2066}\u{2069}\u{206F}\u{180E}\
                  \u{3164}\u{FE0F}\u{FEFF}\u{E0001}\u{E0061}\u{E007F}\u{E0100}\u{1BCA0}\u{1BCA3}\u{1D173}\u{1D17A}b\u{2028}c\u{2029}d\u{85}e\u{1B}[2Jf";
    let refusal = refusal(saying(tricks)).await;
    assert_eq!(refusal.message, "ab c d e [2Jf");
}

#[tokio::test]
async fn refusal_texts_are_cleaned_and_capped() {
    let long = refusal(saying(&"x".repeat(10_000))).await;
    assert_eq!(long.message.len(), 1024);

    // Cut within the key: no part of it may remain.
    let edge = refusal(saying(&format!("{}{KEY}", "x".repeat(1010)))).await;
    assert!(!edge.message.contains(&KEY[..4]), "{}", edge.message);

    // Split by a control character, escaped, and in a field.
    let (front, back) = KEY.split_at(9);
    let split = refusal(saying(&format!("{front}\u{200b}{back}"))).await;
    assert_eq!(split.message, "[API key]");
    let escaped = refusal(saying(&format!("escaped: {}", KEY.replace('/', "\\/")))).await;
    assert_eq!(escaped.message, "escaped: [API key]");
    let encoded = refusal(saying("?token=k3y%2FOf%2Ban-Account%3D0123456789&a")).await;
    assert_eq!(encoded.message, "?token=[API key]&a");
    // Cut in the echo.
    let begin = refusal(saying(&format!("no such key: {}...", &KEY[..20]))).await;
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
    let text = client.server(&id()).await.unwrap_err().explain();
    assert!(text.contains("bad [2J line x"), "{text}");
    assert!(!text.chars().any(char::is_control) && text.len() < 2048);
}

#[tokio::test]
async fn each_error_source_is_explained_once() {
    let (client, _) = Script::client(vec![Err(TransportError::Connect("refused".into()))]);
    let error = client.server(&id()).await.unwrap_err();
    assert_eq!(
        error.explain(),
        "The request was not sent; no connection to the hosting API: refused"
    );
    let error = client.tag("a b").await.unwrap_err();
    assert_eq!(error.explain().matches("1 to 64").count(), 1);
}
