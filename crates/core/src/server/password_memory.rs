//! What one process knows of the root password of one installation. To lose it is safe: a Secret that was written is found
//! again by what it says of itself.

use crate::backoff::{Backoff, LONGEST_PAUSE};
use api::root_password::Installed;
use std::time::Duration;

/// What this process knows of the password of one installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PasswordMemory {
    /// Which.
    pub of: Installed,
    /// The name that was looked at and is free.
    pub free: Option<String>,
    /// The Secret that it was stored in, and when, in seconds since 1970.
    pub stored: Option<(String, i64)>,
    /// That Secret is gone.
    pub is_deleted: bool,
    /// Why the last try brought nothing.
    pub failure: Option<PasswordFailure>,
    /// When that was.
    pub tried: Duration,
    /// How long the next one waits.
    pub backoff: Backoff,
}

/// Why a try brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PasswordFailure {
    /// The provider shows no password.
    Absent,
    /// The Secret of this name is not this object's; the provider was not asked.
    Taken(String),
    /// Something else stood against it, in words.
    Error(String),
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordEnd {
    /// The Secret of this name is free.
    Free(String),
    /// The password is in the Secret of this name, since then, in seconds since 1970.
    Stored(String, i64),
    /// The Secret is gone, is another's, or holds something else by now.
    Deleted,
    /// Nothing came of it.
    Failed(PasswordFailure),
}

impl PasswordMemory {
    /// Takes in how a step ended.
    pub fn record_step_end(&mut self, of: &Installed, end: PasswordEnd, now: Duration) {
        if self.of != *of {
            *self = Self {
                of: of.clone(),
                ..Self::default()
            };
        }
        let failure = match end {
            PasswordEnd::Failed(failure) => failure,
            PasswordEnd::Free(name) => {
                self.free = Some(name);
                // Other failures keep their pauses.
                if matches!(self.failure, Some(PasswordFailure::Taken(_))) {
                    self.failure = None;
                }
                return;
            }
            PasswordEnd::Stored(secret, at) => {
                self.stored = Some((secret, at));
                self.is_deleted = false;
                return self.succeed();
            }
            PasswordEnd::Deleted => {
                self.is_deleted = true;
                return self.succeed();
            }
        };
        if matches!(failure, PasswordFailure::Taken(_)) {
            // Another name is another matter, and is tried at once.
            self.backoff.reset();
            self.free = None;
        } else {
            self.backoff.fail(now, LONGEST_PAUSE);
        }
        self.failure = Some(failure);
        self.tried = now;
    }

    /// The next try need not wait: the account has answers again.
    pub fn try_again(&mut self) {
        if matches!(self.failure, Some(PasswordFailure::Error(_))) {
            self.backoff.reset();
        }
    }

    fn succeed(&mut self) {
        self.failure = None;
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_answers_reset_only_error_backoff() {
        let (of, now) = (Installed::default(), Duration::from_secs(7));
        for (failure, is_over) in [
            (PasswordFailure::Error("no answer".into()), true),
            (PasswordFailure::Absent, false),
        ] {
            let mut memory = PasswordMemory::default();
            for _ in 0..3 {
                memory.record_step_end(&of, PasswordEnd::Failed(failure.clone()), now);
            }
            assert!(memory.backoff.rest(now).is_some(), "{failure:?}");
            memory.try_again();
            assert_eq!(memory.backoff.rest(now).is_none(), is_over, "{failure:?}");
            assert_eq!(memory.failure, Some(failure), "nothing came of it yet");
        }
    }
}
