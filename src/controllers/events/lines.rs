//! How often a reason of an object was a line of the log lately: a few times it is, then it is quiet for a while.
//!
//! Bounded: with more than this has room for, what was logged longest ago is forgotten first.

use super::room::make_room;
use k8s_openapi::api::core::v1::ObjectReference;
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    time::Duration,
};

/// So many lines are written in a row.
const ENOUGH: u32 = 5;
/// After so long without one the row is over.
const QUIET: Duration = Duration::from_secs(360);
/// Most that is remembered.
const MOST: usize = 1024;

/// What was logged lately.
#[derive(Default)]
pub(super) struct Lines {
    rows: HashMap<u64, Row>,
    state: RandomState,
}

#[derive(Clone, Copy)]
struct Row {
    count: u32,
    last: Duration,
}

impl Lines {
    /// Counts a line, and says whether it is written.
    pub(super) fn admit(&mut self, reason: &str, object: &ObjectReference, now: Duration) -> bool {
        let key = self.key(reason, object);
        let row = self.rows.get(&key).copied();
        let row = row.filter(|row| now.saturating_sub(row.last) < QUIET);
        let count = row.map_or(0, |row| row.count);
        // What is not written does not make the row longer, or it would never be over.
        if count >= ENOUGH {
            return false;
        }
        make_room(&mut self.rows, key, MOST, |row| row.last);
        let count = count + 1;
        self.rows.insert(key, Row { count, last: now });
        true
    }

    /// Random, so that nobody can make two objects share one.
    fn key(&self, reason: &str, object: &ObjectReference) -> u64 {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = object;
        self.state.hash_one((reason, kind, namespace, name, uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectReference {
        ObjectReference {
            name: Some(name.into()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn a_reason_that_comes_again_and_again_is_quiet_for_a_while_for_its_object_alone() {
        let mut lines = Lines::default();
        let secs = Duration::from_secs;
        for second in 0..5 {
            assert!(lines.admit("Refused", &object("web"), secs(second)));
        }
        for second in 5..364 {
            assert!(!lines.admit("Refused", &object("web"), secs(second)));
        }
        assert!(lines.admit("Refused", &object("db"), secs(10)));
        assert!(lines.admit("Ordered", &object("web"), secs(10)));
        assert!(lines.admit("Refused", &object("web"), secs(364)));
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let mut lines = Lines::default();
        for n in 0..(2 * MOST as u64) {
            lines.admit("Refused", &object(&n.to_string()), Duration::from_secs(n));
        }
        assert_eq!(lines.rows.len(), MOST);
    }
}
