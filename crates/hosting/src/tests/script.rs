//! A transport that gives prepared answers and keeps the requests, with checks of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

use super::{base_url, key};
use crate::{
    Client,
    transport::{Caps, Cut, Request, Response, Transport, TransportError},
};

type Outcome = Result<Response, TransportError>;

#[derive(Default)]
pub(super) struct Script {
    outcomes: Mutex<VecDeque<Outcome>>,
    requests: Mutex<Vec<Request>>,
}

impl Transport for Script {
    fn send(&self, request: Request) -> BoxFuture<'_, Outcome> {
        let caps = request.caps;
        self.requests.lock().unwrap().push(request);
        let outcome = self.outcomes.lock().unwrap().pop_front();
        let outcome = outcome.map(|outcome| outcome.map(|response| within(response, caps)));
        async move { outcome.expect("a prepared answer for each call") }.boxed()
    }
}

/// As every transport must, returns no more than was requested.
fn within(mut response: Response, caps: Caps) -> Response {
    let cap = caps.for_status(response.status);
    if response.body.len() > cap {
        response.body.truncate(cap);
        response.cut.get_or_insert(Cut::TooLarge);
    }
    response
}

impl Script {
    /// A client that gets these outcomes, in this order.
    pub(super) fn client(outcomes: Vec<Outcome>) -> (Client, Arc<Script>) {
        let script = Arc::new(Script {
            outcomes: Mutex::new(outcomes.into()),
            requests: Mutex::default(),
        });
        let base = base_url("https://api.example.com");
        let client = Client::with_transport(base, key(), script.clone());
        (client, script)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

pub(super) fn answer(status: u16, body: impl Into<Vec<u8>>) -> Response {
    Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
        cut: None,
        decode_permit: None,
    }
}

pub(super) fn with_header(mut response: Response, name: &'static str, value: &str) -> Response {
    let value = HeaderValue::from_str(value).unwrap();
    response.headers.insert(name, value);
    response
}

pub(super) fn cut(mut response: Response, cut: Cut) -> Response {
    response.cut = Some(cut);
    response
}

/// Makes one call with this answer, and returns its request.
pub(super) async fn sent<T>(
    status: u16,
    body: &str,
    call: impl AsyncFnOnce(Client) -> T,
) -> (Request, T) {
    let (client, script) = Script::client(vec![Ok(answer(status, body))]);
    let result = call(client).await;
    let mut requests = script.requests();
    assert_eq!(requests.len(), 1);
    (requests.remove(0), result)
}

pub(super) fn line(request: &Request) -> String {
    let url = request.url.as_str();
    let path = url.strip_prefix("https://api.example.com").unwrap();
    format!("{} {path}", request.method)
}

pub(super) fn body(request: &Request) -> Value {
    serde_json::from_slice(request.body.as_ref().unwrap()).unwrap()
}
