//! An object whose first server fails: the operator gives it up and replaces it with one order.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::TracePosition,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};
use lab::rig::{Kstatus, World, health, server};

const FAIL: usize = 0;
const REPLACE: usize = 1;

pub(super) struct ReplacedLifecycle;

impl Lifecycle for ReplacedLifecycle {
    fn kind(&self) -> &'static str {
        "BareMetalServer whose machine failed"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Fail", "Replace", "End"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Replace", "cluster PATCH baremetalservers/status #1"),
            ("Replace", "hosting DELETE servers/{uuid} #1"),
            ("Replace", "cluster PATCH baremetalservers/status #2"),
            ("Replace", "hosting DELETE servers/{uuid} #2"),
            ("Replace", "cluster POST events (Replaced) #1"),
            ("Replace", "cluster PATCH baremetalservers/status #3"),
            ("Replace", "hosting POST servers #1"),
            ("Replace", "cluster PATCH baremetalservers/status #4"),
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
            let failing = |rate: f64| json!({"failureRate": rate});
            match phase {
                FAIL => {
                    world.simulator.settings(&failing(1.0)).await;
                    world.create(&server(name)).await;
                }
                REPLACE => {
                    world.simulator.settings(&failing(0.0)).await;
                    let replace = json!({"spec": {"failurePolicy": "Replace"}});
                    world.merge(name, &replace).await;
                }
                _ => world.delete(name).await,
            }
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
            let wanted = match phase {
                FAIL => Kstatus::Failed,
                REPLACE => Kstatus::Current,
                _ => {
                    world.wait_gone(name, AT_ITS_END).await;
                    return (
                        Value::Null,
                        check_server_end(world, before, "released").await,
                    );
                }
            };
            let is_there = |object: &Value| {
                let has_server = object["status"]["uuid"].is_string();
                (has_server && health(object) == wanted).then(|| object.clone())
            };
            let object = world.wait_for(name, "its end", AT_ITS_END, is_there).await;
            let uuid = object["status"]["uuid"].clone();
            let (count, status) = match phase {
                FAIL => (1, "failed"),
                _ => (2, "delivered"),
            };
            let mut findings = check_server_end(world, &uuid, status).await;
            let servers = world.simulator.list_servers().await;
            let namesakes = servers.iter().filter(|m| m["name"] == name).count();
            if namesakes != count {
                findings.push(format!("{namesakes} machines of {name} and not {count}"));
            }
            (uuid, findings)
        }
        .boxed_local()
    }

    /// The lifecycle of a plain server tests the first order and the release.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        phase == REPLACE && !seen[index].is_read()
    }
}

/// Checks that the server has this status, and that nothing else is wrong.
async fn check_server_end(world: &World, uuid: &Value, status: &str) -> Findings {
    let mut findings = judge::check_at_any_time(world).await;
    let servers = world.simulator.list_servers().await;
    let server = servers.iter().find(|m| m["uuid"] == *uuid);
    if server.is_none_or(|m| m["status"] != status) {
        findings.push(format!("not {status}: {server:?}"));
    }
    findings
}
