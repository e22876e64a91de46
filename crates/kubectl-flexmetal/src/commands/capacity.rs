//! `capacity`: the servers that contracts commit to, and how many are in use.

use super::quota::{free, is_asked_for};
use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field},
};
use hosting_types::capacity::{CapacityCommit, InstanceType};
use serde_json::{Value, json};

/// Arguments of `capacity`.
#[derive(Clone, Debug, clap::Args)]
pub struct CapacityArgs {
    /// Only this location, such as "EU: Rotterdam"
    #[arg(long)]
    location: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("TYPE", "instanceType"),
    field("LOCATION", "location"),
    field("COMMITTED", "committed"),
    field("IN USE", "inUse"),
    field("FREE", "free"),
    field("HARDWARE", "hardware").wide(),
];

/// Prints the commitments.
pub async fn run(context: &PluginContext, args: CapacityArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let commits = client.capacity_commits().await;
    let act = "read the committed capacity of the account";
    let commits = commits.map_err(|error| hosting_error(act, error))?;
    let records = build_records(commits, args.location.as_deref());
    let none = "The account has no such committed capacity; its quotas: kubectl flexmetal quota";
    context.printer.records(FIELDS, records, none)?;
    Ok(Exit::Fine)
}

fn build_records(mut commits: Vec<CapacityCommit>, asked: Option<&str>) -> Vec<Value> {
    commits.retain(|it| is_asked_for(&it.location.name, asked));
    commits.sort_by(|one, other| one.location.name.cmp(&other.location.name));
    let mut records = Vec::new();
    for CapacityCommit {
        location,
        mut commits,
    } in commits
    {
        commits.sort_by(|one, other| one.instance_type.name.cmp(&other.instance_type.name));
        records.extend(commits.into_iter().map(|it| {
            json!({
                "location": location.name, "instanceType": it.instance_type.name,
                "committed": it.capacity, "inUse": it.in_use, "free": free(it.capacity, it.in_use),
                "hardware": describe_hardware(&it.instance_type),
            })
        }));
    }
    records
}

/// Such as `2 sockets, 48 cores, 512 GB DDR4, 3840 GB NVMe`.
pub fn describe_hardware(kind: &InstanceType) -> String {
    let counted = |number: Option<i64>, noun: &str| {
        let plural = if number == Some(1) { "" } else { "s" };
        number.map(|number| format!("{number} {noun}{plural}"))
    };
    let sized = |size: Option<i64>, kind: &str| size.map(|size| format!("{size} GB {kind}"));
    let parts = [
        counted(kind.sockets, "socket"),
        counted(kind.cores, "core"),
        sized(kind.memory, &kind.memory_type),
        sized(kind.storage, &kind.storage_type),
    ];
    let parts: Vec<_> = parts.iter().flatten().map(|part| part.trim()).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_has_the_known_parts() {
        let kind = InstanceType {
            id: None,
            location_id: None,
            name: "a".into(),
            sockets: Some(1),
            cores: Some(24),
            memory: Some(256),
            memory_type: "DDR4".into(),
            storage: Some(3840),
            storage_type: String::new(),
            generation_name: "7".into(),
        };
        let hardware = "1 socket, 24 cores, 256 GB DDR4, 3840 GB";
        assert_eq!(describe_hardware(&kind), hardware);
    }
}
