//! The account as a state machine over virtual time.
//!
//! Nothing here knows about requests or the wall clock: every operation is given
//! its moment and returns a record or a refusal, and [`Account::settle`] carries out what became due before.

mod commands;
mod delivery;
mod history;
mod host_record;
mod hosts;
mod installation;
mod labels;
mod login;
mod machine;
mod numbers;
mod portal;
mod power;
mod quota;
mod servers;
mod settle;
mod ssh_keys;
mod status;
mod stored;
mod tag_list;
mod tags;
mod taken;
mod usage;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use uuid::Uuid;

use super::answer::Refusal;
use super::catalogue::Catalogue;
use super::clock::Moment;
use super::profile::{Switches, UnusedTags};
use super::rules::Order;

pub(crate) use commands::CommandKind;
pub(crate) use delivery::Chances;
pub(crate) use host_record::HostRecord;
pub(crate) use hosts::{Host, PowerAction};
pub(crate) use installation::Outlook;
pub(crate) use labels::{Label, LabelFilter};
pub(crate) use login::{Attempt, Login};
pub(crate) use machine::{Birth, Cause, Machine, Step, Tagging};
pub(crate) use numbers::Numbers;
pub(crate) use portal::{Alteration, Newcomer};
pub(crate) use quota::Quota;
pub(crate) use servers::{Lens, ListQuery};
use ssh_keys::SshKeys;
pub(crate) use status::{Status, StatusFilter};
pub(crate) use stored::Change;
use tag_list::TagList;
use taken::Taken;
pub(crate) use usage::Period;

/// Settings that the control port can change while the simulator runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) chances: Chances,
    /// How long `releasing` lasts.
    pub(crate) release: Duration,
    /// How long a new machine stays out of listings.
    pub(crate) list_lag: Duration,
    /// How long a power command takes.
    pub(crate) command: Duration,
    /// How long an installation on a delivered machine or a host takes.
    pub(crate) install: Duration,
    /// Share of commands and installations that fail.
    pub(crate) command_failure_rate: f64,
}

/// Everything of one account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) catalogue: Arc<Catalogue>,
    numbers: Numbers,
    /// In order of creation; a machine's place never changes.
    machines: Vec<Machine>,
    by_uuid: HashMap<Uuid, usize>,
    /// Which machines bear a tag now.
    bearers: HashMap<String, BTreeSet<usize>>,
    /// When a machine's tags last changed after its order.
    retagged_at: Option<Moment>,
    /// When the next step of each machine is due. May hold entries of plans that
    /// were dropped since; they do nothing.
    timeline: BTreeSet<(Moment, usize)>,
    tags: TagList,
    /// Number of the last change.
    tick: u64,
    pub(crate) quota: Quota,
    taken: Taken,
    login: Login,
    ssh_keys: SshKeys,
    /// Dedicated hosts. On-demand machines are among the hosts too, but live
    /// in `machines`.
    hosts: Vec<Host>,
    /// Machines changed since the last call of `changes`.
    touched: BTreeSet<usize>,
    /// Whether anything but machines and tags was changed.
    rest_touched: bool,
}

impl Account {
    /// An account that never ordered anything.
    pub(crate) fn new(
        name: &str,
        catalogue: Arc<Catalogue>,
        numbers: Numbers,
        login: Login,
    ) -> Self {
        let quota = Quota::of(&catalogue);
        Self {
            name: name.to_owned(),
            catalogue,
            numbers,
            machines: Vec::new(),
            by_uuid: HashMap::new(),
            bearers: HashMap::new(),
            retagged_at: None,
            timeline: BTreeSet::new(),
            tags: TagList::default(),
            tick: 0,
            quota,
            taken: Taken::default(),
            login,
            ssh_keys: SshKeys::default(),
            hosts: Vec::new(),
            touched: BTreeSet::new(),
            rest_touched: true,
        }
    }

    /// All machines, hidden and released ones too, in order of creation.
    pub(crate) fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The kind of resource with this name: a machine or a stored key.
    pub(crate) fn owned(&self, uuid: &Uuid) -> Option<&'static str> {
        match self.by_uuid.contains_key(uuid) {
            true => Some("server"),
            false => self.stores_key(uuid).then_some("sshKey"),
        }
    }

    /// The counters that it shares with the other accounts.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Accepts an order, or returns the reason for refusing it. With `doom` its delivery will fail
    /// for that reason.
    ///
    /// # Errors
    /// Quota used up or nothing in stock.
    pub(crate) fn order(
        &mut self,
        now: Moment,
        order: Order,
        settings: &Settings,
        switches: &Switches,
        rng: &mut StdRng,
        doom: Option<&str>,
    ) -> Result<&Machine, Refusal> {
        let contract = self.quota.admit(&order, self.taken(), switches)?;
        let mut plan = settings.chances.plan(now, switches.state_view, rng);
        if let (Some(reason), Some(last)) = (doom, plan.back_mut()) {
            *last = Step::new(last.at, Status::Failed, Cause::Pipeline).saying(reason);
        }
        let index = self.machines.len();
        let number = self.numbers.machine();
        let birth = Birth {
            number,
            uuid: Self::uuid(now, rng),
            name: order.name,
            offer: order.offer,
            slug: order.slug,
            contract,
            tags: order.tags,
            at: now,
            addresses: numbers::addresses(number, switches),
            ordered: true,
        };
        self.enrol(Machine::new(birth, plan));
        self.machines.get(index).ok_or_else(Refusal::not_found)
    }

    /// The login, for reading.
    pub(crate) fn login(&self) -> &Login {
        &self.login
    }

    /// Changes the login, and marks it to be stored.
    pub(crate) fn log_in<T>(&mut self, act: impl FnOnce(&mut Login) -> T) -> T {
        self.rest_touched = true;
        act(&mut self.login)
    }

    /// Changes quota or stock, and marks them to be stored.
    pub(crate) fn allot(&mut self, change: impl FnOnce(&mut Quota)) {
        self.rest_touched = true;
        change(&mut self.quota);
    }

    /// Adds a machine to every index. Everything about it is one change.
    fn enrol(&mut self, mut machine: Machine) {
        self.tick += 1;
        machine.history.number(self.tick);
        for tagging in &mut machine.taggings {
            tagging.tick = self.tick;
        }
        let index = self.machines.len();
        self.touched.insert(index);
        self.by_uuid.insert(machine.uuid, index);
        if let Some(tagging) = machine.taggings.last() {
            for tag in &tagging.tags {
                self.bearers.entry(tag.clone()).or_default().insert(index);
                self.tags.come(tag, tagging.at, machine.ordered);
            }
        }
        if let Some(next) = machine.plan.front() {
            self.timeline.insert((next.at, index));
        }
        self.taken.moved(&machine, false);
        self.machines.push(machine);
    }

    /// Changes the tags of a machine and updates the index.
    fn retag(&mut self, index: usize, now: Moment, tags: Vec<String>) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
        let before = machine.tags().to_vec();
        for tag in &before {
            if let Some(bearers) = self.bearers.get_mut(tag) {
                bearers.remove(&index);
                if bearers.is_empty() {
                    self.bearers.remove(tag);
                }
            }
        }
        for tag in &tags {
            self.bearers.entry(tag.clone()).or_default().insert(index);
            // A tag that it keeps may be missing from the account's list.
            if !before.contains(tag) {
                self.tags.come(tag, now, false);
            }
        }
        self.touched.insert(index);
        self.tick += 1;
        let tick = self.tick;
        machine.taggings.push(Tagging {
            at: now,
            tick,
            tags,
        });
        self.retagged_at = Some(now);
    }

    /// Replaces the planned steps of a machine.
    fn replan(&mut self, index: usize, steps: impl IntoIterator<Item = Step>) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
        self.touched.insert(index);
        machine.plan = steps.into_iter().collect();
        if let Some(next) = machine.plan.front() {
            self.timeline.insert((next.at, index));
        }
    }

    fn forget_unused(&mut self, tag: &str, switches: &Switches) {
        if switches.unused_tags == UnusedTags::Drop && !self.in_use(tag) {
            self.tags.go(tag);
        }
    }

    /// Whether a machine that was not released bears the tag.
    fn in_use(&self, tag: &str) -> bool {
        let bearers = self.bearers.get(tag).into_iter().flatten();
        let mut machines = bearers.filter_map(|index| self.machines.get(*index));
        machines.any(|machine| machine.status() != Status::Released)
    }

    /// A new UUID, as the API makes them.
    pub(crate) fn uuid(now: Moment, rng: &mut StdRng) -> Uuid {
        uuid::Builder::from_unix_timestamp_millis(now.unix_ms(), &rng.random()).into_uuid()
    }
}
