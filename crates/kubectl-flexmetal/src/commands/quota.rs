//! `quota`: how many servers the provider allows, and how many there are.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column},
};
use hosting_types::quota::LocationQuota;
use serde::Serialize;

/// Arguments of `quota`.
#[derive(Clone, Debug, clap::Args)]
pub struct QuotaArgs {
    /// Only this location
    #[arg(long)]
    location: Option<String>,
    /// Only this instance type
    #[arg(long = "type", value_name = "TYPE")]
    instance_type: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct QuotaRow {
    location: String,
    instance_type: String,
    pool: String,
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    contract_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<i64>,
}

impl QuotaRow {
    fn free(&self) -> Option<i64> {
        Some(self.quota?.saturating_sub(self.used?).max(0))
    }
}

impl Row for QuotaRow {
    const COLUMNS: &'static [Column] = &[
        column("LOCATION"),
        column("TYPE"),
        column("POOL"),
        column("CONTRACT"),
        column("USED"),
        column("QUOTA"),
        column("FREE"),
    ];

    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i64>| number.map(|it| it.to_string()).unwrap_or_default();
        vec![
            self.location.clone(),
            self.instance_type.clone(),
            self.pool.clone(),
            self.contract_id.clone().unwrap_or_default(),
            number(self.used),
            number(self.quota),
            number(self.free()),
        ]
    }

    fn name(&self) -> String {
        format!("{}/{}", self.location, self.instance_type)
    }
}

/// Prints the quotas.
pub async fn run(context: &Context, args: QuotaArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let quotas = client.quota_usage().await;
    let quotas = quotas.map_err(|error| hosting_error("read the quotas of the account", error))?;
    let rows = build_rows(quotas, &args);
    context
        .printer
        .rows(&rows, "The account has no such quotas")?;
    Ok(Exit::Fine)
}

fn build_rows(quotas: Vec<LocationQuota>, args: &QuotaArgs) -> Vec<QuotaRow> {
    let rows = quotas.into_iter().flat_map(|of_location| {
        let LocationQuota {
            location, usages, ..
        } = of_location;
        usages.into_iter().map(move |usage| QuotaRow {
            location: location.clone(),
            instance_type: usage.instance_type,
            pool: usage.quota_type,
            contract_id: usage.contract_id.filter(|contract| !contract.is_empty()),
            used: usage.usage,
            quota: usage.quota,
        })
    });
    let mut rows: Vec<_> = rows
        .filter(|row| {
            is_asked_for(&row.location, args.location.as_deref())
                && is_asked_for(&row.instance_type, args.instance_type.as_deref())
        })
        .collect();
    rows.sort_by_cached_key(|row| {
        let contract = row.contract_id.clone();
        (row.location.clone(), row.instance_type.clone(), contract)
    });
    rows
}

/// Whether a name of the provider is the one that a flag gives, in any case. No flag: any name.
pub fn is_asked_for(name: &str, asked: Option<&str>) -> bool {
    asked.is_none_or(|asked| name.trim().eq_ignore_ascii_case(asked.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use hosting_types::quota::QuotaUsage;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: QuotaArgs,
    }

    fn rows(words: &[&str]) -> Vec<Vec<String>> {
        let words = ["quota"].iter().chain(words);
        let args = Words::try_parse_from(words).unwrap().args;
        let usage = |kind: &str, contract: &str, quota, usage| QuotaUsage {
            instance_type_id: None,
            instance_type: kind.into(),
            quota_type: "onDemand".into(),
            contract_id: Some(contract.into()),
            quota,
            usage,
        };
        let quota = |location: &str, usages| LocationQuota {
            location_id: None,
            location: location.into(),
            usages,
        };
        let quotas = vec![
            quota("US: Ashburn", vec![usage("b", "", None, Some(1))]),
            quota(
                "EU: Rotterdam",
                vec![
                    usage("b", "C-1", Some(2), Some(3)),
                    usage("b", "", Some(20), Some(3)),
                    usage("a", "", Some(4), Some(4)),
                ],
            ),
        ];
        let rows = build_rows(quotas, &args);
        rows.iter().map(Row::cells).collect()
    }

    #[test]
    fn free_is_what_a_known_quota_leaves() {
        let shown = rows(&[]);
        assert_eq!(shown[0][..2], ["EU: Rotterdam", "a"]);
        assert_eq!(shown[1][3..], ["", "3", "20", "17"]);
        // More servers than the contract allows.
        assert_eq!(shown[2][3..], ["C-1", "3", "2", "0"]);
        assert_eq!(shown[3][4..], ["1", "", ""]);
    }

    #[test]
    fn flags_ignore_the_case_of_names() {
        assert_eq!(rows(&["--location", "us: ashburn"]).len(), 1);
        assert_eq!(rows(&["--type", "B"]).len(), 3);
        assert_eq!(rows(&["--location", "JP: Tokyo"]).len(), 0);
    }
}
