//! A world whose operator uses both APIs through proxies.

use std::sync::Arc;
use std::time::Duration;

use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{
    call_trace::{CallTrace, TrapListener},
    fault_point::FaultPoint,
    proxy::TracingProxy,
};
use lab::rig::{Cluster, World, WorldOptions, server};

/// Maximum duration of an order or a release, faults included.
pub(crate) const AT_ITS_END: Duration = Duration::from_secs(60);

/// The world, its proxies and the trace of their calls.
pub(crate) struct ProxiedWorld {
    // Dropped first, so that the operator ends before the rest of the world.
    pub(crate) world: World,
    pub(crate) trace: Arc<CallTrace>,
    to_hosting: TracingProxy,
    to_cluster: Option<TracingProxy>,
    timing: Value,
}

impl ProxiedWorld {
    /// Starts a world with a running operator and a known server in the account.
    /// Without a known server no list is complete, and nothing can be confirmed absent.
    pub(crate) async fn start(cluster: &Cluster, timing: Value) -> Self {
        let plan = WorldOptions {
            timing: timing.clone(),
            ..WorldOptions::default()
        };
        let mut world = World::prepare(cluster, "crash", plan).await;
        let trace = Arc::new(CallTrace::new());
        let to_hosting = TracingProxy::to_hosting(world.simulator.api(), trace.clone()).await;
        let to_cluster = TracingProxy::to_cluster(cluster.access(), trace.clone()).await;
        world.allow_base_url(&to_hosting.url());
        world.write_account(&to_hosting.url(), &timing).await;
        let path = world.folder().join("kubeconfig");
        let text = serde_json::to_string(&kubeconfig(&to_cluster.url())).expect("it is JSON");
        std::fs::write(&path, text).expect("the folder can be written");
        world.set_kubeconfig(path);
        world.start_operator();
        // A new leader delays servers that are older than its term, because an earlier order may still arrive.
        let accounts = world.things("ProviderAccount");
        accounts
            .wait_for_condition("default", "Ready", "True", None, AT_ITS_END)
            .await;
        world.create(&server("control")).await;
        world.wait_ready("control", AT_ITS_END).await;
        Self {
            world,
            trace,
            to_hosting,
            timing,
            to_cluster: Some(to_cluster),
        }
    }

    /// Disconnects the operator from the API server, but not from the hosting API.
    pub(crate) fn disconnect_from_cluster(&mut self) {
        self.to_cluster = None;
    }

    /// Writes another account for the same simulator, with a Secret of the same name.
    pub(crate) async fn write_account(&self, name: &str) {
        let key = self.world.simulator.api_key();
        self.world.write_secret(name, key).await;
        let url = self.to_hosting.url();
        self.world
            .write_account_as(name, name, &url, &self.timing)
            .await;
    }

    /// Starts a new trace about `name`, with a trap for the fault if there is one.
    pub(crate) fn start_trace(
        &self,
        name: &str,
        point: Option<&FaultPoint>,
    ) -> Option<TrapListener> {
        match point {
            Some(point) => Some(self.trace.start_with_trap(
                name,
                &point.place,
                point.fault.trap_action(),
            )),
            None => {
                self.trace.start(name);
                None
            }
        }
    }
}

/// A kubeconfig for a proxy. It contains no credentials.
pub(crate) fn kubeconfig(server: &str) -> Kubeconfig {
    let value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
    });
    serde_json::from_value(value).expect("a kubeconfig")
}
