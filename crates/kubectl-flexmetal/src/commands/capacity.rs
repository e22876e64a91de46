//! `capacity`: the servers that contracts commit to, and how many are in use.

use super::quota::is_asked_for;
use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use hosting_types::capacity::{CapacityCommit, InstanceType};
use serde::Serialize;

/// Arguments of `capacity`.
#[derive(Clone, Debug, clap::Args)]
pub struct CapacityArgs {
    /// Only this location
    #[arg(long)]
    location: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CapacityRow {
    location: String,
    instance_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    committed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_use: Option<i64>,
    hardware: String,
}

impl Row for CapacityRow {
    const COLUMNS: &'static [Column] = &[
        column("LOCATION"),
        column("TYPE"),
        column("COMMITTED"),
        column("IN USE"),
        column("FREE"),
        wide("HARDWARE"),
    ];

    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i64>| number.map(|it| it.to_string()).unwrap_or_default();
        let free = self.committed.zip(self.in_use);
        vec![
            self.location.clone(),
            self.instance_type.clone(),
            number(self.committed),
            number(self.in_use),
            number(free.map(|(all, used)| all.saturating_sub(used).max(0))),
            self.hardware.clone(),
        ]
    }

    fn name(&self) -> String {
        format!("{}/{}", self.location, self.instance_type)
    }
}

/// Prints the commitments.
pub async fn run(context: &Context, args: CapacityArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let commits = client.capacity_commits().await;
    let commits = commits
        .map_err(|error| hosting_error("read the committed capacity of the account", error))?;
    let rows = build_rows(commits, args.location.as_deref());
    let none = "The account has no committed capacity; its quotas: kubectl flexmetal quota";
    context.printer.rows(&rows, none)?;
    Ok(Exit::Fine)
}

fn build_rows(commits: Vec<CapacityCommit>, location: Option<&str>) -> Vec<CapacityRow> {
    let mut rows: Vec<_> = commits
        .into_iter()
        .filter(|it| is_asked_for(&it.location.name, location))
        .flat_map(|it| {
            let place = it.location.name;
            it.commits.into_iter().map(move |commit| CapacityRow {
                location: place.clone(),
                committed: commit.capacity,
                in_use: commit.in_use,
                hardware: describe_hardware(&commit.instance_type),
                instance_type: commit.instance_type.name,
            })
        })
        .collect();
    rows.sort_by(|one, other| {
        (&one.location, &one.instance_type).cmp(&(&other.location, &other.instance_type))
    });
    rows
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
pub mod tests {
    use super::*;
    use hosting_types::{capacity::Commit, catalogue::Location};

    /// An instance type.
    pub fn instance_type(name: &str) -> InstanceType {
        InstanceType {
            id: None,
            location_id: None,
            name: name.into(),
            sockets: Some(1),
            cores: Some(24),
            memory: Some(256),
            memory_type: "DDR4".into(),
            storage: Some(3840),
            storage_type: String::new(),
            generation_name: "7".into(),
        }
    }

    /// A location.
    pub fn location(id: i64, name: &str) -> Location {
        Location {
            id: Some(id),
            name: name.into(),
            short_name: String::new(),
            display_name: String::new(),
            country_id: None,
            country_name: String::new(),
            country_short_name: String::new(),
        }
    }

    #[test]
    fn each_commitment_is_a_row() {
        let commit = |name: &str, capacity, in_use| Commit {
            instance_type: instance_type(name),
            capacity,
            in_use,
        };
        let commits = vec![
            CapacityCommit {
                location: location(2, "US: Ashburn"),
                commits: vec![commit("a", Some(1), None)],
            },
            CapacityCommit {
                location: location(1, "EU: Rotterdam"),
                commits: vec![commit("b", Some(4), Some(1)), commit("a", Some(2), Some(2))],
            },
        ];
        let cells = |location| -> Vec<_> {
            let rows = build_rows(commits.clone(), location);
            rows.iter().map(|row| row.cells()[..5].join("|")).collect()
        };
        assert_eq!(
            cells(None),
            [
                "EU: Rotterdam|a|2|2|0",
                "EU: Rotterdam|b|4|1|3",
                "US: Ashburn|a|1||"
            ]
        );
        assert_eq!(cells(Some("us: ashburn")).len(), 1);
    }

    #[test]
    fn hardware_has_the_known_parts() {
        let kind = instance_type("a");
        assert_eq!(
            describe_hardware(&kind),
            "1 socket, 24 cores, 256 GB DDR4, 3840 GB"
        );
    }
}
