//! What somebody else does to the account: a person in the provider's portal,
//! another program, the provider itself.

use std::time::Duration;

use rand::rngs::StdRng;
use serde::Deserialize;
use uuid::Uuid;

use super::super::answer::Refusal;
use super::super::catalogue::Offer;
use super::super::clock::Moment;
use super::super::profile::Switches;
use super::machine::{Birth, Cause, Machine, Step};
use super::status::Status;
use super::{Account, Settings, numbers};

/// A machine that appears without an order of ours.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) name: String,
    pub(crate) offer: Offer,
    pub(crate) slug: String,
    pub(crate) tags: Vec<String>,
    /// A waiting one is delivered like any other.
    pub(crate) status: Status,
    pub(crate) created_at: Moment,
}

/// The changes; absent fields stay as they are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Alteration {
    /// The machine stays in this state; only `releasing` continues by itself.
    pub(crate) status: Option<Status>,
    pub(crate) status_message: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) ip_addresses: Option<Vec<String>>,
    /// In no list, and answered with 404.
    pub(crate) hidden: Option<bool>,
    pub(crate) name: Option<String>,
}

impl Account {
    /// Adds a machine.
    pub(crate) fn appear(
        &mut self,
        newcomer: Newcomer,
        settings: &Settings,
        switches: &Switches,
        rng: &mut StdRng,
    ) -> Uuid {
        let at = newcomer.created_at;
        let uuid = Self::uuid(at, rng);
        let plan = match newcomer.status.waiting() {
            true => settings.chances.plan(at, switches.state_view, rng),
            false => std::collections::VecDeque::new(),
        };
        let number = self.numbers.machine();
        let birth = Birth {
            number,
            uuid,
            name: newcomer.name,
            offer: newcomer.offer,
            slug: newcomer.slug,
            contract: None,
            tags: newcomer.tags,
            at,
            addresses: numbers::addresses(number, switches),
            ordered: false,
        };
        let mut machine = Machine::new(birth, plan);
        // A machine in a late state has passed through the earlier ones.
        let mut way = vec![];
        if matches!(newcomer.status, Status::Releasing | Status::Released) {
            way.push(Status::Delivered);
        }
        if newcomer.status == Status::Released {
            way.push(Status::Releasing);
        }
        way.push(newcomer.status);
        for status in way.into_iter().filter(|status| *status != Status::Created) {
            machine.enter(Step::new(at, status, Cause::Control), 0);
        }
        self.enrol(machine);
        uuid
    }

    /// Changes a machine without a request to the API.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn alter(
        &mut self,
        uuid: &str,
        change: Alteration,
        now: Moment,
        release: Duration,
    ) -> Result<(), Refusal> {
        let index = self.index(uuid)?;
        self.touched.insert(index);
        if let Some(tags) = change.tags {
            self.retag(index, now, tags);
        }
        let machine = self
            .machines
            .get_mut(index)
            .ok_or_else(Refusal::not_found)?;
        if let Some(hidden) = change.hidden {
            machine.hidden = hidden;
        }
        if let Some(name) = change.name {
            machine.name = name;
        }
        if let Some(addresses) = change.ip_addresses {
            machine.addresses = addresses;
            machine.addressed_at.get_or_insert(now);
        }
        let message = change.status_message;
        let status = change
            .status
            .or_else(|| message.is_some().then(|| machine.status()));
        let Some(status) = status else { return Ok(()) };
        let step = Step::new(now, status, Cause::Control).saying(message.unwrap_or_default());
        if change.status.is_none() {
            // Only the message changed: the planned steps stay.
            let tick = machine.history.iter().last().map_or(0, |last| last.tick);
            machine.history.push(Step { tick, ..step });
            return Ok(());
        }
        self.enter(index, step);
        let next = Step::new(now.after(release), Status::Released, Cause::Release);
        self.replan(index, (status == Status::Releasing).then_some(next));
        Ok(())
    }
}
