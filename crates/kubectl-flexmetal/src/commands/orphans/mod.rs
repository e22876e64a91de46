//! `orphans`: live servers of this cluster that no object owns.

mod changes;
mod scan;

use crate::{
    account_client::AccountArgs,
    ages,
    cluster_identity::ClusterIdArgs,
    commands::usage::add_hours,
    confirm::ChangeArgs,
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, time},
};
use flexmetal_core::account::ownership_tags;
use hosting::Client;
use hosting_types::{Server, ServerId};
use jiff::{Timestamp, tz::TimeZone};
use scan::OrphanScan;
use serde_json::{Value, json};
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

const FIELDS: &[Field] = &[
    field("UUID", "uuid"),
    field("HOST NAME", "hostname"),
    field("TYPE", "instanceType"),
    field("LOCATION", "location"),
    field("NAMESPACE", "namespace"),
    field("RETAINED", "retained"),
    field("AGE", "createdAt").age(),
    field("HOURS", "hours"),
    field("STATUS", "status").wide(),
    field("ORDER TAG", "orderTag").wide(),
];

/// Prints the orphans, or adopts or releases one.
pub async fn run(context: &PluginContext, args: OrphansArgs) -> Result<Exit, PluginError> {
    if let Some(id) = &args.adopt {
        return changes::adopt_server(context, &args, id).await;
    }
    if let Some(id) = &args.release {
        return changes::release_server(context, &args, id).await;
    }
    let (client, scan) = OrphanScan::start(context, &args, None).await?;
    let hours = list_hours(context, &client, &scan.orphans).await;
    let records = build_records(&scan, &hours);
    let none = "Every live server of this cluster has an object. Servers of others: kubectl flexmetal servers; to adopt them: kubectl flexmetal import";
    context.printer.records(FIELDS, records, none)?;
    if !scan.orphans.is_empty() && context.printer.is_table() {
        context
            .printer
            .inform("All of them are billed. Add --adopt UUID or --release UUID; to keep one, give it the tag fmo-retained at the provider");
    }
    match scan.orphans.iter().all(ownership_tags::is_retained) {
        true => Ok(Exit::Fine),
        false => Ok(Exit::Attention),
    }
}

fn build_records(scan: &OrphanScan, hours: &HashMap<ServerId, i64>) -> Vec<Value> {
    let records = scan.orphans.iter().map(|server| {
        json!({
            "uuid": server.id.as_str(), "hostname": server.name, "status": server.status.as_str(),
            "instanceType": server.instance_type, "location": server.location,
            "hours": hours.get(&server.id), "namespace": scan.find_namespace(server),
            "retained": ownership_tags::is_retained(server),
            "orderTag": ownership_tags::order_tag(server), "createdAt": time(server.created_at),
        })
    });
    records.collect()
}

/// The billed hours of all servers since the first of these was created. A key without the right gives none.
async fn list_hours(
    context: &PluginContext,
    client: &Client,
    orphans: &[Server],
) -> HashMap<ServerId, i64> {
    let day = |second: i64| {
        let time = Timestamp::from_second(second).ok();
        time.map(|time| time.to_zoned(TimeZone::UTC).date())
    };
    let Some(first) = orphans.iter().filter_map(|server| server.created_at).min() else {
        return HashMap::new();
    };
    // A clock that is behind the provider's would ask for an end before the start.
    let last = ages::now().as_second().max(first);
    match client.usage(day(first), day(last)).await {
        Ok(usages) => add_hours(&usages),
        Err(error) => {
            let why = error.explain();
            context
                .printer
                .inform(&format!("The hours are not known: {why}"));
            HashMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::{ordered, owners, uuid};

    #[test]
    fn records_have_namespace_and_hours() {
        let servers = vec![ordered(1, "a", "gone"), ordered(2, "b", "gone")];
        let scan = scan::tests::scan(servers, owners(&[]), &["a"]);
        let hours = HashMap::from([(ServerId::parse(&uuid(2)).unwrap(), 5)]);
        let shown = build_records(&scan, &hours);
        // The second one is older.
        assert_eq!(
            (&shown[0]["hours"], &shown[0]["namespace"]),
            (&json!(5), &Value::Null)
        );
        assert_eq!(
            (&shown[1]["hours"], &shown[1]["namespace"]),
            (&Value::Null, &json!("a"))
        );
    }
}
