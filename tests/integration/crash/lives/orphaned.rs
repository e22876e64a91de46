//! A machine of the cluster that no object claims: released by the account's policy, once. One that an object speaks of
//! stays, and so do the machines of all living objects.

use std::hash::{DefaultHasher, Hash, Hasher};

use api::names::{CLUSTER_TAG, ORDER_TAG};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::{Place, Side},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life,
};
use lab::rig::{World, eventually, server};

pub(super) struct Orphaned;

impl Life for Orphaned {
    fn kind(&self) -> &'static str {
        "machine without an object"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Release"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Release", "hosting GET servers/{uuid} #1"),
            (
                "Release",
                "cluster PATCH provideraccounts/status (noted) #1",
            ),
            ("Release", "hosting GET servers/{uuid} #2"),
            ("Release", "hosting DELETE servers/{uuid} #1"),
            ("Release", "cluster PATCH provideraccounts/status (over) #1"),
        ]
    }

    fn sees_all_namespaces(&self) -> bool {
        true
    }

    /// What is written of such a machine is written on the account.
    fn subject<'a>(&self, _name: &'a str) -> &'a str {
        "default"
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        _phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let world = &proxied.world;
            release_orphans(world).await;
            let watched = lose(world, &watched(name)).await;
            let mut watcher = server(&watched_by(name));
            watcher["spec"]["externalID"] = watched.clone();
            watcher["spec"]["managementPolicy"] = json!("ObserveOnly");
            world.create(&watcher).await;
            lose(world, name).await;
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        _phase: usize,
        _before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let world = &proxied.world;
            let watcher = watched_by(name);
            let shows = |object: &Value| (object["status"]["uuid"].is_string()).then_some(());
            world.wait_for(&watcher, "shown", AT_ITS_END, shows).await;
            eventually("the machine is released", AT_ITS_END, async || {
                let is_over = machine(world, name).await["status"] == "released";
                let account = world.accounts().get("default").await.ok()?;
                (is_over && account.data["status"]["orphanRelease"].is_null()).then_some(())
            })
            .await;
            let mut findings = judge::after_anything(world).await;
            findings.extend(released_once(world, name).await);
            findings.extend(living_released(world).await);
            // What stays for good would stand in the way of the next life.
            let kept = machine(world, &watched(name)).await;
            if kept["status"] != "delivered" {
                findings.push(format!("an object speaks of it: {kept}"));
            }
            if let Some(uuid) = kept["uuid"].as_str() {
                let released = json!({"status": "released"});
                world.simulator.alter(uuid, &released).await;
            }
            world.delete(&watcher).await;
            world.wait_gone(&watcher, AT_ITS_END).await;
            (Value::Null, findings)
        }
        .boxed_local()
    }

    /// Other reports come at their own pace, and so do the looks at a machine that is on its way out. What is told twice of
    /// one account is one event.
    fn counts(&self, _phase: usize, seen: &[Place], index: usize) -> bool {
        let place = &seen[index];
        let sends =
            |place: &Place| place.side == Side::Hosting && place.sort.starts_with("DELETE servers");
        let sent = seen.iter().position(sends);
        match place.is_look() {
            true => sent.is_some_and(|sent| index < sent),
            false if place.sort.contains(" events") => false,
            false => place.sort != "PATCH provideraccounts/status" || place.nth == 1,
        }
    }
}

fn watched(name: &str) -> String {
    format!("watched-{name}")
}

fn watched_by(name: &str) -> String {
    format!("watcher-{name}")
}

/// The policy of the account, the same in each life. The brake lets all of them begin.
async fn release_orphans(world: &World) {
    let policy = json!({"spec": {
        "orphanPolicy": {"mode": "Release", "after": "1s"},
        "releaseBrake": {"maxReleases": 100, "window": "1m"},
    }});
    let parameters = PatchParams::default();
    let patched = world
        .accounts()
        .patch("default", &parameters, &Patch::Merge(&policy))
        .await;
    patched.expect("the account can be changed");
}

/// A machine of an object that is gone; returns its identifier.
async fn lose(world: &World, name: &str) -> Value {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let order_tag = format!("{ORDER_TAG}{:032x}", hasher.finish());
    let tags = [format!("{CLUSTER_TAG}{}", world.cluster_id), order_tag];
    let lost = json!({"name": name, "tags": tags});
    world.simulator.appear(&lost).await["uuid"].clone()
}

/// The machine of this name.
async fn machine(world: &World, name: &str) -> Value {
    let machines = world.simulator.machines().await;
    let found = machines.into_iter().find(|m| m["name"] == name);
    found.unwrap_or_default()
}

/// The requests to release this machine; `taken`: those that the provider took.
async fn releases(world: &World, uuid: &Value, taken: bool) -> usize {
    let ledger = world.simulator.ledger().await;
    let ends = format!("/servers/{}", uuid.as_str().unwrap_or_default());
    let is_it = |call: &&Value| {
        let path = call["path"].as_str().unwrap_or_default();
        call["method"] == "DELETE"
            && path.trim_end_matches('/').ends_with(&ends)
            && (!taken || !call["effect"].is_null())
    };
    ledger.iter().filter(is_it).count()
}

async fn released_once(world: &World, name: &str) -> Findings {
    let lost = machine(world, name).await;
    match releases(world, &lost["uuid"], true).await {
        1 => Findings::new(),
        taken => vec![format!("{taken} releases of {lost} were taken, not one")],
    }
}

/// Requests to release the machine of an object that lives, whatever became of them.
async fn living_released(world: &World) -> Findings {
    let objects = world.servers().list(&ListParams::default()).await;
    let mut findings = Findings::new();
    for object in objects.expect("the API server lists") {
        let uuid = &object.data["status"]["uuid"];
        if releases(world, uuid, false).await > 0 {
            let name = object.metadata.name.unwrap_or_default();
            findings.push(format!("{uuid} of {name}, which lives, was to be released"));
        }
    }
    findings
}
