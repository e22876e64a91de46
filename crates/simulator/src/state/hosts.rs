//! Hosts (section 4.8): the account's dedicated ones, and its delivered
//! on-demand machines in the same list.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::answer::Refusal;
use super::super::catalogue::Offer;
use super::super::clock::Moment;
use super::super::profile::{InstallBusy, Switches};
use super::super::rules::HostInstall;
use super::Account;
use super::host_record::HostRecord;
use super::installation::{Installation, Outlook};
use super::labels::{Label, LabelFilter};
use super::machine::Machine;
use super::numbers;
use super::status::Status;

/// A dedicated host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) id: u64,
    pub(crate) offer: Offer,
    /// When it was added to the account.
    pub(super) came: Moment,
    pub(super) on: bool,
    /// When power was last switched.
    pub(super) since: Moment,
    pub(super) installations: Vec<Installation>,
    #[serde(default)]
    pub(super) labels: Vec<Label>,
}

/// A power action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerAction {
    Start,
    Stop,
    Restart,
}

/// One of the two kinds.
#[derive(Clone, Copy, Debug)]
enum Found {
    Dedicated(usize),
    OnDemand(usize),
}

impl Account {
    /// Gives the account dedicated hosts of the catalogue's first offers, one
    /// for each list of labels.
    pub(crate) fn house(&mut self, labels: Vec<Vec<Label>>, now: Moment) {
        let offers = self.catalogue.offers.iter().cycle().zip(labels);
        self.hosts = offers
            .map(|((offer, _), labels)| Host {
                id: self.numbers.host(),
                offer: *offer,
                came: now,
                on: true,
                since: now,
                installations: Vec::new(),
                labels,
            })
            .collect();
        self.rest_touched = true;
    }

    /// Gives a dedicated host other labels. `false` when there is none.
    pub(crate) fn label_host(&mut self, id: u64, labels: Vec<Label>) -> bool {
        let Some(host) = self.hosts.iter_mut().find(|host| host.id == id) else {
            return false;
        };
        host.labels = labels;
        self.rest_touched = true;
        true
    }

    /// The dedicated ones.
    pub(crate) fn dedicated(&self) -> &[Host] {
        &self.hosts
    }

    /// Restores hosts from a stored state.
    pub(super) fn move_in(&mut self, hosts: Vec<Host>) {
        self.hosts = hosts;
    }

    /// The records that match a filter, from `start` on, `results` at
    /// most, and whether more follow. On-demand machines bear no labels.
    pub(crate) fn host_list(
        &self,
        filter: &LabelFilter,
        start: usize,
        results: usize,
        now: Moment,
    ) -> (Vec<HostRecord<'_>>, bool) {
        let dedicated = self.hosts.iter().enumerate();
        let dedicated = dedicated
            .filter(|(_, host)| filter.admits(&host.labels))
            .map(|(place, _)| Found::Dedicated(place));
        // The same answer for all of them; if it is no, no machine is read.
        let unlabelled = filter.admits(&[]);
        let machines = self.machines.iter().enumerate();
        let machines = machines.take_while(|_| unlabelled);
        let flexible = machines
            .filter(|(_, machine)| is_host(machine, now))
            .map(|(index, _)| Found::OnDemand(index));
        // Writing a record costs far more than finding its host.
        let mut rest = dedicated.chain(flexible).skip(start);
        let shown = rest.by_ref().take(results);
        let shown = shown.filter_map(|found| self.found_record(found, now));
        (shown.collect(), rest.next().is_some())
    }

    fn found_record(&self, found: Found, now: Moment) -> Option<HostRecord<'_>> {
        match found {
            Found::Dedicated(place) => {
                let host = self.hosts.get(place);
                host.map(|host| self.dedicated_record(host, now))
            }
            Found::OnDemand(index) => {
                let machine = self.machines.get(index);
                machine.map(|machine| self.machine_record(machine, now))
            }
        }
    }

    /// The index of the machine that has this id among the hosts.
    fn place_of_host(&self, id: u64) -> Option<usize> {
        let number = numbers::of_host(id)?;
        let machines = &self.machines;
        let found = machines.binary_search_by_key(&number, |machine| machine.number);
        found.ok()
    }

    /// Whether this is the id of one of its hosts; true for a machine even before it
    /// is among them.
    pub(crate) fn owns_host(&self, id: u64) -> bool {
        self.hosts.iter().any(|host| host.id == id) || self.place_of_host(id).is_some()
    }

    fn locate(&self, id: &str, now: Moment) -> Result<Found, Refusal> {
        let id: u64 = id.parse().map_err(|_| Refusal::not_found())?;
        if let Some(place) = self.hosts.iter().position(|host| host.id == id) {
            return Ok(Found::Dedicated(place));
        }
        let index = self.place_of_host(id);
        let machine = index.and_then(|index| Some((index, self.machines.get(index)?)));
        machine
            .filter(|(_, machine)| is_host(machine, now))
            .map(|(index, _)| Found::OnDemand(index))
            .ok_or_else(Refusal::not_found)
    }

    /// One host's record.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn host(&self, id: &str, now: Moment) -> Result<HostRecord<'_>, Refusal> {
        let found = self.locate(id, now)?;
        self.found_record(found, now).ok_or_else(Refusal::not_found)
    }

    /// Switches power at once.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn host_power(
        &mut self,
        id: &str,
        action: PowerAction,
        now: Moment,
    ) -> Result<(), Refusal> {
        let on = action != PowerAction::Stop;
        // A running host is not started again.
        let turns = |before: bool| before != on || action == PowerAction::Restart;
        match self.locate(id, now)? {
            Found::Dedicated(place) => {
                let host = self.hosts.get_mut(place);
                if let Some(host) = host.filter(|host| turns(host.on)) {
                    host.on = on;
                    host.since = now;
                }
                self.rest_touched = true;
            }
            Found::OnDemand(index) => {
                let machine = self.machines.get_mut(index);
                let before = |machine: &Machine| machine.power(now) == Some(true);
                if let Some(machine) = machine.filter(|machine| turns(before(machine))) {
                    machine.switched = Some((now, on));
                }
                self.touched.insert(index);
            }
        }
        Ok(())
    }

    /// Starts an installation on a dedicated host.
    ///
    /// # Errors
    /// 404, and 422 for an on-demand machine or where the switches refuse it.
    pub(crate) fn host_install(
        &mut self,
        id: &str,
        wanted: &HostInstall,
        now: Moment,
        outlook: Outlook,
        switches: &Switches,
    ) -> Result<(), Refusal> {
        let place = match self.locate(id, now)? {
            Found::Dedicated(place) => place,
            Found::OnDemand(_) => {
                let message = "An on-demand server is installed by PATCH of the server";
                return Err(Refusal::unprocessable(message));
            }
        };
        let host = self.hosts.get_mut(place).ok_or_else(Refusal::not_found)?;
        let last = host.installations.last();
        let busy = last.is_some_and(|installation| installation.busy(now));
        if busy && switches.install_busy == InstallBusy::Refuse422 {
            return Err(Refusal::unprocessable("Host is being installed"));
        }
        host.installations.push(Installation {
            number: last.map_or(host.id * 1_000, |last| last.number + 1),
            at: now,
            ends: now.after(outlook.lasting),
            fails: outlook.fails,
            reason: outlook.reason,
            os: wanted.os,
            hostname: wanted.hostname.clone(),
        });
        host.on = true;
        host.since = now;
        self.rest_touched = true;
        Ok(())
    }

    /// The lines of a host's installation log, oldest first.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn host_log(&self, id: &str, now: Moment) -> Result<Vec<Value>, Refusal> {
        match self.locate(id, now)? {
            Found::Dedicated(place) => {
                let installations = self.hosts.get(place).map(|host| &host.installations);
                let all = installations.into_iter().flatten();
                Ok(all.flat_map(|one| one.log(now)).collect())
            }
            Found::OnDemand(_) => Ok(Vec::new()),
        }
    }
}

fn is_host(machine: &Machine, now: Moment) -> bool {
    machine.status_at(now) == Status::Delivered && !machine.hidden
}
