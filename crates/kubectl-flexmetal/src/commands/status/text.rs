//! The summary as text for a terminal.

use super::summary::{AccountSummary, Change, ObjectName, Problem, ReadyGroup, Summary};
use crate::{
    ages::age,
    output::{Column, Printer, Row, Tone, column, wide, wrap},
};
use api::release_limit::ReleaseLimit;
use jiff::Timestamp;
use serde::Serialize;

/// The summary, problems first.
pub fn render(printer: &Printer, summary: &Summary, now: Timestamp) -> String {
    let mut parts = Vec::new();
    if !summary.needs_you.is_empty() {
        let problems = summary.needs_you.iter();
        let problems: Vec<_> = problems.map(|it| render_problem(it, now)).collect();
        parts.push(heading("Needs you", Tone::Bad, &problems.join("\n")));
    }
    if !summary.changing.is_empty() {
        let rows: Vec<_> = summary
            .changing
            .iter()
            .map(|change| ChangeRow { change, now })
            .collect();
        parts.push(heading("Changing", Tone::Busy, &printer.table(&rows)));
    }
    if !summary.ready.is_empty() {
        parts.push(heading("Ready", Tone::Good, &printer.table(&summary.ready)));
    }
    if !summary.accounts.is_empty() {
        let table = printer.table(&summary.accounts);
        parts.push(format!("Accounts\n\n{table}"));
    }
    parts.join("\n")
}

fn heading(title: &str, tone: Tone, text: &str) -> String {
    format!("{}\n\n{text}", tone.paint(title))
}

/// One problem, with its next step.
pub fn render_problem(problem: &Problem, now: Timestamp) -> String {
    let since = problem.since;
    let since = since.map_or_else(String::new, |since| format!(" for {}", age(since, now)));
    let title = format!(
        "{}  {}{since}\n",
        problem.object.title(),
        Tone::Bad.paint(&problem.reason)
    );
    title + &wrap(&problem.message, "  ") + &wrap(&format!("Next: {}", problem.next_step), "  ")
}

#[derive(Serialize)]
struct ChangeRow<'a> {
    #[serde(flatten)]
    change: &'a Change,
    #[serde(skip)]
    now: Timestamp,
}

impl Row for ChangeRow<'_> {
    const COLUMNS: &'static [Column] = &[
        column("OBJECT"),
        column("REASON"),
        column("FOR"),
        column("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        let since = self.change.since;
        vec![
            self.change.object.title(),
            self.change.reason.clone(),
            since.map_or_else(String::new, |since| age(since, self.now)),
            self.change.message.clone(),
        ]
    }

    fn name(&self) -> String {
        self.change.object.path()
    }
}

/// The account in a cell.
fn account_cell(account: &ObjectName) -> String {
    match account.namespace {
        Some(_) => account.path(),
        None => format!("{} (cluster)", account.name),
    }
}

impl Row for ReadyGroup {
    const COLUMNS: &'static [Column] = &[
        column("KIND"),
        column("ACCOUNT"),
        column("LOCATION"),
        column("TYPE"),
        column("COUNT"),
        column("SYNCED"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.kind.as_str().to_owned(),
            account_cell(&self.account),
            self.location.clone().unwrap_or_default(),
            self.instance_type.clone().unwrap_or_default(),
            self.count.to_string(),
            format!("{}/{}", self.synced, self.count),
        ]
    }

    fn name(&self) -> String {
        self.account.path()
    }
}

impl Row for AccountSummary {
    const COLUMNS: &'static [Column] = &[
        column("ACCOUNT"),
        column("READY"),
        column("SERVERS"),
        column("RETAINED"),
        column("ORPHANS"),
        column("CALLS/MIN"),
        column("ORDERS/H"),
        column("RELEASES"),
        wide("DUPLICATES"),
        wide("OTHER CLUSTERS"),
        wide("UNMANAGED"),
    ];

    fn cells(&self) -> Vec<String> {
        let servers = self.servers.as_ref();
        let number = |number: Option<i32>| number.map_or_else(String::new, |it| it.to_string());
        let calls =
            self.calls.as_ref().map(
                |calls| match calls.per_minute_in_force == calls.per_minute {
                    true => calls.per_minute.to_string(),
                    false => format!("{} of {}", calls.per_minute_in_force, calls.per_minute),
                },
            );
        let orders = self.limits.max_orders_per_hour;
        let releases = self.release_limit.map(|limit| {
            let ReleaseLimit {
                max_releases,
                window,
            } = limit;
            match self.blocked_namespaces.as_slice() {
                [] => format!("{max_releases} in {window}"),
                blocked => format!("blocked in {}", blocked.join(", ")),
            }
        });
        vec![
            account_cell(&self.object),
            match self.ready {
                true => "True".to_owned(),
                false => self.reason.clone(),
            },
            servers.map_or_else(String::new, |it| it.of_limit.clone()),
            number(servers.map(|it| it.retained)),
            number(servers.map(|it| it.orphans)),
            calls.unwrap_or_default(),
            orders.map_or_else(String::new, |most| format!("at most {most}")),
            releases.unwrap_or_default(),
            number(servers.map(|it| it.duplicates)),
            number(servers.and_then(|it| it.other_clusters)),
            number(servers.and_then(|it| it.unmanaged)),
        ]
    }

    fn name(&self) -> String {
        self.object.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{objects::ObjectKind, output::OutputForm};
    use api::{account_use::CallBudget, limits::Limits};

    fn name(name: &str) -> ObjectName {
        ObjectName {
            kind: ObjectKind::BareMetalServer,
            namespace: Some("team-a".into()),
            name: name.into(),
        }
    }

    fn account() -> AccountSummary {
        AccountSummary {
            object: ObjectName {
                kind: ObjectKind::ClusterProviderAccount,
                namespace: None,
                name: "shared".into(),
            },
            ready: false,
            reason: "KeyRejected".into(),
            servers: None,
            calls: Some(CallBudget {
                per_minute: 1200,
                per_minute_in_force: 600,
            }),
            limits: Limits::default(),
            release_limit: None,
            blocked_namespaces: Vec::new(),
        }
    }

    #[test]
    fn problems_come_first_and_lines_fit_a_terminal() {
        let now = Timestamp::from_second(10_000).unwrap();
        let since = Some(Timestamp::from_second(2_800).unwrap());
        let summary = Summary {
            needs_you: vec![Problem {
                object: name("web"),
                reason: "ServerExists".into(),
                since,
                message: "Servers of the former object exist. ".repeat(8),
                next_step: "Acknowledge it".into(),
                pending_acknowledgements: Vec::new(),
            }],
            changing: vec![Change {
                object: name("new"),
                reason: "NoStock".into(),
                since,
                message: "No bm9 in stock; retrying. ".repeat(10),
            }],
            ready: Vec::new(),
            accounts: vec![account()],
        };
        let printer = Printer::new(OutputForm::Table, false, true);
        let text = anstream::adapter::strip_str(&render(&printer, &summary, now)).to_string();
        let place = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part} in {text}"))
        };
        assert!(place("BareMetalServer team-a/web  ServerExists for 2h") < place("Next: Ack"));
        assert!(place("Next: Ack") < place("Changing"));
        assert!(place("Changing") < place("Accounts"));
        assert!(!text.contains("Ready\n"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn account_shows_a_lowered_rate_and_why_it_is_not_ready() {
        let cells = account().cells();
        assert_eq!(cells[0], "shared (cluster)");
        assert_eq!(cells[1], "KeyRejected");
        assert_eq!(cells[5], "600 of 1200");
    }
}
