//! The decisions on a Lease as plain data, with explicit times.

use super::*;

const LASTS: Duration = Duration::from_secs(15);
const ACTS: Duration = Duration::from_secs(10);

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(second: i64) -> MicroTime {
    MicroTime(Timestamp::from_second(1_800_000_000 + second).unwrap())
}

fn lease_state(me: &str) -> LeaseState {
    let pod = me.rsplit_once('/').map_or("", |(pod, _)| pod);
    LeaseState {
        me: me.into(),
        pod: if pod.is_empty() {
            String::new()
        } else {
            format!("{pod}/")
        },
        lasts: LASTS,
        acts: ACTS,
        ..LeaseState::default()
    }
}

/// The Lease as the API server returns it, with this holder, renewed at this second.
fn lease_of(me: &str, renewed: i64) -> Lease {
    let mut lease = lease_state(me).claim("l", at(renewed));
    lease.metadata.resource_version = Some("7".into());
    lease
}

#[test]
fn logged_holder_is_cleaned_and_truncated() {
    let mut lease_state = lease_state("a/1");
    let holder = format!(
        "b\u{202e}\u{1b}[2J\n2026-01-01 INFO forged {}",
        "x".repeat(100_000)
    );
    lease_state.observe_lease(Some(lease_of(&holder, 0)), s(1));
    let shown = lease_state.shown_holder().unwrap();
    assert!(
        shown.starts_with("b [2J 2026-01-01 INFO forged x"),
        "{shown}"
    );
    assert!(shown.len() <= 256 && !shown.chars().any(char::is_control));
}

fn may_take(lease_state: &LeaseState, now: Duration) -> bool {
    lease_state.free_at().is_none_or(|at| at <= now)
}

/// The state of a process that took its Lease at this moment.
fn mine(now: Duration) -> LeaseState {
    let mut lease_state = lease_state("a/1");
    lease_state.observe_lease(None, now);
    lease_state.record_write(lease_of("a/1", 0), now, now);
    lease_state
}

#[test]
fn unrenewed_lease_expires_by_local_clock() {
    let mut lease_state = lease_state("a/1");
    // Its wall time may be years off.
    lease_state.observe_lease(Some(lease_of("b/1", -1_000_000)), s(100));
    lease_state.observe_lease(Some(lease_of("b/1", -1_000_000)), s(110));
    assert!(!may_take(&lease_state, s(114)) && may_take(&lease_state, s(115)));
    // A renewal restarts the lease duration.
    lease_state.observe_lease(Some(lease_of("b/1", -999_999)), s(115));
    assert!(!may_take(&lease_state, s(129)) && may_take(&lease_state, s(130)));
    assert_eq!(
        lease_state.leader_since(s(130)),
        None,
        "what may be taken is not taken"
    );
}

#[test]
fn lease_labels_are_kept_and_renew_nothing() {
    let mut lease_state = lease_state("a/1");
    lease_state.observe_lease(Some(lease_of("b/1", 0)), s(100));
    let mut labelled = lease_of("b/1", 0);
    labelled.metadata.resource_version = Some("8".into());
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    lease_state.observe_lease(Some(labelled), s(114));
    assert!(may_take(&lease_state, s(115)));
    let taken = lease_state.claim("l", at(0));
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("8"));
    assert!(taken.metadata.labels.is_some());
    assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
}

#[test]
fn only_a_released_lease_is_free_at_once() {
    let mut theirs = mine(s(90));
    let mut released = theirs.give_up("l", at(1)).unwrap();
    released.metadata.resource_version = Some("9".into());
    let mut lease_state = lease_state("b/1");
    lease_state.observe_lease(Some(lease_of("a/1", 0)), s(100));
    assert!(!may_take(&lease_state, s(101)));
    lease_state.observe_lease(Some(released), s(101));
    assert!(may_take(&lease_state, s(101)));

    lease_state.observe_lease(Some(lease_of("a/1", 5)), s(100));
    lease_state.observe_lease(None, s(101));
    lease_state.observe_lease(None, s(110));
    assert!(
        !may_take(&lease_state, s(115)),
        "its holder may not know of it yet"
    );
    assert!(may_take(&lease_state, s(116)));
    // If no Lease was ever observed, there is nothing to wait for.
    assert!(may_take(&LeaseState::default(), s(0)));
}

#[test]
fn restarted_pod_takes_over_its_own_lease() {
    let mut first = lease_state("a/1");
    first.observe_lease(Some(lease_of("a/0", 0)), s(1));
    assert!(may_take(&first, s(1)));
    // Not the Lease of a process that came later under the same name.
    let mut twin = mine(s(1));
    twin.observe_lease(Some(lease_of("a/0", 5)), s(5));
    assert_eq!(twin.leader_since(s(5)), None);
    assert!(!may_take(&twin, s(5)));
    // Pod names are compared whole, and without a pod name nothing is taken over.
    for (me, holder) in [("a/1", "aa/0"), ("1", "2"), ("1", "a/2")] {
        let mut lease_state = lease_state(me);
        lease_state.observe_lease(Some(lease_of(holder, 0)), s(1));
        assert!(!may_take(&lease_state, s(1)), "{me} {holder}");
    }
}

/// Whether there is a moment at which the holder still leads and another process may take the Lease, if their clocks
/// run by these factors.
fn overlaps(of_holder: f64, of_other: f64) -> bool {
    let mut holder = mine(s(100).mul_f64(of_holder));
    let asked = s(103);
    let (begun, done) = (asked.mul_f64(of_holder), s(106).mul_f64(of_holder));
    holder.record_write(lease_of("a/1", 3), begun, done);
    // Observed as early as possible, as if only its answer were late.
    let mut theirs = lease_state("b/1");
    theirs.observe_lease(Some(lease_of("a/1", 3)), asked.mul_f64(of_other));
    let may_start = |at: Duration| may_take(&theirs, at.mul_f64(of_other));
    let acts = |at: Duration| holder.leader_since(at.mul_f64(of_holder)).is_some();
    let mut moments = (0..600).map(|n| s(106) + Duration::from_millis(100) * n);
    assert!(moments.clone().any(may_start) && acts(s(106)));
    moments.any(|at| acts(at) && may_start(at))
}

#[test]
fn clock_drift_never_allows_two_leaders() {
    for of_holder in [0.8, 0.9, 1.0, 1.1, 1.2] {
        for of_other in [0.8, 0.9, 1.0, 1.1, 1.19] {
            assert!(!overlaps(of_holder, of_other), "{of_holder} {of_other}");
        }
    }
    // If one clock runs over 50 % faster than the other, they overlap. No clock does.
    assert!(overlaps(0.8, 1.25));
}

#[test]
fn renewal_counts_from_its_request_time() {
    let mut lease_state = mine(s(100));
    assert_eq!(
        lease_state.leader_since(s(100) + ACTS - Duration::from_millis(1)),
        Some(s(100))
    );
    assert_eq!(
        lease_state.leader_since(s(100) + ACTS),
        None,
        "whatever ran or slept in between"
    );
    lease_state.record_write(lease_of("a/1", 3), s(103), s(107));
    assert_eq!(lease_state.leader_since(s(112)), Some(s(100)));
    assert_eq!(lease_state.leader_since(s(113)), None);
}

#[test]
fn only_a_lost_lease_starts_a_new_term() {
    let mut lease_state = mine(s(100));
    lease_state.record_write(lease_of("a/1", 3), s(150), s(151));
    assert_eq!(
        lease_state.leader_since(s(151)),
        Some(s(100)),
        "nobody took it"
    );
    assert_eq!(lease_state.term.unwrap().unbroken_since, s(151));
    lease_state.record_write(lease_of("a/1", 4), s(152), s(152));
    assert_eq!(lease_state.term.unwrap().unbroken_since, s(151));
    lease_state.observe_lease(Some(lease_of("b/1", 160)), s(155));
    assert_eq!(
        (lease_state.leader_since(s(155)), lease_state.holder()),
        (None, Some("b/1"))
    );
    assert!(may_take(&lease_state, s(170)));
    lease_state.record_write(lease_of("a/1", 170), s(170), s(171));
    assert_eq!(lease_state.leader_since(s(171)), Some(s(171)));
    lease_state.give_up("l", at(1)).unwrap();
    assert_eq!(lease_state.leader_since(s(171)), None);
}

#[test]
fn empty_lease_is_free_long_one_is_capped() {
    let mut lease_state = lease_state("a/1");
    lease_state.observe_lease(Some(Lease::default()), s(1));
    assert!(may_take(&lease_state, s(1)));
    for (said, lasts) in [(Some(86_400), LONGEST), (None, LASTS), (Some(-1), LASTS)] {
        let mut lease = lease_of("b/1", i64::from(said.unwrap_or_default()));
        lease.spec.as_mut().unwrap().lease_duration_seconds = said;
        lease_state.observe_lease(Some(lease), s(100));
        assert!(!may_take(&lease_state, s(100) + lasts - s(1)));
        assert!(may_take(&lease_state, s(100) + lasts));
    }
}
