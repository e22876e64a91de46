//! A whitelist as the provider lists it, and the addresses that it admits.

use super::ranges::{Addresses, Range};
use crate::cluster_id::OwnerHash;
use api::whitelist::OWNER_COMMENT_START;
use hosting_types::{WhitelistEntryId, whitelist::WhitelistEntry};

/// The part of an entry's owner comment between its start and the owner hash.
const ENTRY: &str = "entry:";

/// The fields of an entry that decisions use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedEntry {
    /// Its number at the provider.
    pub id: WhitelistEntryId,
    /// Its addresses. None if they are ambiguous.
    pub range: Option<Range>,
    /// Whether it is active. None if the provider does not say.
    pub active: Option<bool>,
    /// Its comment at the provider.
    pub comments: String,
    /// The name in our owner comment, if it has one.
    pub name: Option<String>,
    /// Whether it has the owner comment of another object, also of another cluster. That object may remove it at any
    /// time, so it admits nobody for certain.
    pub is_of_other: bool,
}

impl ListedEntry {
    /// Converts a record. `owner_hash` is the hash of the object that reads it.
    pub fn from_record(record: &WhitelistEntry, owner_hash: &OwnerHash) -> Self {
        let comments = record.comments.as_deref().unwrap_or_default().trim();
        let name = parse_entry_name(comments, owner_hash).map(str::to_owned);
        let has_owner_comment = comments.contains(&format!("{OWNER_COMMENT_START}{ENTRY}"));
        Self {
            id: record.id,
            range: Range::shown(
                record.ip_range.as_deref(),
                record.ip_start.as_deref(),
                record.ip_end.as_deref(),
            ),
            active: record.active,
            comments: comments.to_owned(),
            is_of_other: name.is_none() && has_owner_comment,
            name,
        }
    }

    /// Whether it is active for certain, and stays so unless we change it.
    pub fn is_certain(&self) -> bool {
        self.active == Some(true) && !self.is_of_other
    }

    /// Its addresses as text.
    pub fn words(&self) -> String {
        let unread = || "unreadable addresses".to_owned();
        self.range.map_or_else(unread, |range| range.to_string())
    }
}

/// The comment of our entry: the user's comment, then our owner comment.
pub fn comments(comment: Option<&str>, owner_hash: &OwnerHash, name: &str) -> String {
    let owner_comment = format!("{OWNER_COMMENT_START}{ENTRY}{owner_hash}:{name}]");
    match comment {
        Some(comment) => format!("{comment} {owner_comment}"),
        None => owner_comment,
    }
}

/// The name in our owner comment. Text that a user adds around it does not change the owner.
fn parse_entry_name<'a>(comments: &'a str, owner_hash: &OwnerHash) -> Option<&'a str> {
    let start = format!("{OWNER_COMMENT_START}{ENTRY}{owner_hash}:");
    let (_, rest) = comments.split_once(&start)?;
    let (name, _) = rest.split_once(']')?;
    Some(name)
}

/// A complete whitelist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProviderWhitelist {
    /// Its entries, in the provider's order.
    pub entries: Vec<ListedEntry>,
}

impl ProviderWhitelist {
    /// The addresses that are admitted for certain if the list is enforced.
    pub fn admitted(&self) -> Addresses {
        self.admitting(|_| true).collect()
    }

    /// The same as [`Self::admitted`], without one entry.
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

    /// Whether no entry is active for certain. Then the key may be used from everywhere.
    pub fn is_open(&self) -> bool {
        self.entries.iter().all(|entry| entry.active == Some(false))
    }

    /// Whether the list is enforced for certain: an active entry admits addresses.
    pub fn is_enforced(&self) -> bool {
        self.admitting(|_| true).next().is_some()
    }

    /// The entry with this number.
    pub fn get(&self, id: WhitelistEntryId) -> Option<&ListedEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Entries with our owner comment.
    pub fn own(&self) -> impl Iterator<Item = &ListedEntry> {
        self.entries.iter().filter(|entry| entry.name.is_some())
    }

    /// Entries with the owner comment of another object.
    pub fn of_others(&self) -> impl Iterator<Item = &ListedEntry> {
        self.entries.iter().filter(|entry| entry.is_of_other)
    }

    /// Entries that this object did not add, including those of other objects.
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
            |text: &str, hash: &OwnerHash| ListedEntry::from_record(&record(text), hash).name;
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
            |hash: &OwnerHash| ListedEntry::from_record(&record(&text), hash).is_of_other;
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
