//! May a new order start?

use super::*;
use crate::account_facts::stop;
use crate::{
    account::{supply::Demand, view::Catalogue},
    cause::Cause,
    once,
};
use hosting_types::catalogue::{Availability, Plan, PlanLocation};

pub(super) fn plan(availability: Availability) -> Plan {
    Plan {
        name: "SMALL ".into(),
        cpu: None,
        memory: None,
        disks: Vec::new(),
        network_interfaces: Vec::new(),
        gpu: None,
        locations: vec![PlanLocation {
            name: "Here".into(),
            data_centre: String::new(),
            availability,
        }],
    }
}

pub(super) fn catalogue(plan: Plan) -> Option<(Duration, Arc<Catalogue>)> {
    let catalogue = Catalogue {
        plans: vec![plan],
        ..Default::default()
    };
    Some((secs(990), Arc::new(catalogue)))
}

#[test]
fn an_order_waits_for_each_of_its_causes() {
    let new = Case::new();
    let refused = new.clone().ordered(Some(OrderOutcome::Refused), None);
    let denied = |reason| {
        new.clone()
            .facts(|f| f.denied = Some((reason, "no".into())))
    };
    table(vec![
        (
            "nothing in the way",
            new.clone(),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "suspended",
            new.clone().spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "suspended by the account",
            new.clone()
                .view(|v| v.defaults.as_mut().unwrap().suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "suspended by the account, and not by the object",
            new.clone()
                .spec(|s| s.suspend = Some(false))
                .view(|v| v.defaults.as_mut().unwrap().suspend = Some(true)),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "stopped at the account, whatever the object says",
            new.clone().spec(|s| s.suspend = Some(false)).view(|v| {
                stop(
                    v,
                    Some("the account is stopped; ask for the end of it".into()),
                )
            }),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "no account",
            new.clone().facts(|f| f.account = unsaid("default")),
            None,
            Some(Reason::AccountNotFound),
            false,
        ),
        (
            "no account for two minutes",
            new.clone()
                .facts(|f| f.account = unsaid("default"))
                .waited_for(Reason::AccountNotFound),
            None,
            Some(Reason::AccountNotFound),
            true,
        ),
        (
            "the account's Secret is not there",
            new.clone().blocked(Reason::ReferenceNotFound),
            None,
            Some(Reason::ReferenceNotFound),
            false,
        ),
        (
            "the account's Secret is not there for two minutes",
            new.clone()
                .blocked(Reason::ReferenceNotFound)
                .waited_for(Reason::ReferenceNotFound),
            None,
            Some(Reason::ReferenceNotFound),
            true,
        ),
        (
            "namespace not allowed",
            new.clone().facts(|f| {
                if let AccountFacts::Found { terms, .. } = &mut f.account {
                    *terms = crate::account::terms::Terms::Refused("not this one".into());
                }
            }),
            None,
            Some(Reason::NotAllowed),
            true,
        ),
        (
            "key rejected",
            new.clone().blocked(Reason::KeyRejected),
            None,
            Some(Reason::KeyRejected),
            true,
        ),
        (
            "provider away",
            new.clone().blocked(Reason::ProviderUnreachable),
            None,
            Some(Reason::ProviderUnreachable),
            false,
        ),
        (
            "no listing yet: no news",
            new.clone().view(|v| v.proof = None),
            None,
            None,
            false,
        ),
        (
            "no listing, and the look failed",
            new.clone().view(|v| {
                v.proof = None;
                v.last_error = Some((Reason::ProviderUnreachable, "away".into()));
            }),
            None,
            Some(Reason::ProviderUnreachable),
            false,
        ),
        (
            "no catalogue yet: no news",
            new.clone().view(|v| v.catalogue = None),
            None,
            None,
            false,
        ),
        (
            "catalogue too old",
            new.clone()
                .view(|v| v.catalogue = Some((secs(900), Arc::default()))),
            None,
            None,
            false,
        ),
        (
            "a key that is not there",
            new.clone().facts(|f| {
                f.installation = Some(Err(Cause::needs_person(
                    Reason::ReferenceNotFound,
                    "no key",
                )))
            }),
            None,
            Some(Reason::ReferenceNotFound),
            true,
        ),
        (
            "the limit",
            denied(Reason::LimitReached),
            None,
            Some(Reason::LimitReached),
            true,
        ),
        (
            "no stock",
            new.clone()
                .view(|v| v.catalogue = catalogue(plan(Availability::Unavailable))),
            None,
            Some(Reason::NoStock),
            false,
        ),
        (
            "stock, and names in other case",
            new.clone()
                .view(|v| v.catalogue = catalogue(plan(Availability::Low))),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "an unknown type",
            new.clone()
                .spec(|s| s.instance_type = Some("large".into()))
                .view(|v| v.catalogue = catalogue(plan(Availability::High))),
            None,
            Some(Reason::InvalidSpec),
            true,
        ),
        (
            "a host name that is none",
            new.clone().spec(|s| s.hostname = Some("a_b".into())),
            None,
            Some(Reason::InvalidSpec),
            true,
        ),
        (
            "refused a moment ago",
            refused.clone().facts(|f| f.now.wall = EPOCH + 5),
            None,
            Some(Reason::OrderRefused),
            true,
        ),
        (
            "refused long ago",
            refused,
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "not sent, a while ago",
            new.ordered(Some(OrderOutcome::NotSent), None),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
    ]);
}

/// Its order was refused at this moment, and the catalogue was looked at 10 s before now.
fn refused_at(seconds: u64) -> Case {
    let case = Case::new().ordered(Some(OrderOutcome::Refused), None);
    case.memory(|m| m.closed_seen(Some("nonce"), secs(seconds)))
        .facts(|f| f.now.wall = EPOCH + 2)
}

fn small_here() -> Demand {
    Demand::new("HERE ", "small", Some(""), false)
}

/// The object shows that a look said that it could not be had.
fn showing(case: Case, reason: Reason) -> Case {
    let shown = Cause::waits(reason, "").conditions();
    let shown = api::conditions::merge(
        &[],
        &shown,
        api::conditions::Generations::same(Some(3)),
        Timestamp::MIN,
    );
    case.object(|o| o.status.get_or_insert_default().conditions = shown)
}

#[test]
fn nobody_orders_what_was_refused_before_the_catalogue_was_looked_at_since() {
    let open = |case: Case| case.view(|v| v.refused = vec![(small_here(), secs(995))]);
    // An object that never tried waits as well, with nothing to say of it.
    let other = open(Case::new()).decide();
    assert_eq!(short(&other), (None, None, false));
    assert_eq!(other.wants_catalogue, Some(secs(995)));
    let elsewhere = open(Case::new()).spec(|s| s.location = Some("there".into()));
    assert_eq!(short(&elsewhere.decide()).0, Some("Order"), "not the same");

    // Whoever was refused says so, and calls nobody: a look may explain it.
    let waits = open(refused_at(995)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::OrderRefused), false));
    assert_eq!(waits.wants_catalogue, Some(secs(995)));
    let ready = waits.draft.condition(Type::Ready).unwrap();
    assert!(ready.message.contains("looked at within 15s"), "{ready:?}");
    let failing = open(refused_at(995))
        .view(|v| v.last_error = Some((Reason::ProviderUnreachable, "away".into())));
    assert_eq!(
        short(&failing.decide()),
        (None, Some(Reason::ProviderUnreachable), false)
    );
}

#[test]
fn a_refusal_that_a_look_explains_is_no_matter_for_a_person() {
    let gone = |case: Case| case.view(|v| v.catalogue = catalogue(plan(Availability::Unavailable)));
    let there = |case: Case| case.view(|v| v.catalogue = catalogue(plan(Availability::Low)));
    let no_stock = (None, Some(Reason::NoStock), false);
    // The look was at 990.
    assert_eq!(short(&gone(refused_at(988)).decide()), no_stock);
    let before = gone(refused_at(995)).decide();
    assert_eq!(short(&before), (None, Some(Reason::OrderRefused), true));
    assert_eq!(before.wants_catalogue, Some(secs(995)), "an older look");
    let contradicted = there(refused_at(988)).decide();
    assert_eq!(
        short(&contradicted),
        (None, Some(Reason::OrderRefused), true)
    );
    assert_eq!(contradicted.wants_catalogue, None);

    // Once a look has said that there is none, looks decide, however often it was refused before: after a short pause,
    // as what is said to be there again and again may be refused each time.
    let often = |case: Case| {
        case.object(|o| {
            let record = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            record.failures = 7;
        })
    };
    for reason in [Reason::NoStock, Reason::QuotaExceeded] {
        let shown = |refused: u64| showing(often(refused_at(refused)), reason);
        assert_eq!(short(&gone(shown(988)).decide()), no_stock);
        let again = |at: i64| there(shown(988)).facts(|f| f.now.wall = EPOCH + at);
        let pause = again(59).decide();
        assert_eq!(short(&pause), (None, Some(reason), false));
        assert_eq!(pause.again, Again::After(secs(1)));
        let Some(Effect::Order(plan)) = again(60).decide().effect else {
            panic!("no order")
        };
        assert_eq!(plan.failures, 2, "the row goes on, and stays short");
        let unlooked = there(shown(995)).decide();
        assert_eq!(
            (unlooked.effect, unlooked.wants_catalogue),
            (None, Some(secs(995)))
        );
    }
    // What is shown beside an order of before says nothing of this one.
    let earlier = showing(Case::new().ordered(None, None), Reason::NoStock)
        .facts(|f| f.now.wall = EPOCH + 2)
        .memory(|m| {
            m.closed_seen(Some("nonce"), secs(988));
            let mut known = OrderRecord::open(Case::new().intent());
            known.outcome = Some(OrderOutcome::Refused);
            known.outcome_at = Some(EPOCH);
            m.order = Some(known);
        });
    assert_eq!(
        short(&there(earlier).decide()),
        (None, Some(Reason::OrderRefused), true)
    );
}

#[test]
fn who_waits_for_stock_reads_where_there_is_some_and_when_it_is_looked_at_again() {
    let elsewhere = PlanLocation {
        name: "There".into(),
        data_centre: String::new(),
        availability: Availability::High,
    };
    let mut both = plan(Availability::Unavailable);
    both.locations.push(elsewhere);
    let cause = |plan: Plan| {
        let decision = Case::new().view(|v| v.catalogue = catalogue(plan)).decide();
        assert_eq!(decision.wants_catalogue, Some(RUNNING + secs(15)));
        message(&decision)
    };
    assert_eq!(
        cause(both),
        "the provider has no small at here in stock; looked at again every 15s, and the order follows by itself; it has some at There; to order at one of these, set spec.location to it, in the manifest too"
    );
    let nowhere = cause(plan(Availability::Unavailable));
    assert!(
        nowhere.contains("no other place that you may use"),
        "{nowhere}"
    );
}

#[test]
fn an_old_object_without_a_trace_waits_for_the_absence_grace_period() {
    let old = Case::new()
        .old()
        .facts(|f| {
            f.first_seen = secs(10);
            f.now = Moment {
                wall: START + 100,
                mono: secs(100),
            }
        })
        .view(|v| {
            let proof = v.proof.as_mut().map(Arc::make_mut).unwrap();
            proof.began = secs(90);
            v.catalogue = Some((secs(90), Arc::default()));
        });
    let decision = old.decide();
    assert_eq!(
        short(&decision),
        (None, Some(Reason::WaitingForListing), false)
    );
    assert_eq!(decision.wants_proof, Some(secs(600)));
    assert_eq!(decision.again, Again::After(secs(500)));
    let unused = old.view(|v| v.used_before = false);
    assert_eq!(short(&unused.decide()).0, Some("Order"));
}

#[test]
fn the_next_epoch_is_a_new_one_and_a_row_of_unknowns_is_counted() {
    let Some(Effect::Order(plan)) = Case::new()
        .ordered(Some(OrderOutcome::Absent), None)
        .decide()
        .effect
    else {
        panic!("no order");
    };
    assert_eq!((plan.after_epoch, plan.unknown_before), (EPOCH, 1));
    // The clock was turned back behind the last start.
    let facts = Case::new()
        .ordered(Some(OrderOutcome::Absent), None)
        .facts(|f| f.now.wall = EPOCH - 100)
        .0;
    let Some(Effect::Order(plan)) = decide(&facts).effect else {
        panic!("no order")
    };
    let intent = fence::start(&facts, &plan, "new", secs(30)).unwrap();
    assert_eq!(intent.epoch, EPOCH + 1);
}

#[test]
fn an_object_stripped_of_a_refused_order_takes_another_epoch_in_the_same_second() {
    let facts = Case::new()
        .facts(|f| {
            let mut refused = OrderRecord::open(Case::new().intent());
            refused.intent.epoch = f.now.wall;
            refused.outcome = Some(OrderOutcome::Refused);
            f.memory.order = Some(refused);
        })
        .0;
    let Some(Effect::Order(plan)) = decide(&facts).effect else {
        panic!("no order")
    };
    let intent = fence::start(&facts, &plan, "new", secs(30)).unwrap();
    assert_eq!(intent.epoch, facts.now.wall + 1);
}

#[test]
fn a_begin_that_fresh_facts_do_not_bear_out_is_given_up() {
    let planned = Case::new();
    let Some(Effect::Order(plan)) = planned.decide().effect else {
        panic!("no order")
    };
    let window = secs(30);
    assert!(fence::start(&planned.0, &plan, "new", window).is_some());
    for (what, fresh) in [
        ("deleted", Case::new().deleting()),
        ("suspended", Case::new().spec(|s| s.suspend = Some(true))),
        ("begun by another", Case::new().ordered(None, None)),
        (
            "a machine came up",
            Case::new().with(1, ServerStatus::Created),
        ),
        (
            "another host name",
            Case::new().spec(|s| s.hostname = Some("other".into())),
        ),
    ] {
        assert!(
            fence::start(&fresh.0, &plan, "new", window).is_none(),
            "{what}"
        );
    }
}

#[test]
fn an_order_is_sent_in_its_window_only() {
    let intent = intent_of("web", "uid-1");
    let begun = Moment {
        wall: EPOCH,
        mono: secs(500),
    };
    let may = |wall: i64, mono: u64| {
        once::may_send(
            begun,
            intent.send_by,
            Moment {
                wall,
                mono: secs(mono),
            },
            secs(30),
        )
    };
    assert!(may(EPOCH, 500) && may(EPOCH + 29, 529));
    assert!(!may(EPOCH + 1, 530), "by the monotonic clock");
    assert!(!may(EPOCH + 31, 501), "by the wall clock");
    assert!(!may(EPOCH - 1, 501), "the wall clock was turned back");
}

#[test]
fn a_message_names_the_field_to_set() {
    let go_on = "to go on, set spec.suspend to false";
    let known = || {
        let catalogue = catalogue(plan(Availability::High));
        Case::new().view(|v| v.catalogue = catalogue)
    };
    let suspended = |case: Case| case.spec(|s| s.suspend = Some(true));
    let cases = [
        (suspended(Case::new()), go_on),
        (
            suspended(
                Case::new()
                    .with(1, ServerStatus::Delivered)
                    .held()
                    .deleting(),
            ),
            "to release it, set spec.suspend to false; to keep it and let this object go, set spec.deletionPolicy to Retain and spec.suspend to false in one edit",
        ),
        (suspended(machine::kept(ServerStatus::Provisioning)), go_on),
        (
            known().spec(|s| s.location = Some("nowhere".into())),
            "change one of the two",
        ),
        (
            known().spec(|s| s.instance_type = Some("huge".into())),
            "correct it",
        ),
    ];
    for (case, words) in cases {
        let decision = case.decide();
        let draft = &decision.draft;
        let blocked = draft.condition(Type::DeletionBlocked);
        let told = blocked.or(draft.condition(Type::Suspended));
        let told = told.or(draft.condition(Type::Ready)).unwrap();
        assert!(told.message.contains(words), "{}", told.message);
    }
}

#[test]
fn a_changed_request_ends_the_pause_after_a_refusal() {
    let hash = request::request_hash(&Case::new().0);
    let refused = |ago: i64, failures: i32| {
        let case = Case::new().ordered(Some(OrderOutcome::Refused), None);
        case.object(|o| {
            let record = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            record.request_hash = Some(hash.clone());
            record.failures = failures;
        })
        .facts(|f| f.now.wall = EPOCH + ago)
    };
    let plan = |case: Case| match case.decide().effect {
        Some(Effect::Order(plan)) => Some((plan.failures, plan.request_hash)),
        other => {
            assert_eq!(other, None);
            None
        }
    };
    // Polls are 15 s apart, so the sixth refusal in a row rests for 480 s.
    assert_eq!(plan(refused(479, 6)), None);
    assert_eq!(plan(refused(480, 6)), Some((6, hash.clone())));
    for change in [
        (|s| s.location = Some("there".into())) as fn(&mut BareMetalServerSpec),
        |s| s.tags = vec!["a".into()],
        |s| s.contract_id = Some("C-1".into()),
        |s| s.hostname = Some("db".into()),
    ] {
        let (failures, changed) = plan(refused(15, 6).spec(change)).unwrap();
        assert!(failures == 0 && changed != hash, "a new row begins");
        assert_eq!(plan(refused(14, 6).spec(change)), None, "not at any pace");
    }
    let policy = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    assert_eq!(plan(refused(15, 6).spec(policy)), None, "no other request");
}

#[test]
fn no_order_starts_on_a_policy_that_nobody_has_read() {
    let unread = || Case::new().view(|v| v.defaults = None);
    let last = |case: Case| {
        case.object(|o| {
            o.status.get_or_insert_default().policies = Some(PoliciesInForce {
                suspend: true,
                ..PoliciesInForce::default()
            });
        })
    };
    // Without an account what was in force last stays.
    let reason = |case: Case| case.decide().draft.condition(Type::Ready).unwrap().reason;
    let suspended = last(unread()).decide();
    assert_eq!(short(&suspended), (None, Some(Reason::Suspended), false));
    assert_eq!(reason(last(Case::new())), Reason::Ordering, "it was read");
    let no_account = last(Case::new()).facts(|f| f.account = unsaid("default"));
    assert_eq!(
        reason(no_account),
        Reason::AccountNotFound,
        "nobody says it any more"
    );
}

#[test]
fn a_turned_clock_delays_a_retry_by_its_pause_at_most() {
    let refused = |wall: i64, since: u64| {
        Case::new()
            .ordered(Some(OrderOutcome::Refused), None)
            .memory(|m| m.closed_seen(Some("nonce"), RUNNING - secs(since)))
            // Looked at since.
            .view(|v| v.catalogue = Some((RUNNING, Arc::default())))
            .facts(|f| f.now.wall = wall)
    };
    const YEAR: i64 = 365 * 86_400;
    let effect = |case: Case| short(&case.decide()).0;
    assert_eq!(effect(refused(EPOCH + 14, 0)), None);
    assert_eq!(effect(refused(EPOCH + 15, 0)), Some("Order"));
    // It was recorded by a clock that stood a year ahead, and is right again.
    let turned_back = refused(EPOCH - YEAR, 14);
    assert_eq!(turned_back.decide().again, Again::After(secs(1)));
    let said = |case: &Case| message(&case.decide());
    assert_eq!(
        said(&turned_back),
        said(&refused(EPOCH - YEAR + 5, 9)),
        "no write for each look"
    );
    assert_eq!(effect(refused(EPOCH - YEAR, 15)), Some("Order"));
}

#[test]
fn a_first_order_rests_on_a_listing_of_its_own_time_that_shows_what_is_known() {
    let seen_late = Case::new().facts(|f| f.first_seen = secs(991));
    let decision = seen_late.decide();
    assert_eq!(
        (&decision.effect, decision.wants_proof),
        (&None, Some(secs(991)))
    );
    let gained_late = Case::new().facts(|f| f.acting_since = secs(995));
    assert_eq!(gained_late.decide().wants_proof, Some(secs(995)));
    let empty =
        |case: Case| case.view(|v| v.proof.as_mut().map(Arc::make_mut).unwrap().servers.clear());
    let decision = empty(Case::new()).decide();
    assert_eq!(
        short(&decision),
        (None, Some(Reason::WaitingForListing), false)
    );
    assert_eq!(decision.wants_proof, Some(secs(1050)));
    let waited = empty(Case::new()).waited_for(Reason::WaitingForListing);
    assert!(short(&waited.decide()).2, "after two minutes");
    let released = empty(Case::new()).view(|v| v.known[0].live = false);
    assert_eq!(
        short(&released.decide()).0,
        Some("Order"),
        "no live machine is known"
    );
    let again = empty(Case::new().ordered(Some(OrderOutcome::NotSent), None));
    assert_eq!(short(&again.decide()).0, Some("Order"), "not its first");
}

#[test]
fn a_listing_need_not_show_what_was_ordered_after_it_began() {
    let effect = |ordered: i64| {
        let tag = cluster().object_mark("shop", "db", "u").order_tag(ordered);
        let case = Case::new().view(move |v| {
            v.proof.as_mut().map(Arc::make_mut).unwrap().servers.clear();
            v.known[0].order_tag = tag;
        });
        short(&case.decide()).0
    };
    // The listing began ten seconds ago, and an order may be under way for half a minute.
    let now = START + 1000;
    assert_eq!(effect(now - 41), None);
    for since in [now - 40, now] {
        assert_eq!(effect(since), Some("Order"));
    }
    assert_eq!(effect(now + 1), None, "a clock that was turned back");
}

#[test]
fn nothing_shortens_the_wait_of_an_older_object_without_a_trace() {
    let began = |seconds: u64| {
        Case::new()
            .old()
            .view(|v| v.proof.as_mut().map(Arc::make_mut).unwrap().began = secs(seconds))
    };
    let waiting = (None, Some(Reason::WaitingForListing), false);
    // Created after this process started, by the clocks: they may be wrong, and a backup may be behind it.
    assert_eq!(short(&began(599).decide()), waiting);
    assert_eq!(short(&began(600).decide()).0, Some("Order"));
    let takeover = began(990).facts(|f| f.acting_since = secs(900));
    assert_eq!(short(&takeover.decide()), waiting, "since it acts");
    let told = began(599).object(|o| {
        let long_ago = Cause::waits(Reason::Pending, "").conditions();
        let conditions = api::conditions::merge(
            &[],
            &long_ago,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
        o.status.get_or_insert_default().conditions = conditions;
    });
    assert_eq!(
        short(&told.decide()),
        waiting,
        "whatever its conditions say"
    );
}

#[test]
fn a_new_object_says_in_time_that_it_waits_for_its_turn() {
    let seen = |case: Case, age: u64| {
        let case = case.facts(move |f| f.first_seen = RUNNING - secs(age));
        case.view(|v| v.proof.as_mut().map(Arc::make_mut).unwrap().began = RUNNING)
    };
    let unlisted = |age| seen(Case::new(), age).view(|v| v.proof = None);
    let ready = |decision: &Decision| {
        let ready = decision.draft.condition(Type::Ready)?;
        Some((ready.status, ready.reason))
    };
    let queued = Some((Some(false), Reason::Queued));
    let early = unlisted(3).decide();
    assert!(early.draft.is_silent());
    assert_eq!(early.again, Again::After(secs(1)));
    let told = unlisted(4);
    assert_eq!(ready(&told.decide()), queued);
    let told = told.written();
    assert_eq!(ready(&told.decide()), None, "it is told once");
    // What the account waits for is told as well, in time.
    let blocked = |case: Case| case.blocked(Reason::Pending).decide();
    assert_eq!(ready(&blocked(seen(Case::new(), 3))), None);
    let pending = Some((Some(false), Reason::Pending));
    assert_eq!(ready(&blocked(seen(Case::new(), 4))), pending);
    assert_eq!(ready(&blocked(told)), pending);

    // The order has no turn.
    let waits = |case: &Case| {
        let mut decision = case.decide();
        assert!(matches!(decision.effect, Some(Effect::Order(_))));
        (decision.queued(&case.0), decision)
    };
    assert_eq!(waits(&seen(Case::new(), 3)).0, Some(secs(1)));
    let (rest, decision) = waits(&seen(Case::new(), 4));
    assert_eq!((rest, ready(&decision)), (None, queued));
    // One of which something was said before says that at once.
    let known = seen(Case::new(), 3).object(|o| {
        let shown = Cause::waits(Reason::NoStock, "m").conditions();
        let shown = api::conditions::merge(
            &[],
            &shown,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
        o.status.get_or_insert_default().conditions = shown;
    });
    let (rest, decision) = waits(&known);
    assert_eq!((rest, ready(&decision)), (None, queued));
}
