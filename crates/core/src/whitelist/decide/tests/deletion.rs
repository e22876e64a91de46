//! Deletion of an object.

use super::{super::deletion::retained_entries_event, *};
use api::names::ACKNOWLEDGE;

#[test]
fn deletion_keeps_the_operator_admitted() {
    let other = desired_entry("other", range(100, 200));
    let there = [entry(5, &all()), entry(6, &other)];
    let case = Case::new(&plain(), &there).deleted().written();
    assert_eq!(
        case.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(6)))
    );
    let case = case
        .sent(&WhitelistStep::Remove(WhitelistEntryId(6)), true, NOW)
        .shows(&[entry(5, &all())], NOW + secs(1))
        .at(NOW + secs(1));
    assert_eq!(case.sends(), None);
    assert_eq!(case.decide().effect, Some(WhitelistEffect::RemoveFinalizer));
}

#[test]
fn whitelist_is_deleted_if_others_admit_operator() {
    let there = [entry(5, &all()), foreign(6, range(8, 8))];
    let case = Case::new(&plain(), &there).deleted().written();
    assert_eq!(
        case.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(5)))
    );
}

#[test]
fn whitelist_is_deleted_without_lockout_guard() {
    let there = [entry(5, &all())];
    // An acknowledgement from before the deletion does not apply to it.
    let spec = json!({"apiKeyID": 7, "egressCIDRs": ["192.0.2.8/32"]});
    let blocked = Case::new(&spec, &there).written();
    let token = blocked.pending().expect("it is held");
    let given = blocked.annotated(ACKNOWLEDGE, &token).written();
    assert_eq!(
        given.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(5)))
    );
    let case = given.deleted();
    assert_eq!(
        (case.decide().effect, case.sends()),
        (Some(WhitelistEffect::RemoveFinalizer), None)
    );
    let case = Case::new(&plain(), &there).object(|object| object.spec.lockout_guard = Some(false));
    let case = case.deleted().written();
    assert_eq!(
        case.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(5)))
    );
}

#[test]
fn deleted_crd_leaves_all_entries() {
    for (kind_deleting, effect) in [
        (Some(true), Some(WhitelistEffect::RemoveFinalizer)),
        (None, None),
    ] {
        let mut case = Case::new(&plain(), &[entry(6, &desired_entry("x", range(1, 2)))]).deleted();
        case.0.subject.kind_deleting = kind_deleting;
        assert_eq!((case.decide().effect, case.sends()), (effect, None));
    }
}

#[test]
fn invalid_spec_does_not_block_deletion() {
    let case = Case::new(&plain(), &[foreign(1, range(0, 255))]);
    let case = case.object(|object| {
        object.spec.entries[0].cidr = Some("192.0.2.7/24".into());
        object.spec.egress_cidrs = vec!["nonsense".into()];
    });
    assert_eq!(
        case.decide().explanation.map(|c| c.reason),
        Some(api::Reason::InvalidSpec)
    );
    assert_eq!(
        case.deleted().decide().effect,
        Some(WhitelistEffect::RemoveFinalizer)
    );
}

#[test]
fn missing_api_key_is_checked_twice() {
    let case = Case::new(&plain(), &[])
        .deleted()
        .own(|own| own.start_deletion())
        .own(|own| own.found_no_key(NOW, secs(60), connection().as_deref()));
    assert_eq!(case.decide().effect, None);
    let case = case.at(NOW + secs(60));
    assert!(matches!(
        case.decide().effect,
        Some(WhitelistEffect::ReadAndApply { .. })
    ));
    let case = case.own(|own| own.found_no_key(NOW + secs(60), secs(60), connection().as_deref()));
    assert_eq!(case.decide().effect, Some(WhitelistEffect::RemoveFinalizer));
}

#[test]
fn whitelist_deletion_needs_a_fresh_list() {
    let case = Case::new(&plain(), &[]).deleted().at(NOW + secs(61));
    assert!(matches!(
        case.decide().effect,
        Some(WhitelistEffect::ReadAndApply { .. })
    ));
    let case = case.object(|object| object.metadata.finalizers = None);
    assert_eq!(case.decide().effect, None);
}

#[test]
fn a_list_that_is_suddenly_empty_ends_nothing() {
    let there = [entry(5, &all()), foreign(6, range(0, 255))];
    let case = Case::new(&plain(), &there).written().deleted().written();
    assert_eq!(
        case.sends(),
        Some(WhitelistStep::Remove(WhitelistEntryId(5)))
    );
    let blank = case.shows(&[], NOW + secs(10)).at(NOW + secs(10));
    assert_eq!(blank.decide().effect, None);
    assert_eq!(blank.explanation().0, api::Reason::OutcomeUnknown);
    let again = blank
        .written()
        .shows(&[], NOW + secs(70))
        .at(NOW + secs(70));
    assert_eq!(
        again.decide().effect,
        Some(WhitelistEffect::RemoveFinalizer)
    );
    // If this process removed the entries, one list is enough.
    let case = Case::new(&plain(), &there).written().deleted().written();
    let case = case.sent(&WhitelistStep::Remove(WhitelistEntryId(5)), true, NOW);
    let case = case.shows(&there[1..], NOW + secs(1)).at(NOW + secs(1));
    assert_eq!(case.decide().effect, Some(WhitelistEffect::RemoveFinalizer));
}

#[test]
fn outdated_missing_key_ends_no_object() {
    let misses = |case: Case, from: Duration| {
        case.own(|own| own.found_no_key(from, secs(60), connection().as_deref()))
            .own(|own| own.found_no_key(from + secs(60), secs(60), connection().as_deref()))
            .at(from + secs(61))
    };
    let mut before = misses(Case::new(&plain(), &[]), NOW).deleted();
    before.0.start();
    assert_ne!(
        before.decide().effect,
        Some(WhitelistEffect::RemoveFinalizer)
    );
    let after = misses(before, NOW + secs(100));
    assert_eq!(
        after.decide().effect,
        Some(WhitelistEffect::RemoveFinalizer)
    );
    let mut other = after;
    if let ResolvedAccount::Found { view, .. } = &mut other.0.subject.account {
        view.credentials_hash = Some("another".into());
    }
    other.0.start();
    assert!(matches!(
        other.decide().effect,
        Some(WhitelistEffect::ReadAndApply { .. })
    ));
}

#[test]
fn missing_account_message_names_finalizer() {
    let mut case = Case::new(&plain(), &[]).deleted();
    case.0.subject.account = ResolvedAccount::Missing("ProviderAccount default".into());
    let (_, message) = case.explanation();
    assert!(message.contains(OBJECT_FINALIZER), "{message}");
}

/// A spec with this number of entries, and these entries at the provider.
fn many(number: u64) -> (Value, Vec<ListedEntry>) {
    let name = |n: u64| format!("e{n}");
    let entries: Vec<Value> = (0..number)
        .map(|n| json!({"name": name(n), "cidr": "192.0.2.7/32"}))
        .collect();
    let spec = json!({"apiKeyID": 7, "entries": entries, "egressCIDRs": ["192.0.2.7/32"]});
    let there = (0..number).map(|n| entry(n, &desired_entry(&name(n), range(7, 7))));
    (spec, there.collect())
}

#[test]
fn retained_entries_are_fully_counted() {
    let (spec, there) = many(200);
    let event_text = |case: &Case| retained_entries_event(&case.0).map(|news| news.note);
    let case = Case::new(&spec, &there).written().deleted();
    assert_eq!(case.0.subject.status().entries_omitted, Some(80));
    let text = event_text(&case).expect("all of them stay");
    let start = "Entries of API key 7 may stay at the provider, to lock nobody out; entry 0 (192.0.2.7/32), ";
    assert!(text.starts_with(start), "{text}");
    assert!(
        text.contains("entry 4 (192.0.2.7/32) and 195 more. Remove them"),
        "{text}"
    );
    // Without a list, only the entries in status are known.
    let lost = case.clone().shows(&[], NOW + secs(1));
    for case in [lost, case.own(|own| *own = WhitelistMemory::default())] {
        let text = event_text(&case).expect("some of them may stay");
        assert!(
            text.contains("entry 4 and up to 195 more. Remove"),
            "{text}"
        );
    }

    let (spec, there) = many(11);
    let case = Case::new(&spec, &there).written().deleted();
    let lost = case.clone().shows(&[], NOW + secs(1));
    for case in [case, lost] {
        let text = event_text(&case).expect("all of them stay");
        assert!(text.contains(" and 6 more. Remove"), "{text}");
    }
    assert_eq!(event_text(&Case::new(&spec, &[]).written().deleted()), None);
}
