//! Accounts, orphans and objects that need the user.

use super::CheckRow;
use crate::{
    account_client::is_forbidden,
    commands::status::findings::{Finding, find_problems, find_state},
    context::{PluginContext, ScopeArgs},
    exit::PluginError,
    objects::{self, Object, ObjectKind},
};
use api::Reason;
use flexmetal_core::wording::{counted, listed};
use std::collections::BTreeSet;

/// The objects of the scope, of each kind that the caller may list.
#[derive(Debug)]
pub struct CheckedObjects {
    all: Vec<Object>,
    /// Kinds that cannot be listed.
    failed: Vec<(ObjectKind, PluginError)>,
}

impl CheckedObjects {
    /// Lists the objects.
    pub async fn list(context: &PluginContext, scope: &ScopeArgs) -> Self {
        let (all, failed) = objects::list_all(context, &context.scope(scope)).await;
        Self { all, failed }
    }

    /// Namespaces and names of the Leases of the operators that serve the accounts.
    pub fn lease_names(&self) -> BTreeSet<(String, String)> {
        let statuses = self.all.iter().filter_map(Object::account_status);
        let leases = statuses.filter_map(|status| status.operator_lease.as_deref());
        let named = leases.filter_map(|lease| lease.split_once('/'));
        named
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect()
    }

    /// The checks.
    pub fn check_objects(&self, context: &PluginContext) -> Vec<CheckRow> {
        let (accounts, others): (Vec<_>, Vec<_>) = self
            .all
            .iter()
            .partition(|object| object.account_spec().is_some());
        let mut rows = check_accounts(&accounts);
        rows.push(check_others(&others));
        let (forbidden, failed): (Vec<_>, Vec<_>) = self
            .failed
            .iter()
            .partition(|(_, error)| is_forbidden(error));
        if !forbidden.is_empty() {
            let kinds = forbidden.iter().map(|(kind, _)| kind.plural());
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            let namespace = &context.namespace;
            let right =
                format!("\"list\" on {kinds}; with -A in all namespaces, else in {namespace}");
            rows.push(CheckRow::skipped("objects", &right));
        }
        let failed = failed.iter();
        rows.extend(failed.map(|(_, error)| CheckRow::failed("objects", error, "")));
        rows
    }
}

/// What is wrong with the accounts, orphans apart.
fn check_accounts(accounts: &[&Object]) -> Vec<CheckRow> {
    if accounts.is_empty() {
        return vec![CheckRow::ok("accounts", "None in this scope")];
    }
    let states = accounts.iter().flat_map(|account| {
        let problems = find_problems(account);
        match problems.is_empty() {
            true => find_state(account).into_iter().collect(),
            false => problems,
        }
    });
    let is_orphan = |it: &Finding| it.reason == Reason::OrphansFound.as_str();
    let (orphans, others): (Vec<_>, Vec<_>) = states.partition(is_orphan);
    let row = |check, finding: Finding| {
        let message = format!("{}: {}", finding.object.title(), finding.text());
        let step = finding.next_step.map(|step| format!("Run {step}"));
        CheckRow {
            remedy: step,
            ..CheckRow::problem(check, message, "")
        }
    };
    let mut rows: Vec<_> = others.into_iter().map(|it| row("accounts", it)).collect();
    if rows.is_empty() {
        let ready = format!("{} Ready", counted(accounts.len(), "account"));
        rows.push(CheckRow::ok("accounts", ready));
    }
    match orphans.is_empty() {
        true => rows.push(CheckRow::ok("orphans", "No account reports orphans")),
        false => rows.extend(orphans.into_iter().map(|it| row("orphans", it))),
    }
    rows
}

fn check_others(objects: &[&Object]) -> CheckRow {
    let check = "objects";
    let problems = objects.iter().filter(|it| !find_problems(it).is_empty());
    let titles: Vec<String> = problems.map(|it| it.title()).collect();
    let all = counted(objects.len(), "object");
    match titles.len() {
        0 => CheckRow::ok(check, format!("None of {all} needs you")),
        number => {
            let titles = listed(titles.iter().map(String::as_str));
            CheckRow::problem(
                check,
                format!("Need you: {number} of {all}: {titles}"),
                "Run kubectl flexmetal status --all-namespaces",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{
        doctor::Verdict,
        status::findings::tests::{ConditionWords, object, server},
    };
    use serde_json::json;

    fn account(name: &str, conditions: &[ConditionWords]) -> Object {
        let status = json!({"operatorLease": "ops/lease"});
        object(ObjectKind::ProviderAccount, name, status, conditions)
    }

    #[test]
    fn account_that_is_not_ready_is_a_problem() {
        let ready = ["Ready", "True", "Available", ""];
        let orphans = ["OrphansFound", "True", "OrphansFound", "2 orphans"];
        let good = account("good", &[ready]);
        let bad = account("bad", &[["Ready", "False", "KeyRejected", "words"]]);
        let with_orphans = account("old", &[ready, orphans]);
        let rows = check_accounts(&[&good]);
        assert_eq!(rows[0], CheckRow::ok("accounts", "1 account Ready"));
        assert_eq!(rows[1].result, Verdict::Ok);
        let rows = check_accounts(&[&good, &bad, &with_orphans]);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].message.contains("a/bad: KeyRejected: words"));
        assert!(rows[1].remedy.as_deref().unwrap().contains("orphans"));
    }

    #[test]
    fn object_that_needs_the_user_is_a_problem() {
        let bad = server("web", &[["Stalled", "True", "InvalidSpec", "Bad"]]);
        let row = check_others(&[&bad]);
        assert_eq!(
            row.message,
            "Need you: 1 of 1 object: BareMetalServer a/web"
        );
        assert_eq!(check_others(&[]).result, Verdict::Ok);
    }

    #[test]
    fn accounts_name_the_leases_of_their_operators() {
        let objects = CheckedObjects {
            all: vec![account("one", &[]), account("two", &[])],
            failed: Vec::new(),
        };
        let lease = ("ops".to_owned(), "lease".to_owned());
        assert_eq!(objects.lease_names(), BTreeSet::from([lease]));
    }
}
