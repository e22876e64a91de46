//! `usage`: what the servers of the account have used in a period.

mod rows;

use crate::{
    account_client::{self, Account, AccountArgs, hosting_error},
    ages,
    context::Context,
    exit::{Exit, PluginError},
    server_objects::ServerObjects,
    sizes,
};
use flexmetal_core::{account::usage::months, wording::counted};
use hosting::Client;
use jiff::{Timestamp, civil::Date};
use rows::{ServerRow, Share, contract_rows, month_rows, namespace_rows, server_rows, total_of};

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

/// Prints the usage; without the key that of the account's status.
pub async fn run(context: &Context, args: UsageArgs) -> Result<Exit, PluginError> {
    if args.account.base_url.is_some() {
        let client = account_client::connect(context, &args.account).await?;
        return print_usage(context, &args, &client).await;
    }
    let account = Account::read(context, &args.account).await?;
    match account.connect(context).await {
        Ok(client) => print_usage(context, &args, &client).await,
        Err(error @ PluginError::NotAllowed(_)) => print_status(context, &account, &error),
        Err(error) => Err(error),
    }
}

async fn print_usage(
    context: &Context,
    args: &UsageArgs,
    client: &Client,
) -> Result<Exit, PluginError> {
    let (from, to) = choose_period(args, ages::now())?;
    let usages = client.usage(Some(from), Some(to)).await;
    let act = || format!("read the usage of the account from {from} to {to}");
    let usages = usages.map_err(|error| hosting_error(act(), error))?;
    let objects = ServerObjects::read(context, &args.account).await?;
    let rows = server_rows(usages, &objects);
    let printer = &context.printer;
    let none = "Nothing was used in this period";
    match args.by {
        Grouping::Server => printer.rows(&rows, none)?,
        Grouping::Namespace => printer.rows(&namespace_rows(&rows), none)?,
        Grouping::Contract => printer.rows(&contract_rows(&rows), none)?,
    }
    if !rows.is_empty() && printer.is_for_people() {
        printer.note(&describe_total(from, to, &rows));
    }
    Ok(Exit::Fine)
}

fn describe_total(from: Date, to: Date, rows: &[ServerRow]) -> String {
    let Share {
        servers,
        hours,
        egress_bytes,
    } = total_of(rows);
    format!(
        "{from} to {to} in UTC: {}, {hours} billed hours, {} egress",
        counted(servers, "server"),
        sizes::decimal(egress_bytes)
    )
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
    context: &Context,
    account: &Account,
    refused: &PluginError,
) -> Result<Exit, PluginError> {
    let Some(usage) = &account.status.usage else {
        return Err(PluginError::NotAllowed(format!(
            "{}; for totals of the account by month, set spec.usage of {} to Enabled",
            refused.explain(),
            account.title
        )));
    };
    let read_at = usage.as_of.as_ref().map(|at| at.0);
    let age = read_at.map_or_else(
        || "not read yet".to_owned(),
        |at| format!("read {} ago", ages::age(at, ages::now())),
    );
    context.printer.warn(&format!(
        "{}; these are the monthly totals in the status of {}, {age}, without --from, --to and --by",
        refused.explain(),
        account.title
    ));
    if let Some(message) = &usage.message {
        context.printer.warn(&format!(
            "warning: the operator's last read failed: {message}"
        ));
    }
    context.printer.rows(
        &month_rows(usage),
        "The operator has not read the usage yet",
    )?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: UsageArgs,
    }

    fn period(words: &[&str]) -> Option<String> {
        let words = ["usage"].iter().chain(words);
        let args = Words::try_parse_from(words).ok()?.args;
        let now = "2026-11-29T04:00:00Z".parse().unwrap();
        let (from, to) = choose_period(&args, now).ok()?;
        Some(format!("{from} {to}"))
    }

    #[test]
    fn period_is_the_month_of_its_last_day() {
        let period = |words: &[&str]| period(words).unwrap_or_default();
        assert_eq!(period(&[]), "2026-11-01 2026-11-29");
        assert_eq!(period(&["--to", "2026-10-31"]), "2026-10-01 2026-10-31");
        assert_eq!(period(&["--from", "2026-09-15"]), "2026-09-15 2026-11-29");
        let words = ["--from", "2026-02-01", "--to", "2026-02-28"];
        assert_eq!(period(&words), "2026-02-01 2026-02-28");
    }

    #[test]
    fn a_period_that_ends_before_its_start_is_refused() {
        assert_eq!(period(&["--from", "2026-12-01"]), None);
        assert_eq!(period(&["--from", "yesterday"]), None);
    }
}
