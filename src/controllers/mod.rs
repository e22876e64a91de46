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
    kind_api::{KindApi, kind_name},
    metrics::{ProcessState, StateSource},
};
use context::Process;
use futures::FutureExt as _;
use objects::Objects;
use std::time::Duration;

/// The controllers of all kinds.
pub struct Controllers {
    process: Process,
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
    pub fn new(process: &Process) -> Self {
        Self {
            process: process.clone(),
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
        tracing::debug!(is_gain, "leadership changed; enqueueing all objects");
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
    fn state(&self) -> ProcessState {
        let mut queued = vec![queue_of(&self.accounts.namespaced)];
        queued.extend(self.accounts.cluster.as_deref().map(queue_of));
        queued.extend([
            queue_of(&self.servers.objects),
            queue_of(&self.tags.objects),
            queue_of(&self.ssh_keys.objects),
            queue_of(&self.whitelists.objects),
            queue_of(&self.commands.objects),
            queue_of(&self.hosts.objects),
        ]);
        ProcessState {
            is_leader: self.process.leader_since().is_some(),
            lease: self.process.lease.clone(),
            queued,
        }
    }
}

/// Name of a kind, how many of its objects are due and wait, and for how long the first of them.
fn queue_of<K: KindApi, M: Clone + Default + Send>(
    objects: &Objects<K, M>,
) -> (&'static str, usize, Duration) {
    let (count, waited) = objects.queued();
    (kind_name::<K>(), count, waited)
}
