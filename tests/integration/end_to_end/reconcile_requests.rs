//! Reconciles that a user requests with an annotation: every kind runs and acknowledges them.
//! A loop of requests runs no more of them than the account's rate allows.

use serde_json::{Value, json};

use super::{SERVERS, SOON, hosts, ssh_keys, tags::build_tag, text, whitelists::build_whitelist};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, eventually, quick_timing, server};
use std::time::Duration;
use tokio::time::Instant;

const OURS: &str = "flexmetal.dev/reconcile-requested-at";
const OF_FLUX: &str = "reconcile.fluxcd.io/requestedAt";

/// A kind, its object, the path that a reconcile of it reads, and a change of its spec that sends nothing.
fn subjects() -> [(&'static str, &'static str, &'static str, Value); 6] {
    [
        ("BareMetalServer", "web", SERVERS, json!({"suspend": false})),
        (
            "ServerTag",
            "web",
            "/v3/flexMetal/tags",
            json!({"deletionPolicy": "Retain"}),
        ),
        (
            "SshKey",
            "ops",
            "/v3/sshKey",
            json!({"deletionPolicy": "Retain"}),
        ),
        (
            "IpWhitelist",
            "me",
            "/v3/account/apiKey/1/whitelist",
            json!({"lockoutGuard": true}),
        ),
        (
            "DedicatedHost",
            "db",
            hosts::HOSTS,
            json!({"suspend": false}),
        ),
        (
            "ProviderAccount",
            "default",
            SERVERS,
            json!({"limits": {"maxServers": 7}}),
        ),
    ]
}

/// The number of reads below this path.
async fn count_reads(world: &World, path: &str) -> usize {
    let ledger = world.simulator.ledger().await;
    let is_read = |call: &&Value| call["method"] == "GET" && text(&call["path"]).starts_with(path);
    ledger.iter().filter(is_read).count()
}

async fn request_reconcile(things: &Things, name: &str, annotation: &str, word: &str) {
    let annotations = json!({"metadata": {"annotations": {annotation: word}}});
    things.merge(name, &annotations).await;
}

fn handled_request(object: &Value) -> &Value {
    &object["status"]["lastHandledReconcileAt"]
}

/// An idle world without polls for an hour.
async fn start_idle_world() -> World {
    let mut timing = quick_timing();
    timing["idlePollInterval"] = json!("1h");
    timing["orphanScanInterval"] = json!("24h");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "ask", plan).await;
    world.start_operator();
    let key = json!({"publicKey": ssh_keys::public_key('A')});
    let me = json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]});
    world.create(&server("web")).await;
    let things = |kind: &str| world.things(kind);
    things("ServerTag")
        .create(&build_tag("web", &json!({})))
        .await;
    let key = ssh_keys::build_ssh_key("ops", &key);
    things("SshKey").create(&key).await;
    let host = hosts::build_host("db", hosts::HOST, &json!({}));
    things("DedicatedHost").create(&host).await;
    let list = build_whitelist("me", &me);
    things("IpWhitelist").create(&list).await;
    for (kind, name, ..) in subjects() {
        things(kind).wait_ready(name, SOON).await;
    }
    world
}

#[tokio::test]
async fn requested_reconcile_is_rate_limited() {
    let world = start_idle_world().await;
    for (word, annotation) in [("first", OF_FLUX), ("second", OURS)] {
        for (kind, name, path, _) in subjects() {
            let before = count_reads(&world, path).await;
            let things = world.things(kind);
            request_reconcile(&things, name, annotation, word).await;
            let said = format!("{kind} acknowledges {word:?}");
            things
                .wait_for(name, &said, SOON, |object| {
                    (handled_request(object) == word).then_some(())
                })
                .await;
            assert!(count_reads(&world, path).await > before, "{kind}: {word:?}");
        }
    }

    // From here on, requested reads have a minimum interval of five minutes.
    let slow = json!({"timing": {"activePollInterval": "5m"}});
    super::set_account_spec(&world, "default", &slow).await;
    let mut before = Vec::new();
    for (_, _, path, _) in subjects() {
        before.push(count_reads(&world, path).await);
    }
    for iteration in 0..12 {
        for (kind, name, ..) in subjects() {
            request_reconcile(
                &world.things(kind),
                name,
                OURS,
                &format!("loop-{iteration}"),
            )
            .await;
        }
    }
    // A later change of the spec shows that the operator has seen the last request.
    for ((kind, name, path, change), before) in subjects().into_iter().zip(before) {
        let things = world.things(kind);
        things.merge(name, &json!({"spec": change})).await;
        let object = things
            .wait_for(name, "the change to be seen", SOON, |object| {
                let seen = &object["status"]["observedGeneration"];
                (*seen == object["metadata"]["generation"]).then(|| object.clone())
            })
            .await;
        assert_eq!(
            handled_request(&object),
            "second",
            "{kind} had no other look"
        );
        assert_eq!(count_reads(&world, path).await, before, "{kind}");
    }
}

/// Waits until the operator tries nothing for this long, so that failed work has a longer backoff.
async fn wait_for_quiet(world: &World, rule: u64, quiet: Duration) {
    let mut hits = world.simulator.count_fault_hits(rule).await;
    let mut since = Instant::now();
    eventually("no try for a while", SOON, async || {
        let now = world.simulator.count_fault_hits(rule).await;
        if now != hits {
            (hits, since) = (now, Instant::now());
        }
        (since.elapsed() >= quiet).then_some(())
    })
    .await;
}

/// One kind of those that share their reconciler, and the two with their own.
#[tokio::test]
async fn requested_reconcile_skips_outage_backoff() {
    const QUIET: Duration = Duration::from_secs(8);
    let world = start_idle_world().await;
    let away = Fault::new(json!({"status": {"code": 503}}));
    let rule = world.simulator.fault(away).await;
    let kinds = ["ServerTag", "BareMetalServer", "ProviderAccount"];
    let asked = || subjects().into_iter().filter(|of| kinds.contains(&of.0));
    // The lists that they wait for fail too.
    for (kind, name, ..) in asked() {
        request_reconcile(&world.things(kind), name, OURS, "first").await;
    }
    world.simulator.wait_for_fault_hits(rule, 1, SOON).await;
    for (kind, name, ..) in asked() {
        wait_for_quiet(&world, rule, QUIET).await;
        let before = world.simulator.count_fault_hits(rule).await;
        request_reconcile(&world.things(kind), name, OURS, "second").await;
        let tried = world.simulator.wait_for_fault_hits(rule, before + 1, QUIET);
        tried.await;
        let object = world.things(kind).get(name).await.unwrap();
        assert_ne!(
            handled_request(&object),
            "second",
            "{kind}: it had no answer"
        );
    }
}
