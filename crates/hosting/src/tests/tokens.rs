//! Lists of hosts whose pages follow by token.

use serde_json::json;

use super::script::{Script, answer, with_header};
use crate::{page::HostCursor, transport::Response};
use hosting_types::{
    Error, HostId, Page, error::NotSent, host::Host, list::ListGap, request::InvalidRequest,
};

fn host(token: &str) -> Response {
    with_header(answer(200, r#"[{"id":1}]"#), "page-token", token)
}

fn dated(token: &str, expires: &str, date: &str) -> Response {
    with_header(with_header(host(token), "expires", expires), "date", date)
}

/// Reads a list with this first page; returns the gap and the number of requests.
async fn gap(first: Response) -> (Option<ListGap>, usize) {
    let (client, script) = Script::client(vec![Ok(first), Ok(answer(200, "[]"))]);
    let listing = client.all_hosts(None).collect().await;
    (listing.err().map(|it| it.gap), script.requests().len())
}

#[tokio::test]
async fn tokens_lead_through_the_hosts() {
    let page = |numbers: &[u64], token: Option<&str>| {
        let hosts: Vec<_> = numbers.iter().map(|number| json!({"id": number})).collect();
        let page = answer(200, json!(hosts).to_string());
        Ok(match token {
            Some(token) => with_header(page, "page-token", token),
            None => page,
        })
    };
    let read = async |pages| {
        let (client, script) = Script::client(pages);
        let hosts = client.all_hosts(None).collect().await;
        let ids = |hosts: Vec<Host>| hosts.iter().map(|host| host.id.0).collect::<Vec<_>>();
        let requests = script.requests().len();
        (
            hosts
                .map(|hosts| ids(hosts.into_records()))
                .map_err(|it| (ids(it.seen), it.gap)),
            requests,
        )
    };
    // Only an answer without a token ends it.
    let (hosts, requests) = read(vec![
        page(&[1, 2], Some("a")),
        page(&[3], Some("b")),
        page(&[4], None),
    ])
    .await;
    assert_eq!((hosts.unwrap(), requests), (vec![1, 2, 3, 4], 3));
    let (hosts, requests) = read(vec![
        page(&[1], Some("a")),
        page(&[], Some("b")),
        page(&[2], None),
    ])
    .await;
    assert_eq!((hosts.unwrap(), requests), (vec![1, 2], 3));
    let (hosts, _) = read(vec![page(&[1], Some("a")), page(&[], Some("a"))]).await;
    assert!(matches!(hosts, Err((_, ListGap::Endless))));
    // A token that leads to itself, and a record that comes again.
    let (hosts, _) = read(vec![page(&[1], Some("a")), page(&[2], Some("a"))]).await;
    assert!(matches!(hosts, Err((_, ListGap::Endless))));
    let (hosts, _) = read(vec![page(&[1, 2], Some("a")), page(&[2], None)]).await;
    assert!(matches!(hosts, Err((_, ListGap::Repeated(_)))));
    // Without any token, like any other list.
    let (hosts, requests) = read(vec![page(&[1, 2], None), page(&[], None)]).await;
    assert_eq!((hosts.unwrap(), requests), (vec![1, 2], 2));
    // A token in the middle of ranges.
    let full: Vec<_> = (1..=50).collect();
    let (hosts, _) = read(vec![page(&full, None), page(&[50], Some("a"))]).await;
    assert!(matches!(hosts, Err((_, ListGap::Shifted))));
}

#[tokio::test]
async fn page_token_is_sent_back_unchanged() {
    let first = with_header(answer(200, r#"[{"id":1}]"#), "page-token", "t=/1");
    let first = with_header(first, "date", "Sat, 21 Nov 2026 08:55:00 GMT");
    let first = with_header(first, "expires", "Sat, 21 Nov 2026 09:00:00 GMT");
    let second = answer(200, r#"[{"id":2}]"#);
    let (client, script) = Script::client(vec![Ok(first), Ok(second)]);
    let from = HostCursor::Range(Page::first());
    let page = client.hosts(Some("a=b"), &from).await.unwrap();
    let token = page.next.unwrap();
    assert!(!token.is_expired());
    let page = client.hosts(Some("a=b"), &HostCursor::Token(token)).await;
    assert_eq!(page.unwrap().hosts[0].id, HostId(2));
    let requests = script.requests();
    assert!(requests[0].headers.get("page-token").is_none());
    assert_eq!(requests[1].headers["page-token"], "t=/1");
    assert!(requests[1].headers.get("ranged-data").is_none());
}

#[tokio::test]
async fn unusable_page_token_does_not_end_list() {
    for token in ["t".repeat(4097), "t\u{e9}".to_owned()] {
        let (gap, requests) = gap(host(&token)).await;
        let is_undecodable = matches!(&gap, Some(ListGap::Failed(Error::Undecodable { .. })));
        assert!(is_undecodable, "{gap:?}");
        assert_eq!(requests, 1);
    }
    // An empty or blank token is none.
    for token in ["", " "] {
        assert!(gap(host(token)).await.0.is_none());
    }
    // Lists without tokens ignore it.
    let (client, _) = Script::client(vec![Ok(host(&"t".repeat(4097)))]);
    client.locations().await.unwrap_err();
    let tag = with_header(answer(200, r#"[{"tag":"a"}]"#), "page-token", "\u{e9}");
    let (client, _) = Script::client(vec![Ok(tag)]);
    assert_eq!(client.tags(Page::first()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_sent_while_it_is_good() {
    let [date, expires] = ["08:00:00", "08:10:00"].map(|at| format!("Sat, 21 Nov 2026 {at} GMT"));
    let past = "Mon, 01 Jan 2001 00:00:00 GMT";
    assert!(matches!(
        gap(dated("a", past, &date)).await,
        (Some(ListGap::Expired), 1)
    ));
    // By the API's own clock, even if that is wrong.
    assert!(matches!(gap(dated("a", &expires, &date)).await, (None, 2)));
    // A text that is no date has no effect.
    assert!(matches!(gap(dated("a", "0", &date)).await, (None, 2)));

    let answers = vec![Ok(dated("a", &expires, &date)), Ok(answer(200, "[]"))];
    let (client, script) = Script::client(answers);
    let first = HostCursor::Range(Page::first());
    let token = client.hosts(None, &first).await.unwrap().next.unwrap();
    let cursor = HostCursor::Token(token.clone());
    tokio::time::advance(std::time::Duration::from_secs(599)).await;
    assert!(!token.is_expired());
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let late = client.hosts(None, &cursor).await.unwrap_err();
    assert!(
        matches!(
            late,
            Error::NotSent(NotSent::Request(InvalidRequest::PageToken))
        ),
        "{late:?}"
    );
    assert_eq!(script.requests().len(), 1);
}
