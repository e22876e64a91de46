//! Creates, changes and deletes the objects of a world, and waits for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use tokio::time::Instant;

use super::{World, deadline::sleep_until_next_probe, kstatus::condition};

/// The kind of most objects in tests.
const SERVER: &str = "BareMetalServer";

/// The objects of one of our kinds in a namespace, undecoded.
pub struct Things {
    api: Api<DynamicObject>,
    namespace: String,
}

impl Things {
    /// The Kubernetes API of these objects.
    pub fn api(&self) -> &Api<DynamicObject> {
        &self.api
    }

    /// Creates an object, and returns it as stored.
    pub async fn create(&self, object: &Value) -> Value {
        let wanted: DynamicObject =
            serde_json::from_value(object.clone()).expect("an object in manifest form");
        let made = self.api.create(&PostParams::default(), &wanted).await;
        value(&made.unwrap_or_else(|error| panic!("cannot create {object}: {error}")))
    }

    /// Merges a change into an object.
    pub async fn merge(&self, name: &str, change: &Value) {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap_or_else(|error| panic!("cannot change {name}: {error}"));
    }

    /// Requests the deletion of an object.
    pub async fn delete(&self, name: &str) {
        self.api
            .delete(name, &DeleteParams::default())
            .await
            .unwrap_or_else(|error| panic!("cannot delete {name}: {error}"));
    }

    /// The current object, if it exists.
    pub async fn get(&self, name: &str) -> Option<Value> {
        let found = self.api.get_opt(name).await;
        found.expect("the API server answers").as_ref().map(value)
    }

    /// Reads an object until `probe` returns a value for it.
    ///
    /// # Panics
    /// If that does not happen `within` the time; the message shows the object.
    pub async fn wait_for<T>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        probe: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        let found = self.try_wait_for(name, what, within, probe).await;
        found.unwrap_or_else(|sentence| panic!("{sentence}"))
    }

    /// Like [`Things::wait_for`], but returns the panic message as an error.
    pub async fn try_wait_for<T>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        mut probe: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T, String> {
        let start = Instant::now();
        loop {
            let object = self.get(name).await;
            if let Some(found) = object.as_ref().and_then(&mut probe) {
                return Ok(found);
            }
            if start.elapsed() >= within {
                return Err(format!(
                    "{name} in {}: not {what} within {} s; it is {}",
                    self.namespace,
                    within.as_secs(),
                    object.map_or("not there".to_owned(), |object| format!("{object:#}")),
                ));
            }
            sleep_until_next_probe(start).await;
        }
    }

    /// Waits until a condition of an object has this status and, if given, reason.
    pub async fn wait_for_condition(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: Option<&str>,
        within: Duration,
    ) -> Value {
        let what = format!("{kind}={status} {}", reason.unwrap_or_default());
        self.wait_for(name, &what, within, |object| {
            let found = condition(object, kind)?;
            let right = found["status"] == status && reason.is_none_or(|r| found["reason"] == r);
            right.then(|| object.clone())
        })
        .await
    }

    /// Waits until an object is Ready, and returns it.
    pub async fn wait_ready(&self, name: &str, within: Duration) -> Value {
        self.wait_for_condition(name, "Ready", "True", None, within)
            .await
    }

    /// Waits until an object is gone.
    pub async fn wait_gone(&self, name: &str, within: Duration) {
        let start = Instant::now();
        while let Some(object) = self.get(name).await {
            assert!(
                start.elapsed() < within,
                "{name} in {}: not gone within {} s; it is {object:#}",
                self.namespace,
                within.as_secs(),
            );
            sleep_until_next_probe(start).await;
        }
    }
}

impl World {
    /// The objects of one of our kinds in the world's namespace.
    pub fn things(&self, kind_name: &str) -> Things {
        self.things_in(&self.namespace, kind_name)
    }

    /// The objects of one of our kinds in another namespace.
    pub fn things_in(&self, namespace: &str, kind_name: &str) -> Things {
        let kind = kind(kind_name);
        Things {
            api: Api::namespaced_with(self.client.clone(), namespace, &kind),
            namespace: namespace.to_owned(),
        }
    }

    /// The objects of one of our cluster-scoped kinds.
    pub fn cluster_things(&self, kind_name: &str) -> Things {
        Things {
            api: Api::all_with(self.client.clone(), &kind(kind_name)),
            namespace: "the cluster".to_owned(),
        }
    }

    /// The server objects of the world, undecoded.
    pub fn servers(&self) -> Api<DynamicObject> {
        self.things(SERVER).api
    }

    /// The account objects of the world, undecoded.
    pub fn accounts(&self) -> Api<DynamicObject> {
        self.things("ProviderAccount").api
    }

    /// The Secrets of the world.
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// [`Things::create`] of a server.
    pub async fn create(&self, server: &Value) -> Value {
        self.things(SERVER).create(server).await
    }

    /// [`Things::merge`] of a server.
    pub async fn merge(&self, name: &str, change: &Value) {
        self.things(SERVER).merge(name, change).await;
    }

    /// [`Things::delete`] of a server.
    pub async fn delete(&self, name: &str) {
        self.things(SERVER).delete(name).await;
    }

    /// [`Things::get`] of a server.
    pub async fn get(&self, name: &str) -> Option<Value> {
        self.things(SERVER).get(name).await
    }

    /// [`Things::wait_for`] of a server.
    pub async fn wait_for<T>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        probe: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        self.things(SERVER)
            .wait_for(name, what, within, probe)
            .await
    }

    /// [`Things::try_wait_for`] of a server.
    pub async fn try_wait_for<T>(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        probe: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T, String> {
        self.things(SERVER)
            .try_wait_for(name, what, within, probe)
            .await
    }

    /// [`Things::wait_for_condition`] of a server.
    pub async fn wait_for_condition(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: Option<&str>,
        within: Duration,
    ) -> Value {
        self.things(SERVER)
            .wait_for_condition(name, kind, status, reason, within)
            .await
    }

    /// [`Things::wait_ready`] of a server.
    pub async fn wait_ready(&self, name: &str, within: Duration) -> Value {
        self.things(SERVER).wait_ready(name, within).await
    }

    /// [`Things::wait_gone`] of a server.
    pub async fn wait_gone(&self, name: &str, within: Duration) {
        self.things(SERVER).wait_gone(name, within).await;
    }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object is JSON")
}

/// One of our kinds.
fn kind(name: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", name))
}
