//! Every request that reached the API, and its outcome.

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::clock::Moment;

/// Entries kept; older ones are dropped and counted.
const CAPACITY: usize = 200_000;

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// Not answered yet.
    Pending,
    /// Answered with `status`.
    Answered,
    /// The connection was closed without an answer. `effect` shows whether
    /// anything was changed all the same.
    Broken,
}

/// A JSON object that is stored and read, but never changed: it takes a fifth of
/// the memory of a growable map, of which there would be several 100,000.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts(Box<[(String, Value)]>);

impl Facts {
    /// Names and values, in the order of their names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl From<Value> for Facts {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self(fields.into_iter().collect()),
            other => Self(Box::new([("value".to_owned(), other)])),
        }
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

/// One request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    /// Real Unix milliseconds of its arrival.
    pub(crate) real_ms: u64,
    /// Virtual Unix seconds of its arrival.
    #[serde(rename = "virtual")]
    pub(crate) at: Moment,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The path with its variable parts named, if the API has it.
    pub(crate) template: Option<&'static str>,
    pub(crate) query: String,
    pub(crate) ranged_data: Option<String>,
    /// Id of the key; `None` when there was none.
    pub(crate) key_id: Option<String>,
    /// The key's account, if it was accepted.
    pub(crate) account: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    pub(crate) effect: Option<Facts>,
    pub(crate) fault: Option<Facts>,
    /// Name and tags of an order.
    pub(crate) order: Option<Facts>,
}

impl Entry {
    /// Whether it was about this machine.
    fn names(&self, uuid: &str) -> bool {
        let mut facts = self.effect.iter().flat_map(Facts::fields);
        self.path.split('/').any(|part| part == uuid) || facts.any(|(_, value)| value == uuid)
    }
}

/// The ledger: bounded, but its counts are not.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    next: u64,
    dropped: u64,
    /// By method and template.
    counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

/// Which entries to show.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) method: Option<String>,
    /// Start of the path.
    pub(crate) path: Option<String>,
    /// Only entries with a greater number.
    pub(crate) since: Option<u64>,
    pub(crate) account: Option<String>,
    /// Part of the path, or of what was changed: a machine's uuid.
    pub(crate) machine: Option<String>,
}

impl Ledger {
    /// Records a request as it arrives; returns its number, from 1 on.
    pub(crate) fn open(&mut self, entry: Entry) -> u64 {
        self.next += 1;
        let template = entry.template.unwrap_or("(unknown)");
        let methods = self.counts.entry(template).or_default();
        match methods.get_mut(&entry.method) {
            Some(number) => *number += 1,
            None => drop(methods.insert(entry.method.clone(), 1)),
        }
        if self.entries.len() == CAPACITY {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(Entry {
            seq: self.next,
            ..entry
        });
        self.next
    }

    fn entry(&mut self, seq: u64) -> Option<&mut Entry> {
        let first = self.entries.front()?.seq;
        let place = usize::try_from(seq.checked_sub(first)?).ok()?;
        self.entries.get_mut(place)
    }

    /// Records what the request changed, at once.
    pub(crate) fn affect(&mut self, seq: u64, effect: Value) {
        if let Some(entry) = self.entry(seq) {
            entry.effect = Some(effect.into());
        }
    }

    /// Records how it ended: with a status, or without an answer.
    pub(crate) fn close(&mut self, seq: u64, status: Option<u16>) {
        if let Some(entry) = self.entry(seq) {
            entry.status = status;
            entry.outcome = if status.is_some() {
                Outcome::Answered
            } else {
                Outcome::Broken
            };
        }
    }

    /// The matching entries, oldest first.
    pub(crate) fn read<'a>(
        &'a self,
        wanted: &'a Wanted,
    ) -> impl DoubleEndedIterator<Item = &'a Entry> {
        self.entries.iter().filter(|entry| {
            let method = wanted.method.as_deref();
            method.is_none_or(|method| entry.method.eq_ignore_ascii_case(method))
                && wanted
                    .path
                    .as_deref()
                    .is_none_or(|path| entry.path.starts_with(path))
                && wanted.since.is_none_or(|seq| entry.seq > seq)
                && wanted
                    .account
                    .as_ref()
                    .is_none_or(|name| entry.account.as_ref() == Some(name))
                && wanted
                    .machine
                    .as_deref()
                    .is_none_or(|uuid| entry.names(uuid))
        })
    }

    /// Requests by method and path template.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let templates = self.counts.iter();
        let counts = templates.flat_map(|(template, methods)| {
            let methods = methods.iter();
            methods.map(move |(method, number)| (format!("{method} {template}"), *number))
        });
        counts.collect()
    }

    /// Entries that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets everything but the next number.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(method: &str, path: &str) -> Entry {
        Entry {
            seq: 0,
            real_ms: 0,
            at: Moment::from_unix(0),
            method: method.into(),
            path: path.into(),
            template: None,
            query: String::new(),
            ranged_data: None,
            key_id: None,
            account: None,
            status: None,
            outcome: Outcome::Pending,
            effect: None,
            fault: None,
            order: None,
        }
    }

    #[test]
    fn entries_are_found_by_method_path_and_number() {
        let mut ledger = Ledger::default();
        for (method, path) in [("GET", "/a/1"), ("POST", "/a"), ("GET", "/b")] {
            ledger.open(entry(method, path));
        }
        let found = |wanted: &Wanted| ledger.read(wanted).map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(found(&Wanted::default()), [1, 2, 3]);
        assert_eq!(
            found(&Wanted {
                path: Some("/a".into()),
                ..Wanted::default()
            }),
            [1, 2]
        );
        assert_eq!(
            found(&Wanted {
                method: Some("get".into()),
                ..Wanted::default()
            }),
            [1, 3]
        );
        assert_eq!(
            found(&Wanted {
                since: Some(2),
                ..Wanted::default()
            }),
            [3]
        );
    }

    #[test]
    fn late_answers_find_entries_in_full_ledger() {
        let mut ledger = Ledger::default();
        for _ in 0..CAPACITY + 2 {
            ledger.open(entry("GET", "/a"));
        }
        assert_eq!((ledger.entries.len(), ledger.dropped()), (CAPACITY, 2));
        ledger.close(1, Some(200));
        ledger.affect(4, json!({"x": 1}));
        ledger.close(4, None);
        let all = Wanted::default();
        let kept: Vec<_> = ledger.read(&all).take(2).collect();
        assert_eq!((kept[0].seq, kept[0].outcome), (3, Outcome::Pending));
        assert_eq!((kept[1].seq, kept[1].outcome), (4, Outcome::Broken));
        assert_eq!(kept[1].effect, Some(json!({"x": 1}).into()));
        assert_eq!(ledger.counts()["GET (unknown)"], 200_002);
    }

    #[test]
    fn numbers_go_on_after_the_ledger_was_cleared() {
        let mut ledger = Ledger::default();
        ledger.open(entry("GET", "/a"));
        ledger.clear();
        assert_eq!(ledger.read(&Wanted::default()).count(), 0);
        assert_eq!(ledger.open(entry("GET", "/a")), 2);
    }
}
