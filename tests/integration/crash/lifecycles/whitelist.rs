//! A whitelist: entries added, changed, added and removed, and left unchanged in the end.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{judge::Findings, proxied_world::ProxiedWorld},
    small_kinds::{ChangeStep, SmallKindLifecycle},
};

pub(super) const WHITELIST: SmallKindLifecycle = SmallKindLifecycle {
    kind: "IpWhitelist",
    expected: &[
        ("Create", "cluster PATCH ipwhitelists #1"),
        ("Create", "cluster PATCH ipwhitelists/status #1"),
        ("Create", "hosting POST whitelist #1"),
        ("Create", "hosting POST whitelist #2"),
        ("Create", "cluster PATCH ipwhitelists/status #2"),
        ("Change", "hosting POST whitelist #1"),
        ("Change", "hosting PUT whitelist/{id} #1"),
        ("Change", "hosting DELETE whitelist/{id} #1"),
        ("Delete", "hosting DELETE whitelist/{id} #1"),
        ("Delete", "cluster PATCH ipwhitelists #1"),
    ],
    spec: |_| {
        json!({
            "apiKeyID": 1, "egressCIDRs": ["127.0.0.1/32"], "entryPolicy": "Exact",
            "entries": [
                {"name": "me", "cidr": "127.0.0.0/8"},
                {"name": "office", "start": "192.0.2.10", "end": "192.0.2.19"},
            ],
        })
    },
    // Adds, changes and removes one entry each. Another entry now covers the operator.
    change: |_| {
        json!({"entries": [
            {"name": "here", "cidr": "127.0.0.0/16"},
            {"name": "office", "start": "192.0.2.10", "end": "192.0.2.20"},
        ]})
    },
    is_settled: |object| object["status"]["plan"].is_null(),
    judge: check_whitelist,
};

/// Checks that the whitelist is exactly as declared, without duplicates, and that the entry for the operator stays.
/// All kinds share the checks for refused calls and lock-outs.
fn check_whitelist<'a>(
    proxied: &'a ProxiedWorld,
    _object: &'a Value,
    step: ChangeStep,
) -> LocalBoxFuture<'a, Findings> {
    async move {
        let wanted = match step {
            ChangeStep::Create => ["127.0.0.0/8", "192.0.2.10-192.0.2.19"].as_slice(),
            ChangeStep::Change => &["127.0.0.0/16", "192.0.2.10-192.0.2.20"],
            ChangeStep::Delete => &["127.0.0.0/16"],
        };
        let mut shown = list_active_ranges(proxied).await;
        shown.sort();
        if step == ChangeStep::Delete {
            clear_entries(proxied).await;
        }
        match shown == wanted {
            true => Findings::new(),
            false => vec![format!("the list admits {shown:?}, not {wanted:?}")],
        }
    }
    .boxed_local()
}

/// Removes the entries that the object left, as a user does.
/// The next lifecycle's object has another name and leaves entries of others unchanged.
async fn clear_entries(proxied: &ProxiedWorld) {
    let keys = proxied.world.simulator.keys().await;
    let list = keys.first().and_then(|key| key["whitelist"].as_array());
    for entry in list.expect("the first key has a list") {
        let path = format!("/v3/account/apiKey/1/whitelist/{}", entry["id"]);
        let (status, answer) = proxied.world.simulator.call("DELETE", &path, None).await;
        assert_eq!(status, 204, "{answer}");
    }
}

/// The ranges of the active entries.
async fn list_active_ranges(proxied: &ProxiedWorld) -> Vec<String> {
    let keys = proxied.world.simulator.keys().await;
    let list = keys.first().and_then(|key| key["whitelist"].as_array());
    let active = list.expect("the first key has a list").iter();
    let active = active.filter(|entry| entry["active"] == 1);
    active
        .map(|entry| match entry["ipRange"].as_str() {
            Some(range) => range.to_owned(),
            None => {
                let end = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
                format!("{}-{}", end("ipStart"), end("ipEnd"))
            }
        })
        .collect()
}
