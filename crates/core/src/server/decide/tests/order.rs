//! Whether a new order may start.

use super::*;
use crate::{
    account::{order_supply::Demand, view::Catalogue},
    explanation::Explanation,
    resolved_account::suspend_view,
    server::decide::{order, precondition, request_checks},
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
    let new = Case::new;
    let refused = || new().ordered(Some(OrderOutcome::Refused), None);
    let denied = |reason| new().facts(|f| f.denied = Some((reason, "no".into())));
    come_to(
        (Some("Order"), Some(Reason::Ordering), false),
        vec![
            ("nothing in the way", new()),
            (
                "suspended by the account, and not by the object",
                new()
                    .spec(|s| s.suspend = Some(false))
                    .view(|v| v.defaults.as_mut().unwrap().suspend = Some(true)),
            ),
            (
                "stock, and names in other case",
                new().view(|v| v.catalogue = catalogue(plan(Availability::Low))),
            ),
            ("refused long ago", refused()),
            (
                "not sent, a while ago",
                new().ordered(Some(OrderOutcome::NotSent), None),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::Suspended), false),
        vec![
            ("suspended", new().spec(|s| s.suspend = Some(true))),
            (
                "suspended by the account",
                new().view(|v| v.defaults.as_mut().unwrap().suspend = Some(true)),
            ),
            (
                "stopped at the account, whatever the object says",
                new().spec(|s| s.suspend = Some(false)).view(|v| {
                    suspend_view(
                        v,
                        Some("the account is stopped; ask for the end of it".into()),
                    )
                }),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::AccountNotFound), false),
        vec![("no account", new().facts(|f| f.account = unsaid("default")))],
    );
    come_to(
        (None, Some(Reason::AccountNotFound), true),
        vec![(
            "no account for two minutes",
            new()
                .facts(|f| f.account = unsaid("default"))
                .waited_for(Reason::AccountNotFound),
        )],
    );
    come_to(
        (None, Some(Reason::ReferenceNotFound), false),
        vec![(
            "the account's Secret is not there",
            new().blocked(Reason::ReferenceNotFound),
        )],
    );
    come_to(
        (None, Some(Reason::ReferenceNotFound), true),
        vec![
            (
                "the account's Secret is not there for two minutes",
                new()
                    .blocked(Reason::ReferenceNotFound)
                    .waited_for(Reason::ReferenceNotFound),
            ),
            (
                "a key that is not there",
                new().facts(|f| {
                    f.installation = Some(Err(Explanation::stalled(
                        Reason::ReferenceNotFound,
                        "no key",
                    )))
                }),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::NotAllowed), true),
        vec![(
            "namespace not allowed",
            new().facts(|f| {
                if let ResolvedAccount::Found { terms, .. } = &mut f.account {
                    *terms = crate::account::terms::Terms::Refused("not this one".into());
                }
            }),
        )],
    );
    come_to(
        (None, Some(Reason::KeyRejected), true),
        vec![("key rejected", new().blocked(Reason::KeyRejected))],
    );
    come_to(
        (None, Some(Reason::ProviderUnreachable), false),
        vec![
            ("provider away", new().blocked(Reason::ProviderUnreachable)),
            (
                "no listing, and the look failed",
                new().unlisted().view(|v| {
                    v.last_error = Some((Reason::ProviderUnreachable, "away".into()));
                }),
            ),
        ],
    );
    come_to(
        (None, None, false),
        vec![
            ("no listing yet: no news", new().unlisted()),
            (
                "no catalogue yet: no news",
                new().view(|v| v.catalogue = None),
            ),
            (
                "catalogue too old",
                new().view(|v| v.catalogue = Some((secs(900), Arc::default()))),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::LimitReached), true),
        vec![("the limit", denied(Reason::LimitReached))],
    );
    come_to(
        (None, Some(Reason::NoStock), false),
        vec![(
            "no stock",
            new().view(|v| v.catalogue = catalogue(plan(Availability::Unavailable))),
        )],
    );
    come_to(
        (None, Some(Reason::InvalidSpec), true),
        vec![
            (
                "an unknown type",
                new()
                    .spec(|s| s.instance_type = Some("large".into()))
                    .view(|v| v.catalogue = catalogue(plan(Availability::High))),
            ),
            (
                "a host name that is none",
                new().spec(|s| s.hostname = Some("a_b".into())),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::OrderRefused), true),
        vec![(
            "refused a moment ago",
            refused().facts(|f| f.now.wall = EPOCH + 5),
        )],
    );
}

/// Its order was refused at this second; the catalogue was read 10 s before now.
fn refused_at(seconds: u64) -> Case {
    ended_at(OrderOutcome::Refused, seconds)
}

fn ended_at(outcome: OrderOutcome, seconds: u64) -> Case {
    let case = Case::new().ordered(Some(outcome), None);
    case.answered_at(seconds)
        .listed(999)
        .facts(|f| f.now.wall = EPOCH + 2)
}

fn small_here() -> Demand {
    Demand::new("HERE ", "small", Some(""), false)
}

/// Status shows this reason from an earlier catalogue poll.
fn showing(case: Case, reason: Reason) -> Case {
    let shown = Explanation::waits(reason, "").conditions();
    let shown = api::conditions::merge(
        &[],
        &shown,
        api::conditions::Generations::same(Some(3)),
        Timestamp::MIN,
    );
    case.object(|o| o.status.get_or_insert_default().conditions = shown)
}

#[test]
fn refused_order_waits_for_newer_catalogue() {
    let open = |case: Case| case.view(|v| v.refused = vec![(small_here(), secs(995))]);
    // An object that never ordered waits too, without a report.
    let other = open(Case::new()).decide();
    assert_eq!(short(&other), (None, None, false));
    assert_eq!(other.wants_catalogue, Some(secs(995)));
    let elsewhere = open(Case::new()).spec(|s| s.location = Some("there".into()));
    assert_eq!(short(&elsewhere.decide()).0, Some("Order"), "not the same");

    // A refused object reports the refusal and does not stall: a poll may explain it.
    let waits = open(refused_at(995)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::OrderRefused), false));
    assert_eq!(waits.wants_catalogue, Some(secs(995)));
    let ready = waits.desired.condition(Type::Ready).unwrap();
    assert!(
        ready.message.contains("are checked, within 15s"),
        "{ready:?}"
    );
    let failing = open(refused_at(995))
        .view(|v| v.last_error = Some((Reason::ProviderUnreachable, "away".into())));
    assert_eq!(
        short(&failing.decide()),
        (None, Some(Reason::ProviderUnreachable), false)
    );
}

#[test]
fn refusal_explained_by_stock_does_not_stall() {
    let gone = |case: Case| case.view(|v| v.catalogue = catalogue(plan(Availability::Unavailable)));
    let there = |case: Case| case.view(|v| v.catalogue = catalogue(plan(Availability::Low)));
    let no_stock = (None, Some(Reason::NoStock), false);
    // The catalogue was read at 990.
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

    // Once a poll reports no stock, polls decide, after any number of refusals. A short pause remains: reported stock
    // may be refused each time.
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
        assert_eq!(pause.requeue, Requeue::After(secs(1)));
        let Some(ServerEffect::Order(plan)) = again(60).decide().effect else {
            panic!("no order")
        };
        assert_eq!(plan.failures, 2, "the row goes on, and stays short");
        let unlooked = there(shown(995)).decide();
        assert_eq!(
            (unlooked.effect, unlooked.wants_catalogue),
            (None, Some(secs(995)))
        );
    }
}

/// The account got no answers, and gets them again.
#[test]
fn unsent_order_is_sent_when_account_answers_again() {
    let unsent = |since: Option<u64>| {
        let case = ended_at(OrderOutcome::NotSent, 995)
            .order(|record| record.failures = 5)
            .view(|v| v.answers_since = since.map(secs));
        short(&case.decide()).0
    };
    assert_eq!(unsent(None), None);
    assert_eq!(unsent(Some(900)), None, "that was before it");
    assert_eq!(unsent(Some(998)), Some("Order"));
}

#[test]
fn object_reports_outage_of_its_account() {
    let limited = |case: Case| {
        let error = Some((Reason::RateLimited, "none until noon".into()));
        case.view(|v| (v.last_error, v.outage) = (error.clone(), error))
    };
    let deleted = || release::deleted(ServerStatus::Delivered);
    assert_eq!(short(&deleted().decide()), (Some("Release"), None, false));
    let said = limited(deleted()).decide();
    assert_eq!(
        short(&said),
        (Some("Release"), Some(Reason::RateLimited), false)
    );
    let blocked = said.desired.condition(Type::DeletionBlocked);
    assert_eq!(blocked.and_then(|c| c.status), Some(true));
    // A queued order reports the outage instead of Queued.
    let new = limited(Case::new());
    let mut waiting = new.decide();
    assert_eq!(waiting.report_queued(&new.0), None);
    assert_eq!(short(&waiting).1, Some(Reason::RateLimited));
    let kept = limited(Case::new().ordered(Some(OrderOutcome::Created), Some(1)));
    let kept = kept.with(1, ServerStatus::Delivered).decide();
    assert_ne!(short(&kept).1, Some(Reason::RateLimited));
}

#[test]
fn no_stock_message_names_locations_and_interval() {
    let elsewhere = PlanLocation {
        name: "There".into(),
        data_centre: String::new(),
        availability: Availability::High,
    };
    let mut both = plan(Availability::Unavailable);
    both.locations.push(elsewhere);
    let message_for = |plan: Plan| {
        let decision = Case::new().view(|v| v.catalogue = catalogue(plan)).decide();
        assert_eq!(decision.wants_catalogue, Some(RUNNING + secs(15)));
        message(&decision)
    };
    assert_eq!(
        message_for(both),
        "No small in stock at here; checked every 15s, then ordered as soon as available. Available at There. To order there, set spec.location in the manifest"
    );
    let nowhere = message_for(plan(Availability::Unavailable));
    assert!(
        nowhere.contains("None at any other location that you may use"),
        "{nowhere}"
    );
}

#[test]
fn invalid_spec_polls_catalogue_at_idle_interval() {
    let known = || {
        let catalogue = catalogue(plan(Availability::High));
        Case::new().view(|v| v.catalogue = catalogue)
    };
    let missing = || Some(Err(Explanation::stalled(Reason::ReferenceNotFound, "no")));
    let cases = [
        (
            "a typo",
            known().spec(|s| s.instance_type = Some("huge".into())),
        ),
        (
            "a host name",
            known().spec(|s| s.hostname = Some("-".into())),
        ),
        ("a key", known().facts(|f| f.installation = missing())),
    ];
    for (what, case) in cases {
        let reported = case.written();
        let later = |seconds| reported.clone().facts(|f| f.now.mono += secs(seconds));
        // The catalogue read at 990 suffices for 120 s.
        let polls = |case: &Case| {
            let wanted = case.decide().wants_catalogue;
            wanted.is_some_and(|at| at <= case.0.now.mono)
        };
        assert!(!polls(&reported), "{what}");
        assert!(!polls(&later(100)), "{what}");
        assert!(polls(&later(111)), "{what}");
        let edited = later(100).object(|o| o.metadata.generation = Some(4));
        assert!(polls(&edited), "{what}: another spec");
    }
    // No order uses an old catalogue.
    let corrected = known()
        .spec(|s| s.instance_type = Some("huge".into()))
        .written()
        .spec(|s| s.instance_type = Some("small".into()))
        .facts(|f| f.now.mono += secs(100));
    let decision = corrected.decide();
    assert!(decision.effect.is_none() && decision.wants_catalogue.is_some());
}

#[test]
fn next_order_number_rises_and_counts_continue() {
    let absent = Case::new().ordered(Some(OrderOutcome::Absent), None);
    let case = absent.order(|record| (record.lost, record.cut) = (1, 3));
    let plan = planned(&case);
    assert_eq!((plan.after, plan.lost, plan.cut), (seq(EPOCH), 1, 3));
    let open = |wall: i64| {
        let facts = case.clone().facts(|f| f.now.wall = wall).0;
        order::open_record(&facts, &plan, "new", secs(30))
    };
    let record = open(START + 1000);
    assert_eq!(
        (record.seq, record.send_by),
        (seq(START + 1000), START + 1030)
    );
    assert_eq!((record.lost, record.cut, record.outcome), (1, 3, None));
    assert_eq!(
        (&*record.account_id, &*record.hostname),
        (ACCOUNT_ID, "web")
    );
    // The clock was set back before the last start.
    assert_eq!(open(EPOCH - 100).seq, seq(EPOCH) + 1);
}

fn planned(case: &Case) -> NewOrder {
    match case.decide().effect {
        Some(ServerEffect::Order(planned)) => *planned,
        other => panic!("nothing is ordered: {other:?}"),
    }
}

#[test]
fn order_is_dropped_when_fresh_facts_differ() {
    let new = Case::new;
    let plan = planned(&new());
    assert_eq!(plan.account, ordered_from(ACCOUNT_ID, CONNECTION));
    for (what, fresh, is_let) in [
        ("as before", new(), true),
        ("deleted", new().deleting(), false),
        ("suspended", new().spec(|s| s.suspend = Some(true)), false),
        ("started by another", new().ordered(None, None), false),
        (
            "a server came up",
            new().with(1, ServerStatus::Created),
            false,
        ),
        (
            "another host name",
            new().spec(|s| s.hostname = Some("other".into())),
            false,
        ),
        (
            "another key",
            new().view(|v| v.credentials_hash = Some("c0ffee000002".into())),
            false,
        ),
        ("another account", protocol::elsewhere(new()), false),
    ] {
        assert_eq!(precondition::may_start(&fresh.0, &plan), is_let, "{what}");
    }
}

#[test]
fn a_message_names_the_field_to_set() {
    let go_on = "set spec.suspend to false";
    let known = || {
        let catalogue = catalogue(plan(Availability::High));
        Case::new().view(|v| v.catalogue = catalogue)
    };
    let suspended = |case: Case| case.spec(|s| s.suspend = Some(true));
    let cases = [
        (suspended(Case::new()), go_on),
        (
            suspended(super::release::deleted(ServerStatus::Delivered)),
            "To release it, set spec.suspend to false; to keep it, set deletionPolicy to Retain in that edit",
        ),
        (
            suspended(existing::with_status(ServerStatus::Provisioning)),
            go_on,
        ),
        (
            known().spec(|s| s.location = Some("nowhere".into())),
            "Correct spec.instanceType or spec.location",
        ),
        (
            known().spec(|s| s.instance_type = Some("huge".into())),
            "Correct spec.instanceType",
        ),
    ];
    for (case, words) in cases {
        let decision = case.decide();
        let desired = &decision.desired;
        let blocked = desired.condition(Type::DeletionBlocked);
        let condition = blocked.or(desired.condition(Type::Suspended));
        let condition = condition.or(desired.condition(Type::Ready)).unwrap();
        assert!(condition.message.contains(words), "{}", condition.message);
    }
}

#[test]
fn changed_request_shortens_pause_after_refusal() {
    let hash = request_checks::request_hash(&Case::new().0);
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
        Some(ServerEffect::Order(plan)) => Some((plan.failures, plan.request_hash)),
        other => {
            assert_eq!(other, None);
            None
        }
    };
    // Polls are 15 s apart, so the sixth consecutive refusal pauses for 480 s.
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
fn no_order_starts_before_policies_are_read() {
    let unread = || Case::new().view(|v| v.defaults = None);
    let last = |case: Case| {
        case.object(|o| {
            o.status.get_or_insert_default().policies = Some(PoliciesInForce {
                suspend: true,
                ..PoliciesInForce::default()
            });
        })
    };
    // Without an account the last policies in force stay.
    let reason = |case: Case| case.decide().desired.condition(Type::Ready).unwrap().reason;
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
fn clock_change_delays_retry_at_most_one_pause() {
    let refused = |wall: i64, since: u64| {
        Case::new()
            .ordered(Some(OrderOutcome::Refused), None)
            .answered_at(1000 - since)
            // Listed since then.
            .listed(1000)
            .view(|v| v.catalogue = Some((RUNNING, Arc::default())))
            .facts(|f| f.now.wall = wall)
    };
    const YEAR: i64 = 365 * 86_400;
    let effect = |case: Case| short(&case.decide()).0;
    assert_eq!(effect(refused(EPOCH + 14, 1)), None);
    assert_eq!(effect(refused(EPOCH + 15, 1)), Some("Order"));
    // A clock that was a year ahead wrote the record, and is right again.
    let turned_back = refused(EPOCH - YEAR, 14);
    assert_eq!(turned_back.decide().requeue, Requeue::After(secs(1)));
    let message_of = |case: &Case| message(&case.decide());
    assert_eq!(
        message_of(&turned_back),
        message_of(&refused(EPOCH - YEAR + 5, 9)),
        "no write for each look"
    );
    assert_eq!(effect(refused(EPOCH - YEAR, 15)), Some("Order"));
}

#[test]
fn order_needs_new_list_showing_known_servers() {
    let wanted = |case: Case| {
        let decision = case.decide();
        (decision.effect, decision.wants_complete_list)
    };
    let after = |at| Some(secs(at) + PAST);
    assert_eq!(wanted(Case::new().born(991)), (None, after(991)));
    // A list that began at that very moment is not enough, so a later one is requested.
    assert_eq!(
        wanted(Case::new().born(991).listed(991)),
        (None, after(991))
    );
    let led_late = Case::new().facts(|f| f.leader_since = secs(995));
    assert_eq!(wanted(led_late), (None, after(995)));
    // If this process does not know the order history, it needs a list of the whole account.
    assert_eq!(Case::new().met(500).decide().wants_servers, after(1100));
    assert_eq!(wanted(Case::new().empty()), (None, after(1110)));
    let waited = Case::new().empty().waited_for(Reason::WaitingForListing);
    assert!(short(&waited.decide()).2, "after two minutes");
    let released = Case::new().empty().view(|v| v.known[0].live = false);
    assert_eq!(
        short(&released.decide()).0,
        Some("Order"),
        "no live one is known"
    );
}

#[test]
fn list_may_lack_servers_ordered_after_it_began() {
    let effect = |ordered: i64| {
        let tag = owner_of("db").order_tag(seq(ordered));
        let case = Case::new().empty().view(|v| v.known[0].order_tag = tag);
        short(&case.decide()).0
    };
    // The list began 10 s ago, and the send window is 30 s.
    let now = START + 1000;
    assert_eq!(effect(now - 41), None);
    for since in [now - 40, now] {
        assert_eq!(effect(since), Some("Order"));
    }
    assert_eq!(effect(now + 1), None, "a clock that was turned back");
}

#[test]
fn new_object_reports_queued_after_short_wait() {
    let seen = |case: Case, age: u64| {
        let case = case.facts(move |f| f.first_seen = RUNNING - secs(age));
        case.listed(1000)
    };
    let unlisted = |age| seen(Case::new(), age).unlisted();
    let ready = |decision: &ServerDecision| {
        let ready = decision.desired.condition(Type::Ready)?;
        Some((ready.status, ready.reason))
    };
    let queued = Some((Some(false), Reason::Queued));
    let early = unlisted(3).decide();
    assert!(early.desired.is_silent());
    assert_eq!(early.requeue, Requeue::After(secs(1)));
    let reported = unlisted(4);
    assert_eq!(ready(&reported.decide()), queued);
    let reported = reported.written();
    assert_eq!(ready(&reported.decide()), None, "it is told once");
    // A blocked account is reported too, after the same time.
    let blocked = |case: Case| case.blocked(Reason::Pending).decide();
    assert_eq!(ready(&blocked(seen(Case::new(), 3))), None);
    let pending = Some((Some(false), Reason::Pending));
    assert_eq!(ready(&blocked(seen(Case::new(), 4))), pending);
    assert_eq!(ready(&blocked(reported)), pending);

    // The order has no permit.
    let waits = |case: &Case| {
        let mut decision = case.decide();
        assert!(matches!(decision.effect, Some(ServerEffect::Order(_))));
        (decision.report_queued(&case.0), decision)
    };
    assert_eq!(waits(&seen(Case::new(), 3)).0, Some(secs(1)));
    let (rest, decision) = waits(&seen(Case::new(), 4));
    assert_eq!((rest, ready(&decision)), (None, queued));
    // An object with an earlier status reports it at once.
    let known = seen(Case::new(), 3).object(|o| {
        let shown = Explanation::waits(Reason::NoStock, "m").conditions();
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
