//! The desired status.

use super::*;
use crate::{explanation::Explanation, server::decide::desired_status::DesiredStatus};
use api::conditions;

#[test]
fn the_four_conditions_come_of_one_reason() {
    let facts = Case::new().0;
    for (explanation, ready, stalled) in [
        (Explanation::ready(Reason::Ordering, "why"), true, false),
        (Explanation::waits(Reason::Ordering, "why"), false, false),
        (Explanation::stalled(Reason::Ordering, "why"), false, true),
    ] {
        let mut desired = DesiredStatus::unchanged(&facts);
        desired.set(&facts, explanation, None);
        let on = |kind| desired.condition(kind).unwrap().status == Some(true);
        assert_eq!(on(Type::Ready), ready);
        assert_eq!(on(Type::Stalled), stalled);
        assert_eq!(on(Type::Reconciling), !ready && !stalled);
        assert_eq!(desired.status.observed_generation, Some(3));
    }
}

#[test]
fn transition_time_changes_only_with_condition_status() {
    let facts = Case::new().0;
    let at = |seconds| Timestamp::from_second(START + seconds).unwrap();
    let mut first = DesiredStatus::waiting(&facts, waits(Reason::Ordering));
    first.status = first.finish(at(1));
    first.set(&facts, waits(Reason::Provisioning), None);
    let second = first.finish(at(2));
    let ready = |status: &BareMetalServerStatus| {
        let found = status
            .conditions
            .iter()
            .find(|c| c.type_ == "Ready")
            .unwrap();
        (found.reason.clone(), found.last_transition_time.0)
    };
    assert_eq!(ready(&second), ("Provisioning".into(), at(1)));
    first.set(
        &facts,
        Explanation::ready(Reason::Delivered, "it is there"),
        None,
    );
    assert_eq!(ready(&first.finish(at(3))), ("Delivered".into(), at(3)));
}

#[test]
fn unchanged_status_is_written_as_it_is() {
    let case = Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .object(|o| {
            let holding = DesiredStatus::waiting(&Case::new().0, waits(Reason::Provisioning));
            o.status.as_mut().unwrap().conditions = holding
                .finish(Timestamp::from_second(START).unwrap())
                .conditions;
        });
    let before = case.0.status();
    assert!(!conditions::is_true(&before.conditions, Type::Ready));
    let after =
        DesiredStatus::unchanged(&case.0).finish(Timestamp::from_second(START + 9).unwrap());
    assert_eq!(after, before);
}

#[test]
fn the_spec_is_shown_until_the_server_is() {
    let shown = |case: &Case| {
        let status = case.decide().desired.status;
        [status.location, status.instance_type, status.os].map(Option::unwrap_or_default)
    };
    let new = Case::new().spec(|s| s.location = Some("there".into()));
    assert_eq!(shown(&new), ["there", "small", "some-os"]);
    // The spec as it is now: nothing is ordered yet.
    let stale = new
        .clone()
        .object(|o| o.status = Some(new.decide().desired.status));
    let edited = stale.spec(|s| s.instance_type = Some("large".into()));
    assert_eq!(shown(&edited), ["there", "large", "some-os"]);
    let edited = new
        .ordered(Some(OrderOutcome::Created), Some(1))
        .with(1, ServerStatus::Created);
    let server = edited.spec(|s| s.os.as_mut().unwrap().slug = "later".into());
    assert_eq!(shown(&server), ["here", "small", "some-os"]);
    // The shown values stay while the server cannot be seen.
    let status = server.decide().desired.status;
    assert_eq!(status.hostname.as_deref(), Some("web"));
    assert_eq!(status.provider_status.as_deref(), Some("created"));
    let unseen = server.object(|o| o.status = Some(status));
    let unseen = unseen.facts(|f| f.own.clear()).blocked(Reason::KeyRejected);
    assert_eq!(shown(&unseen), ["here", "small", "some-os"]);
}

#[test]
fn new_object_without_conditions_shows_no_spec() {
    let unlisted = Case::new().unlisted();
    let unlisted = unlisted.facts(|f| f.first_seen = RUNNING);
    let desired = unlisted.decide().desired;
    assert!(desired.is_silent());
    assert_eq!(desired.status, BareMetalServerStatus::default());
}
