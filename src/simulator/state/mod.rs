//! The account as a state machine over virtual time.
//!
//! Nothing here knows HTTP or the wall clock: every operation gets the moment
//! it happens at, and [`Account::settle`] carries out what became due before.

mod delivery;
mod machine;
mod portal;
mod quota;
mod servers;
mod status;
mod tags;

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use uuid::Uuid;

use super::answer::Refusal;
use super::catalogue::Catalogue;
use super::clock::Moment;
use super::profile::{Addresses, Switches, UnusedTags};
use super::rules::Order;

pub(crate) use delivery::Chances;
pub(crate) use machine::{Machine, Step, Tagging};
pub(crate) use portal::{Alteration, Newcomer};
pub(crate) use quota::Quota;
pub(crate) use servers::{Lens, ListQuery};
pub(crate) use status::{Status, StatusFilter};
use tags::TagList;

/// Settings that the control port can change while the simulator runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) chances: Chances,
    /// How long `releasing` lasts.
    pub(crate) release: Duration,
    /// How long a new machine stays out of listings.
    pub(crate) list_lag: Duration,
}

/// Everything of one account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) catalogue: Catalogue,
    /// In order of creation; a machine's place never changes.
    machines: Vec<Machine>,
    by_uuid: HashMap<Uuid, usize>,
    /// Which machines bear a tag now.
    bearers: HashMap<String, BTreeSet<usize>>,
    /// When a machine's tags last changed after its order.
    retagged_at: Option<Moment>,
    /// When which machine has its next step due. May hold entries of plans
    /// that were dropped since; they do nothing.
    timeline: BTreeSet<(Moment, usize)>,
    tags: TagList,
    /// Number of the last change.
    tick: u64,
    pub(crate) quota: Quota,
}

impl Account {
    /// An account that never ordered anything.
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        let quota = Quota::of(&catalogue);
        Self {
            catalogue,
            machines: Vec::new(),
            by_uuid: HashMap::new(),
            bearers: HashMap::new(),
            retagged_at: None,
            timeline: BTreeSet::new(),
            tags: TagList::default(),
            tick: 0,
            quota,
        }
    }

    /// All machines, hidden and released ones too, in order of creation.
    pub(crate) fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Lets everything happen that is due by `now`, each at its own time.
    pub(crate) fn settle(&mut self, now: Moment, switches: &Switches) {
        while let Some((at, index)) = self.timeline.first().copied()
            && at <= now
        {
            self.timeline.pop_first();
            let Some(machine) = self.machines.get_mut(index) else {
                continue;
            };
            while let Some(step) = machine.plan.pop_front_if(|step| step.at <= at) {
                self.tick += 1;
                machine.enter(step, self.tick);
            }
            if let Some(next) = machine.plan.front() {
                self.timeline.insert((next.at, index));
            }
            if machine.status() == Status::Released {
                for tag in machine.tags().to_vec() {
                    self.forget_unused(&tag, switches);
                }
            }
        }
    }

    /// Accepts an order, or says why not.
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
    ) -> Result<&Machine, Refusal> {
        let contract = self.quota.admit(&order, &self.machines, switches)?;
        let plan = settings.chances.plan(now, switches.state_view, rng);
        let uuid = Self::uuid(now, rng);
        let index = self.machines.len();
        self.enrol(Machine {
            uuid,
            name: order.name,
            offer: order.offer,
            slug: order.slug,
            contract,
            history: vec![Step::new(now, Status::Created, "order")],
            plan,
            taggings: vec![Tagging {
                at: now,
                tick: 0,
                tags: order.tags,
            }],
            addresses: addresses(index, switches),
            addressed_at: None,
            hidden: false,
            ordered: true,
            releases: Vec::new(),
        });
        self.machines.get(index).ok_or_else(Refusal::not_found)
    }

    /// Puts a machine into every index. All that it brings along is one change.
    fn enrol(&mut self, mut machine: Machine) {
        self.tick += 1;
        for step in &mut machine.history {
            step.tick = self.tick;
        }
        for tagging in &mut machine.taggings {
            tagging.tick = self.tick;
        }
        let index = self.machines.len();
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
        self.machines.push(machine);
    }

    /// Gives a machine other tags and keeps the index right.
    fn retag(&mut self, index: usize, now: Moment, tags: Vec<String>) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
        for tag in machine.tags() {
            if let Some(bearers) = self.bearers.get_mut(tag) {
                bearers.remove(&index);
                if bearers.is_empty() {
                    self.bearers.remove(tag);
                }
            }
        }
        for tag in &tags {
            self.bearers.entry(tag.clone()).or_default().insert(index);
            self.tags.come(tag, now, false);
        }
        self.tick += 1;
        let tick = self.tick;
        machine.taggings.push(Tagging {
            at: now,
            tick,
            tags,
        });
        self.retagged_at = Some(now);
    }

    /// Replaces what was going to happen to a machine.
    fn replan(&mut self, index: usize, steps: impl IntoIterator<Item = Step>) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
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

    fn uuid(now: Moment, rng: &mut StdRng) -> Uuid {
        uuid::Builder::from_unix_timestamp_millis(now.unix_ms(), &rng.random()).into_uuid()
    }
}

/// Addresses from the ranges kept for benchmarks and documentation, so that
/// nobody's machine is ever reached by mistake.
fn addresses(index: usize, switches: &Switches) -> Vec<String> {
    const V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const V4_HOSTS: usize = 131_070;
    const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let offset = u32::try_from(index % V4_HOSTS).unwrap_or_default();
    let v4 = Ipv4Addr::from_bits(V4.to_bits() + offset).to_string();
    let v6 = Ipv6Addr::from_bits(V6.to_bits() + u128::try_from(index).unwrap_or_default());
    match switches.addresses {
        Addresses::Two => vec![v4, v6.to_string()],
        Addresses::One => vec![v4],
        Addresses::None => Vec::new(),
    }
}
