//! Rules of SSH keys and of the whitelist.

use super::world::{Entry, Expected, Shows, SshKey, World};

impl World {
    pub(crate) fn store_key(&mut self, name: &str) -> Expected {
        let mut known = self.ssh_keys.iter().filter(|key| !key.deleted);
        let twice = known.any(|key| key.name == name);
        if twice && self.is("duplicateKeyName", "refuse422") {
            return Expected::refused(422);
        }
        self.ssh_keys.push(SshKey {
            name: name.to_owned(),
            stored: self.now,
            deleted: false,
        });
        Expected::showing(Shows::SshKey(self.ssh_keys.len() - 1))
    }

    pub(crate) fn delete_key(&mut self, place: usize) -> Expected {
        match self.ssh_keys.get_mut(place) {
            Some(key) if !key.deleted => {
                key.deleted = true;
                Expected::showing(Shows::Nothing)
            }
            _ => Expected::refused(404),
        }
    }

    pub(crate) fn allow(&mut self, range: &'static str, active: bool) -> Expected {
        self.whitelist.push(Entry {
            range,
            active,
            changed: self.now,
            removed: false,
        });
        Expected::showing(Shows::Entry(self.whitelist.len() - 1))
    }

    pub(crate) fn change_entry(
        &mut self,
        place: usize,
        range: &'static str,
        active: bool,
    ) -> Expected {
        let changed = self.now;
        match self.whitelist.get_mut(place) {
            Some(entry) if !entry.removed => {
                *entry = Entry {
                    range,
                    active,
                    changed,
                    removed: false,
                };
                Expected::showing(Shows::Entry(place))
            }
            _ => Expected::refused(404),
        }
    }

    pub(crate) fn disallow(&mut self, place: usize) -> Expected {
        match self.whitelist.get_mut(place) {
            Some(entry) if !entry.removed => {
                entry.removed = true;
                Expected::showing(Shows::Nothing)
            }
            _ => Expected::refused(404),
        }
    }
}
