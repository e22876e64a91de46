//! The account's list of tags: they come to be by use and stay until deleted.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::clock::Moment;

#[derive(Debug)]
struct Entry {
    number: u64,
    since: Moment,
    /// Came with an order, and so shows as late as the machine does.
    lagging: bool,
}

/// Tags in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct TagList {
    entries: HashMap<String, Entry>,
    order: BTreeMap<u64, String>,
    next: u64,
}

impl TagList {
    /// Makes sure that the tag is there.
    pub(super) fn come(&mut self, tag: &str, at: Moment, lagging: bool) {
        if self.entries.contains_key(tag) {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.entries.insert(
            tag.to_owned(),
            Entry {
                number,
                since: at,
                lagging,
            },
        );
        self.order.insert(number, tag.to_owned());
    }

    /// Makes sure that the tag is not there.
    pub(super) fn go(&mut self, tag: &str) {
        if let Some(entry) = self.entries.remove(tag) {
            self.order.remove(&entry.number);
        }
    }

    /// Whether it is there, seen or not.
    pub(super) fn knows(&self, tag: &str) -> bool {
        self.entries.contains_key(tag)
    }

    /// Whether a look-up at that moment finds it.
    pub(super) fn shows(&self, tag: &str, at: Moment, lag: Duration) -> bool {
        self.entries.get(tag).is_some_and(|entry| {
            let since = if entry.lagging {
                entry.since.after(lag)
            } else {
                entry.since
            };
            since <= at
        })
    }

    /// All that show at that moment.
    pub(super) fn visible(&self, at: Moment, lag: Duration) -> impl Iterator<Item = &str> {
        self.order
            .values()
            .map(String::as_str)
            .filter(move |tag| self.shows(tag, at, lag))
    }
}
