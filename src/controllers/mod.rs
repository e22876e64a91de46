//! The controllers: one folder a kind, each in the same shape (observe, decide, act, report), and
//! the floor that all of them stand on.

pub mod account;
pub mod server;
pub mod ssh_key;

pub mod account_facts;
pub mod again;
pub mod cause;
pub mod contest;
pub mod context;
pub mod drive;
pub mod events;
pub mod mark;
pub mod objects;
pub mod once;
pub mod ownership;
pub mod pass;
pub mod patience;
pub mod report;
pub mod stored_keys;
pub mod streams;
pub mod trouble;
pub mod undecodable;
pub mod values;
pub mod writes;

#[cfg(test)]
mod floor_tests;
#[cfg(test)]
mod readings;

use context::Process;

/// The table of kinds: what runs.
pub struct Controllers {
    accounts: account::Controller,
    servers: server::Controller,
    ssh_keys: ssh_key::Controller,
}

impl Controllers {
    /// Every kind, with no objects yet.
    pub fn new(process: &Process) -> Self {
        Self {
            accounts: account::Controller::new(process),
            servers: server::Controller::new(process),
            ssh_keys: ssh_key::Controller::new(process),
        }
    }

    /// Whether the first listings of all kinds are in, and every watch hears something.
    pub fn is_ready(&self) -> bool {
        let servers = &self.servers.objects;
        let ssh_keys = &self.ssh_keys.objects;
        self.accounts.is_ready()
            && (servers.is_complete() && !servers.is_deaf())
            && (ssh_keys.is_complete() && !ssh_keys.is_deaf())
    }

    /// It has changed where this process acts: everything is looked at again. Where it acts anew,
    /// `is_gain`, what it knows from before may be old.
    pub fn leadership_changed(&self, is_gain: bool) {
        tracing::debug!(is_gain, "everything is looked at again");
        self.accounts.leadership_changed(is_gain);
        self.servers.objects.leadership_changed(is_gain);
        self.ssh_keys.objects.leadership_changed(is_gain);
    }

    /// Runs every kind until shutdown; passes under way are finished.
    pub async fn run(&self) {
        tokio::join!(
            self.accounts.run(),
            self.servers.run(self.accounts.known()),
            self.ssh_keys.run(self.accounts.known()),
        );
    }
}
