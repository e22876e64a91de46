//! Tests: what users read in a decision, whatever the kind.

mod reconcile_request;

use super::*;
use crate::{
    account::{
        terms::Terms,
        view::{AccountState, AccountView},
    },
    cluster_id::ClusterId,
    explanation::Explanation,
    last_error::REPORTED_AFTER_FAILURES,
    moment::Moment,
    report::{Severity, condition_events},
    resolved_account::ResolvedAccount,
};
use api::{
    Reason, ServerTag,
    conditions::{self, Type},
    tag::ServerTagStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use std::sync::Arc;

const NOW: Duration = Duration::from_secs(1_000);

type Tag = Subject<ServerTag, ()>;
type Decided = Decision<ServerTagStatus, &'static str>;

fn subject() -> Tag {
    let object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "generation": 7}, "spec": {},
    });
    Subject {
        read_only: false,
        now: Moment {
            wall: 1_000_000,
            mono: NOW,
        },
        leader_since: Duration::from_secs(5),
        first_seen: NOW - Duration::from_secs(3),
        cluster: ClusterId::parse("0123456789abcdef").unwrap(),
        kind_deleting: Some(false),
        account: ResolvedAccount::Missing("ProviderAccount default".into()),
        memory: Memory::default(),
        object: Arc::new(serde_json::from_value(object).unwrap()),
    }
}

fn shown(decision: &Decided, subject: &Tag) -> ServerTagStatus {
    decision.status(subject, Timestamp::UNIX_EPOCH).0
}

/// The reason of a condition that is True.
fn reason(status: &ServerTagStatus, kind: Type) -> Option<String> {
    let found = status.conditions.iter().find(|c| c.type_ == kind.as_str());
    found
        .filter(|c| c.status == "True")
        .map(|c| c.reason.clone())
}

fn failed(times: u32) -> Tag {
    let mut subject = subject();
    for _ in 0..times {
        let error = LastError::check_failed("it does not fit");
        subject.memory.record_effect(Ended::Failed(error), NOW);
    }
    subject
}

#[test]
fn no_explanation_writes_no_status() {
    let decision = Decided::unchanged(&subject()).with("send");
    assert_eq!(shown(&decision, &subject()), ServerTagStatus::default());
}

#[test]
fn new_object_reports_queued_after_delay() {
    let quiet = Decided::unchanged(&subject());
    let (status, rest) = quiet.status(&subject(), Timestamp::UNIX_EPOCH);
    assert_eq!(status, ServerTagStatus::default());
    assert_eq!(rest, Some(Duration::from_secs(1)));
    let mut late = subject();
    late.first_seen = NOW - Duration::from_secs(4);
    let queued = shown(&quiet, &late);
    assert_eq!(reason(&queued, Type::Reconciling).unwrap(), "Queued");
    Arc::make_mut(&mut late.object).status = Some(queued.clone());
    assert_eq!(shown(&Decided::unchanged(&late), &late), queued, "once");
    assert!(!late.had_finalizer(), "nothing of ours was on it");
    // A deleted object reports what its deletion waits for, or nothing.
    let object = Arc::make_mut(&mut late.object);
    object.status = None;
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(shown(&quiet, &late), ServerTagStatus::default());
}

#[test]
fn explanation_sets_all_conditions() {
    let ready =
        Decided::unchanged(&subject()).because(Explanation::ready(Reason::Available, "there"));
    let status = shown(&ready, &subject());
    assert_eq!(status.observed_generation, Some(7));
    assert_eq!(reason(&status, Type::Ready).unwrap(), "Available");
    assert_eq!(reason(&status, Type::Synced).unwrap(), "InSync");
    assert!(!conditions::is_true(&status.conditions, Type::Stalled));
    let stuck = Explanation::stalled(Reason::NameTaken, "taken");
    let status = shown(&Decided::unchanged(&subject()).because(stuck), &subject());
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "NameTaken");
    assert!(!conditions::is_true(&status.conditions, Type::Synced));
}

#[test]
fn repeated_failure_is_shown_unless_stalled() {
    let quiet = Decided::unchanged(&subject()).with("send");
    let few = shown(&quiet, &failed(REPORTED_AFTER_FAILURES - 1));
    assert_eq!(few, ServerTagStatus::default());
    let status = shown(&quiet, &failed(REPORTED_AFTER_FAILURES));
    assert_eq!(reason(&status, Type::Reconciling).unwrap(), "ChecksFailed");
    let asked = quiet.because(Explanation::stalled(Reason::NameTaken, "taken"));
    let status = shown(&asked, &failed(REPORTED_AFTER_FAILURES));
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "NameTaken");
    // Nothing is tried any more, so nothing fails.
    let over =
        Decided::unchanged(&subject()).because(Explanation::ready(Reason::Available, "there"));
    let status = shown(&over, &failed(REPORTED_AFTER_FAILURES));
    assert_eq!(reason(&status, Type::Ready).unwrap(), "Available");
}

#[test]
fn missing_reference_waits_two_minutes() {
    let missing = Explanation::missing(Reason::AccountNotFound, "create it");
    let decision = Decided::unchanged(&subject()).because(missing);
    let awaited = decision.grace_reason(&subject());
    assert_eq!(awaited, Some(Reason::AccountNotFound));
    let (status, rest) = decision.status(&subject(), Timestamp::UNIX_EPOCH);
    assert_eq!(
        reason(&status, Type::Reconciling).unwrap(),
        "AccountNotFound"
    );
    assert_eq!(rest, Some(Duration::from_secs(120)));
    let mut waited = subject();
    let since = NOW - Duration::from_secs(120);
    waited
        .memory
        .grace
        .record_awaited(Some(Reason::AccountNotFound), since);
    let (status, rest) = decision.status(&waited, Timestamp::UNIX_EPOCH);
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "AccountNotFound");
    assert_eq!(rest, None);
}

/// An existing object with these conditions.
fn there(conditions: &ServerTagStatus, view: AccountView) -> Tag {
    let mut there = subject();
    let object = Arc::make_mut(&mut there.object);
    let tag = Some("web".to_owned());
    object.status = Some(ServerTagStatus {
        tag,
        ..conditions.clone()
    });
    there.account = ResolvedAccount::found(view, Terms::Own);
    there
}

fn blocked(reason: Reason) -> AccountView {
    AccountView {
        state: AccountState::Blocked(reason, "no; put a key".into()),
        ..AccountView::usable()
    }
}

fn synced(status: &ServerTagStatus) -> (String, String) {
    let mut all = status.conditions.iter();
    let synced = all.find(|c| c.type_ == "Synced").unwrap();
    (synced.status.clone(), synced.reason.clone())
}

#[test]
fn unreachable_account_keeps_object_ready() {
    let ready =
        Decided::unchanged(&subject()).because(Explanation::ready(Reason::Available, "there"));
    let before = shown(&ready, &subject());
    let refused = || Explanation::stalled(Reason::KeyRejected, "no; put a key");
    let waiting = Decided::unchanged(&subject()).because(refused());
    let mut away = there(&before, blocked(Reason::KeyRejected));
    let (status, rest) = waiting.status(&away, Timestamp::UNIX_EPOCH);
    assert_eq!(status.conditions, before.conditions, "at first");
    assert_eq!(rest, Some(Duration::from_secs(120)));
    let awaited = waiting.grace_reason(&away);
    assert_eq!(awaited, Some(Reason::AccountNotReady));
    away.memory
        .grace
        .record_awaited(awaited, NOW - Duration::from_secs(120));
    let status = shown(&waiting, &away);
    assert_eq!(reason(&status, Type::Ready).unwrap(), "Available");
    let lost = ("False".into(), "AccountNotReady".into());
    assert_eq!(synced(&status), lost);
    // A new process has not waited yet, and reports the same.
    let again = there(&status, blocked(Reason::ProviderUnreachable));
    assert_eq!(synced(&shown(&waiting, &again)), lost);
    // The account answers again.
    let back = there(&status, AccountView::usable());
    assert_eq!(synced(&shown(&ready, &back)).1, "InSync");
    // An object that does not exist at the provider waits for the account.
    let mut none = there(&before, blocked(Reason::KeyRejected));
    Arc::make_mut(&mut none.object).status = None;
    let status = shown(&waiting, &none);
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "KeyRejected");
}

#[test]
fn suspended_account_sets_own_condition() {
    let ready =
        Decided::unchanged(&subject()).because(Explanation::ready(Reason::Available, "there"));
    let before = shown(&ready, &subject());
    let mut stopped = there(&before, blocked(Reason::Suspended));
    let waiting = Decided::unchanged(&stopped).because(Explanation::suspended());
    let status = shown(&waiting, &stopped);
    assert_eq!(status.conditions[..4], before.conditions[..]);
    assert_eq!(reason(&status, Type::Suspended).unwrap(), "Suspended");
    let why = status.conditions.last().map(|c| c.message.as_str());
    assert_eq!(why, Some("no; put a key"), "what the account says");
    let watched = [
        (Type::DeletionBlocked, Severity::Warning, "Wait"),
        (Type::Suspended, Severity::Normal, "Suspend"),
    ];
    let events = |before: &ServerTagStatus, after: &ServerTagStatus| {
        let news = condition_events(&before.conditions, &after.conditions, &watched);
        let news: Vec<_> = news.iter().map(|n| (n.reason.as_str(), n.action)).collect();
        news
    };
    assert_eq!(events(&before, &status), [("Suspended", "Suspend")]);
    // A deletion waits for the suspension, and reports it.
    let object = Arc::make_mut(&mut stopped.object);
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let ending = shown(&waiting, &stopped);
    assert_eq!(reason(&ending, Type::DeletionBlocked).unwrap(), "Suspended");
    assert_eq!(reason(&ending, Type::Reconciling).unwrap(), "Suspended");
    // Until the account is read, the known conditions stay.
    let start = there(&status, blocked(Reason::Pending));
    let silent = Decided::unchanged(&subject());
    assert_eq!(shown(&silent, &start).conditions, status.conditions);
    let lifted = there(&status, AccountView::usable());
    let status = shown(&ready, &lifted);
    assert_eq!(reason(&status, Type::Suspended), None);
    assert_eq!(
        status.conditions.len(),
        5,
        "it says that it is not any more"
    );
}

/// The new spec is not compared, so neither Ready nor the generation may report it as done.
#[test]
fn edit_while_suspended_is_not_observed() {
    let ready =
        Decided::unchanged(&subject()).because(Explanation::ready(Reason::Available, "there"));
    let before = shown(&ready, &subject());
    let mut edited = there(&before, blocked(Reason::Suspended));
    Arc::make_mut(&mut edited.object).metadata.generation = Some(8);
    let waiting = Decided::unchanged(&edited).because(Explanation::suspended());
    let status = shown(&waiting, &edited);
    assert_eq!(status.observed_generation, Some(7));
    let shown_ready = &status.conditions[0];
    let as_before = &before.conditions[0];
    assert_eq!(
        shown_ready, as_before,
        "Ready is that of the former generation"
    );
    let suspended = status.conditions.last().unwrap();
    assert_eq!(suspended.type_, Type::Suspended.as_str());
    assert_eq!(
        suspended.observed_generation,
        Some(8),
        "that is of this one"
    );
    let unsent = ("False".into(), "PendingChanges".into());
    assert_eq!(synced(&status), unsent);
    Arc::make_mut(&mut edited.object).status = Some(status.clone());
    let waiting = Decided::unchanged(&edited).because(Explanation::suspended());
    assert_eq!(shown(&waiting, &edited), status, "once");
    // The spec is compared once suspend is lifted.
    let mut lifted = there(&status, AccountView::usable());
    Arc::make_mut(&mut lifted.object).metadata.generation = Some(8);
    let status = shown(&ready, &lifted);
    assert_eq!(status.observed_generation, Some(8));
    assert_eq!(synced(&status).1, "InSync");
    // The kind itself knows of pending changes, of any generation.
    let mut own = there(&before, AccountView::usable());
    let waits = Decided {
        suspended: Some("spec.suspend is true: nothing is sent".into()),
        ..Decided::unchanged(&own).because(Explanation::suspended())
    };
    assert_eq!(synced(&shown(&waits, &own)), unsent);
    // An object that was not as declared waits, and reports for what.
    Arc::make_mut(&mut own.object).status = None;
    let status = shown(&waits, &own);
    assert_eq!(reason(&status, Type::Reconciling).unwrap(), "Suspended");
}

#[test]
fn finalizer_is_restored_with_backoff() {
    let mut subject = subject();
    assert_eq!(subject.add_finalizer("hold").effect, Some("hold"));
    for times in 1..6 {
        subject.memory.finalizer_restores.record_restore(NOW);
        let decision = subject.add_finalizer("hold");
        assert_eq!(decision.effect, None, "{times}");
        let reported = decision.explanation.map(|explanation| explanation.reason);
        let conflict = (times == 5).then_some(Reason::MetadataConflict);
        assert_eq!(reported, conflict, "{times}");
    }
    subject.now.mono = NOW + Duration::from_secs(60);
    assert_eq!(subject.add_finalizer("hold").effect, Some("hold"));
}

#[test]
fn earlier_observations_do_not_count() {
    let mut subject = subject();
    subject.first_seen = Duration::from_secs(9);
    assert_eq!(subject.observations_count_from(), Duration::from_secs(9));
    subject.leader_since = Duration::from_secs(11);
    assert_eq!(subject.observations_count_from(), Duration::from_secs(11));
}

#[test]
fn new_leadership_forgets_old_memory() {
    let mut memory = subject().memory;
    memory.set_leader_since(Duration::from_secs(5));
    memory.record_failure(LastError::check_failed("it failed"), NOW);
    memory.finalizer_removed = true;
    memory.set_leader_since(Duration::from_secs(5));
    assert!(memory.finalizer_removed && memory.last_error.is_some());
    memory.set_leader_since(Duration::from_secs(6));
    assert!(!memory.finalizer_removed && memory.last_error.is_none());
    assert_eq!(memory.backoff.remaining(NOW), None);
}

#[test]
fn account_recovery_retries_at_once() {
    let failing = |reason| {
        let mut memory = subject().memory;
        memory.record_answers_since(Some(Duration::from_secs(3)));
        for _ in 0..9 {
            let message = "no".to_owned();
            memory.record_failure(LastError { reason, message }, NOW);
        }
        memory.record_answers_since(Some(Duration::from_secs(3)));
        assert!(memory.backoff.remaining(NOW).is_some(), "nothing is new");
        memory.record_answers_since(Some(NOW));
        (
            memory.backoff.remaining(NOW).is_some(),
            memory.last_error.is_some(),
        )
    };
    for reason in [
        Reason::ProviderUnreachable,
        Reason::RateLimited,
        Reason::KeyRejected,
    ] {
        assert_eq!(failing(reason), (false, false), "{reason:?}");
    }
    for reason in [Reason::RequestRefused, Reason::WriteFailed] {
        assert_eq!(failing(reason), (true, true), "{reason:?}");
    }
}

#[test]
fn object_reports_its_accounts_outage() {
    let error = (Reason::RateLimited, "none until noon".to_owned());
    let view = AccountView {
        last_error: Some(error.clone()),
        outage: Some(error),
        is_unreachable: true,
        ..AccountView::usable()
    };
    let waiting = |decision: Decided, view: &AccountView, is_deleting: bool| {
        let mut subject = there(&ServerTagStatus::default(), view.clone());
        let object = Arc::make_mut(&mut subject.object);
        object.status.as_mut().unwrap().tag = is_deleting.then(|| "web".to_owned());
        object.metadata.deletion_timestamp = is_deleting.then_some(Time(Timestamp::UNIX_EPOCH));
        let status = shown(&decision, &subject);
        assert!(status.observed_generation.is_none_or(|seen| seen == 7));
        reason(&status, Type::Reconciling)
    };
    let limited = Some("RateLimited".to_owned());
    let quiet = || Decided::unchanged(&subject());
    for is_deleting in [false, true] {
        let said = |decision| waiting(decision, &view, is_deleting);
        assert_eq!(said(quiet().with("send")), limited);
        assert_eq!(said(quiet().wanting(ListKind::Tags, NOW)), limited);
        assert_eq!(said(quiet()), None, "it waits for nothing");
    }
    let ending = waiting(
        quiet().wanting(ListKind::Tags, NOW),
        &AccountView::usable(),
        true,
    );
    assert_eq!(ending.as_deref(), Some("Progressing"), "at once");
    let new = waiting(quiet().with("send"), &AccountView::usable(), false);
    assert_eq!(new, None, "in time");
}
