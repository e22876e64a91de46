//! What an account shows is believed only of the account that the order went to.

use super::{recall::Bare, *};
use crate::server::recall::recall;
use AcknowledgementEffect::AssumeAbsent;

/// The account stands on another connection, and another lineage is on record.
fn elsewhere(case: Case) -> Case {
    case.view(|v| {
        v.connection = Some("c0ffee000002".into());
        v.lineage = Some("33333333cccc".into());
    })
}

fn same_lineage(case: Case) -> Case {
    case.view(|v| v.connection = Some("c0ffee000002".into()))
}

fn same_connection(case: Case) -> Case {
    case.view(|v| v.lineage = Some("33333333cccc".into()))
}

#[test]
fn an_order_is_not_proved_absent_in_another_account() {
    let proved = || Case::new().open(300, &[320, 400, 900]);
    let unknown = (None, Some(Reason::OutcomeUnknown), true);
    let absent = (None, Some(Reason::Ordering), false);
    assert_eq!(short(&proved().decide()), absent);
    assert_eq!(
        short(&same_lineage(proved()).decide()),
        absent,
        "the key was rotated"
    );
    assert_eq!(
        short(&same_connection(proved()).decide()),
        absent,
        "it is back"
    );
    assert_eq!(short(&elsewhere(proved()).decide()), unknown);
    let given = elsewhere(proved()).given(AssumeAbsent);
    assert_eq!(short(&given.decide()), absent, "a user acknowledges it");
    // The machine itself is an outcome wherever it is shown.
    let found = elsewhere(proved()).with(1, ServerStatus::Delivered);
    assert_eq!(short(&found.decide()).1, Some(Reason::Delivered));
    // Deleted objects are not let go on it either.
    assert_eq!(short(&proved().deleting().decide()).0, Some("LetGo"));
    assert_eq!(short(&elsewhere(proved()).deleting().decide()), unknown);
    // Nobody knows any more where it went.
    let lost = proved().object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.intent.account = None;
    });
    assert!(short(&lost.decide()).2);
}

#[test]
fn a_machine_is_not_gone_because_another_account_does_not_show_it() {
    let tried =
        |looks: &[u64]| missing::created().memory(|m| m.missing = missing::tried(looks, looks));
    let gone = tried(&[800, 900]).deleting();
    assert_eq!(short(&gone.decide()).0, Some("LetGo"));
    let not_found = (None, Some(Reason::ServerNotFound), true);
    for early in [elsewhere(gone), elsewhere(tried(&[800, 900]))] {
        assert_eq!(short(&early.decide()), not_found);
        let token = early.written().pending(AssumeAbsent);
        assert_eq!(token, None, "it may be shown late");
    }
    let long = || elsewhere(tried(&[300, 360, 990]));
    let given = long().deleting().given(AssumeAbsent);
    assert_eq!(short(&given.decide()).0, Some("LetGo"));
    // The token was read long ago: it is looked for once more.
    let later = given.facts(|f| f.now.mono += secs(4000));
    let not_yet = (Some("Read"), Some(Reason::ServerNotFound), true);
    assert_eq!(short(&later.decide()), not_yet);
    // A living object orders another one then.
    let given = long().given(AssumeAbsent);
    let closed = given.decide().draft.status;
    assert_eq!(
        closed.records.order.unwrap().outcome,
        Some(OrderOutcome::Absent)
    );
    assert_eq!(
        (closed.uuid, closed.pending_acknowledgements.len()),
        (None, 0)
    );
    // It is back where the machine was recorded.
    let back = given.view(|v| v.connection = Some(CONNECTION.into()));
    assert_eq!(short(&back.decide()), not_found);
}

#[test]
fn a_machine_that_is_shown_is_recorded_under_the_lineage_that_shows_it() {
    let kept = machine::kept(ServerStatus::Delivered);
    assert_eq!(kept.decide().effect, None);
    assert_eq!(
        same_lineage(kept.clone()).decide().effect,
        None,
        "no write for a rotation"
    );
    let Some(Effect::WriteNote(note)) = elsewhere(kept).decide().effect else {
        panic!("not recorded")
    };
    assert_eq!(
        note.intent.account,
        Some(ordered_from("33333333cccc", "c0ffee000002"))
    );
}

#[test]
fn samples_end_with_the_connection() {
    let mut facts = Case::new().open(300, &[320, 400]).0;
    facts.memory.missing = missing::tried(&[800], &[800]);
    recall(&mut facts, Some(&Bare::default()));
    assert_eq!(facts.memory.search.as_ref().unwrap().samples.len(), 2);
    let mut facts = same_lineage(Case(facts)).0;
    recall(&mut facts, Some(&Bare::default()));
    let search = facts.memory.search.as_ref().unwrap();
    assert_eq!((search.samples.len(), search.looked), (0, None));
    assert_eq!(search.first_seen, secs(300), "the search goes on");
    assert_eq!(facts.memory.missing, Default::default());
}

#[test]
fn an_intent_names_the_account_and_a_plan_for_another_one_is_given_up() {
    let planned = Case::new();
    let Some(Effect::Order(plan)) = planned.decide().effect else {
        panic!("no order")
    };
    let start = |case: &Case| fence::start(&case.0, &plan, "new", secs(30));
    let intent = start(&planned).unwrap();
    assert_eq!(intent.account, Some(ordered_from(LINEAGE, CONNECTION)));
    assert_eq!(intent.hostname, "web");
    for other in [
        elsewhere(planned.clone()),
        same_lineage(planned.clone()),
        same_connection(planned.clone()),
    ] {
        assert!(start(&other).is_none());
    }
    let unrecorded = planned.view(|v| v.lineage = None);
    assert_eq!(
        unrecorded.decide().effect,
        None,
        "nothing is ordered before it is on record"
    );
}
