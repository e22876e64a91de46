//! What the drill prints: the plan, and the report to send back, in which the key and addresses are masked.

use hosting::check::{Access, AccountCheck, Encryption};
use hosting_types::BaseUrl;

use super::choice::Choice;
use super::{Drill, DrillError};
use crate::explain_error;

pub(super) const COST: &str =
    "at least one started hour, more if the delivery takes longer. The API shows no prices.";

/// What would be done, and what it costs.
pub(super) fn plan(base_url: &BaseUrl, choice: &Choice) -> String {
    // As one word of a shell.
    let confirmation = choice.confirmation().replace('\'', "'\\''");
    format!(
        "This would use a real account of {base_url}:\n\
         - order {choice}, on demand, and tag it;\n\
         - send it two to four power commands, re-install it one to five times, and release it;\n\
         - store one or two SSH keys and several tags named conformance-…, rename one tag, and delete them all;\n\
         - send wrong requests, including orders that must be refused, and one wrong key.\n\
         Cost: {COST}\n\
         This is the smallest type that is available now. See the provider's price list.\n\
         Nothing was ordered. To start, repeat the command with the next line, or without its value to order what is the\n\
         smallest then:\n  --yes-this-costs-money='{confirmation}'\n"
    )
}

/// The report.
pub(super) fn report(
    drill: &Drill,
    base_url: &BaseUrl,
    outcome: &Result<(), DrillError>,
    leftovers: &[String],
) -> String {
    let outcome = match outcome {
        Ok(()) => "complete".to_owned(),
        Err(error) => format!("stopped early: {}", explain_error(error)),
    };
    let timings = list(drill.timings.iter().map(|(what, took)| {
        let seconds = took.as_secs_f64();
        format!("{what}: {seconds:.1} s")
    }));
    let check = drill
        .check
        .as_ref()
        .map_or_else(|| list([]), describe_check);
    let left = match leftovers {
        [] => "Everything that the drill made is released and deleted.\n".to_owned(),
        leftovers => list(leftovers.iter().cloned()),
    };
    format!(
        "# Conformance of {base_url}\n\n\
         Run {run} at {now:.0}, {choice}: {outcome}.\n\n\
         ## Switches\n\n{table}\n\
         A simulator with these values: `flexmetal-simulator{flags}`\n\n\
         ## Timings\n\n{timings}\n\
         ## Check\n\n{check}\n\
         ## Errors\n\n{errors}\n\
         ## What remains\n\n{left}",
        run = drill.run_name,
        choice = drill.choice,
        now = jiff::Timestamp::now(),
        table = drill.observations.table(),
        flags = drill.observations.simulator_flags(),
        errors = list(drill.raw.refusals()),
    )
}

fn describe_check(check: &AccountCheck) -> String {
    let health = match &check.health {
        Ok(health) => format!("{health:?}"),
        Err(why) => why.clone(),
    };
    let encryption = match check.encryption {
        Encryption::Tls => "TLS",
        Encryption::Absent => "none",
        Encryption::Unknown => "unknown",
    };
    let skew = match check.clock_skew {
        Some(skew) => format!("at least {} s ahead of this computer", skew.as_secs()),
        None => "unknown".to_owned(),
    };
    let facts = [
        format!("Health: {health}"),
        format!("Encryption: {encryption}"),
        format!("Clock of the API: {skew}"),
    ];
    let rights = check.rights.iter().map(|right| {
        let access = match &right.access {
            Access::Allowed => "allowed".to_owned(),
            Access::Refused { status, .. } => format!("refused with {status}"),
            Access::Unreachable { why } => format!("no valid answer: {why}"),
        };
        format!("{}: {access}", right.resource.operation())
    });
    list(facts.into_iter().chain(rights))
}

fn list(lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines
        .into_iter()
        .map(|line| format!("- {line}\n"))
        .collect();
    match lines.is_empty() {
        true => "- none\n".to_owned(),
        false => lines.concat(),
    }
}
