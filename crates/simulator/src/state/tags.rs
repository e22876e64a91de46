//! What the API does with the account's tags (section 4.6): create, rename and
//! delete, with what that does to the machines that bear them.

use serde_json::{Value, json};

use super::super::answer::Refusal;
use super::super::clock::Moment;
use super::super::profile::{DeleteUsedTag, DuplicateTag, RenameTag, Switches};
use super::Account;
use super::servers::Lens;
use super::status::Status;

impl Account {
    /// The tags of the account at that time, in order of their first use.
    pub(crate) fn tag_list(&self, lens: Lens) -> impl Iterator<Item = &str> {
        self.tags.visible(lens.at, lens.lag)
    }

    /// Adds a tag to the account's list before any machine bears it.
    ///
    /// # Errors
    /// 422, 409 or none, by switch, when it exists.
    pub(crate) fn create_tag(
        &mut self,
        tag: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<(), Refusal> {
        if self.tags.knows(tag) {
            // The text is not in `errors`: seen in clients.
            let message = "Tag already exists";
            return match switches.duplicate_tag {
                DuplicateTag::Refuse422 => Err(Refusal::unprocessable(message)),
                DuplicateTag::Refuse409 => Err(Refusal::conflict(message)),
                DuplicateTag::Answer200 => Ok(()),
            };
        }
        self.tags.come(tag, now, false);
        Ok(())
    }

    /// Gives a tag another name.
    ///
    /// # Errors
    /// 404, and 409 for a name that exists.
    pub(crate) fn rename_tag(
        &mut self,
        tag: &str,
        name: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<(), Refusal> {
        if !self.tags.knows(tag) {
            return Err(Refusal::not_found());
        }
        if self.tags.knows(name) {
            return Err(Refusal::conflict("Tag already exists"));
        }
        let replacement = match switches.rename_tag {
            RenameTag::Follow => Some(name),
            RenameTag::Detach => None,
            RenameTag::Keep => Some(tag),
        };
        self.replace_tag(tag, replacement, now);
        self.tags.go(tag);
        self.tags.come(name, now, false);
        Ok(())
    }

    /// Replaces a tag on all its machines by another one, or none.
    fn replace_tag(&mut self, tag: &str, with: Option<&str>, now: Moment) {
        let bearers = self.bearers.get(tag);
        let bearers: Vec<usize> = bearers.into_iter().flatten().copied().collect();
        if with == Some(tag) {
            return;
        }
        for index in bearers {
            let Some(machine) = self.machines.get(index) else {
                continue;
            };
            // A machine that has the other tag must not get it twice.
            let with = with.filter(|with| machine.tags().iter().all(|known| known != with));
            let tags = machine.tags().iter();
            let tags = tags.filter_map(|known| match known == tag {
                true => with.map(str::to_owned),
                false => Some(known.clone()),
            });
            let tags = tags.collect();
            self.retag(index, now, tags);
        }
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
        let bearers = self.bearers.get(tag).into_iter().flatten();
        let machines = bearers.filter_map(|place| self.machines.get(*place));
        let count = machines
            .filter(|machine| machine.status() != Status::Released)
            .count();
        json!({"tag": tag, "resources": {"count": count, "flexMetalServers": {"count": count}}})
    }

    /// Removes a tag from the account's list.
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
            DeleteUsedTag::Detach => self.replace_tag(tag, None, now),
        }
        self.tags.go(tag);
        Ok(())
    }
}
