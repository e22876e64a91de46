//! What one process knows about the root password of one installation. Losing it is safe: a written Secret is found
//! again by its keys.

use crate::backoff::{Backoff, LONGEST_PAUSE};
use api::root_password::Installed;
use std::time::Duration;

/// Memory of the password of one installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PasswordMemory {
    /// The installation.
    pub of: Installed,
    /// Secret name that is free, as last read.
    pub free: Option<String>,
    /// The Secret with the password, and when it was stored, in Unix seconds.
    pub stored: Option<(String, i64)>,
    /// Whether that Secret was deleted.
    pub is_deleted: bool,
    /// Why the last attempt failed.
    pub failure: Option<PasswordFailure>,
    /// When the last attempt failed.
    pub tried: Duration,
    /// Backoff of the next attempt.
    pub backoff: Backoff,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PasswordFailure {
    /// The provider returns no password.
    Absent,
    /// Another owner has the Secret of this name; the provider was not asked.
    Taken(String),
    /// Any other error.
    Error(String),
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordEnd {
    /// This Secret name is free.
    Free(String),
    /// The password is in this Secret, stored at this time in Unix seconds.
    Stored(String, i64),
    /// The Secret is deleted, has another owner, or has other content.
    Deleted,
    /// The step failed.
    Failed(PasswordFailure),
}

impl PasswordMemory {
    /// Records how a step ended.
    pub fn record_step_end(&mut self, installed: &Installed, end: PasswordEnd, now: Duration) {
        if self.of != *installed {
            *self = Self {
                of: installed.clone(),
                ..Self::default()
            };
        }
        let failure = match end {
            PasswordEnd::Failed(failure) => failure,
            PasswordEnd::Free(name) => {
                self.free = Some(name);
                // Other failures keep their backoff.
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
            // Another Secret name is tried without backoff.
            self.backoff.reset();
            self.free = None;
        } else {
            self.backoff.fail(now, LONGEST_PAUSE);
        }
        self.failure = Some(failure);
        self.tried = now;
    }

    /// Resets the backoff of errors once the account gets answers again.
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
        let (installed, now) = (Installed::default(), Duration::from_secs(7));
        for (failure, is_reset) in [
            (PasswordFailure::Error("no answer".into()), true),
            (PasswordFailure::Absent, false),
        ] {
            let mut memory = PasswordMemory::default();
            for _ in 0..3 {
                memory.record_step_end(&installed, PasswordEnd::Failed(failure.clone()), now);
            }
            assert!(memory.backoff.remaining(now).is_some(), "{failure:?}");
            memory.try_again();
            assert_eq!(
                memory.backoff.remaining(now).is_none(),
                is_reset,
                "{failure:?}"
            );
            assert_eq!(memory.failure, Some(failure), "nothing came of it yet");
        }
    }
}
