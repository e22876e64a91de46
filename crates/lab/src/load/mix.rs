//! The requests of an operator with many servers: pages, single servers, lookups by order tag, orders and releases.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use http::Method;
use hyper::body::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use serde_json::json;

use super::connection::LoadCall;
use crate::bench::{INSTANCE_TYPE, LOCATION};

pub(super) const SERVERS: &str = "/v3/flexMetal/servers";
/// The tag of all servers.
pub(super) const FLEET: &str = "fleet";

/// One server of the fleet.
#[derive(Debug, Clone)]
struct FleetServer {
    uuid: String,
    number: usize,
}

/// Our servers, oldest first, and the generator of the next requests.
#[derive(Debug)]
pub(super) struct Fleet(Mutex<FleetState>);

#[derive(Debug)]
struct FleetState {
    known: VecDeque<FleetServer>,
    ordered: usize,
    rng: StdRng,
}

/// The fields used of an answer to an order.
#[derive(Deserialize)]
struct Ordered {
    uuid: String,
}

impl Fleet {
    pub(super) fn new() -> Self {
        Self(Mutex::new(FleetState {
            known: VecDeque::new(),
            ordered: 0,
            rng: StdRng::seed_from_u64(1),
        }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut FleetState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of servers that are not released.
    pub(super) fn len(&self) -> usize {
        self.with(|inner| inner.known.len())
    }

    /// An order.
    pub(super) fn order(&self) -> LoadCall {
        self.with(FleetState::order)
    }

    /// A GET of one server.
    pub(super) fn one(&self) -> LoadCall {
        self.with(FleetState::one)
    }

    /// One request of the mix. Of 20: 4 pages of the fleet, 2 lookups by order tag in the list and 2 among the tags, 8
    /// single servers, 2 orders, 2 releases.
    pub(super) fn next(&self) -> LoadCall {
        self.with(|inner| match inner.rng.random_range(0..20) {
            0..4 => {
                let pages = inner.known.len() / 50;
                let page = inner.rng.random_range(0..pages.max(1));
                let target = format!("{SERVERS}?tag={FLEET}&status=delivered");
                LoadCall::page("page of 50 by tag and status", target, page * 50)
            }
            4..6 => match inner.some() {
                Some(one) => {
                    let target = format!("{SERVERS}?tag=mark-{}", one.number);
                    LoadCall::page("servers by mark", target, 0)
                }
                None => inner.order(),
            },
            6..8 => match inner.some() {
                Some(one) => {
                    let target = format!("/v3/flexMetal/tags/mark-{}", one.number);
                    LoadCall::get("one tag", target)
                }
                None => inner.order(),
            },
            8..16 => inner.one(),
            16..18 => inner.order(),
            _ => match inner.known.pop_front() {
                Some(one) => LoadCall {
                    method: Method::DELETE,
                    ..LoadCall::get("release", format!("{SERVERS}/{}", one.uuid))
                },
                None => inner.order(),
            },
        })
    }

    /// Records the answer to an order.
    pub(super) fn ordered(&self, call: &LoadCall, answer: &[u8]) -> Result<(), serde_json::Error> {
        if call.method != Method::POST {
            return Ok(());
        }
        let [server]: [Ordered; 1] = serde_json::from_slice(answer)?;
        let number: NumberOf = serde_json::from_slice(&call.body)?;
        let number = number.name.trim_start_matches('n').parse();
        let (uuid, number) = (server.uuid, number.unwrap_or_default());
        self.with(|inner| inner.known.push_back(FleetServer { uuid, number }));
        Ok(())
    }
}

/// The name in an order's body.
#[derive(Deserialize)]
struct NumberOf {
    name: String,
}

impl FleetState {
    fn some(&mut self) -> Option<FleetServer> {
        let place = self.rng.random_range(0..self.known.len().max(1));
        self.known.get(place).cloned()
    }

    fn one(&mut self) -> LoadCall {
        match self.some() {
            Some(one) => LoadCall::get("one server", format!("{SERVERS}/{}", one.uuid)),
            None => self.order(),
        }
    }

    fn order(&mut self) -> LoadCall {
        let number = self.ordered;
        self.ordered += 1;
        let body = json!({
            "name": format!("n{number}"), "location": LOCATION, "instanceType": INSTANCE_TYPE,
            "os": {"slug": "debian-13"}, "sshKey": [], "tags": [FLEET, format!("mark-{number}")],
        });
        LoadCall {
            method: Method::POST,
            body: Bytes::from(body.to_string()),
            ..LoadCall::get("order", SERVERS)
        }
    }
}
