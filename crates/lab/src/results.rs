//! Results of a benchmark: figures with their goals, and the two files with the results.

use std::borrow::Cow;
use std::error::Error;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// One figure with its goal.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: Cow<'static, str>,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Upper limit of the value. None without a goal.
    pub(crate) goal: Option<f64>,
    /// Source of the value.
    pub(crate) how: String,
}

/// Whether a goal was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoalResult {
    Reached,
    Missed,
    NoGoal,
}

impl Figure {
    pub(crate) fn goal_result(&self) -> GoalResult {
        match self.goal {
            None => GoalResult::NoGoal,
            Some(goal) if self.value <= goal => GoalResult::Reached,
            // Includes NaN.
            Some(_) => GoalResult::Missed,
        }
    }
}

/// Figures as a Markdown table.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut text =
        String::from("| Figure | Value | Goal | Verdict | From |\n|---|---|---|---|---|\n");
    for figure in figures {
        let goal = figure
            .goal
            .map_or_else(|| "-".to_owned(), |goal| format!("{goal:.2}"));
        let verdict = match figure.goal_result() {
            GoalResult::Reached => "reached",
            GoalResult::Missed => "**missed**",
            GoalResult::NoGoal => "-",
        };
        text.push_str(&format!(
            "| {} | {:.2} {} | {goal} | {verdict} | {} |\n",
            figure.name, figure.value, figure.unit, figure.how
        ));
    }
    text
}

/// The faults of a failed run.
#[derive(Debug, thiserror::Error)]
#[error("the run went wrong: {}", .0.join("; "))]
struct Faulty(Vec<String>);

/// Writes a run as Markdown and JSON, and prints the page. Fails if the run has faults, but writes the files anyway.
pub(crate) fn publish(
    out: &Path,
    text: &str,
    run: &impl Serialize,
    faults: &[String],
) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(out.with_extension("md"), text)?;
    let mut json = serde_json::to_string_pretty(run)?;
    json.push('\n');
    std::fs::write(out.with_extension("json"), json)?;
    let _ = writeln!(std::io::stdout().lock(), "\n{text}");
    match faults {
        [] => Ok(()),
        faults => Err(Faulty(faults.to_vec()).into()),
    }
}
