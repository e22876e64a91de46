//! Objects in four parts: those that need the user, those that change, those that are ready, and the accounts.

use super::findings::{Finding, find_problems, find_state};
use crate::{
    objects::{Object, ObjectKind, ObjectName},
    output::{Column, Printer, Tone, column, wide},
};
use api::{
    conditions::{Type, find_condition},
    references::AccountKind,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What `status` shows.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// What needs the user, by kind, namespace and name.
    pub needs_you: Vec<Finding>,
    /// What the operator still works on.
    pub changing: Vec<Finding>,
    /// What is as declared.
    pub ready: Vec<ReadyGroup>,
    /// The accounts, whatever their state.
    pub accounts: Vec<Value>,
}

/// Ready objects with this in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyGroup {
    /// Their kind.
    pub kind: ObjectKind,
    /// The account that they use.
    pub account: ObjectName,
    /// Location of servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Instance type of servers and hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// How many they are.
    pub count: usize,
}

/// The summary of these objects.
pub fn summarize(objects: &[Object]) -> Summary {
    let mut summary = Summary::default();
    let mut groups = BTreeMap::new();
    for object in objects {
        summary.accounts.extend(summarize_account(object));
        match find_state(object) {
            Some(state) if state.needs_you => summary.needs_you.extend(find_problems(object)),
            Some(state) => summary.changing.push(state),
            None => {
                if let Some(group) = find_group(object) {
                    *groups.entry(group).or_insert(0) += 1;
                }
            }
        }
    }
    summary.needs_you.sort_by(|a, b| a.object.cmp(&b.object));
    summary.changing.sort_by(|a, b| a.object.cmp(&b.object));
    let groups = groups.into_iter();
    summary.ready = groups
        .map(|(group, count)| ReadyGroup { count, ..group })
        .collect();
    summary
}

/// The group of a ready object. None: it is an account, which has a row of its own.
fn find_group(object: &Object) -> Option<ReadyGroup> {
    let status = object.status();
    let text = |field: &str| status[field].as_str().map(str::to_owned);
    Some(ReadyGroup {
        kind: object.kind(),
        account: ObjectName::from_account(object.account()?, object.namespace()),
        location: text("location"),
        instance_type: text("instanceType"),
        count: 0,
    })
}

/// An account as its status has it. None: it is no account.
fn summarize_account(object: &Object) -> Option<Value> {
    let spec = object.account_spec()?;
    let status = object.account_status();
    let ready = find_condition(object.conditions(), Type::Ready);
    let counted = status.and_then(|status| status.release_limit.as_ref());
    let blocked = spec.release_limit.zip(counted).map(|(limit, counted)| {
        let blocked = limit.blocked(counted);
        blocked.map(|it| it.namespace.clone()).collect::<Vec<_>>()
    });
    Some(json!({
        "kind": object.kind(),
        "namespace": object.namespace(),
        "name": object.name(),
        "ready": ready.map(|ready| &ready.status),
        "reason": ready.map(|ready| &ready.reason),
        "servers": status.and_then(|status| status.servers.as_ref()),
        "calls": status.and_then(|status| status.calls.as_ref()),
        "limits": spec.limits,
        "releaseLimit": spec.release_limit,
        "releasesBlockedIn": blocked.unwrap_or_default(),
    }))
}

/// The objects without the cluster-wide accounts that no other object uses.
pub fn without_unused_accounts(mut objects: Vec<Object>) -> Vec<Object> {
    let used: Vec<String> = used_cluster_accounts(&objects).collect();
    objects.retain(|it| !it.kind().is_of_cluster() || used.iter().any(|name| name == it.name()));
    objects
}

/// The names of the cluster-wide accounts that objects use.
pub fn used_cluster_accounts(objects: &[Object]) -> impl Iterator<Item = String> {
    let accounts = objects.iter().filter_map(Object::account);
    let of_cluster = accounts.filter(|it| it.kind == AccountKind::ClusterProviderAccount);
    of_cluster.map(|it| it.name)
}

/// The summary as text, problems first.
pub fn render(printer: &Printer, summary: &Summary) -> String {
    let mut parts = Vec::new();
    for (title, tone, findings) in [
        ("Needs you", Tone::Bad, &summary.needs_you),
        ("Changing", Tone::Busy, &summary.changing),
    ] {
        if !findings.is_empty() {
            let findings = findings
                .iter()
                .map(|it| format!("{}  {}\n{}", it.object.title(), it.title(), it.body()));
            let findings = findings.collect::<Vec<_>>().join("\n");
            parts.push((tone.paint(title), findings));
        }
    }
    if !summary.ready.is_empty() {
        let rows: Vec<_> = summary.ready.iter().map(ready_cells).collect();
        let columns = ["KIND", "ACCOUNT", "LOCATION", "TYPE", "COUNT"].map(column);
        parts.push((Tone::Good.paint("Ready"), printer.render(&columns, &rows)));
    }
    if !summary.accounts.is_empty() {
        let rows: Vec<_> = summary.accounts.iter().map(account_cells).collect();
        let table = printer.render(&ACCOUNT_COLUMNS, &rows);
        parts.push(("Accounts".to_owned(), table));
    }
    let parts = parts
        .iter()
        .map(|(title, text)| format!("{title}\n\n{text}"));
    parts.collect::<Vec<_>>().join("\n")
}

fn ready_cells(group: &ReadyGroup) -> Vec<String> {
    vec![
        group.kind.as_str().to_owned(),
        account_path(&group.account.name, group.account.namespace.as_deref()),
        group.location.clone().unwrap_or_default(),
        group.instance_type.clone().unwrap_or_default(),
        group.count.to_string(),
    ]
}

fn account_path(name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => format!("{name} (cluster)"),
    }
}

const ACCOUNT_COLUMNS: [Column; 11] = [
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

fn account_cells(account: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let (servers, calls) = (&account["servers"], &account["calls"]);
    let limit = &account["releaseLimit"];
    let blocked = account["releasesBlockedIn"]
        .as_array()
        .into_iter()
        .flatten();
    let blocked: Vec<_> = blocked.map(text).collect();
    vec![
        account_path(&text(&account["name"]), account["namespace"].as_str()),
        match account["ready"] == "True" {
            true => text(&account["ready"]),
            false => text(&account["reason"]),
        },
        text(&servers["ofLimit"]),
        text(&servers["retained"]),
        text(&servers["orphans"]),
        match (&calls["perMinuteInForce"], &calls["perMinute"]) {
            (now, most) if now == most => text(now),
            (now, most) => format!("{now} of {most}"),
        },
        text(&account["limits"]["maxOrdersPerHour"]),
        match blocked.as_slice() {
            [] if limit.is_null() => String::new(),
            [] => format!("{} in {}", limit["maxReleases"], text(&limit["window"])),
            blocked => format!("blocked in {}", blocked.join(", ")),
        },
        text(&servers["duplicates"]),
        text(&servers["otherClusters"]),
        text(&servers["unmanaged"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::status::findings::tests::{ConditionWords, object, server},
        objects::decode,
        output::OutputForm,
    };

    fn account(status: Value, conditions: &[ConditionWords]) -> Object {
        object(ObjectKind::ProviderAccount, "default", status, conditions)
    }

    #[test]
    fn problems_come_first_and_lines_fit_a_terminal() {
        let words = "No bm9 in stock; retrying. ".repeat(10);
        let waiting = ["Reconciling", "True", "NoStock", &words];
        let stalled = ["Stalled", "True", "ServerExists", &words];
        let refused = ["Ready", "False", "KeyRejected", &words];
        let calls = json!({"calls": {"perMinute": 1200, "perMinuteInForce": 600}});
        let objects = [
            server("new", &[waiting]),
            server("web", &[stalled]),
            account(calls, &[refused]),
        ];
        let printer = Printer::new(OutputForm::Table, false, true);
        let text = render(&printer, &summarize(&objects));
        let text = anstream::adapter::strip_str(&text).to_string();
        let place = |part: &str| {
            let place = text.find(part);
            place.unwrap_or_else(|| panic!("{part} in {text}"))
        };
        assert!(place("BareMetalServer a/web  ServerExists for ") < place("Changing"));
        assert!(place("Changing") < place("BareMetalServer a/new"));
        assert!(place("BareMetalServer a/new") < place("Accounts"));
        assert!(place("Accounts") < place("600 of 1200"));
        assert!(!text.contains("Ready\n"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn orphans_of_a_ready_account_need_the_user() {
        let servers =
            json!({"servers": {"live": 3, "ofLimit": "3/20", "retained": 0, "orphans": 2}});
        let conditions = [
            ["Ready", "True", "Available", ""],
            ["OrphansFound", "True", "OrphansFound", "2 orphans"],
        ];
        let summary = summarize(&[account(servers, &conditions)]);
        assert_eq!(summary.needs_you[0].message, "2 orphans");
        let cells = account_cells(&summary.accounts[0]);
        assert_eq!(cells[..5], ["a/default", "True", "3/20", "0", "2"]);
        assert_eq!(cells[7], "1 in 1h");
    }

    #[test]
    fn account_shows_namespaces_whose_releases_wait() {
        let status = json!({"releaseLimit": {"namespaces": [
            {"namespace": "a", "releases": [{"uuid": "u", "startedAt": "2026-11-01T10:00:00Z"}],
             "blockedSince": "2026-11-01T10:01:00Z"},
            {"namespace": "b", "releases": []},
        ]}});
        let summary = summarize(&[account(status, &[])]);
        assert_eq!(account_cells(&summary.accounts[0])[7], "blocked in a");
    }

    #[test]
    fn ready_objects_are_counted_by_placement() {
        let ready = |name: &str, location: &str| {
            let conditions = [
                ["Ready", "True", "Delivered", ""],
                ["Synced", "True", "InSync", ""],
            ];
            let status = json!({"location": location});
            object(ObjectKind::BareMetalServer, name, status, &conditions)
        };
        let summary = summarize(&[ready("a", "L"), ready("b", "M"), ready("c", "L")]);
        let groups = summary.ready.iter();
        let groups: Vec<_> = groups
            .map(|it| (it.location.as_deref().unwrap(), it.count))
            .collect();
        assert_eq!(groups, [("L", 2), ("M", 1)]);
        let account = &summary.ready[0].account;
        assert_eq!(account.title(), "ProviderAccount a/default");
    }

    #[test]
    fn namespace_shows_only_the_cluster_accounts_it_uses() {
        let of_cluster = |name: &str| {
            let account =
                json!({"metadata": {"name": name}, "spec": {"apiKeySecretRef": {"name": "key"}}});
            decode(ObjectKind::ClusterProviderAccount, account).unwrap()
        };
        let key = json!({
            "metadata": {"name": "key", "namespace": "a"},
            "spec": {"publicKey": "", "accountRef": {"kind": "ClusterProviderAccount", "name": "shared"}},
        });
        let key = decode(ObjectKind::SshKey, key).unwrap();
        let kept = without_unused_accounts(vec![key, of_cluster("shared"), of_cluster("other")]);
        let names: Vec<_> = kept.iter().map(Object::name).collect();
        assert_eq!(names, ["key", "shared"]);
    }
}
