//! The server objects under test: created, watched until Ready, deleted, watched until gone.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::world::{INSTANCE_TYPE, LOCATION, NAMESPACE};

const AT_ONCE: usize = 32;

/// State of the objects when a phase ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// Number of objects that reached the end of the phase.
    pub(crate) done: usize,
    /// Time until the last one did.
    pub(crate) took: Duration,
}

/// The objects by name, and whether they are Ready.
type ReadyByName = HashMap<String, bool>;

/// All servers of the benchmark.
pub(crate) struct Servers {
    api: Api<DynamicObject>,
    /// Number of servers.
    pub(crate) number: u32,
}

impl Servers {
    pub(crate) fn new(client: Client, number: u32) -> Self {
        let kind = GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", "BareMetalServer");
        let resource = ApiResource::from_gvk(&kind);
        Self {
            api: Api::namespaced_with(client, NAMESPACE, &resource),
            number,
        }
    }

    /// Creates them, and waits until all are Ready or `within` has elapsed.
    pub(crate) async fn order(&self, within: Duration) -> Result<Reached, kube::Error> {
        let began = Instant::now();
        let parameters = PostParams::default();
        let made = stream::iter(0..self.number)
            .map(|number| {
                let parameters = &parameters;
                async move { self.api.create(parameters, &server(number)).await.map(drop) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>();
        let all_ready =
            |seen: &ReadyByName| seen.len() == self.total() && seen.values().all(|ready| *ready);
        let (made, (seen, took)) = tokio::join!(made, self.watch(began, within, all_ready));
        made?;
        Ok(Reached {
            done: seen.values().filter(|ready| **ready).count(),
            took,
        })
    }

    /// Deletes them, and waits until all are gone or `within` has elapsed.
    pub(crate) async fn release(&self, within: Duration) -> Result<Reached, kube::Error> {
        let began = Instant::now();
        // One by one, as `kubectl delete --all` does: an API server aborts a single request for thousands.
        let parameters = DeleteParams::default();
        let deleted = stream::iter(0..self.number)
            .map(|number| {
                let parameters = &parameters;
                async move { self.api.delete(&name(number), parameters).await.map(drop) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>();
        let (deleted, (seen, took)) =
            tokio::join!(deleted, self.watch(began, within, ReadyByName::is_empty));
        deleted?;
        Ok(Reached {
            done: self.total().saturating_sub(seen.len()),
            took,
        })
    }

    fn total(&self) -> usize {
        usize::try_from(self.number).unwrap_or(usize::MAX)
    }

    /// Watches the objects until `end` is true for them. Returns them and the time it took.
    async fn watch(
        &self,
        began: Instant,
        within: Duration,
        end: impl Fn(&ReadyByName) -> bool,
    ) -> (ReadyByName, Duration) {
        let mut seen = ReadyByName::new();
        let mut listed = false;
        let mut events = pin!(watcher(self.api.clone(), watcher::Config::default()));
        while !(listed && end(&seen)) {
            let Ok(Some(event)) = timeout_at(began + within, events.next()).await else {
                break;
            };
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitDone) => listed = true,
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    let ready = is_ready(&object);
                    seen.insert(object.metadata.name.unwrap_or_default(), ready);
                }
                Ok(Event::Delete(object)) => {
                    seen.remove(&object.metadata.name.unwrap_or_default());
                }
                // The watcher restarts by itself.
                Err(_) => {}
            }
        }
        (seen, began.elapsed())
    }
}

fn name(number: u32) -> String {
    format!("server-{number:05}")
}

fn server(number: u32) -> DynamicObject {
    let kind = GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", "BareMetalServer");
    DynamicObject::new(&name(number), &ApiResource::from_gvk(&kind)).data(json!({
        "spec": {
            "location": LOCATION,
            "instanceType": INSTANCE_TYPE,
            "os": { "slug": "ubuntu-2404-lts" },
            "sshKeys": [{ "publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC/uOXk0oG4HuLT0OHKhsxy6jc8PYHNhawH0/rj7Kj6O bench@example.com" }],
            "tags": ["team:bench"],
        }
    }))
}

pub(super) fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|each| each["type"] == "Ready" && each["status"] == "True")
    })
}
