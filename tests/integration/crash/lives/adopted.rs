//! A machine that was there before its object: taken on, then kept when the object goes.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::{
    super::{
        call_trace::Place,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life,
};
use lab::rig::{World, condition, server};

const ADOPT: usize = 0;
/// Before the tags, and before the record that it is the object's.
const READ: &str = "GET servers/{uuid}";
const READS: u32 = 2;

pub(super) struct Adopted;

impl Life for Adopted {
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
            let machine = world.simulator.appear(&json!({"name": name})).await;
            let mut object = server(name);
            object["spec"]["externalID"] = machine["uuid"].clone();
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
                // What is not there yet is put on again, after a pause.
                let start = Instant::now();
                let mut found = marked(world, &uuid, 2).await;
                while !found.is_empty() && start.elapsed() < AT_ITS_END {
                    sleep(Duration::from_millis(100)).await;
                    found = marked(world, &uuid, 2).await;
                }
                return (uuid, found);
            }
            world.wait_gone(name, AT_ITS_END).await;
            let found = marked(world, before, 3).await;
            // What stays for good would stand in the way of the next judgement.
            if let Some(uuid) = before.as_str() {
                let released = json!({"status": "released"});
                world.simulator.alter(uuid, &released).await;
            }
            (Value::Null, found)
        }
        .boxed_local()
    }

    /// A server that is taken is read twice, each time right before what rests on that.
    fn counts(&self, phase: usize, seen: &[Place], index: usize) -> bool {
        let place = &seen[index];
        let is_of_adoption = phase == ADOPT && place.sort == READ && place.nth <= READS;
        !place.is_look() || is_of_adoption
    }
}

/// The machine runs with so many marks, one of each sort, and none was ordered in its place.
async fn marked(world: &World, uuid: &Value, marks: usize) -> Findings {
    let machines = world.simulator.list_servers().await;
    let judgement = judge::after_anything(world).await;
    // Kept machines are nobody's on purpose.
    let kept =
        |finding: &String| finding.starts_with("nobody claims") && finding.contains("fmo-retained");
    let mut findings: Findings = judgement.into_iter().filter(|f| !kept(f)).collect();
    let Some(machine) = machines.iter().find(|m| m["uuid"] == *uuid) else {
        return vec![format!("machine {uuid} is gone")];
    };
    let tags = machine["tags"].as_array().into_iter().flatten();
    let mut own: Vec<&str> = tags.filter_map(Value::as_str).collect();
    own.retain(|tag| tag.starts_with("fmo-"));
    let sort = |tag: &&str| tag.split(':').next().unwrap_or_default().to_owned();
    let mut sorts: Vec<String> = own.iter().map(sort).collect();
    sorts.sort_unstable();
    sorts.dedup();
    if machine["status"] != "delivered" || own.len() != marks || sorts.len() != marks {
        findings.push(format!("not {marks} marks, or not delivered: {machine}"));
    }
    let name = &machine["name"];
    let namesakes = machines.iter().filter(|m| m["name"] == *name).count();
    if namesakes != 1 {
        findings.push(format!("there are {namesakes} machines of the name {name}"));
    }
    findings
}
