//! Rules of tags: on machines, and in the account's list.

use super::world::{Expected, Machine, Shows, State, World};

/// Whether a name fits the rule of tags.
pub(crate) fn fits(tag: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
    (1..=64).contains(&tag.len()) && tag.chars().all(letters)
}

impl World {
    pub(crate) fn lists(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }

    /// Makes a tag by use.
    pub(crate) fn come(&mut self, tag: &str) {
        if !self.lists(tag) {
            self.tags.push(tag.to_owned());
        }
    }

    fn go(&mut self, tag: &str) {
        self.tags.retain(|known| known != tag);
    }

    /// Machines that bear it; released ones do not count.
    pub(crate) fn count(&self, tag: &str) -> usize {
        let bears = |machine: &&Machine| {
            machine.tags.iter().any(|known| known == tag) && self.state(machine) != State::Released
        };
        self.machines.iter().filter(bears).count()
    }

    /// What happens to a tag that a machine bears no more.
    pub(crate) fn drop_unused(&mut self, tag: &str) {
        if self.is("unusedTags", "drop") && self.count(tag) == 0 {
            self.go(tag);
        }
    }

    pub(crate) fn put_tag(&mut self, place: usize, tag: &str) -> Expected {
        let Some(machine) = self.machines.get(place) else {
            return Expected {
                statuses: if fits(tag) { vec![404] } else { vec![404, 422] },
                shows: Shows::Nothing,
            };
        };
        let closed = self.state(machine) == State::Released && self.is("tagReleased", "refuse422");
        if !fits(tag) || closed {
            return Expected::refused(422);
        }
        if !machine.tags.iter().any(|known| known == tag) {
            if machine.tags.len() >= 60 {
                return Expected::refused(422);
            }
            self.come(tag);
            self.machines[place].tags.push(tag.to_owned());
        }
        Expected::showing(Shows::Machine(place))
    }

    pub(crate) fn take_tag(&mut self, place: usize, tag: &str) -> Expected {
        let Some(machine) = self.machines.get(place) else {
            return Expected::refused(404);
        };
        let closed = self.state(machine) == State::Released && self.is("tagReleased", "refuse422");
        let absent = machine.tags.iter().all(|known| known != tag);
        if closed {
            return Expected {
                statuses: if absent { vec![404, 422] } else { vec![422] },
                shows: Shows::Nothing,
            };
        }
        if absent && self.is("removeAbsentTag", "answer404") {
            return Expected::refused(404);
        }
        if !absent {
            self.machines[place].tags.retain(|known| known != tag);
            self.drop_unused(tag);
        }
        Expected::showing(Shows::Machine(place))
    }

    pub(crate) fn create_tag(&mut self, tag: &str) -> Expected {
        if !fits(tag) {
            return Expected::refused(422);
        }
        match self.setup.switch("duplicateTag").as_str() {
            "refuse422" if self.lists(tag) => return Expected::refused(422),
            "refuse409" if self.lists(tag) => return Expected::refused(409),
            _ => self.come(tag),
        }
        Expected::showing(Shows::Tag(tag.to_owned()))
    }

    pub(crate) fn rename_tag(&mut self, tag: &str, name: &str) -> Expected {
        let rules = [
            (!self.lists(tag), 404),
            (!fits(name), 422),
            (self.lists(name), 409),
        ];
        let broken = rules.iter().filter(|(broken, _)| *broken);
        let statuses: Vec<u16> = broken.map(|(_, status)| *status).collect();
        if !statuses.is_empty() {
            return Expected {
                statuses,
                shows: Shows::Nothing,
            };
        }
        let rename = self.setup.switch("renameTag");
        for machine in &mut self.machines {
            if machine.tags.iter().all(|known| known != tag) || rename == "keep" {
                continue;
            }
            machine.tags.retain(|known| known != tag);
            if rename == "follow" && machine.tags.iter().all(|known| known != name) {
                machine.tags.push(name.to_owned());
            }
        }
        self.go(tag);
        self.come(name);
        Expected::showing(Shows::Tag(name.to_owned()))
    }

    pub(crate) fn delete_tag(&mut self, tag: &str) -> Expected {
        if !self.lists(tag) {
            return Expected::refused(404);
        }
        match self.setup.switch("deleteUsedTag").as_str() {
            "refuse409" if self.count(tag) > 0 => return Expected::refused(409),
            "detach" => {
                for machine in &mut self.machines {
                    machine.tags.retain(|known| known != tag);
                }
            }
            _ => {}
        }
        self.go(tag);
        Expected::showing(Shows::Nothing)
    }
}
