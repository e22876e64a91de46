//! `orphans`: live servers of this cluster that no object owns.

mod adopt;
mod release;
mod scan;

use crate::{
    account_client::AccountArgs,
    ages,
    cluster_identity::ClusterIdArgs,
    confirm::ChangeArgs,
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, OutputForm, Row, column, wide},
};
use flexmetal_core::account::ownership_tags;
use hosting_types::{Server, ServerId};
use jiff::{Timestamp, tz::TimeZone};
use scan::OrphanScan;
use serde::Serialize;
use std::collections::HashMap;

/// Arguments of `orphans`.
#[derive(Clone, Debug, clap::Args)]
pub struct OrphansArgs {
    /// Create an object that adopts this server
    #[arg(long, value_name = "UUID", value_parser = ServerId::parse, conflicts_with = "release")]
    adopt: Option<ServerId>,
    /// Release this server, which erases its disks
    #[arg(long, value_name = "UUID", value_parser = ServerId::parse)]
    release: Option<ServerId>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    cluster_id: ClusterIdArgs,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OrphanRow {
    uuid: String,
    hostname: String,
    status: String,
    instance_type: String,
    location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hours_paid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_tag: Option<String>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip)]
    age: String,
}

impl Row for OrphanRow {
    const COLUMNS: &'static [Column] = &[
        column("UUID"),
        column("HOST NAME"),
        column("TYPE"),
        column("LOCATION"),
        column("AGE"),
        column("HOURS PAID"),
        wide("STATUS"),
        wide("NAMESPACE"),
        wide("ORDER TAG"),
    ];

    fn cells(&self) -> Vec<String> {
        let hours = self.hours_paid.map(|hours| hours.to_string());
        vec![
            self.uuid.clone(),
            self.hostname.clone(),
            self.instance_type.clone(),
            self.location.clone(),
            self.age.clone(),
            hours.unwrap_or_default(),
            self.status.clone(),
            self.namespace.clone().unwrap_or_default(),
            self.order_tag.clone().unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.uuid.clone()
    }
}

/// Prints the orphans, or adopts or releases one.
pub async fn run(context: &Context, args: OrphansArgs) -> Result<Exit, PluginError> {
    let scan = OrphanScan::start(context, &args.account, &args.cluster_id).await?;
    if let Some(id) = &args.adopt {
        return adopt::adopt_server(context, &args, &scan, id).await;
    }
    if let Some(id) = &args.release {
        return release::release_server(context, &args, &scan, id).await;
    }
    let orphans = scan.orphans();
    let hours = match orphans.is_empty() {
        true => HashMap::new(),
        false => list_hours(context, &scan, orphans).await,
    };
    let rows = build_rows(&scan, &hours, ages::now());
    let none = "Every live server of this cluster has an object";
    context.printer.rows(&rows, none)?;
    if rows.is_empty() {
        return Ok(Exit::Fine);
    }
    if context.printer.is_for_people() {
        context.printer.note(
            "All of them are billed. Add --adopt UUID or --release UUID, or the tag fmo-retained at the provider",
        );
    }
    Ok(Exit::Attention)
}

/// Prints what was done: a sentence for people, else a name or the data.
fn print_outcome<T: Serialize>(
    context: &Context,
    sentence: &str,
    name: &str,
    data: &T,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(data),
        OutputForm::Name => printer.text(&format!("{name}\n")),
        OutputForm::Table | OutputForm::Wide | OutputForm::Csv => {
            printer.text(&format!("{sentence}\n"))
        }
    }
}

/// The oldest first.
fn build_rows(scan: &OrphanScan, hours: &HashMap<ServerId, i64>, now: Timestamp) -> Vec<OrphanRow> {
    let rows = scan.orphans().iter().map(|server| {
        let created = server.created_at.map(Timestamp::from_second);
        OrphanRow {
            uuid: server.id.to_string(),
            hostname: server.name.clone(),
            status: server.status.as_str().to_owned(),
            instance_type: server.instance_type.clone(),
            location: server.location.clone(),
            hours_paid: hours.get(&server.id).copied(),
            namespace: scan.find_namespace(server).map(str::to_owned),
            order_tag: ownership_tags::order_tag(server).map(str::to_owned),
            created_at: server.created_at,
            age: match created {
                Some(Ok(created)) => ages::age(created, now),
                _ => String::new(),
            },
        }
    });
    rows.collect()
}

/// The billed hours of all servers since the first of these was created. A key without the right gives none.
async fn list_hours(
    context: &Context,
    scan: &OrphanScan,
    orphans: &[Server],
) -> HashMap<ServerId, i64> {
    let day = |second: i64| {
        let time = Timestamp::from_second(second).ok();
        time.map(|time| time.to_zoned(TimeZone::UTC).date())
    };
    let first = orphans.iter().filter_map(|server| server.created_at).min();
    let from = first.and_then(day);
    let to = day(ages::now().as_second());
    // A clock that is behind the provider's would ask for an end before the start.
    let to = to.max(from);
    match scan.client.usage(from, to).await {
        Ok(usages) => {
            let mut hours = HashMap::new();
            for usage in usages {
                let total: &mut i64 = hours.entry(usage.server.id).or_default();
                *total = total.saturating_add(usage.total_hours.unwrap_or_default());
            }
            hours
        }
        Err(error) => {
            context
                .printer
                .note(&format!("The hours are not known: {}", error.explain()));
            HashMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::{ordered, owners};
    use serde_json::json;

    #[test]
    fn rows_have_namespace_age_and_hours() {
        let servers = vec![ordered(1, "a", "gone"), ordered(2, "b", "gone")];
        let scan = scan::tests::scan(servers, owners(&[]), &["a"]);
        let id = scan.orphans()[0].id.clone();
        let hours = HashMap::from([(id, 5)]);
        let now = Timestamp::from_second(1_790_000_058).unwrap();
        let rows = build_rows(&scan, &hours, now);
        // The second one is older.
        assert_eq!(rows[0].cells()[4..6], ["60s", "5"]);
        assert_eq!(rows[0].namespace, None);
        assert_eq!(rows[1].cells()[5], "");
        assert_eq!(rows[1].namespace.as_deref(), Some("a"));
        assert_eq!(json!(rows)[1]["createdAt"], "2026-09-21T14:13:19Z");
    }
}
