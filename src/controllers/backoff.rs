//! How long each object waits after failures, one count an object.
//!
//! A delay that is only a requeue is no floor: any event, our own status write
//! included, would run the object at once. So the moment before which nothing
//! is tried is kept here and asked for at the begin of a pass.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// First delay.
const FIRST: Duration = Duration::from_secs(1);
/// Longest delay.
const LONGEST: Duration = Duration::from_secs(300);
/// Most objects that are remembered; beyond it the one that may go soonest is forgotten.
const CAPACITY: usize = 20_000;

/// Failures by object. Keys should be UIDs: a new object of the same name begins anew.
#[derive(Debug)]
pub struct Backoff<K> {
    entries: HashMap<K, Entry>,
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    not_before: Duration,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            longest: LONGEST,
        }
    }
}

impl<K: Eq + Hash + Clone> Backoff<K> {
    /// With another longest delay than five minutes.
    pub fn capped(longest: Duration) -> Self {
        Self {
            longest,
            ..Self::default()
        }
    }

    /// Notes a failure at a monotonic moment; returns the delay: one second, doubled with each
    /// failure in a row, with a tenth of jitter.
    pub fn failed(&mut self, key: K, now: Duration) -> Duration {
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(&key) {
            let soonest = self.entries.iter().min_by_key(|(_, e)| e.not_before);
            if let Some(key) = soonest.map(|(k, _)| k.clone()) {
                self.entries.remove(&key);
            }
        }
        let entry = self.entries.entry(key).or_insert(Entry {
            failures: 0,
            not_before: now,
        });
        let delay = FIRST
            .saturating_mul(1 << entry.failures.min(16))
            .min(self.longest)
            .mul_f64(rand::random_range(0.9..=1.1));
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before = now + delay;
        delay
    }

    /// How long the object still has to wait; None when it may go.
    pub fn remaining(&self, key: &K, now: Duration) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        entry.not_before.checked_sub(now).filter(|d| !d.is_zero())
    }

    /// Forgets the failures: the object succeeded or is gone.
    pub fn forget(&mut self, key: &K) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_cap_and_is_forgotten_on_success() {
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut delays = Vec::new();
        for _ in 0..12 {
            let delay = backoff.failed("a", now);
            assert!(backoff.remaining(&"a", now).is_some());
            now += delay;
            assert!(backoff.remaining(&"a", now).is_none());
            delays.push(delay);
        }
        assert!(delays[0] < Duration::from_millis(1101));
        assert!(delays[3] > delays[0] * 6);
        assert!(delays[11] <= LONGEST.mul_f64(1.1) && delays[11] >= LONGEST.mul_f64(0.9));
        backoff.forget(&"a");
        assert!(backoff.failed("a", now) < Duration::from_millis(1101));
        assert!(backoff.remaining(&"b", now).is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut backoff = Backoff::default();
        for key in 0..CAPACITY + 100 {
            backoff.failed(key, Duration::ZERO);
        }
        assert_eq!(backoff.entries.len(), CAPACITY);
    }
}
