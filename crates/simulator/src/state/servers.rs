//! What the API does with servers (sections 4.4 and 4.6): find, list, release,
//! and change their tags. The account's own tags are in `tags`.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use super::super::answer::Refusal;
use super::super::clock::Moment;
use super::super::profile::{
    AddUnknownTag, ListOrder, ReleaseFailed, ReleaseReleased, ReleaseReleasing, ReleaseWaiting,
    RemoveAbsentTag, Switches, TagReleased,
};
use super::super::rules::MAX_TAGS;
use super::Account;
use super::machine::{Cause, Machine, Release, Step};
use super::status::{Status, StatusFilter};

/// The moment that an answer shows: `at` is in the past for a stale one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens {
    pub(crate) at: Moment,
    /// How long a new machine stays out of listings.
    pub(crate) lag: Duration,
}

impl Lens {
    fn lists(self, machine: &Machine) -> bool {
        let seen = machine
            .created_at()
            .is_some_and(|at| at.after(self.lag) <= self.at);
        seen && !machine.hidden
    }
}

/// The query of a listing.
#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) status: Option<StatusFilter>,
    /// Only machines that bear all of them.
    pub(crate) tags: Vec<String>,
}

impl Account {
    /// The matching machines, in the list's order, found one by one: a page costs
    /// only what comes before its end.
    pub(crate) fn list<'a>(
        &'a self,
        query: &'a ListQuery,
        lens: Lens,
        switches: &Switches,
    ) -> Box<dyn Iterator<Item = &'a Machine> + 'a> {
        // The index knows present tags only: an answer from before the last change
        // of tags has to read all machines.
        let present = self.retagged_at.is_none_or(|at| at <= lens.at);
        let bearers = query.tags.iter().map(|tag| (tag, self.bearers.get(tag)));
        let fewest = bearers
            .filter(|_| present)
            .min_by_key(|(_, bearers)| bearers.map_or(0, BTreeSet::len));
        let backwards = switches.list_order == ListOrder::NewestFirst;
        // For a single tag the index is enough; the machines need not be read.
        let known = fewest.map(|(tag, _)| tag);
        let matching = move |machine: &&'a Machine| {
            let mut tags = query.tags.iter().filter(|tag| Some(*tag) != known);
            lens.lists(machine)
                && query
                    .status
                    .is_none_or(|filter| filter.admits(machine.status_at(lens.at)))
                && tags.all(|tag| machine.tags_at(lens.at).contains(tag))
        };
        match fewest {
            Some((_, bearers)) => {
                let places = bearers.into_iter().flatten();
                let machine = |place: &usize| self.machines.get(*place);
                match backwards {
                    true => Box::new(places.rev().filter_map(machine).filter(matching)),
                    false => Box::new(places.filter_map(machine).filter(matching)),
                }
            }
            _ if backwards => Box::new(self.machines.iter().rev().filter(matching)),
            _ => Box::new(self.machines.iter().filter(matching)),
        }
    }

    /// The machine with this uuid, if it existed at that time.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn find(&self, uuid: &str, at: Moment) -> Result<&Machine, Refusal> {
        let index = self.index(uuid)?;
        let machine = self.machines.get(index).ok_or_else(Refusal::not_found)?;
        match machine.created_at() {
            Some(created) if created <= at && !machine.hidden => Ok(machine),
            _ => Err(Refusal::not_found()),
        }
    }

    /// The machine with this uuid, hidden or not.
    pub(crate) fn by_name(&self, uuid: &str) -> Option<&Machine> {
        let index = self.index(uuid).ok()?;
        self.machines.get(index)
    }

    /// The index of the machine with this uuid, hidden or not.
    pub(super) fn index(&self, uuid: &str) -> Result<usize, Refusal> {
        let uuid: Uuid = uuid.parse().map_err(|_| Refusal::not_found())?;
        self.by_uuid
            .get(&uuid)
            .copied()
            .ok_or_else(Refusal::not_found)
    }

    /// Starts a release. `true` when it started, `false` when it had started
    /// before.
    ///
    /// # Errors
    /// 404, and 409 or 422 where state and switches refuse it.
    pub(crate) fn release(
        &mut self,
        uuid: &str,
        now: Moment,
        lasting: Duration,
        switches: &Switches,
    ) -> Result<bool, Refusal> {
        let status = self.find(uuid, now)?.status();
        let index = self.index(uuid)?;
        match status {
            Status::Released => {
                return match switches.release_released {
                    ReleaseReleased::Answer200 => Ok(false),
                    ReleaseReleased::Refuse422 => {
                        Err(Refusal::unprocessable("Server is already released"))
                    }
                };
            }
            Status::Releasing => {
                return match switches.release_releasing {
                    ReleaseReleasing::Answer200 => Ok(false),
                    ReleaseReleasing::Refuse409 => {
                        Err(Refusal::conflict("Server is already being released"))
                    }
                };
            }
            Status::Failed if switches.release_failed == ReleaseFailed::Refuse422 => {
                return Err(Refusal::unprocessable("A failed server cannot be released"));
            }
            waiting if waiting.waiting() => {
                let why = "Server is not delivered yet";
                match switches.release_waiting {
                    ReleaseWaiting::Accept => {}
                    ReleaseWaiting::Refuse409 => return Err(Refusal::conflict(why)),
                    ReleaseWaiting::Refuse422 => return Err(Refusal::unprocessable(why)),
                }
            }
            _ => {}
        }
        self.enter(index, Step::new(now, Status::Releasing, Cause::Release));
        if let Some(machine) = self.machines.get_mut(index) {
            let tags = machine.tags().to_vec();
            machine.releases.push(Release { at: now, tags });
        }
        self.replan(
            index,
            [Step::new(
                now.after(lasting),
                Status::Released,
                Cause::Release,
            )],
        );
        Ok(true)
    }

    /// Adds a tag. `true` when the machine did not bear it before.
    ///
    /// # Errors
    /// 404, and 422 for the 61st tag or where the switch refuses it.
    pub(crate) fn add_tag(
        &mut self,
        uuid: &str,
        tag: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<bool, Refusal> {
        let mut tags = self.taggable(uuid, now, switches)?.tags().to_vec();
        if tags.iter().any(|known| known == tag) {
            return Ok(false);
        }
        if switches.add_unknown_tag == AddUnknownTag::Refuse404 && !self.tags.knows(tag) {
            return Err(Refusal::not_found());
        }
        if tags.len() >= MAX_TAGS {
            return Err(Refusal::breach(
                "tag",
                format!("a server has at most {MAX_TAGS} tags"),
            ));
        }
        tags.push(tag.to_owned());
        let index = self.index(uuid)?;
        self.retag(index, now, tags);
        Ok(true)
    }

    /// Removes a tag. `true` when the machine bore it.
    ///
    /// # Errors
    /// 404 for the machine, and by switch for the tag.
    pub(crate) fn remove_tag(
        &mut self,
        uuid: &str,
        tag: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<bool, Refusal> {
        let mut tags = self.taggable(uuid, now, switches)?.tags().to_vec();
        let before = tags.len();
        tags.retain(|known| known != tag);
        if tags.len() == before {
            return match switches.remove_absent_tag {
                RemoveAbsentTag::Answer200 => Ok(false),
                RemoveAbsentTag::Answer404 => Err(Refusal::not_found()),
            };
        }
        let index = self.index(uuid)?;
        self.retag(index, now, tags);
        self.forget_unused(tag, switches);
        Ok(true)
    }

    fn taggable(&self, uuid: &str, now: Moment, switches: &Switches) -> Result<&Machine, Refusal> {
        let machine = self.find(uuid, now)?;
        let released = machine.status() == Status::Released;
        if released && switches.tag_released == TagReleased::Refuse422 {
            return Err(Refusal::unprocessable("Server is released"));
        }
        Ok(machine)
    }
}
