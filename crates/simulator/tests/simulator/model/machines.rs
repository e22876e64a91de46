//! Rules of machines: order, release, commands, re-installation, time.

use super::transitions::{Order, Spoilt};
use super::world::{COMMAND, Command, Expected, INSTALL, Machine, RELEASE, Shows, State, World};

impl World {
    /// The pool that pays for an order, or the status that refuses it.
    fn admit(&self, order: &Order) -> Result<String, u16> {
        if order.spoilt == Some(Spoilt::NoJson) {
            return Err(400);
        }
        if order.spoilt.is_some() || order.tags.len() > 60 {
            return Err(422);
        }
        let exhausted = if self.is("exhausted", "refuse409") {
            409
        } else {
            422
        };
        let room = |contract: &str| {
            let quota = self.quota(order.offer, contract)?;
            Some(self.taken(order.offer, contract) < quota)
        };
        if let Some(contract) = order.contract.filter(|contract| !contract.is_empty()) {
            match room(contract) {
                // Committed machines are reserved.
                Some(true) => return Ok(contract.to_owned()),
                Some(false) if order.overflow => {}
                Some(false) => return Err(exhausted),
                None if self.is("unknownContract", "onDemand") => {}
                None => return Err(422),
            }
        }
        if room("") != Some(true) || self.free(order.offer) == Some(0) {
            return Err(exhausted);
        }
        Ok(String::new())
    }

    pub(crate) fn order(&mut self, order: &Order) -> Expected {
        let contract = match self.admit(order) {
            Ok(contract) => contract,
            Err(status) => return Expected::refused(status),
        };
        for tag in &order.tags {
            self.come(tag);
            self.ordered_tags.push(tag.clone());
        }
        self.machines.push(Machine {
            name: order.name.to_owned(),
            offer: order.offer,
            slug: "ubuntu-2404-lts".to_owned(),
            contract,
            tags: order.tags.clone(),
            created: self.now,
            doomed: order.fails,
            given_back: None,
            commands: Vec::new(),
        });
        Expected::showing(Shows::Machine(self.machines.len() - 1))
    }

    pub(crate) fn release(&mut self, place: usize) -> Expected {
        let Some(machine) = self.machines.get(place) else {
            return Expected::refused(404);
        };
        let refused = match self.state(machine) {
            State::Released if self.is("releaseReleased", "refuse422") => Some(422),
            State::Releasing if self.is("releaseReleasing", "refuse409") => Some(409),
            State::Failed if self.is("releaseFailed", "refuse422") => Some(422),
            State::Waiting if self.is("releaseWhileWaiting", "refuse409") => Some(409),
            State::Waiting if self.is("releaseWhileWaiting", "refuse422") => Some(422),
            _ => None,
        };
        if let Some(status) = refused {
            return Expected::refused(status);
        }
        if machine.given_back.is_none() {
            if machine
                .tags
                .iter()
                .all(|tag| super::marks::mark(tag).is_none())
            {
                self.unmarked.push(place);
            }
            self.machines[place].given_back = Some(self.now);
        }
        Expected::showing(Shows::Machine(place))
    }

    fn busy(&self, machine: &Machine, word: Option<&str>) -> bool {
        let mut commands = machine.commands.iter();
        commands.any(|command| {
            self.progress(machine, command) == "pending"
                && word.is_none_or(|word| word == command.word)
        })
    }

    pub(crate) fn command(&mut self, place: usize, word: &'static str, fails: bool) -> Expected {
        let known = ["reboot", "power_on", "power_off", "shutdown"].contains(&word);
        let Some(machine) = self.machines.get(place) else {
            return Expected {
                statuses: if known { vec![404] } else { vec![404, 422] },
                shows: Shows::Nothing,
            };
        };
        let delivered = self.state(machine) == State::Delivered;
        if !known || (!delivered && self.is("commandUndelivered", "refuse422")) {
            return Expected::refused(422);
        }
        let installing = self.busy(machine, Some("update-server"));
        if self.busy(machine, None) && self.is("commandBusy", "refuse409")
            || installing && self.is("reinstallBusy", "refuse409")
        {
            return Expected::refused(409);
        }
        self.send(place, word, COMMAND, fails);
        Expected::showing(Shows::Command(
            place,
            self.machines[place].commands.len() - 1,
        ))
    }

    fn send(&mut self, place: usize, word: &'static str, lasts: u64, doomed: bool) {
        let sent = self.now;
        self.machines[place].commands.push(Command {
            word,
            sent,
            lasts,
            doomed,
        });
    }

    pub(crate) fn reinstall(&mut self, place: usize, slug: &str, fails: bool) -> Expected {
        let Some(machine) = self.machines.get(place) else {
            return Expected::refused(404);
        };
        if self.state(machine) != State::Delivered {
            return Expected::refused(422);
        }
        if self.busy(machine, Some("update-server")) && self.is("reinstallBusy", "refuse409") {
            return Expected::refused(409);
        }
        self.send(place, "update-server", INSTALL, fails);
        self.machines[place].slug = slug.to_owned();
        Expected::showing(Shows::Machine(place))
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, seconds: u64) {
        let before = self.now;
        self.now += seconds;
        for machine in self.machines.clone() {
            let ended = machine.given_back.map(|at| at + RELEASE);
            if ended.is_some_and(|at| before < at && at <= self.now) {
                for tag in &machine.tags {
                    self.drop_unused(tag);
                }
            }
        }
    }

    /// When a machine was used: from its delivery until its release.
    pub(crate) fn used(&self, machine: &Machine) -> Option<(u64, Option<u64>)> {
        Some((self.delivered(machine)?, machine.given_back))
    }
}
