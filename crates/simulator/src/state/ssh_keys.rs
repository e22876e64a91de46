//! Stored SSH keys (section 4.8 names them, clients show their records).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::answer::Refusal;
use super::super::clock::Moment;
use super::super::profile::{DuplicateKeyName, Switches};
use super::super::rules::NewSshKey;
use super::Account;

/// A stored key.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SshKey {
    uuid: Uuid,
    name: String,
    public_key: String,
    at: Moment,
}

/// All of an account, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SshKeys(Vec<SshKey>);

impl SshKey {
    fn record(&self) -> Value {
        json!({
            "uuid": self.uuid.to_string(),
            "name": self.name,
            "publicKey": self.public_key,
            "createdAt": self.at.unix(),
        })
    }
}

impl Account {
    /// The records of all keys.
    pub(crate) fn ssh_keys(&self) -> Vec<Value> {
        self.ssh_keys.0.iter().map(SshKey::record).collect()
    }

    /// Whether a key of this uuid is stored.
    pub(crate) fn stores_key(&self, uuid: &Uuid) -> bool {
        self.ssh_keys.0.iter().any(|key| key.uuid == *uuid)
    }

    /// One key's record.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn ssh_key(&self, uuid: &str) -> Result<Value, Refusal> {
        let wanted: Uuid = uuid.parse().map_err(|_| Refusal::not_found())?;
        let found = self.ssh_keys.0.iter().find(|key| key.uuid == wanted);
        found.map(SshKey::record).ok_or_else(Refusal::not_found)
    }

    /// Stores a key.
    ///
    /// # Errors
    /// 422 for a second key of the same name, where the switch says so.
    pub(crate) fn store_key(
        &mut self,
        key: NewSshKey,
        uuid: Uuid,
        now: Moment,
        switches: &Switches,
    ) -> Result<Value, Refusal> {
        let twice = self.ssh_keys.0.iter().any(|known| known.name == key.name);
        if twice && switches.duplicate_key_name == DuplicateKeyName::Refuse422 {
            return Err(Refusal::breach("name", "a key of this name exists"));
        }
        let key = SshKey {
            uuid,
            name: key.name,
            public_key: key.public_key,
            at: now,
        };
        let record = key.record();
        self.ssh_keys.0.push(key);
        self.rest_touched = true;
        Ok(record)
    }

    /// Removes a key. Machines installed with it keep it.
    ///
    /// # Errors
    /// 400 for a text that is not a UUID, 404.
    pub(crate) fn delete_key(&mut self, uuid: &str) -> Result<(), Refusal> {
        let wanted: Uuid = uuid
            .parse()
            .map_err(|_| Refusal::malformed("the key's name is no UUID"))?;
        let before = self.ssh_keys.0.len();
        self.ssh_keys.0.retain(|key| key.uuid != wanted);
        if self.ssh_keys.0.len() == before {
            return Err(Refusal::not_found());
        }
        self.rest_touched = true;
        Ok(())
    }
}
