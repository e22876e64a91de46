//! The largest possible status of a whitelist.

use super::*;
use crate::sizes::{largest, lengthen, written};
use api::whitelist::EntryState;

/// The entries of a spec with other addresses, and 300 entries without an owner.
fn shown(spec: &Value) -> Vec<ListedEntry> {
    let v6 = |n: u16| {
        let at = [0x2001, 0xdb8, 0x1111, 0x1111, 0x1111, 0x1111, n, 0x1111].into();
        Range::between(at, at).unwrap()
    };
    let id = |n: u16| 9_223_372_036_854_770_000 + u64::from(n);
    let names = spec["entries"].as_array().unwrap().iter();
    let names = names.map(|entry| entry["name"].as_str().unwrap());
    let own = (0..).zip(names).map(|(n, name)| ListedEntry {
        active: None,
        ..entry(id(n), &desired_entry(name, v6(0x1000 + n)))
    });
    let of_nobody = (500..800).map(|n| foreign(id(n), v6(0x2000 + n)));
    own.chain(of_nobody).collect()
}

/// The entries of a spec as declared.
fn declared(spec: &Value) -> Vec<ListedEntry> {
    let desired = Case::new(spec, &[]).0.target().unwrap().entries;
    let ids = 9_223_372_036_854_770_000..;
    ids.zip(&desired)
        .map(|(id, desired)| entry(id, desired))
        .collect()
}

#[test]
fn the_largest_whitelist_has_less_than_64_kib() {
    let spec = largest::whitelist("default", 9_007_199_254_740_991);
    let all = shown(&spec);
    let (own, of_nobody) = all.split_at(200);
    let of_others: Vec<ListedEntry> = of_nobody
        .iter()
        .map(|entry| ListedEntry {
            is_of_other: true,
            ..entry.clone()
        })
        .collect();
    let named: Vec<ListedEntry> = of_nobody
        .iter()
        .map(|entry| ListedEntry {
            name: Some("<".repeat(99)),
            ..entry.clone()
        })
        .collect();
    let case = |entries: &[&[ListedEntry]]| {
        Case::new(&spec, &entries.concat()).status(|status| {
            status.last_handled_reconcile_at = Some(largest::text(128));
        })
    };
    // The user is asked about entries of others once nothing else is to do. Then the own entries change.
    let asked = case(&[&declared(&spec), &of_others]).written();
    let status = asked.0.subject.status();
    assert_eq!(
        (status.removable_entry_ids.len(), status.entries.len()),
        (300, 45)
    );
    let later = NOW + secs(1);
    let asked = asked.shows(&[own, &of_others].concat(), later).at(later);
    for (case, most) in [
        (case(&[own, of_nobody]), 120),
        (case(&[of_nobody]), 120),
        (case(&[]), 120),
        (case(&[own, &of_others]), 120),
        (asked, 45),
        (case(&[own, &named]), 120),
    ] {
        let subject = &case.0.subject;
        let (mut status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
        lengthen(&mut status.conditions);
        let status = written::<IpWhitelist>(&spec, &status);
        assert_eq!(status["entries"].as_array().map(Vec::len), Some(most));
        assert_eq!(status["entriesOmitted"], 200 - most);
        let plan = status["plan"].as_array().unwrap();
        let is_whole = |step: &Value| !step.as_str().unwrap().ends_with('…');
        assert!(plan.iter().all(is_whole), "as it is found again: {plan:#?}");
    }
}

#[test]
fn truncated_status_shows_differences_first() {
    let names = largest::words(200, 4);
    let entries: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "cidr": "192.0.2.7/32"}))
        .collect();
    let spec = json!({"apiKeyID": 7, "entries": entries, "egressCIDRs": ["192.0.2.7/32"]});
    let shown = |there: &[String]| {
        let there = (1..).zip(there);
        let there: Vec<ListedEntry> = there
            .map(|(id, name)| entry(id, &desired_entry(name, range(7, 7))))
            .collect();
        let case = Case::new(&spec, &there).written();
        let status = case.0.subject.status();
        assert_eq!(status.entries_omitted, Some(80));
        let states = status.entries.iter().map(|entry| entry.state);
        (states.collect::<Vec<_>>(), case.0.had_entries())
    };
    let (states, had_entries) = shown(&names[..190]);
    assert_eq!(states[..10], [EntryState::Missing; 10]);
    assert_eq!(states[10..], [EntryState::Active; 110]);
    assert!(had_entries);
    // The one existing entry stays in status, so that a list without it is read again.
    let (states, had_entries) = shown(&names[..1]);
    assert_eq!(states[..119], [EntryState::Missing; 119]);
    assert_eq!(states[119], EntryState::Active);
    assert!(had_entries);
    let (states, had_entries) = shown(&[]);
    assert_eq!(states, [EntryState::Missing; 120]);
    assert!(!had_entries);
}
