//! `whitelist`: the addresses from which API keys may be used.

use crate::{
    account_client::{self, AccountArgs, list_error},
    ages,
    context::{Context, Scope},
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use api::{
    IpWhitelist,
    references::{AccountKind, PinnedAccount},
};
use hosting_types::{ApiKeyId, whitelist::WhitelistEntry};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;

/// Arguments of `whitelist`.
#[derive(Clone, Debug, clap::Args)]
pub struct WhitelistArgs {
    /// Number of the API key; default: the keys of the namespace's IpWhitelists
    #[arg(long, value_name = "ID")]
    key: Option<u64>,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryRow {
    #[serde(rename = "apiKeyID")]
    api_key_id: u64,
    id: u64,
    addresses: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comments: Option<String>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
    #[serde(skip)]
    age: String,
}

impl Row for EntryRow {
    const COLUMNS: &'static [Column] = &[
        column("KEY"),
        column("ID"),
        column("ADDRESSES"),
        column("ACTIVE"),
        column("COMMENT"),
        wide("CHANGED"),
    ];

    fn cells(&self) -> Vec<String> {
        let active = match self.active {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        vec![
            self.api_key_id.to_string(),
            self.id.to_string(),
            self.addresses.clone(),
            active.to_owned(),
            self.comments.clone().unwrap_or_default(),
            self.age.clone(),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

/// Prints the entries.
pub async fn run(context: &Context, args: WhitelistArgs) -> Result<Exit, PluginError> {
    let keys = match args.key {
        Some(key) => BTreeSet::from([key]),
        None => find_keys(context, &args.account).await?,
    };
    let client = account_client::connect(context, &args.account).await?;
    let mut rows = Vec::new();
    for key in keys {
        let list = client.all_of_whitelist(ApiKeyId(key)).collect().await;
        let act = format!("list the whitelist of API key {key}");
        let list = list.map_err(|incomplete| list_error(&act, incomplete))?;
        rows.extend(build_rows(key, list.into_records(), ages::now()));
    }
    let none = "The whitelist has no entries: the key may be used from every address";
    context.printer.rows(&rows, none)?;
    Ok(Exit::Fine)
}

async fn find_keys(context: &Context, args: &AccountArgs) -> Result<BTreeSet<u64>, PluginError> {
    let scope = Scope {
        namespace: Some(context.namespace.clone()),
        selector: None,
    };
    let whitelists = context.list::<IpWhitelist>(&scope).await?;
    let keys = keys_of(&whitelists, args);
    match keys.is_empty() {
        true => Err(PluginError::Usage(format!(
            "no IpWhitelist in namespace {} names a key of this account; add --key with the number of the API key",
            context.namespace
        ))),
        false => Ok(keys),
    }
}

/// The keys whose whitelists the objects of an account manage.
fn keys_of(whitelists: &[IpWhitelist], args: &AccountArgs) -> BTreeSet<u64> {
    let account = match &args.cluster_account {
        Some(name) => PinnedAccount {
            kind: AccountKind::ClusterProviderAccount,
            name: name.clone(),
        },
        None => PinnedAccount {
            kind: AccountKind::ProviderAccount,
            name: args.account.clone(),
        },
    };
    let of_account = whitelists
        .iter()
        .filter(|it| args.base_url.is_none() && it.account() == account);
    of_account
        .filter_map(|it| u64::try_from(it.spec.api_key_id).ok())
        .collect()
}

fn build_rows(key: u64, entries: Vec<WhitelistEntry>, now: Timestamp) -> Vec<EntryRow> {
    let rows = entries.into_iter().map(|entry| {
        let updated = entry.updated_at.map(Timestamp::from_second);
        EntryRow {
            api_key_id: key,
            id: entry.id.0,
            addresses: describe_addresses(&entry),
            active: entry.active,
            age: match updated {
                Some(Ok(updated)) => ages::age(updated, now),
                _ => String::new(),
            },
            updated_at: entry.updated_at,
            comments: entry.comments,
        }
    });
    rows.collect()
}

/// The network, or the first and the last address.
fn describe_addresses(entry: &WhitelistEntry) -> String {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let span = [given(&entry.ip_start), given(&entry.ip_end)];
    let span: Vec<_> = span.into_iter().flatten().collect();
    given(&entry.ip_range).unwrap_or_else(|| span.join(" - "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::WhitelistEntryId;
    use serde_json::json;

    fn entry(start: &str, end: &str, range: &str) -> WhitelistEntry {
        let text = |text: &str| Some(text.to_owned());
        WhitelistEntry {
            id: WhitelistEntryId(4),
            ip_start: text(start),
            ip_end: text(end),
            ip_range: text(range),
            comments: None,
            active: None,
            updated_at: Some(0),
        }
    }

    #[test]
    fn addresses_are_a_network_or_a_range() {
        let now = Timestamp::from_second(300).unwrap();
        let cells = |entry| build_rows(7, vec![entry], now)[0].cells().join("|");
        assert_eq!(
            cells(entry("", "", "192.0.2.0/24")),
            "7|4|192.0.2.0/24|unknown||5m"
        );
        assert_eq!(
            cells(entry("192.0.2.1", "192.0.2.9", "")),
            "7|4|192.0.2.1 - 192.0.2.9|unknown||5m"
        );
    }

    #[test]
    fn keys_are_those_of_the_account() {
        let whitelist = |key: i64, account: serde_json::Value| -> IpWhitelist {
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
                "metadata": {"name": "w", "namespace": "a"},
                "spec": {"apiKeyID": key, "accountRef": account},
            }))
            .unwrap()
        };
        let all = [
            whitelist(3, json!({})),
            whitelist(2, json!({"name": "default"})),
            whitelist(2, json!({"kind": "ProviderAccount"})),
            whitelist(5, json!({"name": "other"})),
            whitelist(
                6,
                json!({"kind": "ClusterProviderAccount", "name": "default"}),
            ),
        ];
        let keys = |cluster_account: Option<&str>, base_url: Option<&str>| {
            let args = AccountArgs {
                account: "default".into(),
                cluster_account: cluster_account.map(str::to_owned),
                base_url: base_url.map(str::to_owned),
            };
            keys_of(&all, &args).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(keys(None, None), [2, 3]);
        assert_eq!(keys(Some("default"), None), [6]);
        // Another account may use the same numbers.
        assert!(keys(None, Some("https://api.example.com")).is_empty());
    }
}
