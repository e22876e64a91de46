//! What a decision rests on: everything observe gathered, as plain data.

use super::memory::SshKeyMemory;
use crate::{
    cluster_id::OwnerHash,
    pass::Subject,
    public_key::{Fingerprint, PublicKey, PublicKeyError},
};
use api::{
    SshKey,
    conditions::{self, Type},
    names::{STORED_KEY_ANNOTATION, STORED_KEY_PREFIX},
    references::PinnedAccount,
    ssh_key::{KeyDeletionPolicy, StoredKeyAnnotation},
};
use hosting_types::ssh_key::SshKey as Record;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The longest name that a key is stored under.
const LONGEST_NAME: usize = 64;

/// All that one decision is allowed to know.
#[derive(Clone)]
pub struct SshKeyFacts {
    /// What every kind knows of its object.
    pub subject: Subject<SshKey, SshKeyMemory>,
    /// The newest look at the account's keys, with the moment of its start.
    pub shown: Option<(Duration, Arc<Vec<SeenKey>>)>,
    /// Whether another living object of the account has the same key.
    pub is_shared: bool,
    /// What this process does about the key for any object of the account.
    pub store_call: CallProgress,
    /// The stored keys that this process deletes or deleted for any object of the account, by identifier in lower case.
    pub deletions: BTreeMap<String, CallProgress>,
}

/// One stored key, as the account shows it. Read once a look, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKey {
    /// The provider's identifier.
    pub uuid: String,
    /// What it is; None: its text cannot be read.
    pub fingerprint: Option<Fingerprint>,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// The mark in its name: 24 hex digits of the object that stored it.
    pub owner_hash: Option<String>,
}

/// What a look at the account showed, with what calls have changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKeys {
    /// When the look started.
    pub at: Duration,
    /// The stored keys that are the object's key, whoever stored them.
    pub keys: Vec<ListedKey>,
}

/// One stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The provider's identifier.
    pub uuid: String,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// Whether this very object stored it.
    pub is_mine: bool,
}

impl SeenKey {
    /// A key as the account's list shows it.
    pub fn from_record(key: &Record) -> Self {
        Self::from_fields(key.id.as_str(), &key.name, &key.public_key, key.created_at)
    }

    fn from_fields(uuid: &str, name: &str, public_key: &str, created_at: Option<i64>) -> Self {
        Self {
            uuid: uuid.to_owned(),
            fingerprint: fingerprint_of(public_key),
            created_at,
            owner_hash: parse_owner_hash(name).map(str::to_owned),
        }
    }
}

impl SshKeyFacts {
    /// The word for the connection that calls go over.
    pub fn connection(&self) -> &str {
        let connection = self.subject.view().and_then(|v| v.connection.as_deref());
        connection.unwrap_or_default()
    }

    /// The key that the object stands for.
    ///
    /// # Errors
    /// Why its text is none.
    pub fn key(&self) -> Result<PublicKey, PublicKeyError> {
        PublicKey::parse(self.subject.object.spec.public_key.as_bytes())
    }

    /// What the key is, where it can be read.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        fingerprint_of(&self.subject.object.spec.public_key)
    }

    /// What the account shows: the newest look, and what was stored or deleted since. None before the first.
    pub fn listed(&self) -> Option<ListedKeys> {
        let (at, shown) = self.shown.as_ref()?;
        let memory = &self.subject.memory.own;
        let (mark, wanted) = (self.subject.owner_hash(), self.fingerprint());
        let key = |shown: &SeenKey| {
            let is_mine = shown.owner_hash.as_deref() == Some(mark.as_str());
            let is_it = match &shown.fingerprint {
                Some(_) => shown.fingerprint == wanted,
                // What it stored it knows by the name, whatever became of the text.
                None => is_mine,
            };
            is_it.then(|| ListedKey {
                uuid: shown.uuid.clone(),
                created_at: shown.created_at,
                is_mine,
            })
        };
        let is_deleted = |uuid: &str| {
            let mut deleted = memory.deleted.iter();
            let by_others = match self.deletion_of(uuid) {
                CallProgress::None => false,
                CallProgress::InFlight(_) => true,
                CallProgress::Ended(when) => when >= *at,
            };
            by_others || deleted.any(|(gone, when)| gone.eq_ignore_ascii_case(uuid) && *when >= *at)
        };
        let keys = shown.iter().filter_map(key);
        let mut keys: Vec<ListedKey> = keys.filter(|key| !is_deleted(&key.uuid)).collect();
        if let Some(stored) = memory.stored.as_ref().filter(|stored| stored.at >= *at)
            && !keys
                .iter()
                .any(|key| key.uuid.eq_ignore_ascii_case(&stored.uuid))
        {
            let (uuid, name, text) = (&stored.uuid, &stored.name, &stored.public_key);
            keys.extend(key(&SeenKey::from_fields(
                uuid,
                name,
                text,
                stored.created_at,
            )));
        }
        Some(ListedKeys { at: *at, keys })
    }

    /// A look that started before this moment says nothing of what the object has there.
    pub fn since(&self) -> Duration {
        let changed = self.subject.memory.own.changed;
        self.subject.since().max(changed)
    }

    /// What becomes of a stored key that the look still shows.
    fn deletion_of(&self, uuid: &str) -> CallProgress {
        let found = self.deletions.get(&uuid.to_ascii_lowercase());
        found.copied().unwrap_or_default()
    }

    /// What this process does, or did since the look, to delete the very key that the object stands for.
    pub fn deletion_of_wanted_key(&self) -> CallProgress {
        let wanted = self.fingerprint();
        let shown = self.shown.iter().flat_map(|(_, shown)| shown.iter());
        let same = shown.filter(|key| key.fingerprint.is_some() && key.fingerprint == wanted);
        let states = same.map(|key| self.deletion_of(&key.uuid));
        states.fold(CallProgress::None, |one, other| match (one, other) {
            (CallProgress::InFlight(at), _) | (_, CallProgress::InFlight(at)) => {
                CallProgress::InFlight(at)
            }
            (CallProgress::Ended(a), CallProgress::Ended(b)) => CallProgress::Ended(a.max(b)),
            (CallProgress::None, found) | (found, CallProgress::None) => found,
        })
    }

    /// The note of this very object.
    pub fn own_annotation(&self) -> Option<StoredKeyAnnotation> {
        let text = self.subject.annotation(STORED_KEY_ANNOTATION)?;
        let note: StoredKeyAnnotation = serde_json::from_str(text).ok()?;
        (note.uid == self.subject.uid()).then_some(note)
    }

    /// Whether the key may have been sent to this account before, by whatever process.
    pub fn may_be_sent(&self) -> bool {
        let lineage = self.subject.view().and_then(|v| v.account_id.as_deref());
        let noted = self.own_annotation();
        let noted = noted.is_some_and(|note| Some(note.account_id.as_str()) == lineage);
        let status = self.subject.object.status.as_ref();
        let is_recorded = |s: &api::ssh_key::SshKeyStatus| {
            s.uuid.is_some()
                && (s.records.account_id.is_none() || s.records.account_id.as_deref() == lineage)
        };
        noted || status.is_some_and(is_recorded)
    }

    /// Whether the object was told to be ready, as of its newest generation.
    pub fn is_reported_ready(&self) -> bool {
        is_ready(&self.subject.object)
    }

    /// What happens to the stored key when the object is deleted.
    pub fn policy(&self) -> KeyDeletionPolicy {
        let spec = &self.subject.object.spec;
        spec.deletion_policy.unwrap_or_default()
    }

    /// The name under which the object stores its key.
    pub fn stored_name(&self) -> String {
        let tail = format!("{STORED_KEY_PREFIX}{}", self.subject.owner_hash());
        let room = LONGEST_NAME - tail.len() - 1;
        let shown = format!("{}.{}", self.subject.namespace(), self.subject.name());
        let shown: String = shown.chars().take(room).collect();
        format!("{shown}:{tail}")
    }

    /// Takes in what the newest look shows. No call is made.
    pub fn refresh_memory(&mut self) {
        let Some(listed) = self.listed() else { return };
        let since = self.since();
        // Keys of others do not matter to an object that is being deleted.
        let is_deleting = self.subject.is_deleting();
        let is_shown = listed.keys.iter().any(|key| key.is_mine || !is_deleting);
        let memory = &mut self.subject.memory.own;
        memory.record_list(is_shown, listed.at, since);
        // By a look, and not only by the answer to the call.
        let is_newer = memory.stored.as_ref().is_none_or(|s| s.at < listed.at);
        if is_shown && is_newer {
            memory.unshown = 0;
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
pub fn is_named_by(name: &str, mark: &OwnerHash) -> bool {
    parse_owner_hash(name) == Some(mark.as_str())
}

/// What follows the last `fmo-key:` of a name: 24 hex digits of the object.
fn parse_owner_hash(name: &str) -> Option<&str> {
    let (_, mark) = name.rsplit_once(STORED_KEY_PREFIX)?;
    let is_mark = mark.len() == 24 && mark.bytes().all(|b| b.is_ascii_hexdigit());
    is_mark.then_some(mark)
}

fn fingerprint_of(text: &str) -> Option<Fingerprint> {
    let key = PublicKey::parse(text.as_bytes()).ok()?;
    Some(key.fingerprint())
}

/// The account of an object. The first one stays it, whatever the reference says by now.
pub fn account_of(object: &SshKey) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// What an object stands for: two of one key share what is stored.
pub fn claim(object: &SshKey) -> Option<String> {
    let key = fingerprint_of(&object.spec.public_key)?;
    Some(key.to_string())
}

/// What became of the calls that store one key, or delete one stored key, for whatever object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallProgress {
    /// None was made.
    #[default]
    None,
    /// One is under way since this moment.
    InFlight(Duration),
    /// The last one ended at this moment. Only a look that started later shows what came of it.
    Ended(Duration),
}
