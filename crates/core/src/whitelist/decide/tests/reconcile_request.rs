//! A poll of the list that a user requests.

use super::*;
use api::Reason;

/// The list is as declared and reported. A poll is requested since `since`.
fn requested(since: Duration) -> Case {
    let mut case = Case::new(&plain(), &[entry(5, &all())]).written();
    case.0
        .subject
        .memory
        .request
        .record_request(Some("now"), since);
    case
}

fn answer(case: &Case) -> (bool, Option<String>) {
    let decision = case.decide();
    let reads = matches!(decision.effect, Some(WhitelistEffect::ReadAndApply { .. }));
    (reads, decision.status.last_handled_reconcile_at)
}

#[test]
fn requested_poll_reads_at_account_interval() {
    let pace = AccountView::usable().times.active_poll_interval;
    let now = Some("now".to_owned());
    // The list was read at that very moment.
    assert_eq!(answer(&requested(NOW)), (false, now.clone()));
    let asked = requested(NOW + secs(1));
    let waits = asked.at(NOW + secs(2));
    assert_eq!(answer(&waits), (false, None));
    assert_eq!(waits.decide().requeue_after, pace - secs(2));
    let due = waits.at(NOW + pace);
    assert_eq!(answer(&due), (true, None));
    let read = due.shows(&[entry(5, &all())], NOW + pace);
    assert_eq!(answer(&read), (false, now.clone()));
    // A missing key or a list that is too long also answers the request.
    let spacing = AccountView::usable().times.absence_check_interval;
    let nothing = |find: fn(&mut WhitelistMemory, Duration, Duration)| {
        let mut case = Case::new(&plain(), &[]).written().at(NOW + pace);
        case.0
            .subject
            .memory
            .request
            .record_request(Some("now"), NOW + secs(1));
        answer(&case.own(|own| find(own, NOW + pace, spacing)))
    };
    let no_key = nothing(|own, at, spacing| own.found_no_key(at, spacing, connection().as_deref()));
    assert_eq!(no_key, (false, now.clone()));
    assert_eq!(nothing(|own, at, _| own.found_too_long(at)), (false, now));
}

#[test]
fn what_may_not_change_the_list_reads_none() {
    let late = || requested(NOW + secs(1)).at(NOW + secs(600));
    let now = Some("now".to_owned());
    let owned = late().owned();
    assert_eq!(owned.explanation().0, Reason::OwnershipConflict);
    assert_eq!(answer(&owned), (false, now.clone()));
    let mut away = late();
    away.0.is_account_in_namespace = false;
    assert_eq!(answer(&away), (false, now.clone()));
    let broken = late().object(|object| object.spec.entries[0].cidr = Some("nonsense".into()));
    assert_eq!(answer(&broken), (false, now));
    // An object that may own the list later waits until it can read it.
    let mut unlisted = late();
    unlisted.0.is_listed = false;
    assert_eq!(answer(&unlisted), (false, None));
}
