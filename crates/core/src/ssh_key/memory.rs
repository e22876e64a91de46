//! What one process remembers of one object between passes. To lose it is always safe.

use super::public_key::{Fingerprint, PublicKey};
use crate::{
    backoff::{self, Backoff},
    cause::Cause,
};
use hosting_types::ssh_key::SshKey;
use std::time::Duration;

/// The longest pause between two reads of what is missing.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// What lies in a Secret or ConfigMap is read no more often than this while all is well.
const SHORTEST_REST: Duration = Duration::from_secs(300);

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// What lay in the Secret or ConfigMap when it was last read.
    pub content: Option<Content>,
    /// Reads that failed in a row.
    pub reads: Backoff,
    /// The key that the object stands for, and since when this process knows.
    pub known: Option<(Fingerprint, Duration)>,
    /// When the last call ended of which nobody knows what it did. A look of before says nothing of it.
    pub changed: Duration,
    /// What the last call stored, where that is newer than any look.
    pub stored: Option<Stored>,
    /// Keys that were deleted since this process acts, with the moment.
    pub deleted: Vec<(String, Duration)>,
    /// What looks did not show.
    pub absence: Option<Absence>,
    /// Keys that the provider took and no look has shown since.
    pub unshown: u32,
    /// What the provider refused.
    pub refused: Option<Refused>,
}

/// A key that the provider refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Which.
    pub key: Fingerprint,
    /// The provider's words.
    pub message: String,
    /// When.
    pub at: Duration,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The key, or why there is none.
    pub key: Result<PublicKey, Cause>,
    /// The generation of the object that said where.
    pub generation: Option<i64>,
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

/// A row of looks that did not show something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Absence {
    /// What: a fingerprint, or a mark.
    pub of: String,
    /// Start of the first of them.
    pub first: Duration,
    /// Start of the last.
    pub last: Duration,
}

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing.
    Nothing,
    /// A key was stored.
    Stored(Stored),
    /// It is not known whether the call stored the key. When it ended.
    Unknown(Duration),
    /// The provider refused the key: nothing was stored.
    Refused(Refused),
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

impl Memory {
    /// Takes in what an effect brought to light.
    pub fn note(&mut self, observation: Observation) {
        match observation {
            Observation::Nothing => {}
            Observation::Stored(stored) => {
                self.stored = Some(stored);
                self.unshown += 1;
                self.refused = None;
                self.absence = None;
            }
            Observation::Unknown(at) | Observation::NotKnownDeleted(at) => {
                self.changed = at;
                self.absence = None;
            }
            Observation::Refused(refused) => self.refused = Some(refused),
            Observation::Deleted { uuid, at } => {
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

    /// Since when this process knows that the object stands for this key.
    pub fn knows(&mut self, key: &Fingerprint, now: Duration) -> Duration {
        match &self.known {
            Some((known, since)) if known == key => *since,
            _ => {
                self.known = Some((key.clone(), now));
                self.unshown = 0;
                self.absence = None;
                now
            }
        }
    }

    /// A look of this moment shows something or does not. One from before `since` says nothing.
    pub fn looked(&mut self, of: &str, is_shown: bool, at: Duration, since: Duration) {
        if self
            .absence
            .as_ref()
            .is_some_and(|a| a.of != of || a.first < since)
            || is_shown
        {
            self.absence = None;
        }
        if is_shown || at < since {
            return;
        }
        match &mut self.absence {
            Some(absence) => absence.last = absence.last.max(at),
            None => {
                self.absence = Some(Absence {
                    of: of.to_owned(),
                    first: at,
                    last: at,
                });
            }
        }
    }

    /// When the next look has to start so that, with those before, it proves that this is not there; None: it is proved.
    pub fn next_proof(&self, of: &str, since: Duration, spacing: Duration) -> Option<Duration> {
        match self.absence.as_ref().filter(|a| a.of == of) {
            Some(absence) => {
                let next = absence.first.max(since) + spacing;
                (absence.last < next).then_some(next)
            }
            None => Some(since),
        }
    }

    /// Takes in what a Secret or ConfigMap holds.
    pub fn read(&mut self, content: Content) {
        match content.key {
            Ok(_) => self.reads.reset(),
            Err(_) => drop(self.reads.fail(content.at, LONGEST_WAIT)),
        }
        self.content = Some(content);
    }

    /// Whether the Secret or ConfigMap has to be read in this pass.
    pub fn is_to_read(&self, generation: Option<i64>, now: Duration, rest: Duration) -> bool {
        match &self.content {
            Some(content) if content.generation == generation => match content.key {
                Ok(_) => now >= content.at + rest.max(SHORTEST_REST),
                Err(_) => self.reads.rest(now).is_none(),
            },
            _ => true,
        }
    }

    /// How long to wait before what is missing is read again.
    pub fn rest(&self, now: Duration) -> Duration {
        let unknown = backoff::delay(0, LONGEST_WAIT);
        self.reads.rest(now).unwrap_or(unknown)
    }
}

impl Stored {
    /// As the answer shows it; the text is the one that was sent, which an answer may leave out.
    pub fn of(key: &SshKey, line: &str, at: Duration) -> Self {
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
    fn two_looks_with_a_pause_between_them_prove_that_something_is_not_there() {
        let mut memory = Memory::default();
        let (since, spacing) = (secs(100), secs(60));
        let next = |m: &Memory| m.next_proof("k", since, spacing);
        assert_eq!(next(&memory), Some(since));
        // One from before says nothing.
        memory.looked("k", false, secs(99), since);
        assert_eq!(next(&memory), Some(since));
        memory.looked("k", false, secs(110), since);
        memory.looked("k", false, secs(169), since);
        assert_eq!(next(&memory), Some(secs(170)));
        memory.looked("k", false, secs(170), since);
        assert_eq!(next(&memory), None);
        assert_eq!(memory.next_proof("other", since, spacing), Some(since));
        // Shown once, all starts again; so it does after a later call.
        let mut shown = memory.clone();
        shown.looked("k", true, secs(180), since);
        assert_eq!(next(&shown), Some(since));
        memory.looked("k", false, secs(190), secs(175));
        assert_eq!(memory.next_proof("k", secs(175), spacing), Some(secs(250)));
    }

    #[test]
    fn what_is_missing_is_read_ever_more_rarely_and_what_is_there_hardly_ever() {
        let mut memory = Memory::default();
        let missing = |at| Content {
            key: Err(Cause::missing(api::Reason::ReferenceNotFound, "no")),
            generation: Some(1),
            at,
        };
        let mut now = Duration::ZERO;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(memory.is_to_read(Some(1), now, secs(30)), "{now:?}");
            memory.read(missing(now));
            assert_eq!(memory.rest(now), secs(pause));
            assert!(!memory.is_to_read(Some(1), now + secs(pause) - secs(1), secs(30)));
            assert!(memory.is_to_read(Some(2), now, secs(30)), "edited");
            now += secs(pause);
        }
        let key = PublicKey::parse(
            b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z",
        );
        memory.read(Content {
            key: key.map_err(|_| unreachable!()),
            generation: Some(2),
            at: now,
        });
        assert!(!memory.is_to_read(Some(2), now + secs(299), secs(30)));
        assert!(memory.is_to_read(Some(2), now + secs(300), secs(30)));
        assert!(!memory.is_to_read(Some(2), now + secs(599), secs(600)));
        assert!(memory.is_to_read(Some(3), now, secs(600)));
    }
}
