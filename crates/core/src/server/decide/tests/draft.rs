//! The next status.

use super::*;
use crate::{cause::Cause, server::decide::draft::Draft};
use api::conditions;

#[test]
fn the_four_conditions_come_of_one_reason() {
    let facts = Case::new().0;
    for (cause, ready, stalled) in [
        (Cause::ready(Reason::Ordering, "why"), true, false),
        (Cause::waits(Reason::Ordering, "why"), false, false),
        (Cause::needs_person(Reason::Ordering, "why"), false, true),
    ] {
        let mut draft = Draft::unchanged(&facts);
        draft.set(&facts, cause, None);
        let on = |kind| draft.condition(kind).unwrap().status == Some(true);
        assert_eq!(on(Type::Ready), ready);
        assert_eq!(on(Type::Stalled), stalled);
        assert_eq!(on(Type::Reconciling), !ready && !stalled);
        assert_eq!(draft.status.observed_generation, Some(3));
    }
}

#[test]
fn a_transition_time_moves_with_the_status_word_only() {
    let facts = Case::new().0;
    let at = |seconds| Timestamp::from_second(START + seconds).unwrap();
    let mut first = Draft::holding(&facts, waits(Reason::Ordering));
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
    first.set(&facts, Cause::ready(Reason::Delivered, "it is there"), None);
    assert_eq!(ready(&first.finish(at(3))), ("Delivered".into(), at(3)));
}

#[test]
fn an_unchanged_draft_writes_what_is_there() {
    let case = Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .object(|o| {
            let holding = Draft::holding(&Case::new().0, waits(Reason::Provisioning));
            o.status.as_mut().unwrap().conditions = holding
                .finish(Timestamp::from_second(START).unwrap())
                .conditions;
        });
    let before = case.0.status();
    assert!(!conditions::is_true(&before.conditions, Type::Ready));
    let after = Draft::unchanged(&case.0).finish(Timestamp::from_second(START + 9).unwrap());
    assert_eq!(after, before);
}

#[test]
fn own_tags_are_not_shown_as_the_users() {
    let facts = Case::new().0;
    let mut draft = Draft::unchanged(&facts);
    draft.show(&server(
        1,
        ServerStatus::Delivered,
        &[&cluster().tag(), &own_tag(), "team:a"],
    ));
    assert_eq!(draft.status.observed.unwrap().tags, ["team:a"]);
    assert_eq!(draft.status.provider_status.as_deref(), Some("delivered"));
}
