//! An existing server: adopted, then retained when the object is deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::{
    super::{
        call_trace::TracePosition,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};
use lab::rig::{World, condition, server};

const ADOPT: usize = 0;
/// Reads before the tags are added, and before ownership is recorded.
const READ: &str = "GET servers/{uuid}";
const READS: u32 = 2;

pub(super) struct AdoptedLifecycle;

impl Lifecycle for AdoptedLifecycle {
    fn kind(&self) -> &'static str {
        "BareMetalServer of a machine that was there"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Adopt", "Retain"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Adopt", "cluster PATCH baremetalservers #1"),
            // The claim.
            ("Adopt", "cluster PATCH baremetalservers/status #1"),
            ("Adopt", "hosting GET servers/{uuid} #1"),
            ("Adopt", "hosting POST servers/{uuid}/tag/{tag} #1"),
            ("Adopt", "hosting POST servers/{uuid}/tag/{tag} #2"),
            ("Adopt", "hosting GET servers/{uuid} #2"),
            // The record.
            ("Adopt", "cluster PATCH baremetalservers/status #2"),
            ("Adopt", "cluster POST events (Adopted) #1"),
            ("Retain", "hosting POST servers/{uuid}/tag/{tag} #1"),
            ("Retain", "cluster PATCH baremetalservers #1"),
            ("Retain", "cluster POST events (Retained) #1"),
        ]
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let world = &proxied.world;
            if phase != ADOPT {
                return world.delete(name).await;
            }
            let provider_server = world.simulator.appear(&json!({"name": name})).await;
            let mut object = server(name);
            object["spec"]["externalID"] = provider_server["uuid"].clone();
            object["spec"]["deletionPolicy"] = json!("Retain");
            world.create(&object).await;
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let world = &proxied.world;
            if phase == ADOPT {
                let is_whole = |object: &Value| {
                    let synced = condition(object, "Synced")?;
                    (synced["status"] == "True").then(|| object.clone())
                };
                let object = world.wait_for(name, "taken on", AT_ITS_END, is_whole).await;
                let uuid = object["spec"]["externalID"].clone();
                // The operator adds a missing tag again, after a backoff.
                let start = Instant::now();
                let mut found = check_ownership_tags(world, &uuid, 2).await;
                while !found.is_empty() && start.elapsed() < AT_ITS_END {
                    sleep(Duration::from_millis(100)).await;
                    found = check_ownership_tags(world, &uuid, 2).await;
                }
                return (uuid, found);
            }
            world.wait_gone(name, AT_ITS_END).await;
            let found = check_ownership_tags(world, before, 3).await;
            // A retained server would disturb later checks.
            if let Some(uuid) = before.as_str() {
                let released = json!({"status": "released"});
                world.simulator.alter(uuid, &released).await;
            }
            (Value::Null, found)
        }
        .boxed_local()
    }

    /// The operator reads an adopted server twice, each time right before it uses the result.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        let place = &seen[index];
        let is_of_adoption = phase == ADOPT && place.kind == READ && place.nth <= READS;
        !place.is_read() || is_of_adoption
    }
}

/// Checks that the server runs with this many ownership tags, one of each kind, and that no other was ordered.
async fn check_ownership_tags(world: &World, uuid: &Value, count: usize) -> Findings {
    let servers = world.simulator.list_servers().await;
    let judgement = judge::check_at_any_time(world).await;
    // No object owns a retained server, on purpose.
    let kept = |finding: &String| {
        finding.starts_with(judge::UNOWNED_SERVER) && finding.contains("fmo-retained")
    };
    let mut findings: Findings = judgement.into_iter().filter(|f| !kept(f)).collect();
    let Some(server) = servers.iter().find(|m| m["uuid"] == *uuid) else {
        return vec![format!("server {uuid} is gone")];
    };
    let tags = server["tags"].as_array().into_iter().flatten();
    let mut own: Vec<&str> = tags.filter_map(Value::as_str).collect();
    own.retain(|tag| tag.starts_with("fmo-"));
    let sort = |tag: &&str| tag.split(':').next().unwrap_or_default().to_owned();
    let mut sorts: Vec<String> = own.iter().map(sort).collect();
    sorts.sort_unstable();
    sorts.dedup();
    if server["status"] != "delivered" || own.len() != count || sorts.len() != count {
        findings.push(format!("not {count} marks, or not delivered: {server}"));
    }
    let name = &server["name"];
    let namesakes = servers.iter().filter(|m| m["name"] == *name).count();
    if namesakes != 1 {
        findings.push(format!("there are {namesakes} machines of the name {name}"));
    }
    findings
}
