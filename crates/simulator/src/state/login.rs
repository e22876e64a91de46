//! The account's password (section 4.2).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::clock::Moment;

/// Most attempts to change a password within [`WINDOW`] (our choice).
pub(crate) const ATTEMPTS: usize = 5;
const WINDOW: Duration = Duration::from_mins(15);
/// How long a reset hash is valid (our choice).
const HASH_FOR: Duration = Duration::from_hours(1);

/// The outcome of an attempt to change the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Changed,
    Wrong,
    TooMany,
}

/// Main e-mail address and password. The password itself is stored nowhere.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Login {
    email: String,
    password: String,
    attempts: Vec<Moment>,
    reset: Option<(String, Moment)>,
}

/// Never shows the hashes.
impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Login")
            .field("email", &self.email)
            .finish_non_exhaustive()
    }
}

fn digest(email: &str, password: &str) -> String {
    let hash = Sha256::digest(format!("{email}\n{password}"));
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Login {
    pub(crate) fn new(email: &str, password: &str) -> Self {
        Self {
            email: email.to_owned(),
            password: digest(email, password),
            attempts: Vec::new(),
            reset: None,
        }
    }

    pub(crate) fn email(&self) -> &str {
        &self.email
    }

    /// The pending hash of a reset, while it is valid: what the mail to the owner
    /// would contain.
    pub(crate) fn reset_hash(&self, now: Moment) -> Option<&str> {
        let (hash, until) = self.reset.as_ref()?;
        (now < *until).then_some(hash)
    }

    /// Tries to change the password; every attempt counts, even a right one.
    pub(crate) fn change(&mut self, current: &str, new: &str, now: Moment) -> Attempt {
        self.attempts.retain(|at| now < at.after(WINDOW));
        if self.attempts.len() >= ATTEMPTS {
            return Attempt::TooMany;
        }
        self.attempts.push(now);
        if digest(&self.email, current) != self.password {
            return Attempt::Wrong;
        }
        self.password = digest(&self.email, new);
        Attempt::Changed
    }

    /// Makes a hash if the address is the account's. The caller is not told whether
    /// it is.
    pub(crate) fn ask_for_reset(&mut self, email: &str, now: Moment, hash: String) -> bool {
        let right = self.email.eq_ignore_ascii_case(email);
        if right {
            self.reset = Some((hash, now.after(HASH_FOR)));
        }
        right
    }

    /// Sets a new password for the right hash, once.
    pub(crate) fn reset(&mut self, hash: &str, new: &str, now: Moment) -> bool {
        if self.reset_hash(now) != Some(hash) {
            return false;
        }
        self.reset = None;
        self.password = digest(&self.email, new);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_in_a_moving_window() {
        let now = Moment::from_unix(1_000);
        let mut login = Login::new("a@example.com", "old");
        for _ in 0..ATTEMPTS {
            assert_eq!(login.change("wrong", "new", now), Attempt::Wrong);
        }
        assert_eq!(login.change("old", "new", now), Attempt::TooMany);
        let later = now.after(WINDOW);
        assert_eq!(login.change("old", "new", later), Attempt::Changed);
        assert_eq!(login.change("old", "new", later), Attempt::Wrong);
    }

    #[test]
    fn reset_hash_works_once_within_an_hour() {
        let now = Moment::from_unix(1_000);
        let mut login = Login::new("a@example.com", "old");
        assert!(!login.ask_for_reset("b@example.com", now, "h".into()));
        assert!(!login.reset("h", "new", now));
        assert!(login.ask_for_reset("A@example.com", now, "h".into()));
        assert!(!login.reset("h", "new", now.after(HASH_FOR)));
        assert!(login.reset("h", "new", now));
        assert!(!login.reset("h", "newer", now));
        assert_eq!(login.change("new", "x", now), Attempt::Changed);
    }
}
