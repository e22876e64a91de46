//! API keys, and the addresses from which each may be used (section 4.1).

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answer::Refusal;
use super::clock::Moment;

/// A range of addresses, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Range {
    #[serde(default)]
    pub(crate) ip_start: Option<String>,
    #[serde(default)]
    pub(crate) ip_end: Option<String>,
    #[serde(default)]
    pub(crate) ip_range: Option<String>,
    #[serde(default)]
    pub(crate) comments: Option<String>,
    #[serde(default = "yes")]
    pub(crate) active: i64,
}

fn yes() -> i64 {
    1
}

impl Range {
    /// First and last address; `None` when it cannot be read, or has both forms or
    /// neither.
    pub(crate) fn bounds(&self) -> Option<(IpAddr, IpAddr)> {
        match (&self.ip_range, &self.ip_start, &self.ip_end) {
            (Some(range), None, None) => {
                let net: IpNet = match range.parse::<IpAddr>() {
                    Ok(address) => address.into(),
                    Err(_) => range.parse().ok()?,
                };
                Some((net.network(), net.broadcast()))
            }
            (None, Some(start), Some(end)) => {
                let start: IpAddr = start.parse().ok()?;
                let end: IpAddr = end.parse().ok()?;
                (start.is_ipv4() == end.is_ipv4() && start <= end).then_some((start, end))
            }
            _ => None,
        }
    }

    fn admits(&self, caller: IpAddr) -> bool {
        let bounds = self.bounds().filter(|_| self.active != 0);
        bounds.is_some_and(|(start, end)| {
            start.is_ipv4() == caller.is_ipv4() && start <= caller && caller <= end
        })
    }
}

/// Whether a text can be sent as a key at all. An empty one would
/// admit every caller that sends an empty header.
pub(crate) fn can_be_sent(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An entry of a whitelist.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    id: u64,
    range: Range,
    updated: Moment,
}

impl Entry {
    /// The record of section 2.1.
    fn record(&self) -> Value {
        json!({
            "id": self.id,
            "ipStart": self.range.ip_start,
            "ipEnd": self.range.ip_end,
            "ipRange": self.range.ip_range,
            "comments": self.range.comments,
            "active": self.range.active,
            "updatedAt": self.updated.unix(),
        })
    }
}

/// A key of one account. Its text appears only in the stored state.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The number in the whitelist's path.
    pub(crate) number: u64,
    text: String,
    pub(crate) account: String,
    valid: bool,
    whitelist: Vec<Entry>,
}

/// All keys. Whether one is valid can change at any time.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    next_entry: u64,
    #[serde(skip)]
    touched: bool,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Keys({})", self.keys.len())
    }
}

/// A key as the control port shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyRecord {
    id: String,
    api_key_id: u64,
    account: String,
    valid: bool,
    whitelist: Vec<Value>,
}

/// The id of a key in the ledger: the first 8 hex digits of its SHA-256.
pub(crate) fn key_id(key: &str) -> String {
    let hash = Sha256::digest(key.as_bytes());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Keys {
    /// Adds a key, revokes it or restores it; it stays with its account.
    pub(crate) fn set(&mut self, text: &str, account: &str, valid: bool) -> u64 {
        self.touched = true;
        if let Some(key) = self.keys.iter_mut().find(|key| key.text == text) {
            key.valid = valid;
            return key.number;
        }
        let number = self.keys.iter().map(|key| key.number).max();
        let number = number.unwrap_or_default() + 1;
        self.keys.push(Key {
            number,
            text: text.to_owned(),
            account: account.to_owned(),
            valid,
            whitelist: Vec::new(),
        });
        number
    }

    /// The account of a key that may be used from this address. Without an
    /// active entry in its whitelist it may be used from everywhere.
    pub(crate) fn accept(&self, text: &str, caller: IpAddr) -> Option<&str> {
        let key = self.keys.iter().find(|key| key.text == text && key.valid)?;
        let mut active = key.whitelist.iter().filter(|entry| entry.range.active != 0);
        let open = active.clone().next().is_none();
        (open || active.any(|entry| entry.range.admits(caller))).then_some(&key.account)
    }

    /// Whether there is such a key, valid or not.
    pub(crate) fn knows(&self, text: &str) -> bool {
        self.keys.iter().any(|key| key.text == text)
    }

    /// The ledger's id of each key, valid or not.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.keys.iter().map(|key| key_id(&key.text)).collect()
    }

    /// Some valid key of the account.
    pub(crate) fn of(&self, account: &str) -> Option<&str> {
        let mut keys = self.keys.iter();
        let found = keys.find(|key| key.account == account && key.valid);
        found.map(|key| key.text.as_str())
    }

    /// All keys, without their text.
    pub(crate) fn records(&self) -> Vec<KeyRecord> {
        let records = self.keys.iter().map(|key| KeyRecord {
            id: key_id(&key.text),
            api_key_id: key.number,
            account: key.account.clone(),
            valid: key.valid,
            whitelist: key.whitelist.iter().map(Entry::record).collect(),
        });
        records.collect()
    }

    /// All keys, when any changed since the last call.
    pub(crate) fn changes(&mut self) -> Option<Self> {
        std::mem::take(&mut self.touched).then(|| self.clone())
    }

    pub(crate) fn changed(&self) -> bool {
        self.touched
    }

    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    /// Adds keys that do not exist yet, each with a number of its own.
    pub(crate) fn add_missing(&mut self, planned: Self) {
        for mut key in planned.keys {
            if self.keys.iter().any(|known| known.text == key.text) {
                continue;
            }
            let number = self.keys.iter().map(|key| key.number).max();
            key.number = number.unwrap_or_default() + 1;
            for entry in &mut key.whitelist {
                self.next_entry += 1;
                entry.id = self.next_entry;
            }
            self.keys.push(key);
        }
        self.touched = true;
    }

    fn key(&self, account: &str, number: &str) -> Result<usize, Refusal> {
        let number: u64 = number.parse().map_err(|_| Refusal::not_found())?;
        let mut keys = self.keys.iter();
        keys.position(|key| key.number == number && key.account == account)
            .ok_or_else(Refusal::not_found)
    }

    /// The records of a key's whitelist.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn whitelist(&self, account: &str, number: &str) -> Result<Vec<Value>, Refusal> {
        let place = self.key(account, number)?;
        let key = self.keys.get(place).ok_or_else(Refusal::not_found)?;
        Ok(key.whitelist.iter().map(Entry::record).collect())
    }

    /// Adds an entry, or changes the one with this id.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn allow(
        &mut self,
        account: &str,
        number: &str,
        entry: Option<&str>,
        range: Range,
        now: Moment,
    ) -> Result<Value, Refusal> {
        let place = self.key(account, number)?;
        let key = self.keys.get_mut(place).ok_or_else(Refusal::not_found)?;
        let id = match entry {
            Some(id) => id.parse().map_err(|_| Refusal::not_found())?,
            None => self.next_entry + 1,
        };
        let fresh = Entry {
            id,
            range,
            updated: now,
        };
        let record = fresh.record();
        let known = key.whitelist.iter_mut().find(|known| known.id == id);
        match (known, entry) {
            (Some(known), Some(_)) => *known = fresh,
            (_, None) => {
                self.next_entry = id;
                key.whitelist.push(fresh);
            }
            (None, Some(_)) => return Err(Refusal::not_found()),
        }
        self.touched = true;
        Ok(record)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn disallow(
        &mut self,
        account: &str,
        number: &str,
        entry: &str,
    ) -> Result<(), Refusal> {
        let place = self.key(account, number)?;
        let key = self.keys.get_mut(place).ok_or_else(Refusal::not_found)?;
        let before = key.whitelist.len();
        key.whitelist.retain(|known| known.id.to_string() != entry);
        if key.whitelist.len() == before {
            return Err(Refusal::not_found());
        }
        self.touched = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: Option<&str>, end: Option<&str>, range: Option<&str>) -> Range {
        Range {
            ip_start: start.map(str::to_owned),
            ip_end: end.map(str::to_owned),
            ip_range: range.map(str::to_owned),
            comments: None,
            active: 1,
        }
    }

    #[test]
    fn ranges_are_a_network_or_two_ends() {
        let admits = |range: &Range, address: &str| range.admits(address.parse().unwrap());
        let net = range(None, None, Some("192.0.2.0/24"));
        assert!(admits(&net, "192.0.2.255") && !admits(&net, "192.0.3.0"));
        let ends = range(Some("192.0.2.5"), Some("192.0.2.7"), None);
        assert!(admits(&ends, "192.0.2.7") && !admits(&ends, "192.0.2.8"));
        assert!(!admits(&ends, "::1"));
        let one = range(Some("2001:db8::1"), Some("2001:db8::1"), None);
        assert!(admits(&one, "2001:db8::1") && !admits(&one, "2001:db8::2"));
        for bad in [
            range(None, None, None),
            range(None, Some("192.0.2.1"), None),
            range(Some("192.0.2.1"), None, None),
            range(Some("192.0.2.9"), Some("192.0.2.1"), None),
            range(Some("192.0.2.9"), Some("::1"), None),
            range(Some("192.0.2.9"), None, Some("192.0.2.0/24")),
            range(None, None, Some("192.0.2.0/33")),
        ] {
            assert_eq!(bad.bounds(), None, "{bad:?}");
        }
    }
}
