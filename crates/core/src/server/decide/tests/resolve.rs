//! An order of unknown outcome.

use super::*;
use crate::server::memory::Obstacle;
use AcknowledgementEffect::{AssumeAbsent, OrderAnother};

fn open() -> Case {
    // The search began at 300, so absence may be believed from 900 on.
    Case::new().open(300, &[])
}

#[test]
fn absence_takes_three_looks_the_grace_period_and_a_control() {
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
            "third look, after the absence grace period",
            with(&[320, 400]),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "two looks, and the listing is of before the absence grace period",
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
                let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
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
            open().spec(|s| s.suspend = Some(true)),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "a user acknowledges that nothing was made",
            open().view(|v| v.known.clear()).given(AssumeAbsent),
            None,
            Some(Reason::Ordering),
            false,
        ),
        (
            "a user gives another token",
            open()
                .view(|v| v.known.clear())
                .written()
                .giving("0123456789ab"),
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
    let order = decision.draft.status.records.order.unwrap();
    assert_eq!(order.outcome, Some(OrderOutcome::Absent));
    assert_eq!(order.intent.epoch, EPOCH);
    assert_eq!(
        decision.again,
        Again::AtOnce,
        "the next order is a pass of its own"
    );
}

fn look(case: &Case) -> LookUp {
    match case.decide().effect {
        Some(Effect::LookForOrder(look)) => look,
        other => panic!("no look, but {other:?}"),
    }
}

#[test]
fn a_look_names_what_to_ask() {
    let look = look(&open());
    assert_eq!(look.order_tag, own_tag());
    assert_eq!(look.control.uuid, uuid(CONTROL));
    assert_eq!((look.suspect, look.proof_began), (None, secs(990)));
}

#[test]
fn the_control_is_a_machine_with_the_tag_that_it_bears_now() {
    let tag = |digit: &str| format!("fmo-order:{}", digit.repeat(32));
    let known = |number: u8, order_tag: &str, live: bool| KnownServer {
        uuid: uuid(number),
        order_tag: order_tag.into(),
        live,
    };
    let controls = |shown: &[(u8, ServerStatus, &str)]| {
        let servers: Vec<_> = shown
            .iter()
            .map(|(number, status, bears)| Arc::new(server(*number, status.clone(), &[bears])))
            .collect();
        let case = open().view(|v| {
            v.known = vec![
                known(7, &tag("a"), true),
                known(8, &tag("b"), true),
                known(9, &tag("c"), true),
            ];
            v.proof = Some(Arc::new(Proof {
                began: secs(990),
                ended: secs(990),
                servers,
            }));
        });
        look(&case).control
    };
    let live = || ServerStatus::Delivered;
    let over = || ServerStatus::Released;
    // After a take-over its former tag is on no machine.
    assert_eq!(
        controls(&[(7, live(), &tag("d"))]),
        known(7, &tag("d"), true)
    );
    // The tag of a live one is in use; that of another may be gone from the account.
    let both = [(7, over(), tag("a")), (9, live(), tag("c"))];
    let both = both.each_ref().map(|(n, s, t)| (*n, s.clone(), t.as_str()));
    assert_eq!(controls(&both), known(9, &tag("c"), true));
    // One that lost its tag shows nothing of tags as long as there is another.
    let stripped = [(7, live(), ""), (8, over(), tag("b").leak() as &str)];
    assert_eq!(controls(&stripped), known(8, &tag("b"), false));
    assert_eq!(
        controls(&[(8, over(), &tag("b"))]),
        known(8, &tag("b"), false)
    );
}

#[test]
fn looks_are_spaced() {
    let case = Case::new().open(300, &[960]);
    let decision = case.decide();
    assert_eq!(decision.effect, None);
    assert_eq!(decision.wants_proof, Some(secs(1020)));
    assert_eq!(decision.again, Again::After(secs(20)));
}

#[test]
fn a_look_goes_with_a_list_of_all_machines_that_is_not_older() {
    let list = |at| Some((secs(at), Arc::default()));
    for (what, servers) in [("none", None), ("older than the listing", list(989))] {
        let decision = open().view(|v| v.servers = servers).decide();
        assert_eq!(decision.effect, None, "{what}");
        assert_eq!(decision.wants_servers, Some(secs(990)), "{what}");
        assert_eq!(decision.wants_proof, None, "{what}");
    }
    let decision = open().view(|v| v.servers = list(990)).decide();
    assert!(decision.effect.is_some() && decision.wants_servers.is_none());
    // Nobody lists every machine of an account before the listing that it would go with.
    let early = Case::new().open(300, &[960]).view(|v| v.servers = None);
    assert_eq!(early.decide().wants_servers, None);
}

#[test]
fn a_machine_that_lost_its_mark_is_suspected_by_name_and_age() {
    let bare = || server(1, ServerStatus::Delivered, &[&cluster().tag()]);
    let suspect = |server: Server| {
        let servers = vec![server];
        let case = open().view(|v| v.servers = Some((secs(990), Arc::new(servers))));
        look(&case).suspect
    };
    assert_eq!(suspect(bare()), Some(uuid(1)));
    let unnamed = Server {
        name: " WEB ".into(),
        created_at: None,
        tags: Vec::new(),
        ..bare()
    };
    assert_eq!(suspect(unnamed), Some(uuid(1)));
    let other = Server {
        name: "db".into(),
        ..bare()
    };
    let older = Server {
        created_at: Some(EPOCH - 301),
        ..bare()
    };
    let by_another_clock = Server {
        created_at: Some(EPOCH - 300),
        ..bare()
    };
    assert_eq!(suspect(by_another_clock), Some(uuid(1)));
    // The spec was edited since.
    let servers = vec![bare()];
    let edited = open()
        .spec(|s| s.hostname = Some("renamed".into()))
        .view(|v| v.servers = Some((secs(990), Arc::new(servers))));
    assert_eq!(look(&edited).suspect, Some(uuid(1)));
    let marked = server(1, ServerStatus::Delivered, &[&mark().order_tag(1)]);
    let dead = server(1, ServerStatus::Released, &[]);
    for server in [other, older, marked, dead] {
        assert_eq!(suspect(server.clone()), None, "{server:?}");
    }
}

#[test]
fn an_acknowledgement_waits_for_what_may_still_be_on_its_way() {
    let times = Case::new().0.view().unwrap().times;
    // What is longer on its way, or not shown for longer, is no matter of it.
    let late = times.absence_grace_period.as_secs();
    let given = |first_seen| {
        let stuck = Case::new().open(first_seen, &[]).view(|v| v.known.clear());
        stuck.given(AssumeAbsent)
    };
    let early = given(991 - late);
    let token = early.pending(AssumeAbsent).unwrap();
    let waits = early.decide();
    assert_eq!(
        short(&waits),
        (None, Some(Reason::OutcomeUnknown), false),
        "the listing began at 990"
    );
    assert_eq!(waits.wants_proof, Some(secs(991)));
    assert_eq!(early.written().pending(AssumeAbsent), Some(token));
    let settled = given(990 - late).decide();
    let outcome = |decision: &Decision| {
        decision
            .draft
            .status
            .records
            .order
            .as_ref()
            .unwrap()
            .outcome
    };
    assert_eq!(outcome(&waits), None);
    assert_eq!(outcome(&settled), Some(OrderOutcome::Absent));
}

#[test]
fn an_acknowledgement_of_an_order_without_a_trace_waits_for_what_an_earlier_process_may_have_sent()
{
    let given = |gained| {
        let case = Case::new().held().given(AssumeAbsent);
        case.facts(|f| {
            f.is_newcomer = false;
            f.acting_since = secs(gained);
        })
    };
    // The listing began at 990, and the absence grace period is ten minutes.
    let early = (None, Some(Reason::WaitingForListing), false);
    assert_eq!(short(&given(391).decide()), early);
    assert!(given(391).written().pending(AssumeAbsent).is_some());
    // Also where the order is queued, or waits after a failure, and only what is said of it is written.
    for due in [given(390), given(390).written()] {
        let Some(Effect::Order(planned)) = due.decide().effect else {
            panic!("{due:?}")
        };
        let intent = fence::start(&due.0, &planned, "nonce", secs(30)).unwrap();
        let started = intent::status(&due.0, &intent::open(&due.0, &intent, &planned));
        assert_eq!(started.pending_acknowledgements, []);
        assert_eq!(started.acknowledged.len(), 1);
    }
}

#[test]
fn a_token_is_void_once_a_machine_of_the_order_is_shown() {
    let stuck = open().view(|v| v.known.clear());
    let found = stuck.given(AssumeAbsent).with(1, ServerStatus::Delivered);
    assert_eq!(short(&found.decide()).1, Some(Reason::Delivered));
    let told = found.written();
    assert_eq!(told.pending(AssumeAbsent), None);
    assert_eq!(told.0.status().acknowledged, []);
    let unshown = told.facts(|f| f.own.clear());
    assert_eq!(short(&unshown.decide()).0, Some("Read"));
}

#[test]
fn what_stands_in_the_way_is_part_of_what_is_acknowledged() {
    let stuck = |obstacle: Option<Obstacle>| {
        Case::new().open(300, &[320]).memory(|m| {
            let search = m.search.as_mut().unwrap();
            (search.looked, search.obstacle) = (Some(secs(900)), obstacle);
        })
    };
    let given = stuck(Some(Obstacle::NoControl)).given(AssumeAbsent);
    let token = given.pending(AssumeAbsent).unwrap();
    let closed = given.decide().draft.status.records.order.unwrap().outcome;
    assert_eq!(closed, Some(OrderOutcome::Absent));
    for obstacle in [Some(Obstacle::TagExists), None] {
        let is_stuck = obstacle.is_some();
        let mut other = given.clone();
        other.0.memory = stuck(obstacle).0.memory;
        let decision = other.decide();
        assert_eq!(
            decision
                .draft
                .status
                .records
                .order
                .as_ref()
                .unwrap()
                .outcome,
            None
        );
        let told = other.written();
        let asked = told.pending(AssumeAbsent);
        assert_eq!(asked.is_some(), is_stuck);
        assert_ne!(asked.as_ref(), Some(&token));
        // It stands in the way again.
        let mut back = told;
        back.0.memory = given.0.memory.clone();
        assert_eq!(short(&back.decide()).1, Some(Reason::OutcomeUnknown));
    }
    // A process that has just started has not looked yet.
    let restarted = given.memory(|m| {
        let search = m.search.as_mut().unwrap();
        (search.first_seen, search.looked, search.obstacle) = (secs(995), None, None);
    });
    assert_eq!(restarted.written().pending(AssumeAbsent), Some(token));
}

#[test]
fn an_acknowledgement_ends_the_row_of_unknown_outcomes_and_is_no_word_of_the_next_order() {
    let twice = |samples: &[u64]| {
        Case::new().open(300, samples).object(|o| {
            let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            order.intent.unknown_before = 1;
        })
    };
    // Asked for from the first look on, as it will be needed.
    let given = twice(&[320]).given(AssumeAbsent);
    let token = given.pending(AssumeAbsent).unwrap();
    let stuck = twice(&[320, 400, 900]).written();
    assert_eq!(stuck.pending(AssumeAbsent), Some(token.clone()));
    let closed = given.written();
    assert_eq!(closed.0.status().acknowledged[0].token, token);
    let Some(Effect::Order(next)) = closed.decide().effect else {
        panic!("{closed:?}")
    };
    assert_eq!((next.unknown_before, next.after_epoch), (0, EPOCH));
    // Proved by listings, it is one more.
    let proved = Case::new().open(300, &[320, 400, 900]).written();
    let Some(Effect::Order(next)) = proved.decide().effect else {
        panic!("{proved:?}")
    };
    assert_eq!(next.unknown_before, 1);
    // The next order is lost as well.
    let mut intent = closed.intent();
    intent.epoch = EPOCH + 1;
    let lost = closed.noted(&intent).object(|o| {
        let order = OrderRecord::open(intent);
        o.status.as_mut().unwrap().records.order = Some(order);
    });
    let lost = lost.view(|v| v.known.clear());
    assert_eq!(
        short(&lost.decide()),
        (None, Some(Reason::OutcomeUnknown), true)
    );
    assert_ne!(lost.written().pending(AssumeAbsent), Some(token));
}

#[test]
fn two_that_are_pending_are_both_needed() {
    let bare = Case::new().held().beside(&[1]).given(AssumeAbsent);
    let one = bare.pending(AssumeAbsent).unwrap();
    let both = bare.written();
    assert_eq!(both.pending(AssumeAbsent).as_ref(), Some(&one));
    let other = both.pending(OrderAnother).unwrap();
    let retained = (None, Some(Reason::ServerExists), true);
    assert_eq!(short(&both.decide()), retained);
    let alone = both.clone().giving(&other);
    assert_eq!(
        short(&alone.decide()),
        (None, Some(Reason::OutcomeUnknown), true)
    );
    for tokens in [format!("{one},{other}"), format!("{other}, {one}")] {
        let given = both.clone().giving(&tokens);
        assert_eq!(short(&given.decide()).0, Some("Order"), "{tokens}");
    }
}
