//! A whitelist as the provider shows it, and whom it admits. Pure.

use super::ranges::{Addresses, Range};
use crate::cluster_id::OwnerHash;
use api::whitelist::OWNER_COMMENT_START;
use hosting_types::{WhitelistEntryId, whitelist::WhitelistEntry};

/// The part of an entry's mark between its start and the digits.
const ENTRY: &str = "entry:";

/// An entry, as far as anything is decided by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedEntry {
    /// Its number at the provider.
    pub id: WhitelistEntryId,
    /// Its addresses; None where nobody can be sure of them.
    pub range: Option<Range>,
    /// Whether it counts; None where the provider does not say.
    pub active: Option<bool>,
    /// What the provider shows beside it.
    pub comments: String,
    /// The name in our mark, where it bears that.
    pub name: Option<String>,
    /// Whether it bears the mark of another object, of this cluster or of another one. That object may remove it at any
    /// time, so nobody is admitted by it for certain.
    pub is_of_other: bool,
}

impl ListedEntry {
    /// Reads a record. `mark`: of the object that asks.
    pub fn from_record(record: &WhitelistEntry, mark: &OwnerHash) -> Self {
        let comments = record.comments.as_deref().unwrap_or_default().trim();
        let name = parse_entry_name(comments, mark).map(str::to_owned);
        let is_marked = comments.contains(&format!("{OWNER_COMMENT_START}{ENTRY}"));
        Self {
            id: record.id,
            range: Range::shown(
                record.ip_range.as_deref(),
                record.ip_start.as_deref(),
                record.ip_end.as_deref(),
            ),
            active: record.active,
            comments: comments.to_owned(),
            is_of_other: name.is_none() && is_marked,
            name,
        }
    }

    /// Whether it counts for certain, and goes on to as long as no step of ours changes it.
    pub fn is_certain(&self) -> bool {
        self.active == Some(true) && !self.is_of_other
    }

    /// Its addresses in words.
    pub fn words(&self) -> String {
        let unread = || "unreadable addresses".to_owned();
        self.range.map_or_else(unread, |range| range.to_string())
    }
}

/// What an entry of ours says beside it: a person's comment, then our mark.
pub fn comments(comment: Option<&str>, mark: &OwnerHash, name: &str) -> String {
    let mark = format!("{OWNER_COMMENT_START}{ENTRY}{mark}:{name}]");
    match comment {
        Some(comment) => format!("{comment} {mark}"),
        None => mark,
    }
}

/// The name in our mark, wherever it stands: words that a person adds behind it make the entry no other's.
fn parse_entry_name<'a>(comments: &'a str, mark: &OwnerHash) -> Option<&'a str> {
    let start = format!("{OWNER_COMMENT_START}{ENTRY}{mark}:");
    let (_, rest) = comments.split_once(&start)?;
    let (name, _) = rest.split_once(']')?;
    Some(name)
}

/// A whole whitelist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProviderWhitelist {
    /// Its entries, in the provider's order.
    pub entries: Vec<ListedEntry>,
}

impl ProviderWhitelist {
    /// The addresses that are admitted for certain, where the list is enforced.
    pub fn admitted(&self) -> Addresses {
        self.admitting(|_| true).collect()
    }

    /// The same without one entry.
    pub fn admitted_without(&self, id: WhitelistEntryId) -> Addresses {
        self.admitting(move |entry| entry.id != id).collect()
    }

    fn admitting<'a>(
        &'a self,
        keep: impl Fn(&ListedEntry) -> bool + 'a,
    ) -> impl Iterator<Item = Range> + 'a {
        let active = self.entries.iter().filter(|entry| entry.is_certain());
        active
            .filter(move |entry| keep(entry))
            .filter_map(|entry| entry.range)
    }

    /// Whether no entry counts, for certain: then the key may be used from everywhere.
    pub fn is_open(&self) -> bool {
        self.entries.iter().all(|entry| entry.active == Some(false))
    }

    /// Whether the list is enforced, for certain: an entry counts, and admits somebody.
    pub fn is_enforced(&self) -> bool {
        self.admitting(|_| true).next().is_some()
    }

    /// The entry of this number.
    pub fn get(&self, id: WhitelistEntryId) -> Option<&ListedEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Entries that bear our mark.
    pub fn own(&self) -> impl Iterator<Item = &ListedEntry> {
        self.entries.iter().filter(|entry| entry.name.is_some())
    }

    /// Entries of other objects.
    pub fn of_others(&self) -> impl Iterator<Item = &ListedEntry> {
        self.entries.iter().filter(|entry| entry.is_of_other)
    }

    /// Entries that this object did not add, those of other objects among them.
    pub fn others(&self) -> impl Iterator<Item = &ListedEntry> {
        self.entries.iter().filter(|entry| entry.name.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_hash(digit: &str) -> OwnerHash {
        OwnerHash::parse(&digit.repeat(24)).unwrap()
    }

    fn record(comments: &str) -> WhitelistEntry {
        WhitelistEntry {
            id: WhitelistEntryId(7),
            ip_start: None,
            ip_end: None,
            ip_range: Some("192.0.2.0/24".into()),
            comments: Some(comments.into()),
            active: Some(true),
            updated_at: None,
        }
    }

    #[test]
    fn entry_with_own_owner_comment_is_own() {
        let (ours, other) = (owner_hash("a"), owner_hash("b"));
        let text = comments(Some("Office, 2nd floor"), &ours, "office");
        assert_eq!(
            text,
            "Office, 2nd floor [fmo-entry:aaaaaaaaaaaaaaaaaaaaaaaa:office]"
        );
        let name =
            |text: &str, mark: &OwnerHash| ListedEntry::from_record(&record(text), mark).name;
        for (text, expected) in [
            (text.clone(), Some("office")),
            (format!(" {text} "), Some("office")),
            (format!("{text} (asked by Kim)"), Some("office")),
            (comments(None, &ours, "office"), Some("office")),
            (text.replace("]", ""), None),
            (text.replace("fmo-", ""), None),
            (String::new(), None),
        ] {
            assert_eq!(name(&text, &ours).as_deref(), expected, "{text}");
        }
        assert_eq!(name(&text, &other), None, "another object's is foreign");
        let is_of_other =
            |mark: &OwnerHash| ListedEntry::from_record(&record(&text), mark).is_of_other;
        assert_eq!((is_of_other(&ours), is_of_other(&other)), (false, true));
        assert!(!ListedEntry::from_record(&record("by hand [fmo-x]"), &ours).is_of_other);
    }

    #[test]
    fn unknown_state_neither_opens_nor_admits() {
        let mut entry = ListedEntry::from_record(&record(""), &owner_hash("a"));
        let list = |entry: &ListedEntry| ProviderWhitelist {
            entries: vec![entry.clone()],
        };
        let seen = |entry: &ListedEntry| {
            let list = list(entry);
            (
                list.is_open(),
                list.is_enforced(),
                list.admitted().is_empty(),
            )
        };
        assert_eq!(seen(&entry), (false, true, false));
        entry.is_of_other = true;
        assert_eq!(seen(&entry), (false, false, true));
        entry.is_of_other = false;
        entry.active = Some(false);
        assert_eq!(seen(&entry), (true, false, true));
        entry.active = None;
        assert_eq!(seen(&entry), (false, false, true));
        entry.active = Some(true);
        entry.range = None;
        assert_eq!(seen(&entry), (false, false, true));
        assert!(ProviderWhitelist::default().is_open());
    }
}
