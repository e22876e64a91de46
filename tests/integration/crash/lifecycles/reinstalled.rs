//! A server that is reinstalled by a higher revision, and released.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::{TargetApi, TracePosition},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle, wait_until_ready, wait_until_released,
};
use lab::rig::server;

const ORDER: usize = 0;
const INSTALL: usize = 1;
const PATCH: &str = "PATCH servers/{uuid}";

pub(super) struct ReinstallLifecycle;

impl Lifecycle for ReinstallLifecycle {
    fn kind(&self) -> &'static str {
        "BareMetalServer that is installed again"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Order", "Install", "Release"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Install", "cluster PATCH baremetalservers/status #1"),
            ("Install", "hosting PATCH servers/{uuid} #1"),
            ("Install", "cluster PATCH baremetalservers/status #2"),
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
            match phase {
                ORDER => {
                    let quick = json!({"installSeconds": 1});
                    world.simulator.settings(&quick).await;
                    world.create(&server(name)).await;
                }
                INSTALL => {
                    let install = json!({"spec": {"install": {"revision": 1}}});
                    world.merge(name, &install).await;
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
            match phase {
                ORDER => wait_until_ready(world, name).await,
                INSTALL => {
                    let is_over = |object: &Value| {
                        let install = &object["status"]["install"];
                        let is_it =
                            install["revision"] == 1 && install["last"]["result"].is_string();
                        is_it.then(|| object.clone())
                    };
                    let object = world.wait_for(name, "over", AT_ITS_END, is_over).await;
                    let mut findings = judge::check_at_any_time(world).await;
                    findings.extend(check_wiped_once(proxied, &object).await);
                    (object, findings)
                }
                _ => wait_until_released(world, name, before).await,
            }
        }
        .boxed_local()
    }

    /// The lifecycle of a plain server tests the order and the release.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        phase == INSTALL && !seen[index].is_read()
    }
}

/// Checks that at most one request was sent, and that the reported result is true or unknown.
async fn check_wiped_once(proxied: &ProxiedWorld, object: &Value) -> Findings {
    let mut findings = Findings::new();
    let seen = proxied.trace.seen();
    let sent = seen.iter().filter(|place| place.api == TargetApi::Hosting);
    let sent = sent.filter(|place| place.kind == PATCH).count();
    if sent > 1 {
        findings.push(format!("{sent} requests were sent, not one"));
    }
    let uuid = object["status"]["uuid"].as_str().unwrap_or_default();
    let path = format!("/v3/flexMetal/servers/{uuid}/commands?type=update-server");
    let had = proxied.world.simulator.records(&path).await;
    let end = &object["status"]["install"]["last"]["result"];
    let is_so = match end.as_str() {
        Some("Finished") => had.len() == 1 && had[0]["state"] == "finished",
        Some("Unknown") => had.len() <= 1,
        _ => false,
    };
    if !is_so {
        findings.push(format!("it ended as {end}, and the machine had {had:?}"));
    }
    findings
}
