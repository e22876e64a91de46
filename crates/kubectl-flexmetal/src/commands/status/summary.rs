//! Objects in four parts: those that need the user, those that change, those that are ready, and the accounts.

use crate::{
    advice::advise,
    objects::{Object, ObjectKind, arguments},
};
use api::{
    Reason,
    account::ServerCounts,
    account_use::CallBudget,
    acknowledgement::PendingAcknowledgement,
    conditions::{Type, found_true, is_true},
    limits::Limits,
    references::{AccountKind, PinnedAccount},
    release_limit::ReleaseLimit,
};
use flexmetal_core::explanation::AS_READY;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `status` shows.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// What needs the user, by kind, namespace and name.
    pub needs_you: Vec<Problem>,
    /// What the operator still works on.
    pub changing: Vec<Change>,
    /// What is as declared.
    pub ready: Vec<ReadyGroup>,
    /// The accounts, whatever their state.
    pub accounts: Vec<AccountSummary>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace. None: it is of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Why an object needs the user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectName,
    /// The reason of the condition, or the effect of the acknowledgement.
    pub reason: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The operator's words.
    pub message: String,
    /// What to do.
    pub next_step: String,
    /// What waits for an acknowledgement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,
}

/// An object that becomes ready, or goes, without the user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectName,
    /// The reason of the condition; empty before the first one.
    pub reason: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The operator's words.
    pub message: String,
}

/// Ready objects with this in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// How many of them have nothing left to send.
    pub synced: usize,
}

/// An account, as its status has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountSummary {
    /// The account.
    #[serde(flatten)]
    pub object: ObjectName,
    /// Whether it works.
    pub ready: bool,
    /// Why, or why not.
    pub reason: String,
    /// Counts of its servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerCounts>,
    /// How many calls it may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallBudget>,
    /// What bounds its orders.
    pub limits: Limits,
    /// What bounds its releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_limit: Option<ReleaseLimit>,
    /// Namespaces whose releases wait for an acknowledgement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_namespaces: Vec<String>,
}

impl ObjectName {
    /// The name of an object.
    pub fn from_object(object: &Object) -> Self {
        Self {
            kind: object.kind(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
        }
    }

    /// The account of an object in this namespace.
    fn from_account(account: PinnedAccount, namespace: Option<&str>) -> Self {
        let (kind, namespace) = match account.kind {
            AccountKind::ProviderAccount => (ObjectKind::ProviderAccount, namespace),
            AccountKind::ClusterProviderAccount => (ObjectKind::ClusterProviderAccount, None),
        };
        Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: account.name,
        }
    }

    /// Such as `team-a/web`.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.path())
    }

    /// As `kubectl get -o name` prints it.
    pub fn resource_name(&self) -> String {
        self.kind.resource_name(&self.name)
    }

    /// The arguments by which a command of this plugin finds it.
    pub fn arguments(&self) -> String {
        arguments(self.kind, self.namespace.as_deref(), &self.name)
    }
}

/// The summary of these objects.
pub fn summarize<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Summary {
    let mut summary = Summary::default();
    let mut groups = BTreeMap::new();
    for object in objects {
        let problems = find_problems(object);
        summary.accounts.extend(summarize_account(object));
        let needs_user = !problems.is_empty();
        summary.needs_you.extend(problems);
        if needs_user {
            continue;
        }
        if !is_true(object.conditions(), Type::Ready) || object.deleted_at().is_some() {
            summary.changing.push(describe_change(object));
        } else if let Some(account) = object.account() {
            let account = ObjectName::from_account(account, object.namespace());
            let (location, instance_type) = find_placement(object);
            let key = (object.kind(), account, location, instance_type);
            let (count, synced) = groups.entry(key).or_insert((0, 0));
            *count += 1;
            *synced += usize::from(is_true(object.conditions(), Type::Synced));
        }
    }
    summary.needs_you.sort_by(|a, b| a.object.cmp(&b.object));
    summary.changing.sort_by(|a, b| a.object.cmp(&b.object));
    summary.accounts.sort_by(|a, b| a.object.cmp(&b.object));
    let groups = groups.into_iter();
    summary.ready = groups
        .map(
            |((kind, account, location, instance_type), (count, synced))| ReadyGroup {
                kind,
                account,
                location,
                instance_type,
                count,
                synced,
            },
        )
        .collect();
    summary
}

/// Why an object needs the user; nothing if it does not.
pub fn find_problems(object: &Object) -> Vec<Problem> {
    let conditions = object.conditions();
    let (pending, _) = object.acknowledgements();
    let mut problems = Vec::new();
    if let Some(condition) = find_bad_condition(object) {
        problems.push(Problem {
            pending_acknowledgements: pending.to_vec(),
            ..problem_of_condition(object, condition, pending)
        });
    } else {
        problems.extend(pending.iter().map(|entry| Problem {
            object: ObjectName::from_object(object),
            reason: format!("{:?}", entry.effect),
            since: Some(entry.since.0),
            message: entry.subject.clone(),
            next_step: acknowledge(object, std::slice::from_ref(entry)),
            pending_acknowledgements: vec![entry.clone()],
        }));
    }
    let orphans = found_true(conditions, Type::OrphansFound);
    let candidate = find(conditions, Type::CandidateAccepted)
        .filter(|it| it.status == "False" && needs_user(object, it));
    for condition in orphans.into_iter().chain(candidate) {
        problems.push(problem_of_condition(object, condition, &[]));
    }
    problems
}

/// The condition by which an object needs the user.
fn find_bad_condition(object: &Object) -> Option<&Condition> {
    let conditions = object.conditions();
    let stalled = found_true(conditions, Type::Stalled);
    let blocked = found_true(conditions, Type::DeletionBlocked);
    let not_ready = find(conditions, Type::Ready)
        .filter(|ready| ready.status == "False" && needs_user(object, ready));
    stalled.or(blocked).or(not_ready)
}

fn needs_user(object: &Object, condition: &Condition) -> bool {
    let reason = Reason::parse(&condition.reason);
    reason.is_some_and(|reason| advise(reason, object.kind()).needs_user)
}

fn problem_of_condition(
    object: &Object,
    condition: &Condition,
    pending: &[PendingAcknowledgement],
) -> Problem {
    let advice = Reason::parse(&condition.reason).map(|reason| advise(reason, object.kind()));
    let step = advice.map_or("Do what the message says", |advice| advice.next_step);
    Problem {
        object: ObjectName::from_object(object),
        reason: condition.reason.clone(),
        since: Some(condition.last_transition_time.0),
        message: message_of(object.conditions(), condition),
        next_step: match pending {
            [] => step.to_owned(),
            pending => format!("{step}: {}", acknowledge(object, pending)),
        },
        pending_acknowledgements: Vec::new(),
    }
}

/// The command that acknowledges these.
fn acknowledge(object: &Object, pending: &[PendingAcknowledgement]) -> String {
    let effects: Vec<_> = pending
        .iter()
        .map(|it| format!("{:?}", it.effect))
        .collect();
    format!(
        "kubectl flexmetal acknowledge {} ({})",
        ObjectName::from_object(object).arguments(),
        effects.join(", ")
    )
}

/// The condition of a type.
pub fn find(conditions: &[Condition], kind: Type) -> Option<&Condition> {
    conditions.iter().find(|it| it.type_ == kind.as_str())
}

/// The text of a condition, which may be in Ready.
pub fn message_of(conditions: &[Condition], condition: &Condition) -> String {
    let is_elsewhere = condition.message.is_empty() || condition.message == AS_READY;
    let ready = find(conditions, Type::Ready).filter(|_| is_elsewhere);
    ready.unwrap_or(condition).message.clone()
}

/// What the operator does with an object that does not need the user.
pub fn describe_change(object: &Object) -> Change {
    let conditions = object.conditions();
    let condition =
        found_true(conditions, Type::Reconciling).or_else(|| find(conditions, Type::Ready));
    let name = ObjectName::from_object(object);
    match condition {
        Some(condition) => Change {
            object: name,
            reason: condition.reason.clone(),
            since: object
                .deleted_at()
                .or(Some(condition.last_transition_time.0)),
            message: message_of(conditions, condition),
        },
        None => Change {
            object: name,
            reason: String::new(),
            since: object.created_at(),
            message:
                "No operator has reported on it yet; if that stays, run kubectl flexmetal doctor"
                    .to_owned(),
        },
    }
}

/// Location and instance type of a server or host.
fn find_placement(object: &Object) -> (Option<String>, Option<String>) {
    match object {
        Object::BareMetalServer(it) => {
            let status = it.status.as_ref();
            let location = status.and_then(|status| status.location.clone());
            let instance_type = status.and_then(|status| status.instance_type.clone());
            (
                location.or_else(|| it.spec.location.clone()),
                instance_type.or_else(|| it.spec.instance_type.clone()),
            )
        }
        Object::DedicatedHost(it) => {
            let status = it.status.as_ref();
            (None, status.and_then(|status| status.instance_type.clone()))
        }
        _ => (None, None),
    }
}

/// An account as its status has it. None: it is no account.
fn summarize_account(object: &Object) -> Option<AccountSummary> {
    let spec = object.account_spec()?;
    let status = object.account_status();
    let ready = find(object.conditions(), Type::Ready);
    let counted = status.and_then(|status| status.release_limit.as_ref());
    let blocked = spec.release_limit.zip(counted);
    let blocked = blocked.map(|(limit, counted)| {
        let namespaces = limit.blocked(counted);
        namespaces.map(|it| it.namespace.clone()).collect()
    });
    Some(AccountSummary {
        object: ObjectName::from_object(object),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        reason: ready.map_or_else(String::new, |ready| ready.reason.clone()),
        servers: status.and_then(|status| status.servers.clone()),
        calls: status.and_then(|status| status.calls.clone()),
        limits: spec.limits.clone(),
        release_limit: spec.release_limit,
        blocked_namespaces: blocked.unwrap_or_default(),
    })
}

/// The objects without the cluster-wide accounts that no other object uses.
pub fn without_unused_accounts(objects: Vec<Object>) -> Vec<Object> {
    let used: Vec<String> = used_cluster_accounts(&objects).collect();
    let is_used = |object: &Object| {
        !object.kind().is_of_cluster() || used.iter().any(|name| name == object.name())
    };
    objects.into_iter().filter(|it| is_used(it)).collect()
}

/// The names of the cluster-wide accounts that objects use.
pub fn used_cluster_accounts(objects: &[Object]) -> impl Iterator<Item = String> {
    let accounts = objects.iter().filter_map(Object::account);
    let of_cluster = accounts.filter(|it| it.kind == AccountKind::ClusterProviderAccount);
    of_cluster.map(|it| it.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{BareMetalServer, ClusterProviderAccount, ProviderAccount, SshKey};
    use serde_json::{Value, json};

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        })
    }

    fn server(name: &str, status: Value) -> Object {
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": name, "namespace": "a", "creationTimestamp": "2026-11-01T09:00:00Z"},
            "spec": {"location": "L", "instanceType": "t"},
            "status": status,
        }))
        .unwrap();
        server.into()
    }

    fn with_conditions(name: &str, conditions: &[Value]) -> Object {
        server(name, json!({"conditions": conditions}))
    }

    fn ready(name: &str) -> Object {
        with_conditions(
            name,
            &[
                condition("Ready", "True", "Delivered", ""),
                condition("Synced", "True", "InSync", ""),
            ],
        )
    }

    fn account(status: Value) -> Object {
        let account: ProviderAccount = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
            "metadata": {"name": "default", "namespace": "a"},
            "spec": {"apiKeySecretRef": {"name": "key"}, "releaseLimit": {"maxReleases": 1, "window": "1h"}},
            "status": status,
        }))
        .unwrap();
        account.into()
    }

    fn reasons(object: &Object) -> Vec<String> {
        let problems = find_problems(object).into_iter();
        problems.map(|problem| problem.reason).collect()
    }

    #[test]
    fn stalled_object_shows_the_text_of_ready() {
        let object = with_conditions(
            "web",
            &[
                condition("Ready", "False", "ServerExists", "Servers exist"),
                condition("Stalled", "True", "ServerExists", AS_READY),
            ],
        );
        let problems = find_problems(&object);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].message, "Servers exist");
        assert_eq!(
            problems[0].next_step,
            advise(Reason::ServerExists, ObjectKind::BareMetalServer).next_step
        );
    }

    #[test]
    fn token_is_named_with_the_command_that_gives_it() {
        let pending = json!([{
            "token": "123456789012", "effect": "AssumeAbsent", "subject": "order 7", "since": "2026-11-01T10:00:00Z",
        }]);
        let mut status = json!({"conditions": [
            condition("Ready", "False", "OutcomeUnknown", "Lost"),
            condition("Reconciling", "True", "OutcomeUnknown", "Lost"),
        ], "pendingAcknowledgements": pending});
        let problems = find_problems(&server("web", status.clone()));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].reason, "AssumeAbsent");
        assert_eq!(
            problems[0].next_step,
            "kubectl flexmetal acknowledge web -n a (AssumeAbsent)"
        );
        status["conditions"][1] = condition("Stalled", "True", "OutcomeUnknown", AS_READY);
        let problems = find_problems(&server("web", status));
        assert_eq!(problems.len(), 1, "the token belongs to what is stalled");
        assert_eq!(problems[0].reason, "OutcomeUnknown");
        assert_eq!(problems[0].pending_acknowledgements.len(), 1);
        assert!(problems[0].next_step.contains("acknowledge web -n a"));
    }

    #[test]
    fn what_the_operator_resolves_is_a_change() {
        let waits = with_conditions(
            "web",
            &[
                condition("Ready", "False", "NoStock", "No stock"),
                condition("Reconciling", "True", "NoStock", "No stock"),
            ],
        );
        let new = server("new", json!({"observedGeneration": -1}));
        let summary = summarize([&waits, &new, &ready("good")]);
        assert!(summary.needs_you.is_empty());
        let changing: Vec<_> = summary
            .changing
            .iter()
            .map(|it| it.reason.as_str())
            .collect();
        assert_eq!(changing, ["", "NoStock"]);
        assert_eq!(summary.ready.len(), 1);
    }

    #[test]
    fn not_ready_and_blocked_deletion_need_the_user() {
        let invalid = with_conditions("web", &[condition("Ready", "False", "InvalidSpec", "Bad")]);
        assert_eq!(reasons(&invalid), ["InvalidSpec"]);
        let blocked = with_conditions(
            "web",
            &[
                condition("Ready", "False", "Protected", "Protected"),
                condition("Reconciling", "True", "Protected", AS_READY),
                condition("DeletionBlocked", "True", "Protected", "Protected"),
            ],
        );
        assert_eq!(reasons(&blocked), ["Protected"]);
        assert!(reasons(&ready("web")).is_empty());
    }

    #[test]
    fn orphans_of_a_ready_account_need_the_user() {
        let object = account(json!({"conditions": [
            condition("Ready", "True", "Available", ""),
            condition("OrphansFound", "True", "OrphansFound", "2 orphans"),
        ], "servers": {"live": 3, "ofLimit": "3/20", "retained": 0, "orphans": 2}}));
        let summary = summarize([&object]);
        assert_eq!(summary.needs_you.len(), 1);
        assert_eq!(summary.needs_you[0].message, "2 orphans");
        assert!(summary.accounts[0].ready);
        assert_eq!(summary.accounts[0].servers.as_ref().unwrap().orphans, 2);
    }

    #[test]
    fn account_shows_namespaces_whose_releases_wait() {
        let object = account(json!({"releaseLimit": {"namespaces": [
            {"namespace": "a", "releases": [{"uuid": "u", "startedAt": "2026-11-01T10:00:00Z"}],
             "blockedSince": "2026-11-01T10:01:00Z"},
            {"namespace": "b", "releases": []},
        ]}}));
        assert_eq!(summarize([&object]).accounts[0].blocked_namespaces, ["a"]);
    }

    #[test]
    fn ready_objects_are_counted_by_placement() {
        let late = with_conditions(
            "c",
            &[
                condition("Ready", "True", "Delivered", ""),
                condition("Synced", "False", "PendingChanges", "Edited"),
            ],
        );
        let other = server(
            "d",
            json!({"location": "M", "conditions": [condition("Ready", "True", "Delivered", "")]}),
        );
        let summary = summarize([&ready("a"), &ready("b"), &late, &other]);
        let groups: Vec<_> = summary
            .ready
            .iter()
            .map(|it| (it.location.as_deref().unwrap(), it.count, it.synced))
            .collect();
        assert_eq!(groups, [("L", 3, 2), ("M", 1, 0)]);
        assert_eq!(
            summary.ready[0].account.title(),
            "ProviderAccount a/default"
        );
    }

    #[test]
    fn namespace_shows_only_the_cluster_accounts_it_uses() {
        let of_cluster = |name: &str| -> Object {
            let account: ClusterProviderAccount = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
                "metadata": {"name": name}, "spec": {"apiKeySecretRef": {"name": "key"}},
            }))
            .unwrap();
            account.into()
        };
        let key: SshKey = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
            "metadata": {"name": "key", "namespace": "a"},
            "spec": {"publicKey": "", "accountRef": {"kind": "ClusterProviderAccount", "name": "shared"}},
        }))
        .unwrap();
        let all = vec![key.into(), of_cluster("shared"), of_cluster("other")];
        let kept = without_unused_accounts(all);
        let names: Vec<_> = kept.iter().map(Object::name).collect();
        assert_eq!(names, ["key", "shared"]);
    }
}
