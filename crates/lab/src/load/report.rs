//! The Markdown page and the JSON of a load run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::latency::Spread;
use crate::results::{Figure, table};

/// The simulator's time for one kind of request, without sockets.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CriterionResult {
    name: String,
    /// Microseconds: criterion's estimate of the mean, and its bounds.
    pub(super) mean: f64,
    low: f64,
    high: f64,
}

/// The report of one run: the content of the JSON file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoadReport {
    pub(super) machine: String,
    pub(super) date: String,
    pub(super) simulator: String,
    pub(super) cores: String,
    /// Mean number of runnable processes in the minute before the run.
    pub(super) load_before: String,
    pub(super) machines: usize,
    pub(super) connections: usize,
    pub(super) rate: u32,
    pub(super) seconds: u32,
    pub(super) figures: Vec<Figure>,
    pub(super) alone: Vec<CriterionResult>,
    /// Latencies over HTTP in milliseconds, by stretch and kind of request.
    pub(super) latencies: BTreeMap<&'static str, BTreeMap<String, Spread>>,
    /// Faults of the run. With any entry the figures are not valid.
    pub(super) faults: Vec<String>,
}

/// The part of criterion's `benchmark.json` with the name.
#[derive(Deserialize)]
struct BenchmarkName {
    function_id: String,
}

/// The part of criterion's `estimates.json` that we use, in nanoseconds.
#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: ConfidenceInterval,
}

#[derive(Deserialize)]
struct ConfidenceInterval {
    lower_bound: f64,
    upper_bound: f64,
}

/// Reads criterion's results in `target/criterion/<group>`. Empty if criterion was not run.
pub(super) fn alone(group: &Path) -> std::io::Result<Vec<CriterionResult>> {
    if !group.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in group.read_dir()? {
        let folder = entry?.path().join("new");
        let Ok(named) = fs::read(folder.join("benchmark.json")) else {
            continue;
        };
        let named: BenchmarkName = serde_json::from_slice(&named)?;
        let estimates: Estimates =
            serde_json::from_slice(&fs::read(folder.join("estimates.json"))?)?;
        let Estimate {
            point_estimate,
            confidence_interval,
        } = estimates.mean;
        found.push(CriterionResult {
            name: named.function_id,
            mean: point_estimate / 1_000.0,
            low: confidence_interval.lower_bound / 1_000.0,
            high: confidence_interval.upper_bound / 1_000.0,
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The slowest page of a list, with its time in microseconds.
pub(super) fn slowest_page(alone: &[CriterionResult]) -> Option<(&str, f64)> {
    let pages = alone.iter().filter(|one| one.name.starts_with("page"));
    pages
        .max_by(|one, other| one.mean.total_cmp(&other.mean))
        .map(|one| (one.name.as_str(), one.mean))
}

impl LoadReport {
    /// The same as a Markdown page.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# How fast the simulator is\n\n\
             Written by `make bench-simulator`; the JSON file of the same name has the numbers, too.\n\n\
             - Account: {} servers, each with a tag of the fleet and an order tag.\n\
             - Mix: of 20 requests 4 pages of 50 by tag and status, 2 look-ups by order tag in the list and 2 among the tags, \
             8 single servers, 2 orders, 2 releases; {} kept connections, {} s each.\n\
             - Machine: {}.\n\
             - Cores: {}. Load in the minute before: {}.\n\
             - Simulator: {}. Date: {}.\n\n",
            self.machines,
            self.connections,
            self.seconds,
            self.machine,
            self.cores,
            self.load_before,
            self.simulator,
            self.date,
        );
        text.push_str(&table(&self.figures));
        text.push_str("\n## The simulator by itself\n\n");
        if self.alone.is_empty() {
            text.push_str("Not measured: criterion was not run.\n");
        } else {
            text.push_str(
                "From the read request to the finished answer, ledger and JSON included, without sockets; by criterion.\n\n\
                 | Request | Mean, µs | 95 % between, µs |\n|---|---|---|\n",
            );
        }
        for one in &self.alone {
            text.push_str(&format!(
                "| {} | {:.1} | {:.1} and {:.1} |\n",
                one.name, one.mean, one.low, one.high
            ));
        }
        for (stretch, kinds) in &self.latencies {
            text.push_str(&format!(
                "\n## Over HTTP, {stretch}\n\n\
                 | Request | Number | p50, ms | p99, ms | Longest, ms |\n|---|---|---|---|---|\n"
            ));
            for (kind, spread) in kinds {
                text.push_str(&format!(
                    "| {kind} | {} | {:.3} | {:.3} | {:.3} |\n",
                    spread.requests, spread.p50, spread.p99, spread.longest
                ));
            }
        }
        text.push_str("\n## Faults\n\n");
        if self.faults.is_empty() {
            text.push_str("None: every request was answered as it should be, and the servers billed at the end are those ordered and not released.\n");
        }
        for fault in &self.faults {
            text.push_str(&format!("- {fault}\n"));
        }
        text
    }
}
