//! A transport that gives prepared answers and keeps the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{base_url, key};
use crate::hosting::Client;
use crate::hosting::transport::{Caps, Cut, Request, Response, Transport, TransportError};

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

/// As every transport has to, no more than was asked for.
fn within(mut response: Response, caps: Caps) -> Response {
    let cap = caps.of(response.status);
    if response.body.len() > cap {
        response.body.truncate(cap);
        response.cut.get_or_insert(Cut::TooLarge);
    }
    response
}

impl Script {
    /// A client that will get these outcomes, in this order.
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
