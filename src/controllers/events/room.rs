//! Room for what is remembered of events and lines: of what is too much, the oldest is forgotten first.

use std::{collections::HashMap, time::Duration};

/// Makes room for one more under this key, where there are `most` already: what was last at the earliest moment goes.
pub(super) fn make_room<V>(
    all: &mut HashMap<u64, V>,
    key: u64,
    most: usize,
    last: impl Fn(&V) -> Duration,
) {
    if all.len() < most || all.contains_key(&key) {
        return;
    }
    let longest_ago = all.iter().min_by_key(|(_, value)| last(value));
    if let Some(key) = longest_ago.map(|(key, _)| *key) {
        all.remove(&key);
    }
}
