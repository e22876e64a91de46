//! Tests of an operator that watches all namespaces, which need their own cluster. One cluster and one operator serve
//! all of them in parallel, each with its own namespace, account and simulator. The CRD tests come last.

use super::{allowed_namespaces, cluster_changes, hosts, manifests, orphans, stock, tenants};
use lab::rig::{Cluster, Simulator, World, WorldOptions};
use std::sync::Mutex;
use tempfile::TempDir;

/// Number of worlds that the host can serve.
const GUESTS: usize = 28;

/// A cluster with an operator for all its namespaces.
pub(super) struct SharedOperator {
    /// For future worlds: the operator gets all their URLs at its start.
    simulators: Mutex<Vec<Simulator>>,
    /// The world of the operator itself.
    pub(super) world: World,
    // Dropped last.
    pub(super) cluster: Cluster,
    _logs: TempDir,
}

impl SharedOperator {
    /// Starts a cluster and an operator for this many worlds.
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

    /// A new world for the host's operator.
    pub(super) async fn start_guest_world(&self, prefix: &str) -> World {
        let simulator = self.simulators.lock().unwrap().pop();
        let simulator = simulator.expect("a simulator is left: make GUESTS larger");
        World::with_simulator(&self.cluster, prefix, simulator).await
    }
}

#[tokio::test]
async fn cluster_wide_operator_keeps_owners_apart() {
    let host = SharedOperator::start(GUESTS).await;
    // Kept to the end: without its provider no object is deleted, not even with its CRD.
    let _guests = tokio::join!(
        manifests::check_copied_manifest(&host),
        manifests::check_copy_in_other_namespace(&host),
        manifests::check_reapplied_manifest(&host),
        manifests::check_reapply_after_retain(&host),
        manifests::check_restored_without_status(&host),
        manifests::check_restored_with_status(&host),
        orphans::check_orphan(&host),
        cluster_changes::check_disallowed_namespace(&host),
        tenants::check_other_teams_tags(&host),
        tenants::check_other_teams_keys(&host),
        tenants::check_foreign_whitelist(&host),
        tenants::check_release_limit_per_team(&host),
        allowed_namespaces::check_entry_limits(&host),
        allowed_namespaces::check_entry_adoption(&host),
        allowed_namespaces::check_unserved_namespaces(&host),
        hosts::check_granted_hosts(&host),
        stock::check_raised_entry_limit(&host),
    );
    // These tests change the CRD, which affects all others.
    let _guest = cluster_changes::check_undecodable_object(&host).await;
    cluster_changes::check_crd_deletion(&host).await;
}
