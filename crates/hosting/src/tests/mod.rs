//! Tests of the client that a simulator cannot serve: bad answers over a scripted transport, and bytes and connections
//! over a hand-written server. See also `crates/hosting/tests/client`.

#![allow(
    clippy::disallowed_methods,
    reason = "what is spawned here ends with the runtime of its test"
)]

mod answers;
mod bodies;
mod check;
mod commands_and_hosts;
mod decode;
mod echoes;
mod every_call;
mod host_install;
mod ids;
mod inputs;
mod install;
mod listing;
mod names;
mod never_panics;
mod order;
mod proxy;
mod refusals;
mod requests;
mod script;
mod sizes;
mod ssh_keys;
mod tls;
mod tokens;
mod tolerance;
mod whitelist;
mod wire;
mod wire_server;

use crate::{ClientOptions, Dial, Gates};
use hosting_types::{ApiKey, BaseUrl, Order, ServerId, server::SystemChoice};

const KEY: &str = "k3y/Of+an-Account=0123456789";
const UUID: &str = "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f";
const ORDER_TAG: &str = "fmo-order:0123456789abcdef0123456700000001";

fn key() -> ApiKey {
    ApiKey::parse(KEY.as_bytes()).unwrap()
}

/// Options for a server on this host.
fn options(url: &str) -> ClientOptions {
    let mut options = ClientOptions::new(base_url(url), key());
    options.dial = Dial::Anywhere;
    // Answers of other tests take no memory here.
    options.gates = Gates::default();
    options
}

fn base_url(text: &str) -> BaseUrl {
    BaseUrl::parse(text).unwrap()
}

fn id() -> ServerId {
    ServerId::parse(UUID).unwrap()
}

fn order() -> Order {
    Order {
        name: "node-1".to_owned(),
        location: "EU: Rotterdam".to_owned(),
        instance_type: "bm7.std.8".to_owned(),
        os: SystemChoice::of_slug("debian-13"),
        ssh_keys: vec!["ssh-ed25519 AAAA me@here".to_owned()],
        tags: vec![
            "fmo-cluster:0123456789abcdef".to_owned(),
            ORDER_TAG.to_owned(),
        ],
        contract_id: None,
        overflow: false,
        ..Order::default()
    }
}

/// A server record as the document shows it, with the order tag.
fn record() -> serde_json::Value {
    serde_json::json!({
        "uuid": UUID,
        "name": "node-1",
        "status": "created",
        "statusMessage": "",
        "location": {"id": 6, "name": "EU: Rotterdam"},
        "instanceType": {"id": 3, "name": "bm7.std.8"},
        "os": {"slug": "debian-13"},
        "ipAddresses": [],
        "tags": ["fmo-cluster:0123456789abcdef", ORDER_TAG],
        "createdAt": 1_728_030_905,
        "deliveredAt": 0,
        "releasedAt": null,
    })
}
