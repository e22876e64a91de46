//! A server: ordered, Ready, released, gone.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use super::{
    super::{
        call_trace::{TargetApi, TracePosition},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle, wait_until_released,
};
use lab::rig::{Kstatus, health, server};

const ORDER: usize = 0;

pub(super) struct ServerLifecycle;

impl Lifecycle for ServerLifecycle {
    fn kind(&self) -> &'static str {
        "BareMetalServer"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Order", "Release"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Order", "cluster PATCH baremetalservers #1"),
            ("Order", "cluster PATCH baremetalservers/status #1"),
            ("Order", "hosting POST servers #1"),
            ("Order", "cluster PATCH baremetalservers/status #2"),
            ("Order", "cluster POST events (Ordered) #1"),
            ("Order", "cluster PATCH baremetalservers/status #3"),
            ("Order", "cluster POST events (Delivered) #1"),
            ("Release", "hosting GET servers/{uuid} #1"),
            ("Release", "cluster PATCH baremetalservers/status #1"),
            ("Release", "hosting DELETE servers/{uuid} #1"),
            ("Release", "cluster POST events (ReleaseStarted) #1"),
            ("Release", "cluster PATCH baremetalservers #1"),
            ("Release", "cluster POST events (Released) #1"),
        ]
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            match phase {
                ORDER => drop(proxied.world.create(&server(name)).await),
                _ => proxied.world.delete(name).await,
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
            if phase == ORDER {
                let object = ready(proxied, name).await;
                let findings = judge::check_after_order(world, &object).await;
                return (object, findings);
            }
            wait_until_released(world, name, before).await
        }
        .boxed_local()
    }

    /// Reads of a changing server come at their own pace. Before the release request the server
    /// is idle, so there each read belongs to the release.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        let sends = |place: &TracePosition| {
            place.api == TargetApi::Hosting && place.kind.starts_with("DELETE servers")
        };
        let sent = seen.iter().position(sends);
        !seen[index].is_read() || phase != ORDER && sent.is_some_and(|sent| index < sent)
    }
}

/// Waits until the object is Ready.
async fn ready(proxied: &ProxiedWorld, name: &str) -> Value {
    let world = &proxied.world;
    let current = |object: &Value| (health(object) == Kstatus::Current).then(|| object.clone());
    let waited = world.try_wait_for(name, "Ready", AT_ITS_END, current).await;
    match waited {
        Ok(object) => object,
        Err(sentence) => {
            // The simulator's records say more about the fault than the object does.
            let findings = judge::check_at_any_time(world).await;
            panic!("{sentence}\n{findings:#?}")
        }
    }
}
