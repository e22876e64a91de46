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
    /// The tags of the account as they were, in order of their first use.
    pub(crate) fn tag_list(&self, lens: Lens) -> impl Iterator<Item = &str> {
        self.tags.visible(lens.at, lens.lag)
    }

    /// Puts a tag into the account's list before any machine bears it.
    ///
    /// # Errors
    /// 422, 409 or none, by switch, when it is there.
    pub(crate) fn create_tag(
        &mut self,
        tag: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<(), Refusal> {
        if self.tags.knows(tag) {
            // The text is not among the errors: clients have seen it so.
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
    /// 404, and 409 for a name that is taken.
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

    /// Puts another tag, or none, in the place of one on all its machines.
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
            // A machine that bears the other one already bears it once.
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
            DeleteUsedTag::Detach => self.replace_tag(tag, None, now),
        }
        self.tags.go(tag);
        Ok(())
    }
}
