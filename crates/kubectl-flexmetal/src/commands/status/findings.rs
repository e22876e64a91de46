//! What an object needs or waits for, from its conditions.

use crate::{
    ages::{self, age},
    context::cluster_flags,
    objects::{Object, ObjectKind, ObjectName},
    output::{Tone, wrap},
};
use api::{
    Reason,
    acknowledgement::PendingAcknowledgement,
    conditions::{Type, find_condition as find, found_true, is_true},
};
use flexmetal_core::explanation::AS_READY;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// Why an object needs the user, or is not as declared yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectName,
    /// Whether the operator does not go on without the user.
    pub needs_you: bool,
    /// The reason of the condition, or the effect of the acknowledgement; empty before the first condition.
    pub reason: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The operator's words, with the remedy.
    pub message: String,
    /// The command of this plugin that helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// What waits for an acknowledgement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,
}

impl Finding {
    fn new(object: &Object, condition: &Condition, needs_you: bool) -> Self {
        let name = object.full_name();
        Self {
            needs_you,
            reason: condition.reason.clone(),
            since: Some(condition.last_transition_time.0),
            message: message_of(object.conditions(), condition),
            next_step: find_command(&condition.reason, object),
            pending_acknowledgements: Vec::new(),
            object: name,
        }
    }

    /// Its heading, such as `NoStock for 5m`.
    pub fn title(&self) -> String {
        let tone = match self.needs_you {
            true => Tone::Bad,
            false => Tone::Busy,
        };
        let since = self.since;
        let elapsed = since.map_or_else(String::new, |since| age(since, ages::now()));
        let title = format!("{} for {elapsed}", tone.paint(&self.reason));
        title.trim_start().to_owned()
    }

    /// The message in lines, and the next step in one, so that it can be copied.
    pub fn body(&self) -> String {
        let step = self.next_step.as_ref();
        let step = step.map_or_else(String::new, |step| format!("  Next: {step}\n"));
        wrap(&self.message, "  ") + &step
    }

    /// Such as `NoStock: No bm9 in stock`.
    pub fn text(&self) -> String {
        match self.reason.as_str() {
            "" => self.message.clone(),
            reason => format!("{reason}: {}", self.message),
        }
    }
}

/// What an object needs or waits for. None: it is as declared.
pub fn find_state(object: &Object) -> Option<Finding> {
    let problem = find_problems(object).into_iter().next();
    problem.or_else(|| find_change(object))
}

/// Why an object needs the user; nothing if it does not.
pub fn find_problems(object: &Object) -> Vec<Finding> {
    let conditions = object.conditions();
    let (pending, _) = object.acknowledgements();
    let mut problems: Vec<Finding> = find_blocking(object).into_iter().collect();
    if let (Some(first), false) = (problems.first_mut(), pending.is_empty()) {
        first.next_step = Some(acknowledge(&first.object));
        first.pending_acknowledgements = pending.to_vec();
    } else {
        problems.extend(pending.iter().map(|entry| Finding {
            object: object.full_name(),
            needs_you: true,
            reason: format!("{:?}", entry.effect),
            since: Some(entry.since.0),
            message: entry.subject.clone(),
            next_step: Some(acknowledge(&object.full_name())),
            pending_acknowledgements: vec![entry.clone()],
        }));
    }
    let candidate = find(conditions, Type::CandidateAccepted).filter(|it| it.status == "False");
    let others = found_true(conditions, Type::OrphansFound)
        .into_iter()
        .chain(candidate);
    problems.extend(others.map(|condition| Finding::new(object, condition, true)));
    problems
}

/// The condition that keeps the object from becoming ready, or from going, without the user.
fn find_blocking(object: &Object) -> Option<Finding> {
    let conditions = object.conditions();
    // A delay is what the user asked for.
    let blocked = found_true(conditions, Type::DeletionBlocked)
        .filter(|it| it.reason != Reason::ReleaseDelayed.as_str());
    let is_left = !is_true(conditions, Type::Reconciling);
    let not_ready = find(conditions, Type::Ready).filter(|it| it.status == "False" && is_left);
    let condition = found_true(conditions, Type::Stalled)
        .or(blocked)
        .or(not_ready)
        .or_else(|| find_unapplied_edit(object))?;
    Some(Finding::new(object, condition, true))
}

/// An edit that the operator does not apply, whether the object is Ready or not. While it is suspended, it still may.
fn find_unapplied_edit(object: &Object) -> Option<&Condition> {
    let conditions = object.conditions();
    let goes_on = [Type::Reconciling, Type::Suspended]
        .into_iter()
        .any(|kind| is_true(conditions, kind));
    let synced = find(conditions, Type::Synced).filter(|it| it.status == "False")?;
    let reasons = [
        Reason::InvalidSpec,
        Reason::PendingChanges,
        Reason::Protected,
    ];
    let is_edit = reasons.iter().any(|it| synced.reason == it.as_str());
    (is_edit && !goes_on && object.deleted_at().is_none()).then_some(synced)
}

/// What the operator works on, if the object does not need the user.
fn find_change(object: &Object) -> Option<Finding> {
    let conditions = object.conditions();
    let ready = find(conditions, Type::Ready);
    let unsynced = find(conditions, Type::Synced).filter(|it| it.status == "False");
    let is_ready = is_true(conditions, Type::Ready) && object.deleted_at().is_none();
    let condition = found_true(conditions, Type::Reconciling)
        .or(unsynced)
        .or(ready);
    match condition {
        Some(_) if is_ready && unsynced.is_none() => None,
        Some(condition) => Some(Finding {
            since: object
                .deleted_at()
                .or(Some(condition.last_transition_time.0)),
            ..Finding::new(object, condition, false)
        }),
        None => Some(Finding {
            object: object.full_name(),
            needs_you: false,
            reason: String::new(),
            since: object.created_at(),
            message:
                "No operator has reported on it yet; if that stays, run kubectl flexmetal doctor"
                    .to_owned(),
            next_step: None,
            pending_acknowledgements: Vec::new(),
        }),
    }
}

/// The command of this plugin that helps. For other reasons the message has the remedy.
fn find_command(reason: &str, object: &Object) -> Option<String> {
    let arguments = || object.full_name().arguments();
    let command = match (Reason::parse(reason)?, object.kind()) {
        (Reason::OrphansFound, _) => format!("orphans {}", account_arguments(object)),
        (
            Reason::KeyRejected | Reason::InvalidKey | Reason::InvalidEndpoint,
            ObjectKind::ProviderAccount | ObjectKind::ClusterProviderAccount,
        ) => format!("account check {}", account_arguments(object)),
        // Neither a location nor a type of the spec is quoted here: whoever wrote it is not whoever copies the command.
        (Reason::NoStock, ObjectKind::BareMetalServer) => {
            format!("catalog --available {}", account_arguments(object))
        }
        (Reason::Protected | Reason::ReleaseDelayed, ObjectKind::BareMetalServer)
            if object.deleted_at().is_some() =>
        {
            format!("rescue {}", arguments())
        }
        (Reason::ReinstallFailed | Reason::PasswordMissed, ObjectKind::BareMetalServer) => {
            format!("reinstall {}", arguments())
        }
        _ => return None,
    };
    Some(format!("kubectl flexmetal {command}{}", cluster_flags()))
}

/// The flags that name the account of the object, or the object itself if it is an account.
fn account_arguments(object: &Object) -> String {
    let account = match object.account() {
        Some(account) => ObjectName::from_account(account, object.namespace()),
        None => object.full_name(),
    };
    let name = &account.name;
    match &account.namespace {
        None => format!("--cluster-account {name}"),
        Some(namespace) => format!("-n {namespace} --account {name}"),
    }
}

/// The command that acknowledges what an object waits for.
fn acknowledge(object: &ObjectName) -> String {
    let arguments = object.arguments();
    format!(
        "kubectl flexmetal acknowledge {arguments}{}",
        cluster_flags()
    )
}

/// The text of a condition, which may be in Ready.
pub fn message_of(conditions: &[Condition], condition: &Condition) -> String {
    let is_elsewhere = condition.message.is_empty() || condition.message == AS_READY;
    let ready = find(conditions, Type::Ready).filter(|_| is_elsewhere);
    ready.unwrap_or(condition).message.clone()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::objects::decode;
    use serde_json::{Value, json};

    /// Words of a condition: type, status, reason, message.
    pub type ConditionWords<'a> = [&'a str; 4];

    /// An object `a/NAME` with these conditions, about generation 2.
    pub fn object(
        kind: ObjectKind,
        name: &str,
        mut status: Value,
        conditions: &[ConditionWords],
    ) -> Object {
        let conditions = conditions.iter().map(|[kind, status, reason, message]| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "observedGeneration": 2, "lastTransitionTime": "2026-11-01T10:00:00Z",
            })
        });
        status["conditions"] = conditions.collect();
        let spec = match kind {
            ObjectKind::ProviderAccount | ObjectKind::ClusterProviderAccount => {
                json!({"apiKeySecretRef": {"name": "key"}, "releaseLimit": {"maxReleases": 1, "window": "1h"}})
            }
            _ => json!({"location": "L", "instanceType": "t"}),
        };
        let object = json!({
            "metadata": {"name": name, "namespace": "a", "uid": "1", "generation": 2,
                "creationTimestamp": "2026-11-01T09:00:00Z"},
            "spec": spec, "status": status,
        });
        decode(kind, object).unwrap()
    }

    /// A server with these conditions.
    pub fn server(name: &str, conditions: &[ConditionWords]) -> Object {
        object(ObjectKind::BareMetalServer, name, json!({}), conditions)
    }

    fn reasons(object: &Object) -> Vec<String> {
        let problems = find_problems(object).into_iter();
        problems.map(|problem| problem.reason).collect()
    }

    #[test]
    fn stalled_object_shows_the_text_of_ready() {
        let object = server(
            "web",
            &[
                ["Ready", "False", "ServerExists", "Servers exist"],
                ["Stalled", "True", "ServerExists", AS_READY],
            ],
        );
        assert_eq!(
            find_state(&object).unwrap().text(),
            "ServerExists: Servers exist"
        );
        assert_eq!(reasons(&object).len(), 1);
    }

    #[test]
    fn token_is_shown_with_its_command() {
        let status = json!({"pendingAcknowledgements": [{
            "token": "123456789012", "effect": "AssumeAbsent", "subject": "order 7", "since": "2026-11-01T10:00:00Z",
        }]});
        let find = |kind| {
            let ready = ["Ready", "False", "OutcomeUnknown", "Lost"];
            let conditions = [ready, [kind, "True", "OutcomeUnknown", AS_READY]];
            let object = object(
                ObjectKind::BareMetalServer,
                "web",
                status.clone(),
                &conditions,
            );
            let problems = find_problems(&object);
            assert_eq!(problems.len(), 1);
            let step = problems[0].next_step.clone().unwrap();
            assert_eq!(step, "kubectl flexmetal acknowledge web -n a");
            problems[0].reason.clone()
        };
        assert_eq!(find("Reconciling"), "AssumeAbsent");
        assert_eq!(find("Stalled"), "OutcomeUnknown", "the token belongs to it");
    }

    #[test]
    fn only_what_the_operator_cannot_resolve_needs_you() {
        let waits = |blocked, reason| {
            server(
                "web",
                &[
                    ["Ready", "False", reason, "words"],
                    ["Reconciling", "True", reason, AS_READY],
                    ["DeletionBlocked", blocked, reason, "words"],
                ],
            )
        };
        assert!(reasons(&waits("False", "NoStock")).is_empty());
        assert_eq!(
            find_state(&waits("False", "NoStock")).unwrap().reason,
            "NoStock"
        );
        assert!(reasons(&waits("True", "ReleaseDelayed")).is_empty());
        assert_eq!(reasons(&waits("True", "Protected")), ["Protected"]);
        let given_up = server("web", &[["Ready", "False", "InvalidSpec", "Bad"]]);
        assert_eq!(reasons(&given_up), ["InvalidSpec"]);
        assert_eq!(find_state(&server("new", &[])).unwrap().reason, "");
    }

    #[test]
    fn ready_object_with_an_unusable_edit_needs_you() {
        let find = |synced: [&str; 2], more: &[ConditionWords]| {
            let synced = ["Synced", synced[0], synced[1], "Edited"];
            let mut conditions = vec![["Ready", "True", "Delivered", ""], synced];
            conditions.extend(more);
            find_state(&server("web", &conditions)).map(|state| (state.needs_you, state.text()))
        };
        let edited = ["False", "PendingChanges"];
        let text = || "PendingChanges: Edited".to_owned();
        assert_eq!(find(["True", "InSync"], &[]), None);
        assert_eq!(find(edited, &[]), Some((true, text())));
        let suspended = ["Suspended", "True", "Suspended", "By a user"];
        assert_eq!(find(edited, &[suspended]), Some((false, text())));
        let needs_you = |reason| find(["False", reason], &[]).unwrap().0;
        assert!(needs_you("InvalidSpec") && needs_you("Protected"));
        let protected = server("web", &[["Synced", "False", "Protected", "Protected"]]);
        let step = find_state(&protected).and_then(|state| state.next_step);
        assert_eq!(step, None, "nothing is deleted that could be rescued");
        assert!(!needs_you("ReadOnly"));
    }

    #[test]
    fn next_step_names_the_account_of_the_object() {
        let step = |reason, status| {
            let words = ["Ready", "False", reason, "words"];
            let object = object(ObjectKind::BareMetalServer, "web", status, &[words]);
            find_state(&object).unwrap().next_step.unwrap()
        };
        let shared = json!({"accountRef": {"kind": "ClusterProviderAccount", "name": "shared"}});
        assert_eq!(
            step("NoStock", json!({})),
            "kubectl flexmetal catalog --available -n a --account default"
        );
        assert_eq!(
            step("NoStock", shared),
            "kubectl flexmetal catalog --available --cluster-account shared"
        );
        let refused = ["Ready", "False", "KeyRejected", "words"];
        let account = object(ObjectKind::ProviderAccount, "main", json!({}), &[refused]);
        assert_eq!(
            find_state(&account).unwrap().next_step.unwrap(),
            "kubectl flexmetal account check -n a --account main"
        );
    }
}
