//! `whitelist`: the addresses from which API keys may be used.

use crate::{
    account_client::{self, AccountArgs, list_error},
    context::{ListScope, PluginContext},
    exit::{Exit, PluginError},
    fields::{Field, field, text, time},
};
use api::IpWhitelist;
use hosting_types::{ApiKeyId, whitelist::WhitelistEntry};
use serde_json::{Value, json};
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

const FIELDS: &[Field] = &[
    field("ID", "id"),
    field("KEY", "apiKeyID"),
    field("ADDRESSES", "addresses"),
    field("ACTIVE", "active").absent("unknown"),
    field("COMMENT", "comments"),
    field("CHANGED", "updatedAt").age().wide(),
];

/// Prints the entries.
pub async fn run(context: &PluginContext, args: WhitelistArgs) -> Result<Exit, PluginError> {
    let keys = match args.key {
        Some(key) => BTreeSet::from([key]),
        None => find_keys(context, &args.account).await?,
    };
    let client = account_client::connect(context, &args.account).await?;
    let mut records = Vec::new();
    for key in keys {
        let list = client.all_of_whitelist(ApiKeyId(key)).collect().await;
        let act = format!("list the whitelist of API key {key}");
        let list = list.map_err(|incomplete| list_error(&act, incomplete))?;
        let entries = list.into_records().into_iter();
        let before = records.len();
        records.extend(entries.map(|entry| build_record(key, &entry)));
        if records.len() == before {
            context.printer.inform(&format!(
                "The whitelist of API key {key} has no entries: the key may be used from every address"
            ));
        }
    }
    context.printer.records(FIELDS, records, "")?;
    Ok(Exit::Fine)
}

async fn find_keys(
    context: &PluginContext,
    args: &AccountArgs,
) -> Result<BTreeSet<u64>, PluginError> {
    let scope = ListScope {
        namespace: Some(context.namespace.clone()),
        selector: None,
    };
    let keys = keys_of(&context.list(&scope).await?, args);
    match keys.is_empty() {
        true => Err(PluginError::Usage(format!(
            "no IpWhitelist in namespace {} names a key of this account; add --key with the number of the API key",
            context.namespace
        ))),
        false => Ok(keys),
    }
}

/// The keys whose whitelists the objects of an account manage. Another account may use the same numbers.
fn keys_of(whitelists: &[IpWhitelist], args: &AccountArgs) -> BTreeSet<u64> {
    let of_account = whitelists
        .iter()
        .filter(|it| args.base_url.is_none() && it.account() == args.reference());
    of_account
        .filter_map(|it| u64::try_from(it.spec.api_key_id).ok())
        .collect()
}

fn build_record(key: u64, entry: &WhitelistEntry) -> Value {
    let ends = [&entry.ip_start, &entry.ip_end].map(|it| it.as_deref().unwrap_or_default());
    let span = ends.into_iter().filter(|end| !end.is_empty());
    let network = entry.ip_range.clone().filter(|range| !range.is_empty());
    json!({
        "id": entry.id.0, "apiKeyID": key, "active": entry.active,
        "addresses": network.unwrap_or_else(|| span.collect::<Vec<_>>().join(" - ")),
        "comments": text(entry.comments.clone().unwrap_or_default()),
        "updatedAt": time(entry.updated_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account_client::tests::account_args;
    use hosting_types::WhitelistEntryId;

    #[test]
    fn addresses_are_a_network_or_a_range() {
        let addresses = |start: &str, end: &str, range: &str| {
            let entry = WhitelistEntry {
                id: WhitelistEntryId(4),
                ip_start: Some(start.into()),
                ip_end: Some(end.into()),
                ip_range: Some(range.into()),
                comments: None,
                active: None,
                updated_at: Some(0),
            };
            build_record(7, &entry)["addresses"].clone()
        };
        assert_eq!(addresses("", "", "192.0.2.0/24"), "192.0.2.0/24");
        let range = "192.0.2.1 - 192.0.2.9";
        assert_eq!(addresses("192.0.2.1", "192.0.2.9", ""), range);
    }

    #[test]
    fn keys_are_those_of_the_account() {
        let whitelist = |key: i64, account: Value| -> IpWhitelist {
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
            whitelist(5, json!({"name": "other"})),
            whitelist(
                6,
                json!({"kind": "ClusterProviderAccount", "name": "default"}),
            ),
        ];
        let own = account_args();
        assert_eq!(keys_of(&all, &own), BTreeSet::from([2, 3]));
        let of_cluster = AccountArgs {
            cluster_account: Some("default".into()),
            ..own.clone()
        };
        assert_eq!(keys_of(&all, &of_cluster), BTreeSet::from([6]));
        let other = AccountArgs {
            base_url: Some("https://api.example.com".into()),
            ..own
        };
        assert!(keys_of(&all, &other).is_empty());
    }
}
