//! Tests: what people read in a decision, whatever the kind.

mod ask;

use super::*;
use crate::{
    account_facts::AccountFacts, cause::Cause, mark::ClusterId, moment::Moment, trouble::PERSISTS,
};
use api::{
    Reason, ServerTag,
    conditions::{self, Type},
    tag::ServerTagStatus,
};
use jiff::Timestamp;
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
        now: Moment {
            wall: 1_000_000,
            mono: NOW,
        },
        acting_since: Duration::from_secs(5),
        first_seen: Duration::from_secs(9),
        cluster: ClusterId::parse("0123456789abcdef").unwrap(),
        kind_deleting: Some(false),
        account: AccountFacts::Missing("ProviderAccount default".into()),
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
        let trouble = Trouble::unexpected("it does not fit");
        subject.memory.note(Ended::Failed(trouble), NOW);
    }
    subject
}

#[test]
fn without_a_cause_nothing_is_said() {
    let decision = Decided::unchanged(&subject()).with("send");
    assert_eq!(shown(&decision, &subject()), ServerTagStatus::default());
}

#[test]
fn one_cause_makes_all_conditions_and_the_generation() {
    let ready = Decided::unchanged(&subject()).because(Cause::ready(Reason::Available, "there"));
    let status = shown(&ready, &subject());
    assert_eq!(status.observed_generation, Some(7));
    assert_eq!(reason(&status, Type::Ready).unwrap(), "Available");
    assert_eq!(reason(&status, Type::Synced).unwrap(), "InSync");
    assert!(!conditions::is_true(&status.conditions, Type::Stalled));
    let stuck = Cause::needs_person(Reason::NameTaken, "taken");
    let status = shown(&Decided::unchanged(&subject()).because(stuck), &subject());
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "NameTaken");
    assert!(!conditions::is_true(&status.conditions, Type::Synced));
}

#[test]
fn an_effect_that_keeps_failing_is_told_unless_a_person_is_asked_already() {
    let quiet = Decided::unchanged(&subject()).with("send");
    let few = shown(&quiet, &failed(PERSISTS - 1));
    assert_eq!(few, ServerTagStatus::default());
    let status = shown(&quiet, &failed(PERSISTS));
    assert_eq!(reason(&status, Type::Reconciling).unwrap(), "ChecksFailed");
    let asked = quiet.because(Cause::needs_person(Reason::NameTaken, "taken"));
    let status = shown(&asked, &failed(PERSISTS));
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "NameTaken");
    // Nothing is tried any more, so nothing fails.
    let over = Decided::unchanged(&subject()).because(Cause::ready(Reason::Available, "there"));
    let status = shown(&over, &failed(PERSISTS));
    assert_eq!(reason(&status, Type::Ready).unwrap(), "Available");
}

#[test]
fn what_may_just_come_is_awaited_for_two_minutes() {
    let missing = Cause::missing(Reason::AccountNotFound, "create it");
    let decision = Decided::unchanged(&subject()).because(missing);
    assert_eq!(decision.patience_for(), Some(Reason::AccountNotFound));
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
        .patience
        .note(Some(Reason::AccountNotFound), since);
    let (status, rest) = decision.status(&waited, Timestamp::UNIX_EPOCH);
    assert_eq!(reason(&status, Type::Stalled).unwrap(), "AccountNotFound");
    assert_eq!(rest, None);
}

#[test]
fn a_finalizer_that_is_taken_off_again_and_again_is_put_back_with_pauses_and_told() {
    let mut subject = subject();
    assert_eq!(subject.holding("hold").effect, Some("hold"));
    for times in 1..6 {
        subject.memory.holds.put_back(NOW);
        let decision = subject.holding("hold");
        assert_eq!(decision.effect, None, "{times}");
        let told = decision.cause.map(|cause| cause.reason);
        let contested = (times == 5).then_some(Reason::MetadataContested);
        assert_eq!(told, contested, "{times}");
    }
    subject.now.mono = NOW + Duration::from_secs(60);
    assert_eq!(subject.holding("hold").effect, Some("hold"));
}

#[test]
fn what_was_seen_before_this_process_knew_the_object_or_acted_for_it_does_not_count() {
    let mut subject = subject();
    assert_eq!(subject.since(), Duration::from_secs(9));
    subject.acting_since = Duration::from_secs(11);
    assert_eq!(subject.since(), Duration::from_secs(11));
}
