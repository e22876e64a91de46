//! `doctor`: checks of the installation, one line each.

mod definitions;
mod installation;
mod objects;
mod rights;

use crate::{
    account_client::is_forbidden,
    context::{PluginContext, ScopeArgs},
    exit::{Exit, PluginError},
    operator_deployment::list_deployments,
    output::{Column, Row, column},
};
use objects::CheckedObjects;
use serde::Serialize;

/// Arguments of `doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    scope: ScopeArgs,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// All is well.
    Ok,
    /// Something is wrong.
    Problem,
    /// The caller may not check it.
    Skipped,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRow {
    /// What is checked.
    pub check: String,
    /// What was found.
    pub result: Verdict,
    /// In words.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl CheckRow {
    fn ok(check: &str, message: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            result: Verdict::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    fn problem(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            result: Verdict::Problem,
            message: message.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// `right`: such as `"get" on leases in namespace x`.
    fn skipped(check: &str, right: &str) -> Self {
        Self {
            check: check.to_owned(),
            result: Verdict::Skipped,
            message: format!("needs {right}"),
            remedy: None,
        }
    }

    /// A check that could not read what it needs.
    fn failed(check: &str, error: &PluginError, right: &str) -> Self {
        match is_forbidden(error) {
            true => Self::skipped(check, right),
            false => Self::problem(
                check,
                error.explain(),
                "Check the connection to the API server, and run this again",
            ),
        }
    }
}

impl Row for CheckRow {
    const COLUMNS: &'static [Column] = &[column("CHECK"), column("RESULT"), column("MESSAGE")];

    fn cells(&self) -> Vec<String> {
        let remedy = self.remedy.iter().map(|remedy| format!(". {remedy}"));
        let remedy: String = remedy.collect();
        vec![
            self.check.clone(),
            match self.result {
                Verdict::Ok => "OK".to_owned(),
                other => format!("{other:?}"),
            },
            format!("{}{remedy}", self.message),
        ]
    }

    fn name(&self) -> String {
        self.check.clone()
    }
}

/// Prints the checks.
pub async fn run(context: &PluginContext, args: DoctorArgs) -> Result<Exit, PluginError> {
    let rows = run_checks(context, &args.scope).await;
    context.printer.rows(&rows, "Nothing was checked")?;
    Ok(conclude(&rows))
}

/// A problem counts more than a missing right.
fn conclude(rows: &[CheckRow]) -> Exit {
    let has = |verdict| rows.iter().any(|row| row.result == verdict);
    match (has(Verdict::Problem), has(Verdict::Skipped)) {
        (true, _) => Exit::Attention,
        (false, true) => Exit::NotAllowed,
        (false, false) => Exit::Fine,
    }
}

/// All checks. One that is not possible is a row, too.
pub async fn run_checks(context: &PluginContext, scope: &ScopeArgs) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    rows.extend(definitions::check_definitions(context).await);
    let objects = CheckedObjects::list(context, scope).await;
    let deployments = list_deployments(context).await;
    rows.extend(installation::check_deployments(context, &deployments));
    let deployments = deployments.unwrap_or_default();
    let leases = objects.lease_names();
    rows.extend(installation::check_leases(context, &deployments, leases).await);
    rows.extend(installation::check_policies(context, &deployments).await);
    rows.extend(rights::check_operator_rights(context, &deployments).await);
    rows.extend(rights::check_own_rights(context, scope).await);
    rows.extend(objects.check_objects(context));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_counts_more_than_a_missing_right() {
        let ok = CheckRow::ok("a", "");
        let problem = CheckRow::problem("b", "broken", "Fix it");
        let skipped = CheckRow::skipped("c", "\"get\" on x");
        assert_eq!(conclude(std::slice::from_ref(&ok)), Exit::Fine);
        assert_eq!(conclude(&[ok.clone(), skipped.clone()]), Exit::NotAllowed);
        assert_eq!(conclude(&[skipped, ok, problem.clone()]), Exit::Attention);
        assert_eq!(problem.cells(), ["b", "Problem", "broken. Fix it"]);
    }
}
