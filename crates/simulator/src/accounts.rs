//! The accounts at the start: one, or those of a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::catalogue::Catalogue;
use super::keys::{Range, can_be_sent};
use super::state::{Account, Label, Login, Numbers};

/// Why accounts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAccounts {
    /// It is not JSON of the right shape.
    #[error("cannot read them as JSON")]
    Json(#[from] serde_json::Error),
    /// There is none.
    #[error("there must be at least one account")]
    None,
    /// Two have the same name.
    #[error("two accounts are called {0:?}")]
    Name(String),
    /// A key is listed twice; an error must not show which one.
    #[error("a key is listed twice")]
    Key,
    /// A key cannot be sent in a header; an error must not show which one.
    #[error("a key must be one or more visible characters of ASCII")]
    Unsendable,
    /// Ids of dedicated hosts would overlap with those of on-demand ones.
    #[error("they have more than {MOST_IN_ALL} hosts together")]
    Hosts,
    /// A number of a contract or a whitelist entry is invalid.
    #[error("account {account:?}: {problem}")]
    Value {
        /// The account.
        account: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A key of the file.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlannedKey {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) whitelist: Vec<Range>,
}

/// The number of machines that a contract, or the on-demand pool, allows.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlannedQuota {
    pub(crate) location: String,
    pub(crate) instance_type: String,
    /// Empty for the on-demand pool.
    #[serde(default)]
    pub(crate) contract_id: String,
    pub(crate) quota: usize,
}

/// An account of the file.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlannedAccount {
    pub(crate) name: String,
    #[serde(default = "email")]
    pub(crate) email_address: String,
    #[serde(default = "password")]
    pub(crate) password: String,
    pub(crate) keys: Vec<PlannedKey>,
    #[serde(default)]
    pub(crate) quota: Vec<PlannedQuota>,
    #[serde(default)]
    pub(crate) hosts: PlannedHosts,
}

/// The dedicated hosts of an account: how many, or the labels of each.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum PlannedHosts {
    Number(usize),
    Each(Vec<PlannedHost>),
}

/// A dedicated host of the file.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannedHost {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Most dedicated hosts of an account: more than a person would view.
const MOST_HOSTS: usize = 10_000;
/// Most in all accounts, with room for accounts that are added later.
const MOST_IN_ALL: usize = 90_000;

impl Default for PlannedHosts {
    fn default() -> Self {
        Self::Number(2)
    }
}

impl PlannedHosts {
    /// The labels of each host.
    pub(crate) fn labels(&self) -> Vec<Vec<Label>> {
        match self {
            Self::Number(number) => vec![Vec::new(); *number],
            Self::Each(hosts) => hosts.iter().map(PlannedHost::labels).collect(),
        }
    }

    fn number(&self) -> usize {
        match self {
            Self::Number(number) => *number,
            Self::Each(hosts) => hosts.len(),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        match self {
            _ if self.number() > MOST_HOSTS => Some("it has more than 10000 hosts"),
            Self::Number(_) => None,
            Self::Each(hosts) => {
                let mut labels = hosts.iter().flat_map(PlannedHost::labels);
                let bad = labels.any(|label| !label.is_valid());
                bad.then_some("a label of a host breaks a rule of section 2.20")
            }
        }
    }
}

impl PlannedHost {
    fn labels(&self) -> Vec<Label> {
        let labels = self.labels.clone().into_iter();
        labels.map(|(key, value)| Label { key, value }).collect()
    }
}

fn email() -> String {
    "owner@example.com".to_owned()
}

fn password() -> String {
    "correct-horse".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountsFile {
    accounts: Vec<PlannedAccount>,
}

/// The only account if there is no file.
pub(crate) fn single(name: &str, api_key: Option<String>) -> Vec<PlannedAccount> {
    let keys = api_key.into_iter().map(|key| PlannedKey {
        key,
        whitelist: Vec::new(),
    });
    vec![PlannedAccount {
        name: name.to_owned(),
        email_address: email(),
        password: password(),
        keys: keys.collect(),
        quota: Vec::new(),
        hosts: PlannedHosts::default(),
    }]
}

/// An account that is added while the simulator runs.
pub(crate) fn added(name: &str, catalogue: Arc<Catalogue>, numbers: Numbers) -> Account {
    Account::new(name, catalogue, numbers, Login::new(&email(), &password()))
}

/// Reads accounts from the text of a file.
///
/// # Errors
/// When it is not JSON of that shape, or contradicts itself.
pub(crate) fn read(text: &str) -> Result<Vec<PlannedAccount>, InvalidAccounts> {
    let file: AccountsFile = serde_json::from_str(text)?;
    let mut keys = Vec::new();
    let mut names = Vec::new();
    for account in &file.accounts {
        if names.contains(&&account.name) {
            return Err(InvalidAccounts::Name(account.name.clone()));
        }
        names.push(&account.name);
        if let Some(problem) = account.hosts.problem() {
            return Err(InvalidAccounts::Value {
                account: account.name.clone(),
                problem: problem.to_owned(),
            });
        }
        for key in &account.keys {
            if keys.contains(&&key.key) {
                return Err(InvalidAccounts::Key);
            }
            if !can_be_sent(&key.key) {
                return Err(InvalidAccounts::Unsendable);
            }
            keys.push(&key.key);
            if key.whitelist.iter().any(|range| range.bounds().is_none()) {
                return Err(InvalidAccounts::Value {
                    account: account.name.clone(),
                    problem: "a whitelist names no range of addresses".to_owned(),
                });
            }
        }
    }
    let hosts = file.accounts.iter().map(|account| account.hosts.number());
    if hosts.sum::<usize>() > MOST_IN_ALL {
        return Err(InvalidAccounts::Hosts);
    }
    match file.accounts.is_empty() {
        true => Err(InvalidAccounts::None),
        false => Ok(file.accounts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_accounts_file_error_hides_keys() {
        let problem = |text: &str| read(text).err().unwrap().to_string();
        assert!(problem(r#"{"accounts": []}"#).contains("at least one"));
        let twice = r#"{"accounts": [{"name": "a", "keys": [{"key": "k-secret"}]},
            {"name": "b", "keys": [{"key": "k-secret"}]}]}"#;
        assert_eq!(problem(twice), "a key is listed twice");
        let empty = r#"{"accounts": [{"name": "a", "keys": [{"key": ""}]}]}"#;
        assert!(problem(empty).contains("visible characters"));
        let same = r#"{"accounts": [{"name": "a", "keys": []}, {"name": "a", "keys": []}]}"#;
        assert_eq!(problem(same), "two accounts are called \"a\"");
        let range = r#"{"accounts": [{"name": "a", "keys": [{"key": "k", "whitelist": [{"ipRange": "x"}]}]}]}"#;
        assert!(problem(range).contains("whitelist"));
        let label =
            r#"{"accounts": [{"name": "a", "keys": [], "hosts": [{"labels": {"A": "x"}}]}]}"#;
        assert!(problem(label).contains("label"));
        let many = r#"{"accounts": [{"name": "a", "keys": [], "hosts": 100000000000}]}"#;
        assert!(problem(many).contains("10000 hosts"));
        let many: Vec<_> = (0..10)
            .map(|name| format!(r#"{{"name": "{name}", "keys": [], "hosts": 9001}}"#))
            .collect();
        let many = format!(r#"{{"accounts": [{}]}}"#, many.join(","));
        assert!(problem(&many).contains("90000 hosts"));
    }
}
