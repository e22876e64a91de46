//! A reconcile request of a user.

use super::*;

/// Requested with this value since that second; the last complete list began in second 90.
fn requested(word: &str, since: u64) -> AccountFacts {
    let mut facts = facts();
    facts
        .request
        .record_request(Some(word), Duration::from_secs(since));
    facts
}

/// The second from which on a list is wanted, and the request that status acknowledges.
fn answer(facts: &AccountFacts) -> (Option<u64>, Option<String>) {
    let decision = decide(facts);
    let wanted = decision.wants_complete_list.map(|at| at.as_secs());
    let status = report::next_status(facts, &decision, Timestamp::UNIX_EPOCH);
    (wanted, status.last_handled_reconcile_at)
}

#[test]
fn later_complete_list_answers_request() {
    let now = Some("now".to_owned());
    assert_eq!(answer(&facts()), (None, None));
    assert_eq!(answer(&requested("now", 900)), (Some(900), None));
    let pace = facts().times().active_poll_interval.as_secs();
    assert_eq!(answer(&requested("now", 91)), (Some(90 + pace), None));
    assert_eq!(answer(&requested("now", 90)), (None, now.clone()));
    // Only once; and a status that is written for another reason keeps it.
    let mut done = requested("now", 900);
    done.status.last_handled_reconcile_at = now.clone();
    assert_eq!(answer(&done), (None, now));
}

#[test]
fn an_acknowledgement_does_not_wait_as_counts_do() {
    let mut facts = requested("now", 90);
    facts.status = report::next_status(&facts, &decide(&facts), Timestamp::UNIX_EPOCH);
    facts.status.last_handled_reconcile_at = None;
    let next = report::next_status(&facts, &decide(&facts), Timestamp::UNIX_EPOCH);
    assert!(!report::may_wait(&facts.status, &next));
}

#[test]
fn request_waits_while_key_is_not_accepted() {
    let mut refused = requested("now", 90);
    if let Some(report) = &mut refused.report {
        report.key = rejected();
    }
    assert_eq!(answer(&refused).1, None);
    let mut new = requested("now", 90);
    new.report = None;
    assert_eq!(answer(&new).1, None);
}

#[test]
fn request_never_delays_identity_check() {
    let mut facts = requested("now", 900);
    facts.status.verified = Some(endpoint("old"));
    let server = RecordedServer {
        uuid: uuid(7),
        name_hash: "0".repeat(28),
        live: true,
        account_id: Some(ACCOUNT_ID.into()),
    };
    facts.on_record = Some(RecordedResources {
        servers: vec![server],
        ..RecordedResources::default()
    });
    let alone = AccountFacts {
        request: ReconcileRequest::default(),
        ..facts.clone()
    };
    let (sought, _) = answer(&alone);
    assert!(sought.is_some(), "it is not known where they lead");
    assert_eq!(answer(&facts).0, sought.min(Some(900)));
}
