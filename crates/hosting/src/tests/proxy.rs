//! What a proxy sees, and what its refusal means.

use super::{
    KEY, ORDER_TAG, order, record,
    wire_server::{Reply, WireServer, http},
};
use crate::{Client, Dial, ProviderProxy};
use hosting_types::{Error, OrderResult, error::NotSent};

async fn order_through(proxy: &WireServer, url: &str, dial: Dial) -> OrderResult {
    let mut options = super::options(url);
    options.dial = dial;
    options.proxy = Some(ProviderProxy::parse(&proxy.url()).unwrap());
    let client = Client::new(options).unwrap();
    client.order(&order(), ORDER_TAG).await
}

#[tokio::test]
async fn refusing_proxy_sees_no_key_or_request() {
    let refusal = Reply::SendAndClose(http(403, "not for you"));
    let proxy = WireServer::start(vec![refusal]).await;
    // A name that only the proxy can resolve.
    let outcome = order_through(&proxy, "https://hosting.test/prefix", Dial::default()).await;
    let OrderResult::NotSent(error @ Error::NotSent(NotSent::Connect(_))) = outcome else {
        panic!("{outcome:?}");
    };
    let text = error.explain();
    assert!(text.contains("tunnel"), "{text}");
    let seen = proxy.requests();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("CONNECT hosting.test:443 "), "{seen:?}");
    assert!(!seen[0].contains(KEY), "{seen:?}");
}

#[tokio::test]
async fn plain_http_bypasses_the_proxy() {
    let proxy = WireServer::start(vec![Reply::Close]).await;
    let api = WireServer::start(vec![Reply::Send(http(200, &record().to_string()))]).await;
    let outcome = order_through(&proxy, &api.url(), Dial::Anywhere).await;
    assert!(matches!(outcome, OrderResult::Created(_)), "{outcome:?}");
    assert!(proxy.requests().is_empty());
}
