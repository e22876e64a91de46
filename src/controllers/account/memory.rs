//! What is remembered of an account object between two passes.

use super::{beside::Beside, orphan_memory::OrphanMemory, secret::Reading};
use crate::{
    controllers::{patience::Patience, request::Asked},
    runtime::backoff::Backoff,
};
use api::{Reason, account::Endpoint};
use std::time::Duration;

/// Longest time between two looks at a Secret that is missing or of no use.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Memory of one account object.
#[derive(Clone, Default)]
pub struct Memory {
    /// The Secret as last read, its name, and when.
    pub(super) reading: Option<(Duration, String, Reading)>,
    /// How old that may be at the next pass.
    pub(super) secret_age: Duration,
    /// What is looked for, and since when.
    pub(super) troubled: Option<(Reason, Duration)>,
    /// What the present connection was made of.
    pub(super) connected: Option<Ingredients>,
    /// The key beside the one in use.
    pub(super) beside: Beside,
    /// The generation that was last looked at.
    pub(super) generation: Option<i64>,
    /// When a status was last written.
    pub(super) written: Option<Duration>,
    /// When figures that change by themselves were last written.
    pub(super) figures_written: Option<Duration>,
    /// The next lineage, until it is on record.
    pub(super) fresh_word: Option<String>,
    /// When and for which lineage it was last looked whether an order is open elsewhere, and the result.
    pub(super) open_elsewhere: Option<(Duration, Option<String>, bool)>,
    /// The connection over which no machine on record was shown, and the start of the first such listing.
    pub(super) missed: Option<(Endpoint, Duration)>,
    /// Since when this process acts, and whether the account had been used before then.
    pub(super) used_before: Option<(Duration, bool)>,
    /// Effects that failed in a row.
    pub(super) backoff: Backoff,
    /// Why the last one failed.
    pub(super) failure: Option<String>,
    /// What it waits for, and since when.
    pub(super) patience: Patience,
    /// The look that somebody asks for.
    pub(super) asked: Asked,
    /// Orphans, and their releases.
    pub(super) orphan_memory: OrphanMemory,
}

/// All that a client is made of. The key by its hash.
#[derive(Clone, PartialEq)]
pub(super) struct Ingredients {
    pub(super) base_url: String,
    pub(super) key_hash: String,
    pub(super) ca_bundle: Option<String>,
    pub(super) order_timeout: Duration,
}

impl Ingredients {
    /// Where it leads, as the status shows it.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            base_url: self.base_url.clone(),
            key_hash: self.key_hash.clone(),
        }
    }
}

impl Memory {
    /// Whether a connection was made.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// When to look again at what should come at once and has not: what is missing for long is looked for rarely.
    pub(super) fn rest(&mut self, why: Option<Reason>, again: Duration, now: Duration) -> Duration {
        let Some(why) = why else {
            self.troubled = None;
            return again;
        };
        let since = match self.troubled {
            Some((of, since)) if of == why => since,
            _ => now,
        };
        self.troubled = Some((why, since));
        let waited = now.saturating_sub(since);
        again.max((waited / 2).min(LONGEST_REST))
    }

    /// The Secret is read again at the next pass.
    pub(super) fn forget_secret(&mut self) {
        self.reading = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_looked_for_at_first_often_and_then_each_minute() {
        let at = Duration::from_secs;
        let mut memory = Memory::default();
        let (mut now, mut looks) = (at(1000), Vec::new());
        for _ in 0..14 {
            let rest = memory.rest(Some(Reason::SecretNotFound), at(2), now);
            looks.push(rest.as_secs());
            now += rest;
        }
        assert_eq!(looks[..3], [2, 2, 2]);
        assert!(looks.is_sorted() && looks.ends_with(&[60, 60]), "{looks:?}");
        // Another trouble, and none, begin from the start.
        assert_eq!(memory.rest(Some(Reason::InvalidKey), at(2), now), at(2));
        assert_eq!(memory.rest(None, at(15), now), at(15));
        assert_eq!(
            memory.rest(Some(Reason::InvalidKey), at(2), now + at(500)),
            at(2)
        );
    }
}
