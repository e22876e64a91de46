//! Several reconciles of one object.

use super::*;
use api::{
    Reason, acknowledgement::AcknowledgementEffect, names::ACKNOWLEDGE, whitelist::EntryState,
};

fn is_work(decision: &WhitelistDecision) -> bool {
    matches!(decision.effect, Some(WhitelistEffect::ReadAndApply { .. }))
}

#[test]
fn step_is_reported_before_it_is_sent() {
    let case = Case::new(&plain(), &[]);
    assert_eq!(case.sends(), None, "nothing is told yet");
    let first = case.decide();
    assert_eq!(first.effect, None);
    assert!(first.requeue_once_written);
    assert_eq!(first.status.plan, ["add all: 192.0.2.0/24"]);
    let case = case.written();
    assert!(is_work(&case.decide()));
    assert_eq!(case.sends(), Some(WhitelistStep::Add(all())));

    let case = case
        .sent(&WhitelistStep::Add(all()), true, NOW)
        .at(NOW + secs(1));
    assert_eq!(case.sends(), None, "the step before is not seen yet");
    assert!(is_work(&case.decide()), "the list is read again at once");
    let case = case
        .shows(&[entry(5, &all())], NOW + secs(1))
        .at(NOW + secs(2));
    let done = case.decide();
    assert_eq!(
        done.explanation.map(|explanation| explanation.reason),
        Some(Reason::Available)
    );
    assert!(done.status.plan.is_empty());
    assert_eq!(done.status.entries[0].id, Some(5));
    assert_eq!(done.status.entries[0].state, EntryState::Active);
    assert_eq!(done.conditions[0].status, Some(true));
    assert_eq!(
        done.requeue_after,
        secs(299),
        "then it is looked at as seldom as an account at rest"
    );
}

#[test]
fn without_the_finalizer_nothing_is_added() {
    let case = Case::new(&plain(), &[]).object(|object| object.metadata.finalizers = None);
    assert_eq!(case.decide().effect, Some(WhitelistEffect::AddFinalizer));
    assert_eq!(case.written().sends(), None);
}

#[test]
fn lost_whitelist_answer_is_waited_out() {
    let case = Case::new(&plain(), &[]).written();
    let lost = |case: Case| case.sent(&WhitelistStep::Add(all()), false, NOW);
    // The list shows the effect.
    let seen = lost(case)
        .shows(&[entry(5, &all())], NOW + secs(1))
        .at(NOW + secs(1));
    assert_eq!(seen.explanation().0, Reason::Available);

    let case = Case::new(&plain(), &[]).written();
    let unseen = lost(case).shows(&[], NOW + secs(1)).at(NOW + secs(1));
    assert_eq!(
        (unseen.explanation().0, unseen.sends()),
        (Reason::OutcomeUnknown, None)
    );
    assert_eq!(unseen.decide().requeue_after, secs(30));
    let late = unseen.shows(&[], NOW + secs(59)).at(NOW + secs(59));
    assert_eq!(
        (late.explanation().0, late.sends()),
        (Reason::OutcomeUnknown, None)
    );
    assert_eq!(late.decide().requeue_after, secs(1));
    let over = late.shows(&[], NOW + secs(60)).at(NOW + secs(60));
    assert_eq!(over.sends(), Some(WhitelistStep::Add(all())));
}

#[test]
fn new_leader_waits_for_steps_in_flight() {
    let case = Case::new(&plain(), &[]).written();
    let since = NOW + secs(100);
    let mut next = case.own(|own| *own = WhitelistMemory::default());
    next.0.subject.leader_since = since;
    next.0.start();
    let next = next.at(since);
    assert!(is_work(&next.decide()));
    let early = next.shows(&[], since + secs(1)).at(since + secs(1));
    assert_eq!(
        (early.explanation().0, early.sends()),
        (Reason::OutcomeUnknown, None)
    );
    let over = early.shows(&[], since + secs(60)).at(since + secs(60));
    assert_eq!(over.sends(), Some(WhitelistStep::Add(all())));
}

#[test]
fn entry_without_comment_is_not_readded() {
    let mut cut = entry(5, &all());
    (cut.name, cut.comments) = (None, "[fmo-ent".into());
    let case = Case::new(&plain(), &[]).written();
    let case = case.sent(&WhitelistStep::Add(all()), true, NOW);
    let case = case.shows(&[cut.clone()], NOW + secs(1)).at(NOW + secs(1));
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::EntryNotApplied);
    assert!(
        message.contains("Entry 5") && message.contains("without the operator's tag"),
        "{message}"
    );
    assert_eq!(case.sends(), None);
    // A new process reads the error from status, until the spec changes.
    let mut next = case.written().own(|own| *own = WhitelistMemory::default());
    next.0.start();
    let next = next
        .shows(&[cut.clone()], NOW + secs(200))
        .at(NOW + secs(200));
    assert_eq!(
        (next.explanation().0, next.sends()),
        (Reason::EntryNotApplied, None)
    );
    let edited = next.object(|object| object.metadata.generation = Some(4));
    assert!(is_work(&edited.decide()));
    assert_eq!(edited.sends(), Some(WhitelistStep::Add(all())));
}

#[test]
fn step_not_applied_twice_needs_a_user() {
    let mut case = Case::new(&plain(), &[]).written();
    let mut other = entry(5, &all());
    other.range = Some(range(0, 127));
    for at in [100, 200] {
        let at = NOW + secs(at);
        assert!(case.sends().is_some() || at > NOW + secs(100));
        case = case.sent(&WhitelistStep::Add(all()), true, at);
        let mut shown = other.clone();
        shown.id = WhitelistEntryId(at.as_secs());
        case = case.shows(&[shown], at + secs(1)).at(at + secs(1));
    }
    assert_eq!(case.explanation().0, Reason::EntryNotApplied);
}

#[test]
fn a_list_that_lost_everything_is_read_twice() {
    let case = Case::new(&plain(), &[entry(5, &all())]).written();
    let blank = case.shows(&[], NOW + secs(300)).at(NOW + secs(300));
    assert_eq!(
        (blank.explanation().0, blank.sends()),
        (Reason::OutcomeUnknown, None)
    );
    let back = blank
        .shows(&[entry(5, &all())], NOW + secs(330))
        .at(NOW + secs(330));
    assert_eq!(back.explanation().0, Reason::Available);
    let blank = back.shows(&[], NOW + secs(600)).at(NOW + secs(600));
    let gone = blank
        .shows(&[], NOW + secs(660))
        .at(NOW + secs(660))
        .written();
    assert_eq!(gone.sends(), Some(WhitelistStep::Add(all())));
}

#[test]
fn lockout_token_from_status_works_once() {
    let spec = json!({"apiKeyID": 7, "entries": [{"name": "all", "cidr": "192.0.2.0/24"}]});
    let case = Case::new(&spec, &[]);
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::EgressUnknown);
    assert_eq!(case.decide().conditions[0].status, None);
    let pending = case.decide().status.pending_acknowledgements;
    let [asked] = &pending[..] else {
        panic!("{pending:?}")
    };
    assert_eq!(asked.effect, AcknowledgementEffect::AllowLockout);
    let token = asked.token.clone();
    assert!(message.ends_with(&format!("set {ACKNOWLEDGE} to {token}")));
    // A token that status does not have yet, or a wrong one, does not count.
    let unseen = Case::new(&spec, &[]).annotated(ACKNOWLEDGE, &token);
    assert_eq!((unseen.decide().effect, unseen.sends()), (None, None));
    let case = case.written();
    assert_eq!(case.sends(), None);
    let wrong = Case::new(&spec, &[]).written();
    let wrong = wrong.annotated(ACKNOWLEDGE, "0123456789ab").written();
    assert_eq!(wrong.sends(), None);
    let case = case.annotated(ACKNOWLEDGE, &token).written();
    assert_eq!(case.pending().as_ref(), Some(&token), "it is not done");
    assert_eq!(case.sends(), Some(WhitelistStep::Add(all())));
    let case = case.shows(&[entry(5, &all())], NOW + secs(1));
    let case = case.at(NOW + secs(1)).written();
    assert_eq!(case.pending(), None);
    let used = case.0.subject.status().acknowledged;
    assert_eq!((used.len(), &used[0].token), (1, &token));
    // The same situation again: the old annotation does not count any more.
    let case = case.shows(&[], NOW + secs(200)).at(NOW + secs(200));
    let case = case
        .shows(&[], NOW + secs(400))
        .at(NOW + secs(400))
        .written();
    assert_eq!(case.explanation().0, Reason::EgressUnknown);
    let again = case.pending().expect("it is asked again");
    assert_ne!(again, token);
    assert_eq!(case.sends(), None);
}

#[test]
fn removal_token_covers_exact_entries() {
    let spec = json!({"apiKeyID": 7, "entryPolicy": "Exact", "egressCIDRs": ["192.0.2.8/32"],
        "entries": [{"name": "all", "cidr": "192.0.2.0/24"}]});
    let there = |ids: &[u64]| {
        let others = ids.iter().map(|id| of_other(*id, range(8, 8)));
        let own = [entry(5, &all())];
        own.into_iter().chain(others).collect::<Vec<_>>()
    };
    let case = Case::new(&spec, &there(&[6, 7])).written();
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::OwnershipConflict);
    let status = case.0.subject.status();
    let [asked] = &status.pending_acknowledgements[..] else {
        panic!("{status:?}")
    };
    assert_eq!(asked.effect, AcknowledgementEffect::RemoveOthersEntries);
    assert_eq!(
        asked.subject,
        "entries 6, 7 of other objects on the whitelist of API key 7"
    );
    assert_eq!(status.removable_entry_ids, [6, 7]);
    let token = asked.token.clone();
    assert!(message.contains(&token), "{message}");

    let given = case.annotated(ACKNOWLEDGE, &token).written();
    let Some(WhitelistStep::Remove(first)) = given.sends() else {
        panic!("it is given")
    };
    let left = [6, 7].into_iter().filter(|id| *id != first.0);
    let left: Vec<u64> = left.collect();
    let on = given
        .shows(&there(&left), NOW + secs(1))
        .at(NOW + secs(1))
        .written();
    assert_eq!(
        on.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(left[0])))
    );
    assert_eq!(on.pending().as_ref(), Some(&token), "it is not done");
    // A new entry of another object needs a new token.
    let more = [&left[..], &[8]].concat();
    let more = on.clone().shows(&there(&more), NOW + secs(2));
    let more = more.at(NOW + secs(2));
    assert_eq!(more.sends(), None);
    let more = more.written();
    assert_ne!(more.pending().as_ref(), Some(&token));
    assert_eq!((more.sends(), more.written().sends()), (None, None));

    let done = on.shows(&there(&[]), NOW + secs(2)).at(NOW + secs(2));
    let done = done.written().0.subject.status();
    assert_eq!(done.pending_acknowledgements, []);
    assert_eq!(done.removable_entry_ids, [0; 0]);
    assert_eq!(done.acknowledged[0].token, token);
}

#[test]
fn changed_plan_invalidates_its_token() {
    let spec = json!({"apiKeyID": 7, "entries": [{"name": "all", "cidr": "192.0.2.0/24"}]});
    let case = Case::new(&spec, &[]).written();
    let token = case.pending().unwrap();
    let case = case.annotated(ACKNOWLEDGE, &token);
    assert_eq!(case.sends(), Some(WhitelistStep::Add(all())));
    let case = case.object(|object| object.spec.entries[0].cidr = Some("198.51.100.0/24".into()));
    assert_eq!(case.sends(), None);
    let case = case.written();
    assert_ne!(case.pending().unwrap(), token);
    assert_eq!(case.written().sends(), None);
}

#[test]
fn object_egress_overrides_account_egress() {
    let spec = json!({"apiKeyID": 7, "entries": [{"name": "all", "cidr": "192.0.2.0/24"}]});
    let mut case = Case::new(&spec, &[]);
    if let ResolvedAccount::Found { view, .. } = &mut case.0.subject.account {
        view.egress = vec!["192.0.2.1/32".into()];
    }
    assert_eq!(case.explanation().0, Reason::Progressing);
    let case = case.object(|object| object.spec.egress_cidrs = vec!["198.51.100.0/24".into()]);
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::EgressNotCovered);
    assert!(message.contains("198.51.100.0/24"), "{message}");
    let case = case.object(|object| object.spec.lockout_guard = Some(false));
    assert_eq!(case.explanation().0, Reason::Progressing);
}

#[test]
fn older_object_owns_the_whitelist() {
    let mut case = Case::new(&plain(), &[]).written().owned();
    let (reason, message) = case.explanation();
    assert_eq!((reason, case.sends()), (Reason::OwnershipConflict, None));
    assert!(
        message.contains("shop/first") && message.contains("key 7"),
        "{message}"
    );
    case.0.conflicting_owners = ConflictingOwners::default();
    case.0.is_account_in_namespace = false;
    assert_eq!(
        (case.explanation().0, case.sends()),
        (Reason::NotAllowed, None)
    );
}

#[test]
fn list_of_other_credentials_is_not_used() {
    let mut case = Case::new(&plain(), &[entry(5, &all())]);
    if let ResolvedAccount::Found { view, .. } = &mut case.0.subject.account {
        view.credentials_hash = Some("another".into());
    }
    assert!(is_work(&case.decide()));
    let case = Case::new(&plain(), &[entry(5, &all())])
        .own(|own| own.found_no_key(NOW, secs(60), connection().as_deref()));
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::ReferenceNotFound);
    assert!(
        message.contains("spec.apiKeyID") && message.contains('7'),
        "{message}"
    );
}

#[test]
fn long_plan_is_reported_in_part() {
    let entries: Vec<Value> = (0..200)
        .map(|n| json!({"name": format!("e{n}"), "cidr": format!("10.0.{n}.0/24")}))
        .collect();
    let spec = json!({"apiKeyID": 7, "entries": entries, "egressCIDRs": ["10.0.150.1/32"]});
    let case = Case::new(&spec, &[]);
    let plan = case.decide().status.plan;
    assert_eq!(plan.len(), 17);
    assert_eq!(plan[0], "add e150: 10.0.150.0/24");
    assert_eq!(plan[16], "and 184 more");
    assert!(case.written().sends().is_some());
}

#[test]
fn late_list_after_a_change_is_waited_out() {
    let mut old = all();
    old.active = false;
    let there = [entry(5, &old), foreign(6, range(0, 255))];
    let change = WhitelistStep::Change(WhitelistEntryId(5), all());
    let mut case = Case::new(&plain(), &there).written();
    for at in [NOW, NOW + secs(100)] {
        assert_eq!(case.at(at).sends(), Some(change.clone()));
        case = Case::new(&plain(), &there)
            .written()
            .sent(&change, true, at);
        case = case.shows(&there, at + secs(1)).at(at + secs(1));
        assert_eq!(
            (case.explanation().0, case.sends()),
            (Reason::OutcomeUnknown, None)
        );
        case = case.shows(&there, at + secs(59)).at(at + secs(59));
        assert_eq!(case.sends(), None);
        case = case.shows(&there, at + secs(60)).at(at + secs(60));
    }
}

#[test]
fn not_applied_error_clears_once_applied() {
    let case = Case::new(&plain(), &[]).own(|own| own.not_applied = Some((3, "no".into())));
    assert_eq!(case.explanation().0, Reason::EntryNotApplied);
    let case = case.shows(&[entry(5, &all())], NOW + secs(1));
    assert_eq!(case.explanation().0, Reason::Available);
    let case = case
        .written()
        .shows(&[foreign(6, range(0, 255))], NOW + secs(400));
    assert_ne!(
        case.at(NOW + secs(400)).explanation().0,
        Reason::EntryNotApplied
    );
}

#[test]
fn before_all_whitelists_are_known_nothing_is_changed() {
    let mut case = Case::new(&plain(), &[]).written();
    assert!(case.sends().is_some());
    case.0.is_listed = false;
    assert_eq!(
        (case.explanation().0, case.sends()),
        (Reason::WaitingForListing, None)
    );
    let early = case.at(secs(11));
    assert_eq!(
        (early.decide().explanation, early.decide().effect),
        (None, None)
    );
    assert_eq!(early.deleted().decide().effect, None);
}

#[test]
fn takeover_waits_for_previous_steps() {
    let mut case = Case::new(&plain(), &[]).written().owned();
    case.0.start();
    case.0.conflicting_owners = ConflictingOwners::default();
    case.0.start();
    let case = case.shows(&[], NOW + secs(1)).at(NOW + secs(1));
    assert_eq!(
        (case.explanation().0, case.sends()),
        (Reason::OutcomeUnknown, None)
    );
    let case = case.shows(&[], NOW + secs(60)).at(NOW + secs(60));
    assert!(case.sends().is_some());
    // A new process reads the takeover from status.
    let mut next = Case::new(&plain(), &[])
        .owned()
        .written()
        .own(|own| *own = WhitelistMemory::default());
    next.0.conflicting_owners = ConflictingOwners::default();
    next.0.subject.leader_since = NOW;
    next.0.start();
    let next = next.shows(&[], NOW + secs(1)).at(NOW + secs(1));
    assert_eq!(next.explanation().0, Reason::OutcomeUnknown);
}

#[test]
fn missing_api_key_is_checked_with_backoff() {
    let mut case = Case::new(&plain(), &[]).own(|own| own.snapshot = None);
    let (mut now, mut reads) = (NOW, 0);
    while now < NOW + secs(600) {
        let decision = case.decide();
        let effect = is_work(&decision);
        if effect {
            reads += 1;
            case = case.own(|own| own.found_no_key(now, secs(60), connection().as_deref()));
        }
        now += if effect {
            secs(0)
        } else {
            decision.requeue_after
        };
        assert!(reads < 20, "a look each time at {now:?}");
        case = case.at(now);
        case.0.start();
    }
    assert!((3..=8).contains(&reads), "{reads} looks");
}

#[test]
fn oversized_list_stays_and_is_rarely_read() {
    let case = Case::new(&plain(), &[]).own(|own| own.found_too_long(NOW));
    assert_eq!(case.explanation().0, Reason::TooManyEntries);
    assert_eq!(case.decide().requeue_after, secs(300));
    assert!(is_work(&case.at(NOW + secs(300)).decide()));
}

#[test]
fn egress_coverage_is_unknown_without_list() {
    let case = Case::new(&plain(), &[entry(5, &all())]).owned();
    let decision = case.decide();
    assert_eq!(decision.conditions[0].status, None);
    assert_eq!(decision.conditions[0].reason, Reason::OwnershipConflict);
}

#[test]
fn what_the_last_list_took_is_allowed_for() {
    let case = Case::new(&plain(), &[]).own(|own| own.calls = 40);
    assert_eq!(case.0.calls_of_list(), 41);
}

#[test]
fn no_step_is_sent_in_read_only_mode() {
    let case = Case::new(&plain(), &[]).written();
    assert!(case.sends().is_some());
    let mut case = case;
    case.0.subject.read_only = true;
    assert_eq!(case.sends(), None);
    let decision = case.decide();
    assert_eq!(decision.effect, None);
    assert_eq!(decision.status.plan, ["add all: 192.0.2.0/24"]);
    let (reason, message) = case.explanation();
    assert_eq!(reason, Reason::ReadOnly);
    assert!(message.contains("would add all: 192.0.2.0/24"), "{message}");
    // The list is still read.
    let later = case.at(NOW + secs(3600));
    assert!(is_work(&later.decide()));
    assert_eq!(later.sends(), None);
}
