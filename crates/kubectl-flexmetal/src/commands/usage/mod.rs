//! `usage`: what the servers of the account have used in a period.

use crate::{
    account_client::{self, AccountArgs, NamedAccount, hosting_error},
    ages,
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text},
    server_owners::ServerOwners,
};
use api::usage::UsageStatus;
use flexmetal_core::{account::usage::months, wording::counted};
use hosting::Client;
use hosting_types::{ServerId, usage::Usage};
use jiff::{Timestamp, civil::Date};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Arguments of `usage`.
#[derive(Clone, Debug, clap::Args)]
pub struct UsageArgs {
    /// First day, such as 2026-11-01; default: the first of the month
    #[arg(long, value_name = "DATE")]
    from: Option<Date>,
    /// Last day, in UTC; default: today
    #[arg(long, value_name = "DATE")]
    to: Option<Date>,
    /// What a row is
    #[arg(long, value_enum, default_value_t)]
    by: Grouping,
    #[command(flatten)]
    account: AccountArgs,
}

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Grouping {
    /// One server
    #[default]
    Server,
    /// All servers of the objects of a namespace
    Namespace,
    /// All servers of a contract
    Contract,
}

const NAMESPACE: Field = field("NAMESPACE", "namespace").absent("(no object)");
const CONTRACT: Field = field("CONTRACT", "contractID").absent("(on demand)");
const SERVERS: Field = field("SERVERS", "servers");
const HOURS: Field = field("HOURS", "hours");
const EGRESS: Field = field("EGRESS", "egressBytes").bytes();
const BYTES: Field = field("EGRESS BYTES", "egressBytes").wide();

const OF_SERVERS: &[Field] = &[
    field("UUID", "uuid"),
    NAMESPACE,
    field("OBJECT", "object"),
    field("TYPE", "instanceType"),
    HOURS,
    EGRESS,
    BYTES,
    field("NAME", "name").wide(),
    field("LOCATION", "location").wide(),
    CONTRACT.wide(),
];

/// Prints the usage; without the key the totals in the status of the account.
pub async fn run(context: &PluginContext, args: UsageArgs) -> Result<Exit, PluginError> {
    if args.account.base_url.is_some() {
        let client = account_client::connect(context, &args.account).await?;
        return print_usage(context, &args, &client).await;
    }
    let account = NamedAccount::get(context, &args.account).await?;
    match account.connect(context).await {
        Ok(client) => print_usage(context, &args, &client).await,
        Err(error @ PluginError::NotAllowed(_)) => print_status(context, &account, &error),
        Err(error) => Err(error),
    }
}

async fn print_usage(
    context: &PluginContext,
    args: &UsageArgs,
    client: &Client,
) -> Result<Exit, PluginError> {
    let (from, to) = choose_period(args, ages::now())?;
    let usages = client.usage(Some(from), Some(to)).await;
    let act = || format!("read the usage of the account from {from} to {to}");
    let usages = usages.map_err(|error| hosting_error(act(), error))?;
    let owners = ServerOwners::list_allowed(context).await?;
    let servers = build_records(usages, &owners);
    let printer = &context.printer;
    // No record has this field: all of them are one group.
    if let [total] = add_up(&servers, "").as_slice()
        && printer.is_table()
    {
        let (servers, hours) = (counted(servers.len(), "server"), &total["hours"]);
        let egress = EGRESS.cell(total);
        printer.inform(&format!(
            "{from} to {to} in UTC: {servers}, {hours} billed hours, {egress} egress"
        ));
    }
    let none = "Nothing was used in this period";
    let group = |by: Field| [by, SERVERS, HOURS, EGRESS, BYTES];
    match args.by {
        Grouping::Server => printer.records(OF_SERVERS, servers, none)?,
        Grouping::Namespace => {
            printer.records(&group(NAMESPACE), add_up(&servers, "namespace"), none)?;
        }
        Grouping::Contract => {
            printer.records(&group(CONTRACT), add_up(&servers, "contractID"), none)?;
        }
    }
    Ok(Exit::Fine)
}

/// The first and the last day.
fn choose_period(args: &UsageArgs, now: Timestamp) -> Result<(Date, Date), PluginError> {
    let today = months(now.as_second()).map(|[(_, today), _]| today);
    let to = args.to.or(today);
    let from = args.from.or_else(|| Some(to?.first_of_month()));
    let (Some(from), Some(to)) = (from, to) else {
        return Err(PluginError::Other(
            "the clock of this machine is outside of the calendar; set --from and --to".into(),
        ));
    };
    if to < from {
        return Err(PluginError::Usage(format!(
            "the period would end on {to}, before it starts on {from}; change --from or --to"
        )));
    }
    Ok((from, to))
}

/// Prints the totals that the operator read. `refused`: why the key is not available.
fn print_status(
    context: &PluginContext,
    account: &NamedAccount,
    refused: &PluginError,
) -> Result<Exit, PluginError> {
    let (why, title) = (refused.explain(), &account.title);
    let Some(usage) = &account.status.usage else {
        return Err(PluginError::NotAllowed(format!(
            "{why}; for totals of the account by month, set spec.usage of {title} to Enabled"
        )));
    };
    let age = usage.as_of.as_ref().map_or_else(
        || "not read yet".to_owned(),
        |at| format!("read {} ago", ages::age(at.0, ages::now())),
    );
    context.printer.warn(&format!(
        "{why}; these are the monthly totals in the status of {title}, {age}, without --from, --to and --by"
    ));
    if let Some(message) = &usage.message {
        context.printer.warn(&format!(
            "warning: the operator's last read failed: {message}"
        ));
    }
    let fields = [field("MONTH", "month"), HOURS, EGRESS, BYTES];
    let none = "The operator has not read the usage yet";
    context
        .printer
        .records(&fields, month_records(usage), none)?;
    Ok(Exit::Fine)
}

/// The months of an account's status, the present one first.
fn month_records(usage: &UsageStatus) -> Vec<Value> {
    let months = [&usage.current_month, &usage.previous_month];
    let records = months
        .into_iter()
        .flatten()
        .map(|it| json!({"month": it.month, "hours": it.hours, "egressBytes": it.egress_bytes}));
    records.collect()
}

/// The billed hours of each server. It may have several periods.
pub fn add_hours(usages: &[Usage]) -> HashMap<ServerId, i64> {
    let mut hours: HashMap<ServerId, i64> = HashMap::new();
    for usage in usages {
        let total = hours.entry(usage.server.id.clone()).or_default();
        *total = total.saturating_add(usage.total_hours.unwrap_or_default().max(0));
    }
    hours
}

/// One record for each server, the greatest use first.
fn build_records(usages: Vec<Usage>, owners: &ServerOwners) -> Vec<Value> {
    let hours = add_hours(&usages);
    let mut egress: HashMap<ServerId, i64> = HashMap::new();
    let mut servers = BTreeMap::new();
    for usage in usages {
        let bytes = egress.entry(usage.server.id.clone()).or_default();
        *bytes = bytes.saturating_add(usage.total_egress_bytes.unwrap_or_default().max(0));
        servers.insert(usage.server.id.clone(), usage.server);
    }
    let amounts = |id: &ServerId| (hours.get(id).copied(), egress.get(id).copied());
    let mut servers: Vec<_> = servers.into_iter().collect();
    servers.sort_by_key(|(id, _)| std::cmp::Reverse(amounts(id)));
    let records = servers.into_iter().map(|(id, server)| {
        let owner = owners.find_recorded(&id);
        let (hours, egress_bytes) = amounts(&id);
        json!({
            "uuid": id.as_str(), "name": server.name, "hours": hours, "egressBytes": egress_bytes,
            "namespace": owner.map(|it| &it.namespace), "object": owner.map(|it| &it.name),
            "instanceType": server.instance_type, "location": server.location,
            "contractID": text(server.contract_id.unwrap_or_default()),
        })
    });
    records.collect()
}

/// One record for each value of a field.
fn add_up(records: &[Value], field: &str) -> Vec<Value> {
    let mut groups: BTreeMap<Option<&str>, [i64; 3]> = BTreeMap::new();
    for record in records {
        let group = groups.entry(record[field].as_str()).or_default();
        let amounts = [
            Some(1),
            record["hours"].as_i64(),
            record["egressBytes"].as_i64(),
        ];
        for (sum, amount) in group.iter_mut().zip(amounts) {
            *sum = sum.saturating_add(amount.unwrap_or_default());
        }
    }
    let groups = groups.into_iter().map(|(value, [servers, hours, egress])| {
        json!({field: value, "servers": servers, "hours": hours, "egressBytes": egress})
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::{owners, server, uuid};
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct UsageLine {
        #[command(flatten)]
        args: UsageArgs,
    }

    fn period(words: &[&str]) -> Option<String> {
        let words = ["usage"].iter().chain(words);
        let args = UsageLine::try_parse_from(words).ok()?.args;
        let now = "2026-11-29T04:00:00Z".parse().unwrap();
        let (from, to) = choose_period(&args, now).ok()?;
        Some(format!("{from} {to}"))
    }

    fn usage(number: u8, contract: &str, hours: i64, egress: i64) -> Usage {
        let mut server = server(number, "delivered");
        server.contract_id = Some(contract.to_owned());
        Usage {
            server,
            started_at: None,
            ended_at: None,
            total_hours: Some(hours),
            total_minutes: None,
            bandwidth_in: None,
            bandwidth_out: None,
            total_egress_bytes: Some(egress),
        }
    }

    fn records() -> Vec<Value> {
        let owners = owners(&[
            ("a", "web", json!({}), json!({"uuid": uuid(1)})),
            ("a", "db", json!({}), json!({"uuid": uuid(2)})),
        ]);
        let usages = vec![
            usage(1, "", 10, 1_000_000),
            usage(2, "C-1", 700, 2_000_000_000),
            usage(1, "", 5, 0),
            usage(3, "", 20, -4),
        ];
        build_records(usages, &owners)
    }

    #[test]
    fn period_is_the_month_of_its_last_day() {
        let shown = |words: &[&str]| period(words).unwrap_or_default();
        assert_eq!(shown(&[]), "2026-11-01 2026-11-29");
        assert_eq!(shown(&["--to", "2026-10-31"]), "2026-10-01 2026-10-31");
        assert_eq!(shown(&["--from", "2026-09-15"]), "2026-09-15 2026-11-29");
        assert_eq!(period(&["--from", "2026-12-01"]), None);
        assert_eq!(period(&["--from", "yesterday"]), None);
    }

    #[test]
    fn periods_of_one_server_are_added_up() {
        let records = records();
        let cells = |it: &Value| [OF_SERVERS[1], OF_SERVERS[2], HOURS, EGRESS].map(|f| f.cell(it));
        let shown: Vec<_> = records.iter().map(|it| cells(it).join("|")).collect();
        assert_eq!(
            shown,
            ["a|db|700|2 GB", "(no object)||20|0 B", "a|web|15|1 MB"]
        );
    }

    #[test]
    fn groups_add_up_their_servers() {
        let records = records();
        assert_eq!(
            add_up(&records, "namespace"),
            [
                json!({"namespace": null, "servers": 1, "hours": 20, "egressBytes": 0}),
                json!({"namespace": "a", "servers": 2, "hours": 715, "egressBytes": 2_001_000_000}),
            ]
        );
        let of_contracts = add_up(&records, "contractID");
        assert_eq!(of_contracts[0]["servers"], 2, "an empty contract is none");
        assert_eq!(of_contracts[1]["contractID"], "C-1");
    }

    #[test]
    fn status_has_the_present_month_first() {
        let month = |month: &str| json!({"month": month, "hours": 3, "egressBytes": 5000});
        let usage = json!({"currentMonth": month("2026-11"), "previousMonth": month("2026-10")});
        let usage: UsageStatus = serde_json::from_value(usage).unwrap();
        let months = month_records(&usage);
        assert_eq!(months, [month("2026-11"), month("2026-10")]);
    }
}
