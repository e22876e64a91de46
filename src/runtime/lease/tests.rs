//! The decisions on leases as plain data, with time given by hand.

use super::{
    ACTS, LASTS, Leases, NOTICED, Scope, TRUSTED,
    record::{Identity, Record},
    seat::{Seat, Step},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use std::{collections::BTreeMap, time::Duration};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn stamp(second: i64) -> MicroTime {
    MicroTime(jiff::Timestamp::from_second(1_800_000_000 + second).unwrap())
}

fn me() -> Identity {
    Identity::new("system", Some("pod-a"), "1")
}

fn other() -> Identity {
    Identity::new("system", Some("pod-b"), "1")
}

/// A lease as the API server gives it back: it has a version.
fn stored(record: &Record) -> Record {
    let mut lease = record.lease("l");
    lease.metadata.resource_version = Some("7".into());
    Record::of(lease, LASTS)
}

fn held_by(who: &Identity, renewed: i64) -> Record {
    stored(&Record::held_by(who, None, LASTS, stamp(renewed)))
}

/// A seat that took its lease at this moment, with nobody else around.
fn ours(at: Duration) -> Seat {
    let mut seat = Seat::default();
    seat.see(&me(), None, at);
    seat.wrote(held_by(&me(), 0), at, at);
    seat.make_clear(None);
    seat
}

fn may_take(seat: &Seat, now: Duration) -> bool {
    matches!(seat.step(&me(), now, stamp(0)), Step::Write(_))
}

#[test]
fn the_lease_of_another_is_free_when_it_said_the_same_for_its_whole_time_by_our_clock() {
    let mut seat = Seat::default();
    // What it says of wall time may be years off.
    seat.see(&me(), Some(held_by(&other(), -1_000_000)), s(100));
    assert_eq!(seat.step(&me(), s(100), stamp(0)), Step::Wait(s(115)));
    seat.see(&me(), Some(held_by(&other(), -1_000_000)), s(110));
    assert!(!may_take(&seat, s(114)));
    assert!(may_take(&seat, s(115)));
    // A renewal starts it again.
    seat.see(&me(), Some(held_by(&other(), -999_999)), s(115));
    assert!(!may_take(&seat, s(129)));
    assert!(may_take(&seat, s(130)));
    assert_eq!(seat.since(s(130)), None, "what may be taken is not taken");
}

#[test]
fn labels_on_a_lease_do_not_renew_it() {
    let mut seat = Seat::default();
    seat.see(&me(), Some(held_by(&other(), 0)), s(100));
    let mut labelled = held_by(&other(), 0).lease("l");
    labelled.metadata.resource_version = Some("8".into());
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    seat.see(&me(), Some(Record::of(labelled, LASTS)), s(114));
    let Step::Write(taken) = seat.step(&me(), s(115), stamp(0)) else {
        panic!("it is free");
    };
    let taken = taken.lease("l");
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("8"));
    assert!(taken.metadata.labels.is_some(), "they stay");
    assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
}

#[test]
fn a_released_lease_is_free_at_once_and_a_deleted_one_after_its_time() {
    let mut seat = Seat::default();
    seat.see(&me(), Some(held_by(&other(), 0)), s(100));
    seat.see(
        &me(),
        Some(stored(&held_by(&other(), 0).released(stamp(1)))),
        s(101),
    );
    assert!(may_take(&seat, s(101)));

    let mut seat = Seat::default();
    seat.see(&me(), Some(held_by(&other(), 0)), s(100));
    seat.see(&me(), None, s(101));
    seat.see(&me(), None, s(110));
    assert!(
        !may_take(&seat, s(115)),
        "its holder may not know of it yet"
    );
    assert!(may_take(&seat, s(116)));
    // Where none was ever seen, none is waited for.
    assert!(may_take(&Seat::default(), s(0)));
}

#[test]
fn the_lease_of_an_earlier_process_of_this_pod_is_free_and_that_of_a_twin_is_not() {
    let former = Identity::new("system", Some("pod-a"), "0");
    let mut seat = Seat::default();
    seat.see(&me(), Some(held_by(&former, 0)), s(1));
    assert!(may_take(&seat, s(1)));
    // Not one that came later under the same name.
    let mut seat = ours(s(1));
    seat.see(&me(), Some(held_by(&former, 5)), s(5));
    assert_eq!(seat.since(s(5)), None);
    assert!(!may_take(&seat, s(5)));
    // Names of pods are compared whole, and without one nothing is known.
    for stranger in [
        Identity::new("system", Some("pod-aa"), "0"),
        Identity::new("elsewhere", Some("pod-a"), "0"),
        Identity::new("system", None, "0"),
    ] {
        assert!(!me().is_former(stranger.as_str()), "{stranger:?}");
    }
    assert!(!Identity::new("system", None, "2").is_former("system/1"));
}

#[test]
fn a_holder_stops_before_anybody_else_may_start() {
    let seat = ours(s(100));
    assert_eq!(seat.since(s(100)), Some(s(100)));
    assert_eq!(
        seat.since(s(100) + ACTS - Duration::from_millis(1)),
        Some(s(100))
    );
    // Asked for at that moment, whatever ran or slept in between.
    assert_eq!(seat.since(s(100) + ACTS), None);
    // Another one saw the renewal at its earliest when it was written, and waits out all of its time.
    let mut theirs = Seat::default();
    theirs.see(&other(), Some(held_by(&me(), 0)), s(100));
    let may_start = |now| matches!(theirs.step(&other(), now, stamp(0)), Step::Write(_));
    assert!(!may_start(s(100) + ACTS + s(4)));
    assert!(may_start(s(100) + LASTS));
}

/// Whether there is a moment at which the holder of a lease still acts and another one may take it, where their clocks
/// run by these factors.
fn overlaps(of_holder: f64, of_other: f64) -> bool {
    let mut holder = ours(s(100).mul_f64(of_holder));
    let asked = s(103);
    holder.wrote(
        held_by(&me(), 3),
        asked.mul_f64(of_holder),
        s(106).mul_f64(of_holder),
    );
    // Seen at its earliest, as if its answer alone were late.
    let mut theirs = Seat::default();
    theirs.see(&other(), Some(held_by(&me(), 3)), asked.mul_f64(of_other));
    let may_start = |at: Duration| {
        matches!(
            theirs.step(&other(), at.mul_f64(of_other), stamp(0)),
            Step::Write(_)
        )
    };
    let moments = (0..600).map(|n| s(106) + Duration::from_millis(100) * n);
    let acts = |at: Duration| holder.since(at.mul_f64(of_holder)).is_some();
    assert!(moments.clone().any(may_start) && acts(s(106)));
    moments.clone().any(|at| acts(at) && may_start(at))
}

#[test]
fn clocks_that_run_at_different_rates_leave_no_moment_for_two() {
    for of_holder in [0.8, 0.9, 1.0, 1.1, 1.2] {
        for of_other in [0.8, 0.9, 1.0, 1.1, 1.19] {
            assert!(!overlaps(of_holder, of_other), "{of_holder} {of_other}");
        }
    }
    // Where one runs more than half as fast again as the other, they would: no clock does.
    assert!(overlaps(0.8, 1.25));
}

#[test]
fn a_renewal_counts_from_when_it_was_asked_for() {
    let mut seat = ours(s(100));
    seat.wrote(held_by(&me(), 3), s(103), s(107));
    assert_eq!(seat.since(s(112)), Some(s(100)), "the gain stays the same");
    assert_eq!(seat.since(s(113)), None);
}

#[test]
fn a_lapsed_lease_that_nobody_took_is_taken_up_again_and_a_lost_one_is_a_new_gain() {
    let mut seat = ours(s(100));
    seat.wrote(held_by(&me(), 3), s(150), s(150));
    assert!(seat.is_unclear(), "somebody may have stepped in");
    assert_eq!(seat.since(s(150)), None);
    seat.make_clear(None);
    assert_eq!(seat.since(s(150)), Some(s(100)));

    seat.see(&me(), Some(held_by(&other(), 160)), s(170));
    assert_eq!(
        (seat.since(s(170)), seat.holder()),
        (None, Some("system/pod-b/1"))
    );
    let Step::Write(taken) = seat.step(&me(), s(185), stamp(0)) else {
        panic!("it is free");
    };
    seat.wrote(stored(&taken), s(185), s(186));
    seat.make_clear(None);
    assert_eq!(seat.since(s(186)), Some(s(186)));
}

#[test]
fn a_renewal_in_time_needs_no_second_look_around() {
    let mut seat = ours(s(100));
    seat.wrote(held_by(&me(), 3), s(112), s(112));
    assert!(!seat.is_unclear());
    assert_eq!(seat.since(s(112)), Some(s(100)));
}

#[test]
fn what_is_given_up_is_not_ours_from_then_on() {
    let mut seat = ours(s(100));
    let record = seat.give_up().unwrap().released(stamp(1)).lease("l");
    assert_eq!(record.spec.unwrap().holder_identity.as_deref(), Some(""));
    assert_eq!(seat.since(s(100)), None);
}

/// The operator of the whole cluster, that has its lease since this moment and has listed no other.
fn whole(at: Duration) -> Leases {
    let mut leases = Leases::new(&Scope::Cluster);
    *leases.seat_mut("default").unwrap() = ours(at);
    leases
}

fn list(leases: &mut Leases, records: &[(&str, Record)], asked: Duration) {
    let records = records.iter().map(|(n, r)| ((*n).to_owned(), r.clone()));
    if let Leases::Cluster { others, .. } = leases {
        others.listed(records.collect::<BTreeMap<_, _>>(), asked, asked);
    }
}

fn renew(leases: &mut Leases, at: Duration) {
    let second = i64::try_from(at.as_secs()).unwrap();
    let seat = leases.seat_mut("default").unwrap();
    seat.wrote(held_by(&me(), second), at, at);
    seat.make_clear(None);
}

#[test]
fn the_operator_of_the_whole_cluster_acts_where_a_fresh_listing_shows_nobody_else() {
    let mut leases = whole(s(100));
    assert_eq!(
        leases.since(None, s(100)),
        Some(s(100)),
        "on what has no namespace"
    );
    assert_eq!(
        leases.since(Some("a"), s(100)),
        None,
        "it has not looked yet"
    );
    list(&mut leases, &[("b", held_by(&other(), 0))], s(99));
    assert_eq!(
        leases.since(Some("a"), s(100)),
        None,
        "the look was before its gain"
    );
    list(&mut leases, &[("b", held_by(&other(), 0))], s(101));
    assert_eq!(leases.since(Some("a"), s(101)), Some(s(100)));
    assert_eq!(leases.since(Some("b"), s(101)), None);
    assert!(leases.is_anothers(Some("b")) && !leases.is_anothers(Some("a")));
    assert_eq!(
        leases.since(Some("a"), s(101) + TRUSTED),
        None,
        "the look is too old"
    );
    assert!(
        !leases.is_anothers(Some("a")),
        "that is no sign of another one"
    );
    assert!(NOTICED > TRUSTED);
}

#[test]
fn a_namespace_comes_back_when_its_lease_has_ended_as_a_new_gain() {
    let mut leases = whole(s(100));
    list(&mut leases, &[("b", held_by(&other(), 0))], s(101));
    for now in [s(105), s(110), s(115)] {
        renew(&mut leases, now);
        list(&mut leases, &[("b", held_by(&other(), 0))], now);
        assert_eq!(leases.since(Some("b"), now), None, "{now:?}");
    }
    renew(&mut leases, s(116));
    assert_eq!(
        leases.since(Some("b"), s(116)),
        None,
        "only a listing says so"
    );
    list(&mut leases, &[("b", held_by(&other(), 0))], s(117));
    assert_eq!(leases.since(Some("b"), s(117)), Some(s(117)));
    assert_eq!(leases.since(Some("a"), s(117)), Some(s(100)));

    // It is taken again, and given back.
    list(&mut leases, &[("b", held_by(&other(), 20))], s(120));
    assert_eq!(leases.since(Some("b"), s(120)), None);
    let released = stored(&held_by(&other(), 20).released(stamp(21)));
    list(&mut leases, &[("b", released.clone())], s(121));
    assert_eq!(leases.since(Some("b"), s(121)), Some(s(121)));
    // Who came and went between two looks had it too.
    let again = stored(&held_by(&other(), 22).released(stamp(23)));
    list(&mut leases, &[("b", again)], s(122));
    assert_eq!(leases.since(Some("b"), s(122)), Some(s(122)));
}

#[test]
fn a_deleted_lease_of_a_namespace_holds_for_its_time() {
    let mut leases = whole(s(100));
    list(&mut leases, &[("b", held_by(&other(), 0))], s(101));
    for now in [s(105), s(110), s(115), s(119)] {
        renew(&mut leases, now);
        list(&mut leases, &[], now);
        assert_eq!(leases.since(Some("b"), now), None, "{now:?}");
    }
    renew(&mut leases, s(120));
    list(&mut leases, &[], s(120));
    assert_eq!(leases.since(Some("b"), s(120)), Some(s(120)));
}

#[test]
fn an_operator_of_some_namespaces_acts_in_them_and_on_nothing_without_a_namespace() {
    let scope = Scope::Namespaces(vec!["a".into(), "b".into()]);
    let mut leases = Leases::new(&scope);
    *leases.seat_mut("a").unwrap() = ours(s(100));
    assert_eq!(leases.since(Some("a"), s(101)), Some(s(100)));
    for place in [Some("b"), Some("c"), None] {
        assert_eq!(leases.since(place, s(101)), None, "{place:?}");
    }
    // Where an operator of the whole cluster may not have seen it yet, it begins later.
    let seat = leases.seat_mut("b").unwrap();
    seat.wrote(held_by(&me(), 0), s(101), s(101));
    assert_eq!(leases.since(Some("b"), s(101)), None);
    let seat = leases.seat_mut("b").unwrap();
    seat.make_clear(Some(s(101) + NOTICED));
    assert_eq!(seat.begins(s(101)), Some(s(109)));
    seat.wrote(held_by(&me(), 5), s(105), s(105));
    assert_eq!(leases.since(Some("b"), s(108)), None);
    assert_eq!(leases.since(Some("b"), s(109)), Some(s(109)));
}

#[test]
fn a_lease_that_says_nothing_is_free_and_none_is_believed_for_ever() {
    let lease = |spec: LeaseSpec| Lease {
        metadata: ObjectMeta::default(),
        spec: Some(spec),
    };
    let empty = Record::of(lease(LeaseSpec::default()), LASTS);
    assert_eq!((empty.holder, empty.lasts), (None, LASTS));
    let boastful = LeaseSpec {
        holder_identity: Some("x".into()),
        lease_duration_seconds: Some(i32::MAX),
        ..LeaseSpec::default()
    };
    assert_eq!(Record::of(lease(boastful), LASTS).lasts, s(60));
    let negative = LeaseSpec {
        lease_duration_seconds: Some(-5),
        ..LeaseSpec::default()
    };
    assert_eq!(Record::of(lease(negative), LASTS).lasts, LASTS);
}
