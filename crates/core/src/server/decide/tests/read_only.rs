//! Read-only mode: what would be sent is reported, and neither sent nor recorded.

use super::{existing::with_status, release::deleted, *};
use crate::read_only::Effect as _;
use api::power::Power;

/// The operator is read-only.
pub(super) fn read_only(case: Case) -> Case {
    case.facts(|f| f.read_only = true)
}

/// Reason and message of Synced.
fn synced(case: &Case) -> (Reason, String) {
    let desired = case.decide().desired;
    let found = desired.condition(Type::Synced).unwrap();
    (found.reason, found.message.clone())
}

/// Checks that a case sends and records something, and that in read-only mode it reports these words instead.
fn check_blocked(what: &str, case: Case, words: &str) {
    let sent = case.decide();
    let records = case.0.status().records;
    assert!(
        sent.effect.is_some_and(|effect| effect.change().is_some())
            || sent.desired.status.records != records,
        "{what}: nothing is blocked"
    );
    let case = read_only(case);
    let blocked = case.decide();
    assert_eq!(blocked.effect, None, "{what}");
    assert_eq!(blocked.desired.status.records, records, "{what}");
    assert_ne!(blocked.requeue, Requeue::Now, "{what}");
    let (reason, message) = synced(&case);
    assert_eq!(reason, Reason::ReadOnly, "{what}");
    assert!(message.contains(words), "{what}: {message}");
    assert!(message.len() <= 300, "{what}: {message}");
}

#[test]
fn no_change_of_a_server_is_sent() {
    let delivered = || with_status(ServerStatus::Delivered).written();
    let tagged = delivered().spec(|s| s.tags = vec!["blue".into()]);
    let expired = delivered()
        .spec(|s| s.expires_at = Some(time(START + 10)))
        .written();
    let kept =
        deleted(ServerStatus::Delivered).spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    let own = Case::new().with(1, ServerStatus::Delivered);
    for (what, case, words) in [
        ("a tag", tagged, "add: blue"),
        ("expiry", expired, "delete this object"),
        (
            "a release",
            deleted(ServerStatus::Delivered),
            "release server",
        ),
        ("a retained server", kept, "as retained"),
        (
            "an end",
            deleted(ServerStatus::Released),
            "remove the finalizer",
        ),
        ("an adoption", own, "adopt server"),
    ] {
        check_blocked(what, case, words);
    }
}

#[test]
fn order_is_decided_without_the_finalizer() {
    let new = Case::new().loose();
    assert!(matches!(new.decide().effect, Some(ServerEffect::Order(_))));
    let case = read_only(new);
    let decision = case.decide();
    assert_eq!(decision.effect, None);
    let (reason, message) = synced(&case);
    assert_eq!(reason, Reason::ReadOnly);
    assert!(message.contains("would order small at here"), "{message}");
    let ready = decision.desired.condition(Type::Ready).unwrap();
    assert_eq!(
        (ready.status, ready.reason),
        (Some(false), Reason::ReadOnly)
    );
}

#[test]
fn replaced_server_stays_shown_until_the_order() {
    let mut case = replace::ended(ServerStatus::Released, 10);
    case = case.spec(|s| s.external_release_policy = None).begun(1);
    let case = read_only(case);
    assert!(
        synced(&case).1.contains("would order"),
        "{:?}",
        synced(&case)
    );
    let shown = case.decide().desired.status;
    assert_eq!(shown.uuid, Some(uuid(1)));
    assert!(shown.records.release.is_some());
}

#[test]
fn blocked_reinstall_shows_the_old_generation() {
    let due = reinstall::wishes(reinstall::delivered(1), 2);
    let due = due.object(|o| o.metadata.generation = Some(7));
    check_blocked("a re-installation", due.clone(), "would re-install");
    let desired = read_only(due).decide().desired;
    assert_ne!(desired.status.observed_generation, Some(7));
    assert!(desired.condition(Type::InstallUpToDate).is_some());
}

#[test]
fn power_change_is_not_recorded() {
    let known = with_status(ServerStatus::Delivered).written();
    let changed = known.spec(|s| s.power = Some(Power::PoweredOff));
    check_blocked("a power change", changed, "spec.power");
}

#[test]
fn reads_go_on() {
    let gone = with_status(ServerStatus::Delivered).facts(|f| {
        f.own.clear();
        f.recorded = None;
    });
    let is_read = |case: &Case| matches!(case.decide().effect, Some(ServerEffect::Read { .. }));
    assert!(is_read(&gone), "{:?}", gone.decide());
    assert!(is_read(&read_only(gone)));
}

#[test]
fn ready_server_stays_ready() {
    let case = with_status(ServerStatus::Delivered)
        .shown(|s| s.addresses = vec!["192.0.2.1".into()])
        .spec(|s| s.tags = vec!["blue".into()]);
    let ready = |case: &Case| {
        let desired = case.decide().desired;
        let found = desired.condition(Type::Ready).unwrap();
        (found.status, found.reason)
    };
    let before = ready(&case);
    assert_eq!(ready(&read_only(case)), before);
}
