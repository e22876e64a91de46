//! A look that somebody asks for by an annotation: every kind has it, says so, and no loop gets more of them than the
//! pace of the account has.

use serde_json::{Value, json};

use super::{SERVERS, SOON, hosts, ssh_keys, tags::tag, text, whitelists::whitelist};
use lab::rig::{Fault, Things, World, WorldOptions, cluster, eventually, quick_timing, server};
use std::time::Duration;
use tokio::time::Instant;

const OURS: &str = "flexmetal.dev/reconcile-requested-at";
const OF_FLUX: &str = "reconcile.fluxcd.io/requestedAt";

/// A kind, its object, what a look at it is, and a change of its spec that sends nothing.
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

/// How often something below this path was read.
async fn reads(world: &World, path: &str) -> usize {
    let ledger = world.simulator.ledger().await;
    let is_read = |call: &&Value| call["method"] == "GET" && text(&call["path"]).starts_with(path);
    ledger.iter().filter(is_read).count()
}

async fn ask(things: &Things, name: &str, annotation: &str, word: &str) {
    let annotations = json!({"metadata": {"annotations": {annotation: word}}});
    things.merge(name, &annotations).await;
}

fn handled(object: &Value) -> &Value {
    &object["status"]["lastHandledReconcileAt"]
}

/// A world at rest: nothing is looked at for an hour.
async fn at_rest() -> World {
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
    things("ServerTag").create(&tag("web", &json!({}))).await;
    let key = ssh_keys::ssh_key("ops", &key);
    things("SshKey").create(&key).await;
    let host = hosts::host("db", hosts::HOST, &json!({}));
    things("DedicatedHost").create(&host).await;
    let list = whitelist("me", &me);
    things("IpWhitelist").create(&list).await;
    for (kind, name, ..) in subjects() {
        things(kind).wait_ready(name, SOON).await;
    }
    world
}

#[tokio::test]
async fn requested_reconcile_is_rate_limited() {
    let world = at_rest().await;
    for (word, annotation) in [("first", OF_FLUX), ("second", OURS)] {
        for (kind, name, path, _) in subjects() {
            let before = reads(&world, path).await;
            let things = world.things(kind);
            ask(&things, name, annotation, word).await;
            let said = format!("{kind} acknowledges {word:?}");
            things
                .wait_for(name, &said, SOON, |object| {
                    (handled(object) == word).then_some(())
                })
                .await;
            assert!(reads(&world, path).await > before, "{kind}: {word:?}");
        }
    }

    // From here on a look may follow another one after five minutes only.
    let slow = json!({"timing": {"activePollInterval": "5m"}});
    super::set_account(&world, "default", &slow).await;
    let mut before = Vec::new();
    for (_, _, path, _) in subjects() {
        before.push(reads(&world, path).await);
    }
    for round in 0..12 {
        for (kind, name, ..) in subjects() {
            ask(&world.things(kind), name, OURS, &format!("loop-{round}")).await;
        }
    }
    // The last word was seen where a later change of the spec was.
    for ((kind, name, path, change), before) in subjects().into_iter().zip(before) {
        let things = world.things(kind);
        things.merge(name, &json!({"spec": change})).await;
        let object = things
            .wait_for(name, "the change to be seen", SOON, |object| {
                let seen = &object["status"]["observedGeneration"];
                (*seen == object["metadata"]["generation"]).then(|| object.clone())
            })
            .await;
        assert_eq!(handled(&object), "second", "{kind} had no other look");
        assert_eq!(reads(&world, path).await, before, "{kind}");
    }
}

/// How many requests a fault rule has hit.
async fn hit(world: &World, rule: u64) -> u64 {
    let all = world.simulator.faults().await;
    let rule = all.iter().find(|fault| fault["id"] == rule);
    rule.and_then(|rule| rule["applied"].as_u64()).unwrap_or(0)
}

/// Waits until nothing is tried for so long: what failed has longer pauses by then.
async fn wait_for_quiet(world: &World, rule: u64, quiet: Duration) {
    let (mut hits, mut since) = (hit(world, rule).await, Instant::now());
    eventually("no try for a while", SOON, async || {
        let now = hit(world, rule).await;
        if now != hits {
            (hits, since) = (now, Instant::now());
        }
        (since.elapsed() >= quiet).then_some(())
    })
    .await;
}

/// One kind of those that share their passes, and the two that have their own.
#[tokio::test]
async fn requested_reconcile_skips_outage_backoff() {
    const QUIET: Duration = Duration::from_secs(8);
    let world = at_rest().await;
    let away = Fault::new(json!({"status": {"code": 503}}));
    let rule = world.simulator.fault(away).await;
    let kinds = ["ServerTag", "BareMetalServer", "ProviderAccount"];
    let asked = || subjects().into_iter().filter(|of| kinds.contains(&of.0));
    // The lists that they wait for fail, too.
    for (kind, name, ..) in asked() {
        ask(&world.things(kind), name, OURS, "first").await;
    }
    eventually("the outage is met", SOON, async || {
        (hit(&world, rule).await > 0).then_some(())
    })
    .await;
    for (kind, name, ..) in asked() {
        wait_for_quiet(&world, rule, QUIET).await;
        let before = hit(&world, rule).await;
        ask(&world.things(kind), name, OURS, "second").await;
        let tried = format!("a try for {kind}");
        eventually(&tried, QUIET, async || {
            (hit(&world, rule).await > before).then_some(())
        })
        .await;
        let object = world.things(kind).get(name).await.unwrap();
        assert_ne!(handled(&object), "second", "{kind}: it had no answer");
    }
}
