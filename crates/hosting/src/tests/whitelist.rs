//! A key's whitelist: its rules on the wire, and odd answers.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::script::{body, sent};
use hosting_types::{
    ApiKeyId, Error, Page, WhitelistEntryId,
    request::InvalidRequest,
    whitelist::{AddressRange, WhitelistRule},
};

fn rule(range: AddressRange) -> WhitelistRule {
    WhitelistRule {
        range,
        comments: Some("office".to_owned()),
        active: true,
    }
}

#[tokio::test]
async fn rule_is_sent_whole_with_nulls() {
    let [start, end] = ["2001:db8::1", "2001:db8::9"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let mut span = rule(AddressRange::Span(start, end));
    span.comments = None;
    span.active = false;
    for (rule, wanted) in [
        (
            rule(AddressRange::Net("192.0.2.77/24".parse().unwrap())),
            json!({"ipStart": null, "ipEnd": null, "ipRange": "192.0.2.0/24",
                "comments": "office", "active": 1}),
        ),
        (
            span,
            json!({"ipStart": "2001:db8::1", "ipEnd": "2001:db8::9", "ipRange": null,
                "comments": null, "active": 0}),
        ),
    ] {
        let (request, _) = sent(200, r#"[{"id":9}]"#, async |client| {
            client.add_to_whitelist(ApiKeyId(7), &rule).await
        })
        .await;
        assert_eq!(body(&request), wanted);
    }
}

#[test]
fn a_rule_has_both_ends_in_order() {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    for end in ["192.0.2.1", "2001:db8::1"] {
        let wrong = rule(AddressRange::Span(ip("192.0.2.9"), ip(end)));
        assert_eq!(wrong.check(), Err(InvalidRequest::AddressSpan), "{end}");
    }
    // Comments are free text.
    for comments in ["", "two\nlines", &"x".repeat(300)] {
        let mut free = rule(AddressRange::Net("192.0.2.0/24".parse().unwrap()));
        free.comments = Some(comments.to_owned());
        free.check().unwrap();
    }
}

#[tokio::test]
async fn whitelist_change_answer_needs_an_entry() {
    let (_, entries) = sent(200, r#"[{"id":-1}]"#, async |client| {
        client.whitelist(ApiKeyId(1), Page::first()).await
    })
    .await;
    assert!(matches!(entries, Err(Error::Undecodable { .. })));
    let (_, none) = sent(200, "[]", async |client| {
        client.whitelist(ApiKeyId(1), Page::first()).await
    })
    .await;
    assert!(none.unwrap().is_empty());
    let rule = rule(AddressRange::Net("192.0.2.0/24".parse().unwrap()));
    let (key, entry) = (ApiKeyId(1), WhitelistEntryId(1));
    let (_, added) = sent(200, "[]", async |client| {
        client.add_to_whitelist(key, &rule).await
    })
    .await;
    let (_, changed) = sent(200, "[]", async |client| {
        client.change_whitelist(key, entry, &rule).await
    })
    .await;
    for result in [added, changed] {
        assert!(matches!(result, Err(Error::Undecodable { .. })));
    }
}

#[tokio::test]
async fn entry_is_active_inactive_or_unknown() {
    let (yes, no, open) = (Some(true), Some(false), None);
    let cases: [(Value, Option<bool>); 13] = [
        (json!(1), yes),
        (json!(2), open),
        (json!(-1), open),
        (json!(1.0), yes),
        (json!("1"), yes),
        (json!(true), yes),
        (json!("True"), yes),
        (json!(0), no),
        (json!("0"), no),
        (json!(false), no),
        (json!(null), open),
        (json!(""), open),
        (json!("perhaps"), open),
    ];
    let shown: Vec<Value> = cases
        .iter()
        .map(|(active, _)| json!({"id": 1, "active": active}))
        .collect();
    let (_, entries) = sent(200, &json!(shown).to_string(), async |client| {
        client.whitelist(ApiKeyId(1), Page::first()).await
    })
    .await;
    for ((active, wanted), entry) in cases.iter().zip(entries.unwrap()) {
        assert_eq!(entry.active, *wanted, "{active}");
    }
}
