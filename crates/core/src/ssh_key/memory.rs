//! What one process remembers of one object between passes. To lose it is always safe.

use hosting_types::ssh_key::SshKey;
use std::time::Duration;

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SshKeyMemory {
    /// When the last call ended of which nobody knows what it did. A look of before says nothing of it.
    pub changed: Duration,
    /// What the last call stored, where that is newer than any look.
    pub stored: Option<Stored>,
    /// Keys that were deleted since this process acts, with the moment.
    pub deleted: Vec<(String, Duration)>,
    /// Looks that did not show the key.
    pub absence: Option<KeyAbsence>,
    /// How often the provider took the key and no look has shown it since.
    pub unshown: u32,
    /// That the provider refused the key.
    pub refused: Option<KeyRefusal>,
}

/// A refusal of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRefusal {
    /// The provider's words.
    pub message: String,
    /// When.
    pub at: Duration,
}

/// A key that a call stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Its identifier.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// The text.
    pub public_key: String,
    /// When the provider says that it was stored.
    pub created_at: Option<i64>,
    /// When the answer came.
    pub at: Duration,
}

/// A row of looks that did not show the key: the wanted one, or, while the object is being deleted, what it stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyAbsence {
    /// Start of the first of them.
    pub first: Duration,
    /// Start of the last.
    pub last: Duration,
}

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKeyObservation {
    /// Nothing.
    Nothing,
    /// A key was stored.
    Stored(Stored),
    /// It is not known whether the call stored the key. When it ended.
    Unknown(Duration),
    /// The provider refused the key: nothing was stored.
    Refused(KeyRefusal),
    /// A key is not there any more.
    Deleted {
        /// Which.
        uuid: String,
        /// When the answer came.
        at: Duration,
    },
    /// It is not known whether a key was deleted. When the call ended.
    NotKnownDeleted(Duration),
}

impl SshKeyMemory {
    /// Takes in what an effect brought to light.
    pub fn record_observation(&mut self, observation: SshKeyObservation) {
        match observation {
            SshKeyObservation::Nothing => {}
            SshKeyObservation::Stored(stored) => {
                self.stored = Some(stored);
                self.unshown += 1;
                self.refused = None;
                self.absence = None;
            }
            SshKeyObservation::Unknown(at) | SshKeyObservation::NotKnownDeleted(at) => {
                self.changed = at;
                self.absence = None;
            }
            SshKeyObservation::Refused(refused) => self.refused = Some(refused),
            SshKeyObservation::Deleted { uuid, at } => {
                self.absence = None;
                let is_stored = |stored: &Stored| stored.uuid.eq_ignore_ascii_case(&uuid);
                if self.stored.as_ref().is_some_and(is_stored) {
                    self.stored = None;
                }
                // A row of them is enough: what was deleted longer ago is in no look any more.
                if self.deleted.len() >= 32 {
                    self.deleted.remove(0);
                }
                self.deleted.push((uuid, at));
            }
        }
    }

    /// A look of this moment shows the key or does not. One from before `since` says nothing.
    pub fn record_list(&mut self, is_shown: bool, at: Duration, since: Duration) {
        if is_shown || self.absence.as_ref().is_some_and(|a| a.first < since) {
            self.absence = None;
        }
        if is_shown || at < since {
            return;
        }
        match &mut self.absence {
            Some(absence) => absence.last = absence.last.max(at),
            None => {
                self.absence = Some(KeyAbsence {
                    first: at,
                    last: at,
                });
            }
        }
    }

    /// When the next look has to start so that, with those before, it proves that the key is not there; None: it is proved.
    pub fn next_absence_check(&self, since: Duration, spacing: Duration) -> Option<Duration> {
        match &self.absence {
            Some(absence) => {
                let next = absence.first.max(since) + spacing;
                (absence.last < next).then_some(next)
            }
            None => Some(since),
        }
    }
}

impl Stored {
    /// As the answer shows it; the text is the one that was sent, which an answer may leave out.
    pub fn from_answer(key: &SshKey, line: &str, at: Duration) -> Self {
        Self {
            uuid: key.id.as_str().to_owned(),
            name: key.name.clone(),
            public_key: line.to_owned(),
            created_at: key.created_at,
            at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn two_spaced_lists_confirm_a_missing_key() {
        let mut memory = SshKeyMemory::default();
        let (since, spacing) = (secs(100), secs(60));
        let next = |m: &SshKeyMemory| m.next_absence_check(since, spacing);
        assert_eq!(next(&memory), Some(since));
        // One from before says nothing.
        memory.record_list(false, secs(99), since);
        assert_eq!(next(&memory), Some(since));
        memory.record_list(false, secs(110), since);
        memory.record_list(false, secs(169), since);
        assert_eq!(next(&memory), Some(secs(170)));
        memory.record_list(false, secs(170), since);
        assert_eq!(next(&memory), None);
        // Shown once, all starts again; so it does after a later call.
        let mut shown = memory.clone();
        shown.record_list(true, secs(180), since);
        assert_eq!(next(&shown), Some(since));
        memory.record_list(false, secs(190), secs(175));
        assert_eq!(
            memory.next_absence_check(secs(175), spacing),
            Some(secs(250))
        );
    }
}
