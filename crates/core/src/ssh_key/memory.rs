//! What this process remembers of an SshKey between reconciles. Losing it is always safe.

use hosting_types::ssh_key::SshKey;
use std::time::Duration;

/// The memory of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SshKeyMemory {
    /// When the last call with unknown outcome ended. Lists that began earlier do not count.
    pub changed: Duration,
    /// The key that the last call stored.
    pub stored: Option<Stored>,
    /// Keys that this process deleted, with the time.
    pub deleted: Vec<(String, Duration)>,
    /// Lists that did not contain the key.
    pub absence: Option<KeyAbsence>,
    /// How often the provider accepted the key without a later list that contains it.
    pub unshown: u32,
    /// The provider's refusal of the key, if any.
    pub refused: Option<KeyRefusal>,
}

/// A refusal of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRefusal {
    /// The provider's error text.
    pub message: String,
    /// When the provider refused it.
    pub at: Duration,
}

/// A key that a call stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The provider's identifier.
    pub uuid: String,
    /// Its name at the provider.
    pub name: String,
    /// The key text.
    pub public_key: String,
    /// The creation time that the provider reports.
    pub created_at: Option<i64>,
    /// When the answer came.
    pub at: Duration,
}

/// Consecutive lists without the key. For an object that is being deleted, without the key it stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyAbsence {
    /// Start of the first list.
    pub first: Duration,
    /// Start of the last list.
    pub last: Duration,
}

/// What an effect found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKeyObservation {
    /// Nothing to record.
    Nothing,
    /// A key was stored.
    Stored(Stored),
    /// Unknown whether the call stored the key. Has the time at which the call ended.
    Unknown(Duration),
    /// The provider refused the key: nothing was stored.
    Refused(KeyRefusal),
    /// A key was deleted or was already gone.
    Deleted {
        /// The provider's identifier.
        uuid: String,
        /// When the answer came.
        at: Duration,
    },
    /// Unknown whether a key was deleted. Has the time at which the call ended.
    NotKnownDeleted(Duration),
}

impl SshKeyMemory {
    /// Records what an effect found out.
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
                // Older deletions are in no list any more.
                if self.deleted.len() >= 32 {
                    self.deleted.remove(0);
                }
                self.deleted.push((uuid, at));
            }
        }
    }

    /// Records whether a list that began at `at` contains the key. Lists that began before `since` do not count.
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

    /// When the next list must begin to confirm that the key is missing. None if that is confirmed.
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
    /// From the answer, with the key text that was sent, because an answer may leave it out.
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
        // A list from before `since` does not count.
        memory.record_list(false, secs(99), since);
        assert_eq!(next(&memory), Some(since));
        memory.record_list(false, secs(110), since);
        memory.record_list(false, secs(169), since);
        assert_eq!(next(&memory), Some(secs(170)));
        memory.record_list(false, secs(170), since);
        assert_eq!(next(&memory), None);
        // A list with the key, or a later call, starts over.
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
