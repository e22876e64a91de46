//! The controllers: one folder for each kind (observe, decide, act, report), and the files that all kinds share.

pub mod account;
pub mod command;
pub mod host;
pub mod server;
pub mod ssh_key;
pub mod tag;
pub mod whitelist;

pub mod allowed_endpoints;
pub mod context;
pub mod events;
pub mod host_objects;
pub mod live_account;
pub mod live_list;
mod namespaces;
pub mod objects;
pub mod power;
pub mod provider_commands;
pub mod reconcile;
pub mod reconcile_loop;
pub mod report;
pub mod server_commands;
pub mod stored_keys;
pub mod streams;
mod unanswered_calls;
pub mod undecodable;
pub mod values;
pub mod writes;

#[cfg(test)]
mod api_server_tests;

use crate::runtime::{
    clock,
    kind_api::KindApi,
    metrics::{Metric, Samples, StateSource, flag},
};
use context::Process;
use futures::FutureExt as _;
use objects::Objects;

/// The controllers of all kinds.
pub struct Controllers {
    process: Process,
    /// Whether each condition of each object has a series.
    has_object_conditions: bool,
    accounts: account::AccountController,
    servers: server::ServerController,
    tags: tag::TagController,
    ssh_keys: ssh_key::SshKeyController,
    whitelists: whitelist::WhitelistController,
    commands: command::CommandController,
    hosts: host::HostController,
}

impl Controllers {
    /// All kinds, without objects yet.
    pub fn new(process: &Process, has_object_conditions: bool) -> Self {
        Self {
            process: process.clone(),
            has_object_conditions,
            accounts: account::AccountController::new(process),
            servers: server::ServerController::new(process),
            tags: tag::TagController::new(process),
            ssh_keys: ssh_key::SshKeyController::new(process),
            whitelists: whitelist::WhitelistController::new(process),
            commands: command::CommandController::new(process),
            hosts: host::HostController::new(process),
        }
    }

    /// Whether the initial lists of all kinds are complete and no watch is stale.
    pub fn is_ready(&self) -> bool {
        self.accounts.is_ready()
            && self.servers.objects.is_ready()
            && self.tags.objects.is_ready()
            && self.ssh_keys.objects.is_ready()
            && self.whitelists.objects.is_ready()
            && self.commands.objects.is_ready()
            && self.hosts.objects.is_ready()
    }

    /// Enqueues every object after a change of leadership. With `is_gain`, all kinds list again: what they know may be
    /// old.
    pub fn leadership_changed(&self, is_gain: bool) {
        tracing::debug!(is_gain, "leadership changed");
        self.accounts.leadership_changed(is_gain);
        self.servers.objects.leadership_changed(is_gain);
        self.tags.objects.leadership_changed(is_gain);
        self.ssh_keys.objects.leadership_changed(is_gain);
        self.whitelists.objects.leadership_changed(is_gain);
        self.commands.objects.leadership_changed(is_gain);
        self.hosts.objects.leadership_changed(is_gain);
    }

    /// Removes this operator's Lease from the status of all accounts, at shutdown.
    pub async fn clear_operator(&self) {
        self.accounts.clear_operator().await;
    }

    /// Runs every kind until shutdown, and finishes the running reconciles.
    pub async fn run(&self) {
        // All kinds share one wait.
        let known = self.accounts.known().shared();
        tokio::join!(
            namespaces::follow(&self.process),
            self.accounts.run(),
            self.servers.run(known.clone()),
            self.tags.run(known.clone()),
            self.ssh_keys.run(known.clone()),
            self.whitelists.run(known.clone()),
            self.commands.run(known.clone()),
            self.hosts.run(known),
        );
    }
}

impl StateSource for Controllers {
    fn collect(&self, samples: &mut Samples) {
        let leads = self.process.leader_since().is_some();
        samples.set(Metric::Leader, &[&self.process.lease], flag(leads));
        if leads {
            self.process.accounts.collect(samples);
            self.accounts.collect(samples);
        }
        self.collect_objects(&self.accounts.namespaced, leads, samples);
        if let Some(cluster) = &self.accounts.cluster {
            self.collect_objects(cluster, leads, samples);
        }
        self.collect_objects(&self.servers.objects, leads, samples);
        self.collect_objects(&self.tags.objects, leads, samples);
        self.collect_objects(&self.ssh_keys.objects, leads, samples);
        self.collect_objects(&self.whitelists.objects, leads, samples);
        self.collect_objects(&self.commands.objects, leads, samples);
        self.collect_objects(&self.hosts.objects, leads, samples);
    }
}

impl Controllers {
    fn collect_objects<K: KindApi, M: Clone + Default + Send>(
        &self,
        objects: &Objects<K, M>,
        leads: bool,
        samples: &mut Samples,
    ) {
        objects.collect_queue(samples);
        if leads {
            objects.collect_objects(samples, clock::now().wall);
        }
        if leads && self.has_object_conditions {
            objects.collect_conditions(samples);
        }
    }
}
