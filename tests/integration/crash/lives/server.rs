//! A server: ordered, Ready, released, gone.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use super::{
    super::{
        call_trace::{Place, Side},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life, is_released,
};
use lab::rig::{Kstatus, health, server};

const ORDER: usize = 0;

pub(super) struct Server;

impl Life for Server {
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
                let findings = judge::after_order(world, &object).await;
                return (object, findings);
            }
            is_released(world, name, before).await
        }
        .boxed_local()
    }

    /// Looks at a machine in motion come at their own pace. Before the release is sent the machine
    /// stands still, so there each look belongs to the release.
    fn counts(&self, phase: usize, seen: &[Place], index: usize) -> bool {
        let sends =
            |place: &Place| place.side == Side::Hosting && place.sort.starts_with("DELETE servers");
        let sent = seen.iter().position(sends);
        !seen[index].is_look() || phase != ORDER && sent.is_some_and(|sent| index < sent)
    }
}

/// The object once it is Ready.
async fn ready(proxied: &ProxiedWorld, name: &str) -> Value {
    let world = &proxied.world;
    let look = |object: &Value| (health(object) == Kstatus::Current).then(|| object.clone());
    let waited = world.try_wait_for(name, "Ready", AT_ITS_END, look).await;
    match waited {
        Ok(object) => object,
        Err(sentence) => {
            // The simulator's records say more about what went wrong than the object does.
            let findings = judge::after_anything(world).await;
            panic!("{sentence}\n{findings:#?}")
        }
    }
}
