//! A world whose operator reaches everything through the proxies.

use std::sync::Arc;
use std::time::Duration;

use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{
    call_trace::{CallTrace, Watch},
    fault_point::FaultPoint,
    proxy::Proxy,
};
use lab::rig::{Cluster, World, WorldOptions, server};

/// An order or a release ends within this time, faults included.
pub(crate) const AT_ITS_END: Duration = Duration::from_secs(60);

/// The world, its proxies and the trace of their calls.
pub(crate) struct ProxiedWorld {
    // Dropped first, so that the operator does not see its world fall apart.
    pub(crate) world: World,
    pub(crate) trace: Arc<CallTrace>,
    to_hosting: Proxy,
    to_cluster: Option<Proxy>,
    timing: Value,
}

impl ProxiedWorld {
    /// A world with a running operator, and a known machine in the account:
    /// without one, nothing could be proved absent.
    pub(crate) async fn start(cluster: &Cluster, timing: Value) -> Self {
        let plan = WorldOptions {
            timing: timing.clone(),
            ..WorldOptions::default()
        };
        let mut world = World::prepare(cluster, "crash", plan).await;
        let trace = Arc::new(CallTrace::new());
        let to_hosting = Proxy::to_hosting(world.simulator.api(), trace.clone()).await;
        let to_cluster = Proxy::to_cluster(cluster.access(), trace.clone()).await;
        world.allow_base_url(&to_hosting.url());
        world.write_account(&to_hosting.url(), &timing).await;
        let path = world.folder().join("kubeconfig");
        let text = serde_json::to_string(&kubeconfig(&to_cluster.url())).expect("it is JSON");
        std::fs::write(&path, text).expect("the folder can be written");
        world.set_kubeconfig(path);
        world.start_operator();
        // An object that is there before somebody leads waits out the time in which an order may still arrive.
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

    /// The operator does not reach the API server any more. The hosting API it does.
    pub(crate) fn cut_off_from_cluster(&mut self) {
        self.to_cluster = None;
    }

    /// One more account for the same place, with a Secret of the same name.
    pub(crate) async fn write_account(&self, name: &str) {
        let key = self.world.simulator.api_key();
        self.world.write_secret(name, key).await;
        let url = self.to_hosting.url();
        self.world
            .write_account_as(name, name, &url, &self.timing)
            .await;
    }

    /// Starts a new trace about `name`, with a trap for the fault if there is one.
    pub(crate) fn arm(&self, name: &str, point: Option<&FaultPoint>) -> Option<Watch> {
        match point {
            Some(point) => Some(
                self.trace
                    .start_with_trap(name, &point.place, point.fault.act()),
            ),
            None => {
                self.trace.start(name);
                None
            }
        }
    }
}

/// A kubeconfig for a proxy, which needs no credentials.
pub(crate) fn kubeconfig(server: &str) -> Kubeconfig {
    let value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
    });
    serde_json::from_value(value).expect("a kubeconfig")
}
