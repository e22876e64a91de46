//! Storing an account as changes, and restoring it.

use serde::{Deserialize, Serialize};

use super::super::clock::Moment;
use super::Account;
use super::hosts::Host;
use super::login::Login;
use super::machine::Machine;
use super::quota::QuotaRow;
use super::ssh_keys::SshKeys;
use super::tag_list::TagEntry;
use super::taken::Taken;

/// Everything but machines and tags: small, and stored as a whole.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rest {
    login: Login,
    ssh_keys: SshKeys,
    hosts: Vec<Host>,
    quota: Vec<QuotaRow>,
}

/// The present state of one thing, which replaces the stored one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Change {
    Machine {
        place: usize,
        machine: Box<Machine>,
    },
    Tag {
        name: String,
        /// `None`: the account no longer has it.
        entry: Option<TagEntry>,
    },
    Rest(Box<Rest>),
}

impl Account {
    /// What changed since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let touched = std::mem::take(&mut self.touched);
        let places = touched.into_iter();
        let machines = places.filter_map(|place| {
            let machine = Box::new(self.machines.get(place)?.clone());
            Some(Change::Machine { place, machine })
        });
        let mut changes: Vec<Change> = machines.collect();
        let tags = self.tags.changes();
        changes.extend(tags.map(|(name, entry)| Change::Tag { name, entry }));
        if std::mem::take(&mut self.rest_touched) {
            changes.push(Change::Rest(Box::new(Rest {
                login: self.login.clone(),
                ssh_keys: self.ssh_keys.clone(),
                hosts: self.dedicated().to_vec(),
                quota: self.quota.rows(),
            })));
        }
        changes
    }

    /// Drops the changes without storing them.
    pub(crate) fn unwritten(&mut self) {
        self.touched.clear();
        self.tags.unwritten();
        self.rest_touched = false;
    }

    /// Whether anything changed since the last call of [`Account::changes`].
    pub(crate) fn changed(&self) -> bool {
        !self.touched.is_empty() || self.rest_touched || self.tags.changed()
    }

    /// Marks everything as changed: the start of a fresh file.
    pub(crate) fn touch_all(&mut self) {
        self.touched = (0..self.machines.len()).collect();
        self.tags.touch_all();
        self.rest_touched = true;
    }

    /// Applies a stored change again. Machines come in the order of their indexes, as
    /// they were stored; one without its predecessors is left out.
    pub(crate) fn restore(&mut self, change: Change) {
        match change {
            Change::Machine { place, machine } => {
                if let Some(known) = self.machines.get_mut(place) {
                    *known = *machine;
                } else if place == self.machines.len() {
                    self.machines.push(*machine);
                }
            }
            Change::Tag { name, entry } => self.tags.restore(name, entry),
            Change::Rest(rest) => {
                self.login = rest.login;
                self.ssh_keys = rest.ssh_keys;
                self.quota.restore(rest.quota);
                self.move_in(rest.hosts);
            }
        }
    }

    /// Rebuilds every index, after the last [`Account::restore`].
    pub(crate) fn index_all(&mut self) {
        self.taken = Taken::count(&self.machines);
        for host in self.dedicated() {
            self.numbers.knows_host(host.id);
        }
        for (place, machine) in self.machines.iter().enumerate() {
            self.numbers.knows_machine(machine.number);
            self.by_uuid.insert(machine.uuid, place);
            for tag in machine.tags() {
                self.bearers.entry(tag.clone()).or_default().insert(place);
            }
            if let Some(next) = machine.plan.front() {
                self.timeline.insert((next.at, place));
            }
            let ticks = machine.history.iter().map(|step| step.tick);
            let taggings = machine.taggings.iter().map(|tagging| tagging.tick);
            self.tick = ticks.chain(taggings).fold(self.tick, u64::max);
            let later = machine.taggings.iter().skip(1);
            let last: Option<Moment> = later.map(|tagging| tagging.at).max();
            self.retagged_at = self.retagged_at.max(last);
        }
    }
}
