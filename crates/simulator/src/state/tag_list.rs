//! The account's list of tags: using a tag makes it, and it stays until deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::clock::Moment;

/// When a tag was made, and in which order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TagEntry {
    number: u64,
    since: Moment,
    /// Made by an order, and so shown as late as the machine.
    lagging: bool,
}

impl TagEntry {
    /// Whether it is visible at that moment.
    fn shows(&self, at: Moment, lag: Duration) -> bool {
        let since = match self.lagging {
            true => self.since.after(lag),
            false => self.since,
        };
        since <= at
    }
}

/// Tags in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct TagList {
    entries: HashMap<String, TagEntry>,
    /// With a copy of the entry, so that a listing needs no look-ups.
    order: BTreeMap<u64, (String, TagEntry)>,
    next: u64,
    /// Names added or removed since the last call of `changes`.
    touched: BTreeSet<String>,
}

impl TagList {
    /// Makes sure that the tag exists.
    pub(super) fn come(&mut self, tag: &str, at: Moment, lagging: bool) {
        if self.entries.contains_key(tag) {
            return;
        }
        let number = self.next;
        self.next += 1;
        let entry = TagEntry {
            number,
            since: at,
            lagging,
        };
        self.entries.insert(tag.to_owned(), entry);
        self.order.insert(number, (tag.to_owned(), entry));
        self.touched.insert(tag.to_owned());
    }

    /// Makes sure that the tag does not exist.
    pub(super) fn go(&mut self, tag: &str) {
        if let Some(entry) = self.entries.remove(tag) {
            self.order.remove(&entry.number);
            self.touched.insert(tag.to_owned());
        }
    }

    /// What was added or removed since the last call.
    pub(super) fn changes(&mut self) -> impl Iterator<Item = (String, Option<TagEntry>)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        touched.map(|name| {
            let entry = self.entries.get(&name).copied();
            (name, entry)
        })
    }

    pub(super) fn unwritten(&mut self) {
        self.touched.clear();
    }

    pub(super) fn changed(&self) -> bool {
        !self.touched.is_empty()
    }

    pub(super) fn touch_all(&mut self) {
        self.touched = self.entries.keys().cloned().collect();
    }

    /// Restores a stored change.
    pub(super) fn restore(&mut self, name: String, entry: Option<TagEntry>) {
        if let Some(known) = self.entries.remove(&name) {
            self.order.remove(&known.number);
        }
        if let Some(entry) = entry {
            self.next = self.next.max(entry.number + 1);
            self.order.insert(entry.number, (name.clone(), entry));
            self.entries.insert(name, entry);
        }
    }

    /// Whether it exists, visible or not.
    pub(super) fn knows(&self, tag: &str) -> bool {
        self.entries.contains_key(tag)
    }

    /// Whether a look-up at that moment finds it.
    pub(super) fn shows(&self, tag: &str, at: Moment, lag: Duration) -> bool {
        let entry = self.entries.get(tag);
        entry.is_some_and(|entry| entry.shows(at, lag))
    }

    /// All that are visible at that moment.
    pub(super) fn visible(&self, at: Moment, lag: Duration) -> impl Iterator<Item = &str> {
        let shown = self.order.values();
        let shown = shown.filter(move |(_, entry)| entry.shows(at, lag));
        shown.map(|(tag, _)| tag.as_str())
    }
}
