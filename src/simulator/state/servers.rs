//! What the API does with servers: find, list, release, tag.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::answer::Refusal;
use super::super::clock::Moment;
use super::super::profile::{
    DeleteUsedTag, ListOrder, ReleaseFailed, ReleaseReleased, ReleaseReleasing, ReleaseWaiting,
    RemoveAbsentTag, Switches, TagReleased,
};
use super::super::rules::MAX_TAGS;
use super::Account;
use super::machine::{Machine, Release, Step};
use super::status::{Status, StatusFilter};

/// From when the account is looked at: `at` is in the past for a stale answer.
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

/// What a listing is asked for.
#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) status: Option<StatusFilter>,
    /// Only machines that bear all of them.
    pub(crate) tags: Vec<String>,
}

impl Account {
    /// The matching machines, in the list's order.
    pub(crate) fn list(&self, query: &ListQuery, lens: Lens, switches: &Switches) -> Vec<&Machine> {
        // The index knows present tags only: a look into the past before the
        // last change of tags has to read all machines.
        let bearers = query.tags.iter().map(|tag| self.bearers.get(tag));
        let fewest = bearers.min_by_key(|bearers| bearers.map_or(0, BTreeSet::len));
        let mut found: Vec<&Machine> = match fewest {
            Some(bearers) if self.retagged_at.is_none_or(|at| at <= lens.at) => bearers
                .into_iter()
                .flatten()
                .filter_map(|index| self.machines.get(*index))
                .collect(),
            _ => self.machines.iter().collect(),
        };
        found.retain(|machine| {
            let tags = machine.tags_at(lens.at);
            lens.lists(machine)
                && query
                    .status
                    .is_none_or(|filter| filter.admits(machine.status_at(lens.at)))
                && query.tags.iter().all(|tag| tags.contains(tag))
        });
        if switches.list_order == ListOrder::NewestFirst {
            found.reverse();
        }
        found
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

    pub(super) fn index(&self, uuid: &str) -> Result<usize, Refusal> {
        let uuid: Uuid = uuid.parse().map_err(|_| Refusal::not_found())?;
        self.by_uuid
            .get(&uuid)
            .copied()
            .ok_or_else(Refusal::not_found)
    }

    /// Begins a release. `true` when something began, `false` when it had
    /// begun before.
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
            waiting
                if waiting.waiting() && switches.release_waiting == ReleaseWaiting::Refuse409 =>
            {
                return Err(Refusal::conflict("Server is not delivered yet"));
            }
            _ => {}
        }
        if let Some(machine) = self.machines.get_mut(index) {
            self.tick += 1;
            machine.enter(Step::new(now, Status::Releasing, "release"), self.tick);
            let tags = machine.tags().to_vec();
            machine.releases.push(Release { at: now, tags });
        }
        self.replan(
            index,
            [Step::new(now.after(lasting), Status::Released, "release")],
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

    /// Takes a tag off. `true` when the machine bore it.
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

    /// The tags of the account as they were, in order of their first use.
    pub(crate) fn tag_list(&self, lens: Lens) -> Vec<&str> {
        self.tags.visible(lens.at, lens.lag).collect()
    }

    /// The record of section 2.13.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn tag(&self, tag: &str, lens: Lens) -> Result<Value, Refusal> {
        if !self.tags.shows(tag, lens.at, lens.lag) {
            return Err(Refusal::not_found());
        }
        Ok(self.tag_record(tag))
    }

    /// The record of a tag that is known to exist.
    pub(crate) fn tag_record(&self, tag: &str) -> Value {
        let count = self.bearers.get(tag).map_or(0, BTreeSet::len);
        json!({"tag": tag, "resources": {"count": count, "flexMetalServers": {"count": count}}})
    }

    /// Takes a tag out of the account's list.
    ///
    /// # Errors
    /// 404, and 409 where the switch keeps tags that are in use.
    pub(crate) fn delete_tag(
        &mut self,
        tag: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<(), Refusal> {
        if !self.tags.knows(tag) {
            return Err(Refusal::not_found());
        }
        match switches.delete_used_tag {
            DeleteUsedTag::Refuse409 if self.in_use(tag) => {
                return Err(Refusal::conflict("Tag is in use"));
            }
            DeleteUsedTag::Refuse409 | DeleteUsedTag::Keep => {}
            DeleteUsedTag::Detach => {
                let bearers: Vec<usize> = self
                    .bearers
                    .get(tag)
                    .into_iter()
                    .flatten()
                    .copied()
                    .collect();
                for index in bearers {
                    let Some(machine) = self.machines.get(index) else {
                        continue;
                    };
                    let mut tags = machine.tags().to_vec();
                    tags.retain(|known| known != tag);
                    self.retag(index, now, tags);
                }
            }
        }
        self.tags.go(tag);
        Ok(())
    }
}
