//! `quota`: how many servers the provider allows, and how many there are.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text},
};
use hosting_types::quota::LocationQuota;
use serde_json::{Value, json};

/// Arguments of `quota`.
#[derive(Clone, Debug, clap::Args)]
pub struct QuotaArgs {
    /// Only this location, such as "EU: Rotterdam"
    #[arg(long)]
    location: Option<String>,
    /// Only this instance type
    #[arg(long = "type", value_name = "TYPE")]
    instance_type: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("TYPE", "instanceType"),
    field("LOCATION", "location"),
    field("POOL", "pool"),
    field("CONTRACT", "contractID"),
    field("USED", "used"),
    field("QUOTA", "quota"),
    field("FREE", "free"),
];

/// Prints the quotas.
pub async fn run(context: &PluginContext, args: QuotaArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let quotas = client.quota_usage().await;
    let quotas = quotas.map_err(|error| hosting_error("read the quotas of the account", error))?;
    let records = build_records(quotas, &args);
    let none =
        "The account has no such quotas; names of locations: kubectl flexmetal catalog locations";
    context.printer.records(FIELDS, records, none)?;
    Ok(Exit::Fine)
}

fn build_records(mut quotas: Vec<LocationQuota>, args: &QuotaArgs) -> Vec<Value> {
    quotas.sort_by(|one, other| one.location.cmp(&other.location));
    let mut records = Vec::new();
    for quota in quotas {
        let location = quota.location;
        if !is_asked_for(&location, args.location.as_deref()) {
            continue;
        }
        let mut usages = quota.usages;
        usages.retain(|it| is_asked_for(&it.instance_type, args.instance_type.as_deref()));
        usages.sort_by(|one, other| {
            (&one.instance_type, &one.contract_id).cmp(&(&other.instance_type, &other.contract_id))
        });
        records.extend(usages.into_iter().map(|it| {
            json!({
                "location": location, "instanceType": it.instance_type, "pool": it.quota_type,
                "contractID": text(it.contract_id.unwrap_or_default()),
                "used": it.usage, "quota": it.quota, "free": free(it.quota, it.usage),
            })
        }));
    }
    records
}

/// How many more there may be.
pub fn free(most: Option<i64>, used: Option<i64>) -> Option<i64> {
    Some(most?.saturating_sub(used?).max(0))
}

/// Whether a name of the provider is the one that a flag gives, in any case. No flag: any name.
pub fn is_asked_for(name: &str, asked: Option<&str>) -> bool {
    asked.is_none_or(|asked| name.trim().eq_ignore_ascii_case(asked.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account_client::tests::account_args;
    use hosting_types::quota::QuotaUsage;

    fn records(location: Option<&str>) -> Vec<Value> {
        let usage = |contract: &str, quota, usage| QuotaUsage {
            instance_type_id: None,
            instance_type: "a".into(),
            quota_type: "onDemand".into(),
            contract_id: Some(contract.into()),
            quota,
            usage,
        };
        let quota = |location: &str, usages: &[QuotaUsage]| LocationQuota {
            location_id: None,
            location: location.into(),
            usages: usages.to_vec(),
        };
        let of_eu = [usage("C-1", Some(2), Some(3)), usage("", Some(20), Some(3))];
        let of_us = [usage("", None, Some(1))];
        let args = QuotaArgs {
            location: location.map(str::to_owned),
            instance_type: Some("A".into()),
            account: account_args(),
        };
        build_records(vec![quota("US: A", &of_us), quota("EU: B", &of_eu)], &args)
    }

    #[test]
    fn free_is_what_a_known_quota_leaves() {
        let shown = records(None);
        let free: Vec<_> = shown.iter().map(|it| it["free"].as_i64()).collect();
        // The contract has more servers than it allows.
        assert_eq!(free, [Some(17), Some(0), None]);
        assert_eq!(
            (&shown[0]["contractID"], &shown[1]["contractID"]),
            (&Value::Null, &json!("C-1"))
        );
        assert_eq!(records(Some("us: a")).len(), 1);
    }
}
