//! Each operation as the request that it is.

use http::Method;
use serde_json::json;

use super::script::{Script, answer};
use super::{KEY, ORDER_TAG, UUID, id, order, record};
use crate::error::NotSent;
use crate::transport::Request;
use crate::{Client, Error, OrderOutcome, Page, ServerFilter, StatusFilter};

/// Makes one call that is answered with this body, and gives its request.
async fn sent<T>(body: serde_json::Value, call: impl AsyncFnOnce(Client) -> T) -> (Request, T) {
    let (client, script) = Script::client(vec![Ok(answer(200, body.to_string()))]);
    let result = call(client).await;
    let mut requests = script.requests();
    assert_eq!(requests.len(), 1);
    (requests.remove(0), result)
}

fn line(request: &Request) -> String {
    format!("{} {}", request.method, request.url)
}

#[tokio::test]
async fn every_operation_has_its_path() {
    let host = "https://api.example.com/v3";
    let server = format!("{host}/flexMetal/servers/{UUID}");

    let (request, result) = sent(record(), async |client| client.server(&id()).await).await;
    assert_eq!(line(&request), format!("GET {server}"));
    assert_eq!(result.unwrap().id, id());

    let (request, result) = sent(json!([record()]), async |client| {
        client.release(&id()).await
    })
    .await;
    assert_eq!(line(&request), format!("DELETE {server}"));
    assert_eq!(result.unwrap().id, id());

    let (request, result) = sent(json!([record()]), async |client| {
        client.add_tag(&id(), "role:db").await
    })
    .await;
    assert_eq!(line(&request), format!("POST {server}/tag/role:db"));
    assert!(request.body.is_none());
    result.unwrap();

    let (request, result) = sent(json!([record()]), async |client| {
        client.remove_tag(&id(), "role:db").await
    })
    .await;
    assert_eq!(line(&request), format!("DELETE {server}/tag/role:db"));
    result.unwrap();

    let tag =
        json!([{"tag": "role:db", "resources": {"count": 2, "flexMetalServers": {"count": 1}}}]);
    let (request, result) = sent(tag, async |client| client.tag("role:db").await).await;
    assert_eq!(line(&request), format!("GET {host}/flexMetal/tags/role:db"));
    let found = result.unwrap();
    assert_eq!((found.resources, found.servers), (Some(2), Some(1)));

    let (request, result) = sent(json!(null), async |client| {
        client.delete_tag("role:db").await
    })
    .await;
    assert_eq!(
        line(&request),
        format!("DELETE {host}/flexMetal/tags/role:db")
    );
    result.unwrap();

    let (request, _) = sent(json!([]), async |client| client.locations().await).await;
    assert_eq!(line(&request), format!("GET {host}/flexMetal/location"));
    let (request, _) = sent(json!([]), async |client| client.plans().await).await;
    assert_eq!(line(&request), format!("GET {host}/flexMetal/plans"));
    let (request, _) = sent(json!([]), async |client| client.operating_systems().await).await;
    assert_eq!(line(&request), format!("GET {host}/operatingsystem"));
    let (request, _) = sent(json!([]), async |client| client.quota_usage().await).await;
    assert_eq!(line(&request), format!("GET {host}/flexMetal/quota/usage"));
}

#[tokio::test]
async fn a_listing_is_filtered_by_the_six_words_of_the_api() {
    for (status, word) in [
        (StatusFilter::Creating, "creating"),
        (StatusFilter::Provisioning, "provisioning"),
        (StatusFilter::Delivered, "delivered"),
        (StatusFilter::Failed, "failed"),
        (StatusFilter::Releasing, "releasing"),
        (StatusFilter::Released, "released"),
    ] {
        let filter = ServerFilter {
            status: Some(status),
            tags: Vec::new(),
        };
        let (request, _) = sent(json!([]), async |client| {
            client.servers(&filter, Page::first()).await
        })
        .await;
        assert_eq!(
            line(&request),
            format!("GET https://api.example.com/v3/flexMetal/servers?status={word}")
        );
    }
}

#[tokio::test]
async fn a_listing_repeats_its_tags_and_names_its_page() {
    let filter = ServerFilter {
        status: Some(StatusFilter::Delivered),
        tags: vec!["fmo-cluster:01".to_owned(), "b".to_owned()],
    };
    let (request, result) = sent(json!([record(), record()]), async |client| {
        client.servers(&filter, Page::new(49, 50)).await
    })
    .await;
    assert_eq!(request.method, Method::GET);
    assert_eq!(request.url.path(), "/v3/flexMetal/servers");
    let query: Vec<_> = request.url.query_pairs().collect();
    let query: Vec<_> = query.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(
        query,
        [
            ("status", "delivered"),
            ("tag", "fmo-cluster:01"),
            ("tag", "b")
        ]
    );
    assert_eq!(request.headers["ranged-data"], "start=49,results=50");
    assert_eq!(result.unwrap().len(), 2);

    let (request, _) = sent(json!([]), async |client| {
        client
            .servers(&ServerFilter::default(), Page::first())
            .await
    })
    .await;
    assert!(request.url.query().is_none());
}

#[tokio::test]
async fn an_order_is_sent_as_the_document_says() {
    let mut full = order();
    full.contract_id = Some("C-1".to_owned());
    full.overflow = true;
    let (request, outcome) = sent(json!([record()]), async |client| {
        client.order(&full, ORDER_TAG).await
    })
    .await;
    assert_eq!(
        line(&request),
        "POST https://api.example.com/v3/flexMetal/servers"
    );
    assert_eq!(request.headers["content-type"], "application/json");
    let body: serde_json::Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    assert_eq!(
        body,
        json!({
            "name": "node-1",
            "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8",
            "os": {"slug": "debian-13"},
            "sshKey": ["ssh-ed25519 AAAA me@here"],
            "tags": ["fmo-cluster:0123456789abcdef", ORDER_TAG],
            "contractId": "C-1",
            "overflow": true,
        })
    );
    assert!(matches!(outcome, OrderOutcome::Created(_)));

    let mut least = order();
    least.ssh_keys.clear();
    least.contract_id = Some(String::new());
    let (request, _) = sent(json!([record()]), async |client| {
        client.order(&least, ORDER_TAG).await
    })
    .await;
    let body: serde_json::Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    assert_eq!(body["sshKey"], json!([]));
    assert!(body.get("contractId").is_none());
}

#[tokio::test]
async fn every_request_carries_the_key_unprinted() {
    let (request, _) = sent(record(), async |client| client.server(&id()).await).await;
    let key = &request.headers["private-token"];
    assert_eq!(key, KEY);
    assert!(key.is_sensitive());
    assert!(!format!("{request:?}").contains(KEY));
    assert!(!request.url.as_str().contains(KEY));
}

#[tokio::test]
async fn orders_questions_and_changes_have_their_own_deadlines() {
    let (order, _) = sent(json!([]), async |client| {
        client.order(&order(), ORDER_TAG).await
    })
    .await;
    let (question, _) = sent(json!([]), async |client| client.plans().await).await;
    let (change, _) = sent(json!([]), async |client| client.release(&id()).await).await;
    assert_eq!(order.deadline.as_secs(), 180);
    assert_eq!(question.deadline.as_secs(), 30);
    assert_eq!(change.deadline.as_secs(), 180);
    assert!(question.is_read() && !order.is_read() && !change.is_read());
    assert!(change.caps.success < question.caps.success);
}

#[tokio::test]
async fn a_bad_tag_makes_no_request() {
    let (client, script) = Script::client(Vec::new());
    let filter = ServerFilter {
        status: None,
        tags: vec!["a b".to_owned()],
    };
    let errors = [
        client.tag("..").await.unwrap_err(),
        client.delete_tag("").await.unwrap_err(),
        client.add_tag(&id(), "a/b").await.unwrap_err(),
        client.remove_tag(&id(), ".").await.unwrap_err(),
        client.servers(&filter, Page::first()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Error::NotSent(NotSent::Request(_))),
            "{error:?}"
        );
        assert!(!error.may_have_taken_effect() && !error.is_retryable_as_is());
    }
    assert!(script.requests().is_empty());
}
