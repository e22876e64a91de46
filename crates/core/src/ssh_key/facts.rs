//! The facts that a decision on an SshKey uses, as plain data.

use super::memory::SshKeyMemory;
use crate::{
    cluster_id::OwnerHash,
    public_key::{Fingerprint, PublicKey, PublicKeyError},
    reconcile::Subject,
    stored_keys::{KeyLookup, StoredKey},
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

/// Longest name of a stored key.
const LONGEST_NAME: usize = 64;

/// All facts that a decision uses.
#[derive(Clone)]
pub struct SshKeyFacts {
    /// The facts that all kinds have.
    pub subject: Subject<SshKey, SshKeyMemory>,
    /// The newest list of the account's keys, with its start.
    pub shown: Option<(Duration, Arc<Vec<SeenKey>>)>,
    /// Whether another living object of the account has the same key.
    pub is_shared: bool,
    /// The call of this process that stores the key, for any object of the account.
    pub store_call: CallProgress,
    /// The calls of this process that delete stored keys of the account, by identifier in lower case.
    pub deletions: BTreeMap<String, CallProgress>,
}

/// One stored key of the account's list. All objects share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenKey {
    /// The provider's identifier.
    pub uuid: String,
    /// Its fingerprint. None if its text cannot be parsed.
    pub fingerprint: Option<Fingerprint>,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// The owner hash in its name: 24 hex digits that identify the object that stored it.
    pub owner_hash: Option<String>,
}

/// The keys of a list, with the changes of later calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKeys {
    /// When the list began.
    pub at: Duration,
    /// The stored keys that equal the object's key, no matter who stored them.
    pub keys: Vec<ListedKey>,
}

/// A stored key that equals the object's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The provider's identifier.
    pub uuid: String,
    /// When it was stored.
    pub created_at: Option<i64>,
    /// Whether this object stored it.
    pub is_mine: bool,
}

impl SeenKey {
    /// Converts a record of the account's list.
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
    /// The credentials hash of the account, or an empty string.
    pub fn connection(&self) -> &str {
        let connection = self
            .subject
            .view()
            .and_then(|v| v.credentials_hash.as_deref());
        connection.unwrap_or_default()
    }

    /// The key of `spec.publicKey`.
    ///
    /// # Errors
    /// Why the text is not a public key.
    pub fn key(&self) -> Result<PublicKey, PublicKeyError> {
        PublicKey::parse(self.subject.object.spec.public_key.as_bytes())
    }

    /// The fingerprint of the key, if it can be parsed.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        fingerprint_of(&self.subject.object.spec.public_key)
    }

    /// The newest list, with keys stored or deleted since. None before the first list.
    pub fn listed(&self) -> Option<ListedKeys> {
        let (at, shown) = self.shown.as_ref()?;
        let memory = &self.subject.memory.own;
        let (owner_hash, wanted) = (self.subject.owner_hash(), self.fingerprint());
        let key = |shown: &SeenKey| {
            let is_mine = shown.owner_hash.as_deref() == Some(owner_hash.as_str());
            let is_wanted = match &shown.fingerprint {
                Some(_) => shown.fingerprint == wanted,
                // Without a readable text, the owner hash in the name decides.
                None => is_mine,
            };
            is_wanted.then(|| ListedKey {
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

    /// Lists that began before this moment are not used.
    pub fn since(&self) -> Duration {
        let changed = self.subject.memory.own.changed;
        self.subject.observations_count_from().max(changed)
    }

    /// The deletion call of a stored key.
    fn deletion_of(&self, uuid: &str) -> CallProgress {
        let found = self.deletions.get(&uuid.to_ascii_lowercase());
        found.copied().unwrap_or_default()
    }

    /// The calls of this process that delete a listed key with the object's fingerprint.
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

    /// The stored-key annotation, if this object wrote it (same UID).
    pub fn own_annotation(&self) -> Option<StoredKeyAnnotation> {
        let text = self.subject.annotation(STORED_KEY_ANNOTATION)?;
        let annotation: StoredKeyAnnotation = serde_json::from_str(text).ok()?;
        (annotation.uid == self.subject.uid()).then_some(annotation)
    }

    /// Whether any process may have sent the key to this account before.
    pub fn may_be_sent(&self) -> bool {
        let account_id = self.subject.view().and_then(|v| v.account_id.as_deref());
        let annotated = self.own_annotation();
        let annotated =
            annotated.is_some_and(|annotation| Some(annotation.account_id.as_str()) == account_id);
        let status = self.subject.object.status.as_ref();
        let is_recorded = |s: &api::ssh_key::SshKeyStatus| {
            s.uuid.is_some()
                && (s.records.account_id.is_none() || s.records.account_id.as_deref() == account_id)
        };
        annotated || status.is_some_and(is_recorded)
    }

    /// Whether the status reports the newest generation as ready.
    pub fn is_reported_ready(&self) -> bool {
        is_ready(&self.subject.object)
    }

    /// What happens to the stored key when the object is deleted.
    pub fn policy(&self) -> KeyDeletionPolicy {
        let spec = &self.subject.object.spec;
        spec.deletion_policy.unwrap_or_default()
    }

    /// The name of the object's key at the provider.
    pub fn stored_name(&self) -> String {
        let tail = format!("{STORED_KEY_PREFIX}{}", self.subject.owner_hash());
        let max_chars = LONGEST_NAME - tail.len() - 1;
        let shown = format!("{}.{}", self.subject.namespace(), self.subject.name());
        let shown: String = shown.chars().take(max_chars).collect();
        format!("{shown}:{tail}")
    }

    /// Updates the memory from the newest list, without calls.
    pub fn refresh_memory(&mut self) {
        let Some(listed) = self.listed() else { return };
        let since = self.since();
        // For an object that is being deleted, only its own keys matter.
        let is_deleting = self.subject.is_deleting();
        let is_shown = listed.keys.iter().any(|key| key.is_mine || !is_deleting);
        let memory = &mut self.subject.memory.own;
        memory.record_list(is_shown, listed.at, since);
        // Only a list newer than the answer counts.
        let is_newer = memory.stored.as_ref().is_none_or(|s| s.at < listed.at);
        if is_shown && is_newer {
            memory.unshown = 0;
        }
    }
}

/// Whether the status reports the newest generation as ready and the object is not being deleted.
pub fn is_ready(object: &SshKey) -> bool {
    let status = object.status.as_ref();
    object.metadata.deletion_timestamp.is_none()
        && status.is_some_and(|status| {
            status.uuid.is_some()
                && status.observed_generation == object.metadata.generation
                && conditions::is_true(&status.conditions, Type::Ready)
        })
}

/// What a key object shows to the objects that refer to it.
pub fn find_key(object: &SshKey) -> KeyLookup {
    let status = object.status.as_ref();
    let stored = status.and_then(|status| {
        Some(StoredKey {
            uid: object.metadata.uid.clone()?,
            uuid: status.uuid.clone()?,
            fingerprint: status.fingerprint.clone()?,
            account: status.account_ref.clone()?,
            account_id: status.records.account_id.clone()?,
        })
    });
    if object.metadata.deletion_timestamp.is_some() {
        return KeyLookup::Ending;
    }
    if let Some(stored) = stored.filter(|_| is_ready(object)) {
        return KeyLookup::Ready(stored);
    }
    let said = status.and_then(|status| {
        let mut said = status.conditions.iter();
        said.find(|c| c.type_ == Type::Ready.as_str() && c.status != "True")
    });
    KeyLookup::NotReady(match said {
        Some(said) => format!("its reason is {}", said.reason),
        None => "it is new or was just changed".to_owned(),
    })
}

/// Whether the name of a stored key has this owner hash.
pub fn is_named_by(name: &str, owner_hash: &OwnerHash) -> bool {
    parse_owner_hash(name) == Some(owner_hash.as_str())
}

/// The owner hash after the last `fmo-key:` of a name: 24 hex digits.
fn parse_owner_hash(name: &str) -> Option<&str> {
    let (_, hash) = name.rsplit_once(STORED_KEY_PREFIX)?;
    let is_hash = hash.len() == 24 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

fn fingerprint_of(text: &str) -> Option<Fingerprint> {
    let key = PublicKey::parse(text.as_bytes()).ok()?;
    Some(key.fingerprint())
}

/// The account of an object. The first one is pinned, even if the reference changes.
pub fn account_of(object: &SshKey) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// The fingerprint that an object claims. Objects with the same key share the stored key.
pub fn claim(object: &SshKey) -> Option<String> {
    let key = fingerprint_of(&object.spec.public_key)?;
    Some(key.to_string())
}

/// The progress of the calls that store or delete one key, for any object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallProgress {
    /// No call was made.
    #[default]
    None,
    /// A call is in progress since this moment.
    InFlight(Duration),
    /// The last call ended at this moment. Only a list that began later shows its outcome.
    Ended(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(uid: &str, ready: &str, observed: i64) -> Value {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
            "metadata": {"name": "ops", "namespace": "shop", "uid": uid, "generation": 3,
                "resourceVersion": "1"},
            "spec": {"publicKey": "ssh-ed25519 AAAA"},
            "status": {
                "observedGeneration": observed, "uuid": "u1", "fingerprint": "SHA256:a",
                "records": {"accountID": "l1"},
                "accountRef": {"kind": "ProviderAccount", "name": "default"},
                "conditions": [{"type": "Ready", "status": ready, "reason": "InvalidSpec",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        })
    }

    fn decoded(object: &Value) -> SshKey {
        serde_json::from_value(object.clone()).unwrap()
    }

    #[test]
    fn only_ready_current_generation_key_is_usable() {
        let shown = |object: &Value| find_key(&decoded(object));
        assert!(
            matches!(shown(&object("1", "True", 3)), KeyLookup::Ready(key) if key.uuid == "u1")
        );
        assert!(matches!(
            shown(&object("1", "True", 2)),
            KeyLookup::NotReady(_)
        ));
        let KeyLookup::NotReady(why) = shown(&object("1", "False", 3)) else {
            panic!("it is not ready");
        };
        assert!(why.contains("InvalidSpec"), "{why}");
        let mut unplaced = object("1", "True", 3);
        unplaced["status"]["records"] = json!({});
        assert!(matches!(shown(&unplaced), KeyLookup::NotReady(_)));
        let mut bare = object("1", "True", 3);
        bare["status"] = json!({});
        assert!(matches!(shown(&bare), KeyLookup::NotReady(_)));
        let mut ending = object("1", "True", 3);
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(shown(&ending), KeyLookup::Ending);
    }
}
