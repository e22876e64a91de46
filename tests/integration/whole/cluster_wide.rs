//! Tests that need an operator that sees all namespaces, and so a cluster of its own.
//!
//! One cluster and one operator serve all of it. Each scenario has a namespace,
//! an account and a simulator of its own; they run side by side, and the end of
//! the kind itself comes last.

use super::{disasters, entries, hosts, manifests, orphans, stock, tenants};
use lab::rig::{Cluster, Simulator, World, WorldOptions};
use std::sync::Mutex;
use tempfile::TempDir;

/// Worlds that the host can serve.
const GUESTS: usize = 28;

/// A cluster with an operator for all its namespaces.
pub(super) struct Host {
    /// For the worlds to come: the operator is told all their URLs when it starts.
    simulators: Mutex<Vec<Simulator>>,
    /// What the operator itself lives in.
    pub(super) world: World,
    // Dropped last.
    pub(super) cluster: Cluster,
    _logs: TempDir,
}

impl Host {
    /// One with room for so many guests.
    pub(super) async fn start(guests: usize) -> Self {
        let cluster = Cluster::own();
        let logs = tempfile::tempdir().expect("a folder for the logs");
        let simulators: Vec<_> = (0..guests)
            .map(|number| Simulator::start(&[], &logs.path().join(format!("{number}.log"))))
            .collect();
        let plan = WorldOptions {
            watch_namespace: false,
            allowed: simulators.iter().map(|s| s.api().to_owned()).collect(),
            ..WorldOptions::default()
        };
        let mut world = World::prepare(&cluster, "host", plan).await;
        world.start_operator();
        Self {
            simulators: Mutex::new(simulators),
            world,
            cluster,
            _logs: logs,
        }
    }

    /// A world that the host's operator serves.
    pub(super) async fn guest(&self, prefix: &str) -> World {
        let simulator = self.simulators.lock().unwrap().pop();
        let simulator = simulator.expect("a simulator is left: make GUESTS larger");
        World::with_simulator(&self.cluster, prefix, simulator).await
    }
}

#[tokio::test]
async fn cluster_wide_operator_keeps_owners_apart() {
    let host = Host::start(GUESTS).await;
    // Kept to the end: without its provider no object is freed, not even when its kind is deleted.
    let _guests = tokio::join!(
        manifests::copied(&host),
        manifests::copied_elsewhere(&host),
        manifests::applied_again(&host),
        manifests::applied_again_after_retain(&host),
        manifests::restored(&host),
        manifests::restored_with_status(&host),
        orphans::orphan(&host),
        disasters::namespace_not_allowed(&host),
        tenants::others_tags(&host),
        tenants::others_keys(&host),
        tenants::whitelist_outside(&host),
        tenants::releases(&host),
        entries::limits(&host),
        entries::adoption(&host),
        entries::outsiders(&host),
        hosts::granted(&host),
        stock::raised_entry(&host),
    );
    // These change the kind itself, which affects all others.
    let _guest = disasters::undecodable(&host).await;
    disasters::end_of_the_kind(&host).await;
}
