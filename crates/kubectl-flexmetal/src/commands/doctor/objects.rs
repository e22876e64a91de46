//! Accounts, orphans and stalled objects.

use super::CheckRow;
use crate::{
    account_client::is_forbidden,
    advice::advise,
    commands::status::find,
    context::{Context, ScopeArgs},
    exit::PluginError,
    objects::{self, Object, ObjectKind},
};
use api::{
    Reason,
    conditions::{Type, found_true},
};
use flexmetal_core::wording::{counted, listed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::collections::BTreeSet;

/// The objects of the scope, of each kind that the caller may list.
#[derive(Debug, Default)]
pub struct CheckedObjects {
    all: Vec<Object>,
    /// Kinds that the caller may not list, or that cannot be listed.
    failed: Vec<(ObjectKind, PluginError)>,
}

impl CheckedObjects {
    /// Lists the objects.
    pub async fn list(context: &Context, scope: &ScopeArgs) -> Self {
        let scope = context.scope(scope);
        let mut found = Self::default();
        for kind in ObjectKind::ALL {
            match objects::list(context, kind, &scope).await {
                Ok(objects) => found.all.extend(objects),
                Err(error) => found.failed.push((kind, error)),
            }
        }
        found
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
    pub fn check_objects(&self, context: &Context) -> Vec<CheckRow> {
        let mut rows = check_accounts(&self.all);
        rows.extend(check_orphans(&self.all));
        rows.push(check_stalled(&self.all));
        let is_missing_right = |failed: &&(ObjectKind, PluginError)| is_forbidden(&failed.1);
        let forbidden = self.failed.iter().filter(is_missing_right);
        let forbidden: Vec<String> = forbidden.map(|(kind, _)| kind.plural()).collect();
        if !forbidden.is_empty() {
            let right = format!(
                "\"list\" on {}; with -n in one namespace (now {}), with -A in all",
                forbidden.join(", "),
                context.namespace
            );
            rows.push(CheckRow::skipped("objects", &right));
        }
        for (_, error) in self.failed.iter().filter(|failed| !is_forbidden(&failed.1)) {
            rows.push(CheckRow::failed("objects", error, ""));
        }
        rows
    }
}

fn describe_remedy(object: &Object, condition: Option<&Condition>) -> String {
    let reason = condition.and_then(|condition| Reason::parse(&condition.reason));
    let step = reason.map(|reason| advise(reason, object.kind()).next_step);
    step.unwrap_or("Wait some seconds; if it stays, see the logs of the operator")
        .to_owned()
}

fn check_accounts(all: &[Object]) -> Vec<CheckRow> {
    let check = "accounts";
    let accounts = all.iter().filter(|it| it.account_spec().is_some());
    let mut rows = Vec::new();
    let mut ready = 0;
    for account in accounts {
        let condition = find(account.conditions(), Type::Ready);
        if condition.is_some_and(|condition| condition.status == "True") {
            ready += 1;
            continue;
        }
        let (reason, message) = condition.map_or(("no status yet", ""), |condition| {
            (&*condition.reason, &*condition.message)
        });
        let message = format!("{} is not Ready: {reason} {message}", account.title());
        let remedy = describe_remedy(account, condition);
        rows.push(CheckRow::problem(check, message.trim_end(), remedy));
    }
    if rows.is_empty() {
        rows.push(CheckRow::ok(
            check,
            format!("{} Ready", counted(ready, "account")),
        ));
    }
    rows
}

fn check_orphans(all: &[Object]) -> Vec<CheckRow> {
    let check = "orphans";
    let mut rows = Vec::new();
    let accounts = all.iter().filter(|it| it.account_spec().is_some());
    for account in accounts {
        let condition = find(account.conditions(), Type::OrphansFound);
        let Some(condition) = condition.filter(|condition| condition.status == "True") else {
            continue;
        };
        rows.push(CheckRow::problem(
            check,
            format!("{}: {}", account.title(), condition.message),
            describe_remedy(account, Some(condition)),
        ));
    }
    if rows.is_empty() {
        rows.push(CheckRow::ok(check, "No account reports orphans"));
    }
    rows
}

fn check_stalled(all: &[Object]) -> CheckRow {
    let check = "stalled objects";
    let stalled = all.iter().filter(|object| {
        let stalled = found_true(object.conditions(), Type::Stalled);
        stalled.is_some()
    });
    let names: Vec<String> = stalled.map(Object::title).collect();
    match names.len() {
        0 => CheckRow::ok(check, format!("None of {}", counted(all.len(), "object"))),
        _ => CheckRow::problem(
            check,
            format!(
                "{} of {}: {}",
                names.len(),
                counted(all.len(), "object"),
                listed(names.iter().map(String::as_str))
            ),
            "Run kubectl flexmetal status",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;
    use api::ProviderAccount;
    use serde_json::{Value, json};

    fn account(name: &str, conditions: &[(&str, &str, &str)]) -> Object {
        let condition = |(kind, status, reason): &(&str, &str, &str)| -> Value {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "words",
                "lastTransitionTime": "2026-11-01T10:00:00Z",
            })
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let account: ProviderAccount = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"apiKeySecretRef": {"name": "key"}},
            "status": {"conditions": conditions, "operatorLease": "ops/lease"},
        }))
        .unwrap();
        account.into()
    }

    #[test]
    fn account_that_is_not_ready_is_a_problem() {
        let good = account("good", &[("Ready", "True", "Available")]);
        let bad = account("bad", &[("Ready", "False", "KeyRejected")]);
        let new = account("new", &[]);
        let rows = check_accounts(std::slice::from_ref(&good));
        assert_eq!(rows, [CheckRow::ok("accounts", "1 account Ready")]);
        let rows = check_accounts(&[good, bad, new]);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].message.contains("a/bad is not Ready: KeyRejected"));
        assert!(rows[0].remedy.as_deref().unwrap().contains("key"));
        assert!(
            rows[1].message.ends_with("no status yet"),
            "{}",
            rows[1].message
        );
    }

    #[test]
    fn orphans_and_stalled_objects_are_problems() {
        let bad = account(
            "bad",
            &[
                ("Stalled", "True", "KeyRejected"),
                ("OrphansFound", "True", "OrphansFound"),
            ],
        );
        let row = check_stalled(std::slice::from_ref(&bad));
        assert_eq!(row.message, "1 of 1 object: ProviderAccount a/bad");
        let rows = check_orphans(&[bad]);
        assert_eq!((rows.len(), rows[0].result), (1, Verdict::Problem));
        assert_eq!(check_stalled(&[]).result, Verdict::Ok);
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
