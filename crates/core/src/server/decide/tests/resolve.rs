//! An order of unknown outcome.

use super::*;
use crate::server::memory::Obstacle;

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
            open().spec(|s| s.suspend = Some(true)),
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
    let known = |number: u8, order_tag: &str, live: bool| KnownMachine {
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
fn a_persons_word_waits_for_what_may_still_be_on_its_way() {
    let times = Case::new().0.view().unwrap().times;
    // What is longer on its way, or not shown for longer, is no matter of the word.
    let late = times.absence_grace_period.as_secs();
    let told = |first_seen| Case::new().open(first_seen, &[]).acknowledged(own_tag());
    let early = told(991 - late).decide();
    assert_eq!(
        short(&early),
        (None, Some(Reason::OutcomeUnknown), false),
        "the listing began at 990"
    );
    assert_eq!(early.wants_proof, Some(secs(991)));
    let settled = told(990 - late).decide();
    let outcome = |decision: &Decision| decision.draft.status.order.as_ref().unwrap().outcome;
    assert_eq!(outcome(&early), None);
    assert_eq!(outcome(&settled), Some(OrderOutcome::Absent));
}

#[test]
fn a_persons_word_of_an_order_without_a_trace_waits_for_what_an_earlier_process_may_have_sent() {
    let word = mark().tag_prefix();
    let told = |gained| {
        let case = Case::new().held().acknowledged(word.clone());
        case.facts(|f| {
            f.is_newcomer = false;
            f.acting_since = secs(gained);
        })
    };
    // The listing began at 990, and the absence grace period is ten minutes.
    let early = (None, Some(Reason::WaitingForListing), false);
    assert_eq!(short(&told(391).decide()), early);
    assert_eq!(short(&told(390).decide()).0, Some("Order"));
}
