//! What a decision rests on: everything observe gathered, as plain data.

use super::{
    memory::Memory,
    public_key::{Fingerprint, PublicKey},
};
use crate::{cause::Cause, mark::Mark, pass::Subject, stored_keys::KeyUsers};
use api::{
    SshKey,
    conditions::{self, Type},
    names::{KEY_MARK, STORED_KEY_ANNOTATION},
    references::PinnedAccount,
    ssh_key::{KeyDeletionPolicy, StoredKeyNote},
};
use hosting_types::ssh_key::SshKey as Record;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The longest name that a key is stored under.
const LONGEST_NAME: usize = 64;

/// All that one decision is allowed to know.
#[derive(Clone)]
pub struct Facts {
    /// What every kind knows of its object.
    pub subject: Subject<SshKey, Memory>,
    /// The key that the object stands for, or why there is none; None: it does not matter.
    pub key: Option<Result<PublicKey, Cause>>,
    /// The newest look at the account's keys, with the moment of its start.
    pub shown: Option<(Duration, Arc<Vec<Shown>>)>,
    /// Who refers to the object and to what it stored; None: not known yet.
    pub users: Option<KeyUsers>,
    /// Keys of ours, by fingerprint, that another living object of the account stands for.
    pub claimed: BTreeSet<String>,
    /// What this process does about the key for any object of the account.
    pub posting: Posting,
    /// The stored keys that this process deletes or deleted for any object of the account, by identifier in lower case.
    pub leaving: BTreeMap<String, Posting>,
}

/// One stored key, as the account shows it. Read once a look, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The provider's identifier.
    pub uuid: String,
    /// What it is; None: its text cannot be read.
    pub fingerprint: Option<Fingerprint>,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// The mark in its name: 24 hex digits of the object that stored it, and 8 of the key.
    pub mark: Option<String>,
}

/// What a look at the account showed, with what calls have changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// When the look started.
    pub at: Duration,
    /// The keys that concern the object: what it stored, and those that are its key.
    pub keys: Vec<Key>,
}

/// One stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The provider's identifier.
    pub uuid: String,
    /// What it is; None: its text cannot be read.
    pub fingerprint: Option<Fingerprint>,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// Whether this very object stored it.
    pub is_mine: bool,
    /// Whether it is the key that the object stands for.
    pub is_wanted: bool,
}

impl Shown {
    /// A key as the account's list shows it.
    pub fn of(key: &Record) -> Self {
        Self::read(key.id.as_str(), &key.name, &key.public_key, key.created_at)
    }

    fn read(uuid: &str, name: &str, public_key: &str, created_at: Option<i64>) -> Self {
        Self {
            uuid: uuid.to_owned(),
            fingerprint: PublicKey::of_stored(public_key).map(|key| key.fingerprint()),
            created_at,
            mark: mark_in(name).map(str::to_owned),
        }
    }
}

impl Facts {
    /// The word for the connection that calls go over.
    pub fn connection(&self) -> &str {
        let connection = self.subject.view().and_then(|v| v.connection.as_deref());
        connection.unwrap_or_default()
    }

    /// The key, where it can be read.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let key = self.key.as_ref()?.as_ref().ok()?;
        Some(key.fingerprint())
    }

    /// What the account shows: the newest look, and what was stored or deleted since. None before the first.
    pub fn listed(&self) -> Option<Listed> {
        let (at, shown) = self.shown.as_ref()?;
        let memory = &self.subject.memory.own;
        let (mark, wanted) = (self.subject.mark(), self.fingerprint());
        let wanted = wanted.as_ref().map(|key| (key, tail_of(key)));
        let key = |shown: &Shown| {
            let mark_shown = shown.mark.as_deref().unwrap_or_default();
            let is_mine = mark_shown.starts_with(mark.as_str());
            let is_wanted = wanted
                .as_ref()
                .is_some_and(|(key, tail)| match &shown.fingerprint {
                    Some(print) => print == *key,
                    // What it stored it knows by the name, whatever became of the text.
                    None => is_mine && mark_shown.ends_with(tail),
                });
            (is_mine || is_wanted).then(|| Key {
                uuid: shown.uuid.clone(),
                fingerprint: shown.fingerprint.clone(),
                created_at: shown.created_at,
                is_mine,
                is_wanted,
            })
        };
        let is_deleted = |uuid: &str| {
            let mut deleted = memory.deleted.iter();
            let by_others = match self.leaving(uuid) {
                Posting::None => false,
                Posting::InFlight(_) => true,
                Posting::Ended(when) => when >= *at,
            };
            by_others || deleted.any(|(gone, when)| gone.eq_ignore_ascii_case(uuid) && *when >= *at)
        };
        let keys = shown.iter().filter_map(key);
        let mut keys: Vec<Key> = keys.filter(|key| !is_deleted(&key.uuid)).collect();
        if let Some(stored) = memory.stored.as_ref().filter(|stored| stored.at >= *at)
            && !keys
                .iter()
                .any(|key| key.uuid.eq_ignore_ascii_case(&stored.uuid))
        {
            let (uuid, name, text) = (&stored.uuid, &stored.name, &stored.public_key);
            keys.extend(key(&Shown::read(uuid, name, text, stored.created_at)));
        }
        Some(Listed { at: *at, keys })
    }

    /// A look that started before this moment says nothing of what the object has there.
    pub fn since(&self) -> Duration {
        let changed = self.subject.memory.own.changed;
        self.subject.since().max(changed)
    }

    /// What becomes of a stored key that the look still shows.
    fn leaving(&self, uuid: &str) -> Posting {
        let found = self.leaving.get(&uuid.to_ascii_lowercase());
        found.copied().unwrap_or_default()
    }

    /// What this process does, or did since the look, to delete the very key that the object stands for.
    pub fn wanted_leaves(&self) -> Posting {
        let wanted = self.fingerprint();
        let shown = self.shown.iter().flat_map(|(_, shown)| shown.iter());
        let same = shown.filter(|key| key.fingerprint.is_some() && key.fingerprint == wanted);
        let states = same.map(|key| self.leaving(&key.uuid));
        states.fold(Posting::None, |one, other| match (one, other) {
            (Posting::InFlight(at), _) | (_, Posting::InFlight(at)) => Posting::InFlight(at),
            (Posting::Ended(a), Posting::Ended(b)) => Posting::Ended(a.max(b)),
            (Posting::None, found) | (found, Posting::None) => found,
        })
    }

    /// Since when this process knows that the object stands for its key.
    pub fn known_since(&self) -> Duration {
        let known = self.subject.memory.own.known.as_ref();
        known.map_or(self.subject.now.mono, |(_, since)| *since)
    }

    /// The note of this very object.
    pub fn note(&self) -> Option<StoredKeyNote> {
        let text = self.subject.annotation(STORED_KEY_ANNOTATION)?;
        let note: StoredKeyNote = serde_json::from_str(text).ok()?;
        (note.uid == self.subject.uid()).then_some(note)
    }

    /// Whether the key may have been sent to this account before, by whatever process.
    pub fn may_be_sent(&self, key: &Fingerprint) -> bool {
        let lineage = self.subject.view().and_then(|v| v.lineage.as_deref());
        let noted = self.note().is_some_and(|note| {
            note.fingerprint == key.as_str() && Some(note.lineage.as_str()) == lineage
        });
        let status = self.subject.object.status.as_ref();
        let is_recorded = |s: &api::ssh_key::SshKeyStatus| {
            s.uuid.is_some()
                && s.fingerprint.as_deref() == Some(key.as_str())
                && (s.lineage.is_none() || s.lineage.as_deref() == lineage)
        };
        noted || status.is_some_and(is_recorded)
    }

    /// Whether the object was told to be ready, as of its newest generation.
    pub fn is_told_ready(&self) -> bool {
        is_ready(&self.subject.object)
    }

    /// What happens to what the object has no use for.
    pub fn policy(&self) -> KeyDeletionPolicy {
        let spec = &self.subject.object.spec;
        spec.deletion_policy.unwrap_or_default()
    }

    /// The name under which the object stores a key.
    pub fn name_of(&self, key: &Fingerprint) -> String {
        let tail = format!("{KEY_MARK}{}{}", self.subject.mark(), tail_of(key));
        let room = LONGEST_NAME - tail.len() - 1;
        let shown = format!("{}.{}", self.subject.namespace(), self.subject.name());
        let shown: String = shown.chars().take(room).collect();
        format!("{shown}:{tail}")
    }

    /// Takes in what the newest look shows, once it is known what the object stands for. No call is made.
    pub fn recall(&mut self) {
        let now = self.subject.now.mono;
        let key = self.fingerprint();
        if let Some(key) = &key {
            self.subject.memory.own.knows(key, now);
        }
        let Some(listed) = self.listed() else { return };
        let since = self.since();
        let mark = self.subject.mark();
        let memory = &mut self.subject.memory.own;
        match &key {
            Some(key) => {
                let is_shown = listed.keys.iter().any(|k| k.is_wanted);
                memory.looked(key.as_str(), is_shown, listed.at, since);
                // By a look, and not only by the answer to the call.
                let is_newer = memory.stored.as_ref().is_none_or(|s| s.at < listed.at);
                if is_shown && is_newer {
                    memory.unshown = 0;
                }
            }
            None => {
                let is_shown = listed.keys.iter().any(|k| k.is_mine);
                memory.looked(mark.as_str(), is_shown, listed.at, since);
            }
        }
    }
}

/// Whether the object was told to be ready, as of its newest generation, and nothing ends it.
pub fn is_ready(object: &SshKey) -> bool {
    let status = object.status.as_ref();
    object.metadata.deletion_timestamp.is_none()
        && status.is_some_and(|status| {
            status.uuid.is_some()
                && status.observed_generation == object.metadata.generation
                && conditions::is_true(&status.conditions, Type::Ready)
        })
}

/// Whether a stored key bears the mark of an object in its name.
pub fn is_named_by(name: &str, mark: &Mark) -> bool {
    mark_in(name).is_some_and(|found| found.starts_with(mark.as_str()))
}

/// What follows the last `fmo-key:` of a name: 24 hex digits of the object, and 8 of the key.
fn mark_in(name: &str) -> Option<&str> {
    let (_, mark) = name.rsplit_once(KEY_MARK)?;
    let is_mark = mark.len() == 32 && mark.bytes().all(|b| b.is_ascii_hexdigit());
    is_mark.then_some(mark)
}

/// What the name of a stored key says of the key: 8 hex digits.
fn tail_of(key: &Fingerprint) -> String {
    let digest = Sha256::digest(key.as_str());
    digest.iter().take(4).map(|b| format!("{b:02x}")).collect()
}

/// The account of an object. The first one stays it, whatever the reference says by now.
pub fn account_of(object: &SshKey) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// What an object stands for, as far as it says so itself: two of them share one stored key.
pub fn claim(object: &SshKey) -> Option<String> {
    let given = object.spec.public_key.as_deref();
    let given = given.and_then(|text| PublicKey::parse(text.as_bytes()).ok());
    let recorded = || object.status.as_ref()?.fingerprint.clone();
    given
        .map(|key| key.fingerprint().to_string())
        .or_else(recorded)
}

/// What became of the calls that store one key, or delete one stored key, for whatever object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Posting {
    /// None was made.
    #[default]
    None,
    /// One is under way since this moment.
    InFlight(Duration),
    /// The last one ended at this moment. Only a look that started later shows what came of it.
    Ended(Duration),
}
