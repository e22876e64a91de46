//! A Windows server whose root password is stored, whose Secret is deleted when its time is over, and which is released.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::Place,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life, is_ready, is_released,
};
use lab::rig::{World, condition, server};

const ORDER: usize = 0;
const STORE: usize = 1;
const FORGET: usize = 2;
const FETCH: &str = "GET servers/{uuid}/rootPassword";

pub(super) struct Password;

impl Life for Password {
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
            // The Secret bears the name of its server, by which the trace knows it.
            let wish = |more: Value| json!({"spec": {"rootPassword": more}});
            match phase {
                ORDER => {
                    let mut windows = server(name);
                    windows["spec"]["os"] = json!({"slug": "windows-2022"});
                    windows["spec"]["sshKeys"] = json!([]);
                    world.create(&windows).await;
                }
                STORE => {
                    let wish = wish(json!({"secretRef": {"name": name}}));
                    world.merge(name, &wish).await;
                }
                FORGET => world.merge(name, &wish(json!({"ttl": "10s"}))).await,
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
                ORDER => is_ready(world, name).await,
                STORE => {
                    let is_stored = |object: &Value| {
                        let stored = condition(object, "RootPasswordStored")?;
                        (stored["status"] == "True").then(|| object.clone())
                    };
                    let object = world.wait_for(name, "stored", AT_ITS_END, is_stored).await;
                    let mut findings = judge::after_anything(world).await;
                    findings.extend(is_stored_as_it_is(world, name, &object).await);
                    findings.extend(is_asked_for_at_most(proxied, 2));
                    (object, findings)
                }
                FORGET => {
                    let is_over = |object: &Value| {
                        let deleted = &object["status"]["rootPassword"]["deletedAt"];
                        deleted.is_string().then(|| object.clone())
                    };
                    let object = world.wait_for(name, "over", AT_ITS_END, is_over).await;
                    let mut findings = judge::after_anything(world).await;
                    if stored(world, name).await.is_some() {
                        findings.push("status says that the Secret is deleted".into());
                    }
                    findings.extend(is_asked_for_at_most(proxied, 0));
                    (object, findings)
                }
                _ => is_released(world, name, before).await,
            }
        }
        .boxed_local()
    }

    /// The order and the release are those of any server.
    fn counts(&self, phase: usize, seen: &[Place], index: usize) -> bool {
        let place = &seen[index];
        (phase == STORE || phase == FORGET) && (!place.is_look() || place.sort == FETCH)
    }
}

/// The password in the Secret, if there is one.
async fn stored(world: &World, name: &str) -> Option<String> {
    let secret = world.secrets().get_opt(name).await.ok()??;
    let password = secret.data?.remove("password")?;
    String::from_utf8(password.0).ok()
}

/// The Secret holds what the provider shows.
async fn is_stored_as_it_is(world: &World, name: &str, object: &Value) -> Findings {
    let machine = object["status"]["uuid"].as_str().unwrap_or_default();
    let path = format!("/v3/flexMetal/servers/{machine}/rootPassword");
    let (_, shown) = world.simulator.call("GET", &path, None).await;
    match stored(world, name).await {
        Some(password) if shown.to_string().contains(&password) => Findings::new(),
        Some(_) => vec!["another password is stored".into()],
        None => vec!["status says that it is stored, and it is not".into()],
    }
}

/// Once, and once more where nobody knows what became of the first.
fn is_asked_for_at_most(proxied: &ProxiedWorld, times: usize) -> Findings {
    let seen = proxied.trace.seen();
    let asked = seen.iter().filter(|place| place.sort == FETCH).count();
    match asked > times {
        true => vec![format!("it was asked for {asked} times")],
        false => Findings::new(),
    }
}
