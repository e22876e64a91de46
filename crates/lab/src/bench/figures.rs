//! The report of one run of the operator's benchmark.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::results::{Figure, table};

/// The report of one run: the content of the JSON file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchReport {
    pub(crate) machine: String,
    /// Other work on the computer: the mean load in the five minutes before the run.
    pub(crate) load_before: String,
    pub(crate) date: String,
    pub(crate) operator: String,
    pub(crate) servers: u32,
    pub(crate) pace: f64,
    pub(crate) quiet_seconds: f64,
    pub(crate) figures: Vec<Figure>,
    /// Calls to the hosting API and writes to Kubernetes, by kind.
    pub(crate) details: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// Faults of the run. Any entry means that the run failed.
    pub(crate) faults: Vec<String>,
}

impl BenchReport {
    /// The same as a Markdown page.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "# {} servers\n\n\
             Written by `make bench`; the JSON file of the same name has the numbers, too.\n\n\
             - Workload: {} servers, from apply to Ready, a quiet time of {:.0} s, then all released.\n\
             - Pace: every interval of the account is a {:.0}th of its default, and the simulator's clock runs {:.0} times as fast. \
             The quiet time stands for {:.0} minutes.\n\
             - Machine: {}. Control plane, simulator, operator and the benchmark share it. \
             Processes that were ready to run before the start, as a mean over five minutes: {}.\n\
             - Operator: {}. Date: {}.\n\n",
            self.servers,
            self.servers,
            self.quiet_seconds,
            self.pace,
            self.pace,
            self.quiet_seconds * self.pace / 60.0,
            self.machine,
            self.load_before,
            self.operator,
            self.date,
        );
        text.push_str(&table(&self.figures));
        for (title, lines) in &self.details {
            text.push_str(&format!("\n## {title}\n\n| What | Number |\n|---|---|\n"));
            for (what, number) in lines {
                text.push_str(&format!("| {what} | {number} |\n"));
            }
        }
        text.push_str("\n## Faults\n\n");
        if self.faults.is_empty() {
            text.push_str("None: no order was doubled, no server was left.\n");
        }
        for fault in &self.faults {
            text.push_str(&format!("- {fault}\n"));
        }
        text
    }
}
