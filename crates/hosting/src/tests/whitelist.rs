//! The requests and answers of a key's whitelist.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::script::{Script, body, line, sent};
use crate::error::NotSent;
use crate::request::InvalidRequest;
use crate::whitelist::{AddressRange, WhitelistRule};
use crate::{ApiKeyId, Error, Page, WhitelistEntryId};

fn rule(range: AddressRange) -> WhitelistRule {
    WhitelistRule {
        range,
        comments: Some("office".to_owned()),
        active: true,
    }
}

#[tokio::test]
async fn a_whitelist_is_listed_and_changed() {
    let key = ApiKeyId(7);
    let entry = WhitelistEntryId(9);
    let shown = json!([{"id": 9, "ipStart": null, "ipEnd": "", "ipRange": "192.0.2.0/24",
        "comments": "office", "active": 1, "updatedAt": 1_728_030_905}])
    .to_string();
    let path = "/v3/account/apiKey/7/whitelist";

    let (request, entries) = sent(200, &shown, async |client| {
        client.whitelist(key, Page::new(0, 25)).await
    })
    .await;
    assert_eq!(line(&request), format!("GET {path}"));
    assert_eq!(request.headers["ranged-data"], "start=0,results=25");
    let entries = entries.unwrap();
    assert_eq!(entries[0].id, entry);
    assert_eq!(entries[0].ip_start, None);
    assert_eq!(entries[0].ip_end, None);
    assert_eq!(entries[0].ip_range.as_deref(), Some("192.0.2.0/24"));
    assert_eq!(entries[0].active, Some(true));

    let net = rule(AddressRange::Net("192.0.2.77/24".parse().unwrap()));
    let (request, result) = sent(200, &shown, async |client| {
        client.add_to_whitelist(key, &net).await
    })
    .await;
    assert_eq!(line(&request), format!("POST {path}"));
    assert_eq!(
        body(&request),
        json!({"ipStart": null, "ipEnd": null, "ipRange": "192.0.2.0/24", "comments": "office",
            "active": 1})
    );
    assert_eq!(result.unwrap().len(), 1);

    let [start, end] = ["2001:db8::1", "2001:db8::9"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let mut span = rule(AddressRange::Span(start, end));
    span.comments = None;
    span.active = false;
    let (request, result) = sent(200, &shown, async |client| {
        client.change_whitelist(key, entry, &span).await
    })
    .await;
    assert_eq!(line(&request), format!("PUT {path}/9"));
    // What is not wanted any more is cleared.
    assert_eq!(
        body(&request),
        json!({"ipStart": "2001:db8::1", "ipEnd": "2001:db8::9", "ipRange": null,
            "comments": null, "active": 0})
    );
    result.unwrap();

    let (request, result) = sent(204, "", async |client| {
        client.remove_from_whitelist(key, entry).await
    })
    .await;
    assert_eq!(line(&request), format!("DELETE {path}/9"));
    assert!(request.body.is_none());
    result.unwrap();
}

#[tokio::test]
async fn a_whitelist_rule_that_makes_no_sense_is_not_sent() {
    let (client, script) = Script::client(Vec::new());
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let wrong = [
        rule(AddressRange::Span(ip("192.0.2.9"), ip("192.0.2.1"))),
        rule(AddressRange::Span(ip("192.0.2.9"), ip("2001:db8::1"))),
    ];
    for rule in wrong {
        let error = client.add_to_whitelist(ApiKeyId(1), &rule).await;
        assert!(matches!(
            error,
            Err(Error::NotSent(NotSent::Request(
                InvalidRequest::AddressSpan
            )))
        ));
    }
    // Comments are free text.
    for comments in ["", "two\nlines", &"x".repeat(300)] {
        let mut free = rule(AddressRange::Net("192.0.2.0/24".parse().unwrap()));
        free.comments = Some(comments.to_owned());
        free.check().unwrap();
    }
    assert!(script.requests().is_empty());
    let (_, entries) = sent(200, r#"[{"id":-1}]"#, async |client| {
        client.whitelist(ApiKeyId(1), Page::first()).await
    })
    .await;
    assert!(matches!(entries, Err(Error::Undecodable { .. })));
}

#[tokio::test]
async fn whether_an_entry_counts_is_told_or_open() {
    let (yes, no, open) = (Some(true), Some(false), None);
    let cases: [(Value, Option<bool>); 12] = [
        (json!(1), yes),
        (json!(2), yes),
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
