//! An order of unknown outcome.

use super::*;
use crate::controllers::server::memory::Obstacle;

fn open() -> Case {
    // The search began at 300, so absence may be believed from 900 on.
    Case::new().open(300, &[])
}

#[test]
fn absence_takes_three_looks_the_settle_time_and_a_control() {
    let unknown = Some(Reason::OutcomeUnknown);
    let with = |samples: &[u64]| Case::new().open(300, samples);
    table(vec![
        ("first look", open(), Some("LookForOrder"), unknown, false),
        (
            "second look",
            with(&[320]),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "third look, after the settle time",
            with(&[320, 400]),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "two looks, and the listing is of before the settle time",
            with(&[320, 400]).memory(|m| m.search.as_mut().unwrap().first_seen = secs(500)),
            None,
            unknown,
            false,
        ),
        (
            "three looks, the last too early",
            with(&[320, 400, 800]),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "proved",
            with(&[320, 400, 900]),
            None,
            Some(Reason::Ordering),
            false,
        ),
        (
            "proved, but the second in a row",
            with(&[320, 400, 900]).object(|o| {
                let order = o.status.as_mut().unwrap().order.as_mut().unwrap();
                order.intent.unknown_before = 1;
            }),
            None,
            unknown,
            true,
        ),
        (
            "no machine is known",
            open().view(|v| v.known.clear()),
            None,
            unknown,
            true,
        ),
        (
            "the listing does not show the machine that is known",
            open().view(|v| {
                let proof = Proof {
                    began: secs(990),
                    ended: secs(990),
                    servers: Vec::new(),
                };
                v.proof = Some(Arc::new(proof));
            }),
            None,
            unknown,
            true,
        ),
        (
            "the control's tag was not shown",
            open().memory(|m| m.search.as_mut().unwrap().obstacle = Some(Obstacle::NoControl)),
            Some("LookForOrder"),
            unknown,
            true,
        ),
        (
            "account blocked",
            open().blocked(Reason::KeyRejected),
            None,
            Some(Reason::KeyRejected),
            true,
        ),
        (
            "suspended: the search goes on",
            open().spec(|s| s.suspend = true),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "a person says that nothing was made",
            open().view(|v| v.known.clear()).acknowledged(own_tag()),
            None,
            Some(Reason::Ordering),
            false,
        ),
        (
            "a person speaks of another order",
            open()
                .view(|v| v.known.clear())
                .acknowledged(mark().order_tag(EPOCH - 1)),
            None,
            unknown,
            true,
        ),
        (
            "the machine is found",
            open().with(1, ServerStatus::Created),
            None,
            Some(Reason::Provisioning),
            false,
        ),
        (
            "only the finalizer is left",
            Case::new().held().memory(|m| m.search_for("", secs(300))),
            None,
            unknown,
            true,
        ),
    ]);
}

#[test]
fn proved_absence_closes_the_epoch() {
    let decision = Case::new().open(300, &[320, 400, 900]).decide();
    let order = decision.draft.status.order.unwrap();
    assert_eq!(order.outcome, Some(OrderOutcome::Absent));
    assert_eq!(order.intent.epoch, EPOCH);
    assert_eq!(
        decision.again,
        Duration::ZERO,
        "the next order is a pass of its own"
    );
}

#[test]
fn a_look_names_what_to_ask() {
    let Some(Effect::LookForOrder(search)) = open().decide().effect else {
        panic!("no look")
    };
    assert_eq!(search.order_tag, own_tag());
    assert_eq!((search.since, search.hostname.as_str()), (EPOCH, "web"));
    assert_eq!(search.control.uuid, uuid(CONTROL));
}

#[test]
fn looks_are_spaced() {
    let case = Case::new().open(300, &[960]);
    let decision = case.decide();
    assert_eq!(decision.effect, None);
    assert_eq!(decision.wants_proof, Some(secs(1020)));
    assert_eq!(decision.again, secs(20));
}
