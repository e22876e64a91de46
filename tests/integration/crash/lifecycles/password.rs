//! A Windows server: its root password is stored, the Secret is deleted when it expires, and the server is released.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::TracePosition,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle, wait_until_ready, wait_until_released,
};
use lab::rig::{World, condition, server};

const ORDER: usize = 0;
const STORE: usize = 1;
const FORGET: usize = 2;
const FETCH: &str = "GET servers/{uuid}/rootPassword";

pub(super) struct PasswordLifecycle;

impl Lifecycle for PasswordLifecycle {
    fn kind(&self) -> &'static str {
        "BareMetalServer with a root password"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Order", "Store", "Forget", "Release"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Store", "hosting GET servers/{uuid}/rootPassword #1"),
            ("Store", "cluster POST secrets #1"),
            ("Store", "cluster PATCH baremetalservers/status #1"),
            ("Forget", "cluster DELETE secrets #1"),
            ("Forget", "cluster PATCH baremetalservers/status #1"),
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
            // The Secret has the name of its server, so that the trace matches it.
            let patch = |more: Value| json!({"spec": {"rootPassword": more}});
            match phase {
                ORDER => {
                    let mut windows = server(name);
                    windows["spec"]["os"] = json!({"slug": "windows-2022"});
                    windows["spec"]["sshKeys"] = json!([]);
                    world.create(&windows).await;
                }
                STORE => {
                    let patch = patch(json!({"secretRef": {"name": name}}));
                    world.merge(name, &patch).await;
                }
                FORGET => world.merge(name, &patch(json!({"ttl": "10s"}))).await,
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
                STORE => {
                    let is_stored = |object: &Value| {
                        let stored = condition(object, "RootPasswordStored")?;
                        (stored["status"] == "True").then(|| object.clone())
                    };
                    let object = world.wait_for(name, "stored", AT_ITS_END, is_stored).await;
                    let mut findings = judge::check_at_any_time(world).await;
                    findings.extend(check_stored_password(world, name, &object).await);
                    findings.extend(check_password_reads(proxied, 2));
                    (object, findings)
                }
                FORGET => {
                    let is_over = |object: &Value| {
                        let deleted = &object["status"]["rootPassword"]["deletedAt"];
                        deleted.is_string().then(|| object.clone())
                    };
                    let object = world.wait_for(name, "over", AT_ITS_END, is_over).await;
                    let mut findings = judge::check_at_any_time(world).await;
                    if get_stored_password(world, name).await.is_some() {
                        findings.push("status says that the Secret is deleted".into());
                    }
                    findings.extend(check_password_reads(proxied, 0));
                    (object, findings)
                }
                _ => wait_until_released(world, name, before).await,
            }
        }
        .boxed_local()
    }

    /// The lifecycle of a plain server tests the order and the release.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        let place = &seen[index];
        (phase == STORE || phase == FORGET) && (!place.is_read() || place.kind == FETCH)
    }
}

/// The password in the Secret, if there is one.
async fn get_stored_password(world: &World, name: &str) -> Option<String> {
    let secret = world.secrets().get_opt(name).await.ok()??;
    let password = secret.data?.remove("password")?;
    String::from_utf8(password.0).ok()
}

/// Checks that the Secret contains the password that the provider shows.
async fn check_stored_password(world: &World, name: &str, object: &Value) -> Findings {
    let uuid = object["status"]["uuid"].as_str().unwrap_or_default();
    let path = format!("/v3/flexMetal/servers/{uuid}/rootPassword");
    let (_, shown) = world.simulator.call("GET", &path, None).await;
    match get_stored_password(world, name).await {
        Some(password) if shown.to_string().contains(&password) => Findings::new(),
        Some(_) => vec!["another password is stored".into()],
        None => vec!["status says that it is stored, and it is not".into()],
    }
}

/// Checks that the password was read this often, or once more if the outcome of the first read is unknown.
fn check_password_reads(proxied: &ProxiedWorld, times: usize) -> Findings {
    let seen = proxied.trace.seen();
    let asked = seen.iter().filter(|place| place.kind == FETCH).count();
    match asked > times {
        true => vec![format!("it was asked for {asked} times")],
        false => Findings::new(),
    }
}
