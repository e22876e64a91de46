//! A machine that the spec names: taken on, or only shown.

use super::*;
use crate::{
    account::{marks, terms::Terms},
    server::{
        decide::{external, fence::TagProof, rivals},
        facts::OtherMark,
    },
};
use api::{ManagementPolicy, allowed::AllowedNamespaces};

pub(super) fn delivered(tags: &[&str]) -> Server {
    server(5, ServerStatus::Delivered, tags)
}

pub(super) fn named(tags: &[&str]) -> Case {
    Case::new().named(5, Some(delivered(tags)))
}

fn other() -> Mark {
    cluster().object_mark("shop", "api", "uid-2")
}

pub(super) fn other_tag() -> String {
    other().order_tag(EPOCH + 7)
}

/// What is known of the other mark.
pub(super) fn known(case: Case, claimed: Option<bool>, is_settled: bool) -> Case {
    case.facts(|f| {
        f.other_marks = vec![OtherMark {
            mark: other(),
            claimed,
            is_settled,
        }];
    })
}

pub(super) fn through_cluster_account(case: Case, adoption: Option<bool>) -> Case {
    case.spec(|s| {
        s.account_ref = serde_json::from_value(
            serde_json::json!({"kind": "ClusterProviderAccount", "name": "all"}),
        )
        .unwrap();
    })
    .facts(|f| {
        if let AccountFacts::Found { terms, .. } = &mut f.account {
            *terms = Terms::Entry(Arc::new(AllowedNamespaces {
                name: "shop".into(),
                allow_adoption: adoption,
                ..AllowedNamespaces::default()
            }));
        }
    })
}

pub(super) fn observed(case: Case) -> Case {
    case.spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly))
}

fn kept_of(namespace: &str) -> String {
    cluster().tag_of_retained(namespace, "api")
}

#[test]
fn a_machine_that_is_named_is_taken_on_or_none() {
    let old = secs(50);
    let foreign = "fmo-cluster:fedcba9876543210";
    let unclaimed = |since: u64| {
        known(named(&[&cluster().tag(), &other_tag()]), Some(false), false)
            .memory(move |m| m.unclaimed = Some((uuid(5), secs(since))))
    };
    let over = |status| Case::new().named(5, Some(server(5, status, &[])));
    let conflict = Some(Reason::OwnershipConflict);
    let not_allowed = Some(Reason::NotAllowed);
    let kept = |namespace: &str| {
        known(
            named(&[&cluster().tag(), &other_tag(), &kept_of(namespace)]),
            Some(false),
            false,
        )
        .memory(|m| m.unclaimed = Some((uuid(5), secs(900))))
    };
    table(vec![
        (
            "nobody's: the finalizer first",
            named(&[]),
            Some("HoldObject"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "then the mark",
            named(&["web"]).held(),
            Some("AddTag"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "no listing yet",
            named(&[]).view(|v| v.proof = None),
            None,
            None,
            false,
        ),
        (
            "seen before the object was",
            named(&[]).facts(|f| {
                let external = f.external.as_mut().unwrap();
                external.shown.as_mut().unwrap().seen = old;
                external.looked = Some(old);
            }),
            None,
            None,
            false,
        ),
        (
            "not there",
            Case::new().named(5, None),
            None,
            Some(Reason::ServerNotFound),
            true,
        ),
        (
            "suspended",
            named(&[]).spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "released",
            over(ServerStatus::Released),
            None,
            Some(Reason::ReleasedExternally),
            true,
        ),
        (
            "being released",
            over(ServerStatus::Releasing),
            None,
            Some(Reason::ReleasedExternally),
            true,
        ),
        (
            "failed",
            over(ServerStatus::Failed),
            None,
            Some(Reason::ProvisioningFailed),
            true,
        ),
        (
            "on its way",
            over(ServerStatus::Provisioning).held(),
            Some("AddTag"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "another cluster's",
            named(&[foreign]).held(),
            None,
            conflict,
            true,
        ),
        (
            "another living object's",
            known(
                named(&[&cluster().tag(), &other_tag()]).held(),
                Some(true),
                true,
            ),
            None,
            conflict,
            true,
        ),
        (
            "perhaps a living object's",
            known(named(&[&cluster().tag(), &other_tag()]).held(), None, false),
            None,
            conflict,
            true,
        ),
        (
            "a mark that nobody looked up",
            named(&[&other_tag()]).held(),
            None,
            conflict,
            true,
        ),
        (
            "a mark that cannot be read",
            named(&["fmo-order:web"]).held(),
            None,
            conflict,
            true,
        ),
        (
            "on record elsewhere, with its mark stripped",
            named(&[])
                .held()
                .facts(|f| f.recorded_elsewhere = vec![ServerId::parse(&uuid(5)).unwrap()]),
            None,
            conflict,
            true,
        ),
        (
            "of an object that has just gone",
            unclaimed(985).held(),
            None,
            Some(Reason::Progressing),
            false,
        ),
        (
            "of one that is gone",
            unclaimed(970).held(),
            Some("AddTag"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "as many tags as it can have",
            {
                let tags: Vec<String> = (0..60).map(|n| format!("t{n}")).collect();
                named(&tags.iter().map(String::as_str).collect::<Vec<_>>()).held()
            },
            None,
            Some(Reason::TooManyEntries),
            true,
        ),
        (
            "a cluster account",
            through_cluster_account(named(&[]).held(), None),
            None,
            not_allowed,
            true,
        ),
        (
            "one that lets it",
            through_cluster_account(named(&[]).held(), Some(true)),
            Some("AddTag"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "retained here",
            through_cluster_account(kept("shop").held(), None),
            Some("AddTag"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "retained elsewhere",
            through_cluster_account(kept("bank").held(), Some(true)),
            None,
            not_allowed,
            true,
        ),
        (
            "an orphan through a cluster account",
            through_cluster_account(unclaimed(900).held(), Some(true)),
            None,
            not_allowed,
            true,
        ),
    ]);
}

#[test]
fn nothing_that_is_told_of_earlier_orders_makes_it_order() {
    let intent = |name: &str, uid: &str| intent_of(name, uid);
    let foreign = Intent {
        cluster: "fedcba9876543210".into(),
        ..intent("web", "uid-1")
    };
    let refused = named(&[]).ordered(Some(OrderOutcome::Refused), None);
    let lines = [
        ("a refused order", refused, "AddTag"),
        (
            "absent",
            named(&[]).ordered(Some(OrderOutcome::Absent), None),
            "AddTag",
        ),
        (
            "a copy",
            named(&[]).held().noted(&intent("api", "uid-7")),
            "AddTag",
        ),
        (
            "an earlier life",
            named(&[]).held().noted(&intent("web", "uid-0")),
            "AddTag",
        ),
        (
            "another cluster",
            named(&[]).held().noted(&foreign),
            "AddTag",
        ),
    ];
    for (what, case, effect) in lines {
        // One thing at a time: what closes an order goes into the annotation first.
        let case = case.facts(|f| f.memory.contest = Default::default());
        assert_eq!(short(&case.decide()).0, Some(effect), "{what}");
        let gone = case.named(5, None).decide();
        let is_order = matches!(gone.effect, Some(Effect::Order(_)));
        assert!(!is_order, "{what}: {gone:?}");
        let reason = short(&gone).1;
        assert_eq!(reason, Some(Reason::ServerNotFound), "{what}");
    }
    // An order that may be on its way is looked for first.
    let open = named(&[]).open(900, &[]);
    assert!(!matches!(open.decide().effect, Some(Effect::AddTag { .. })));
}

#[test]
fn the_mark_goes_only_on_what_a_fresh_read_shows_to_be_nobodys() {
    let facts = named(&[]).held().0;
    let holds = |tags: &[&str]| TagProof::Unowned.holds(&facts, &delivered(tags));
    assert!(holds(&[]));
    assert!(holds(&["web", &cluster().tag()]));
    assert!(!holds(&[&other_tag()]), "marked since it was seen");
    assert!(!holds(&["fmo-cluster:fedcba9876543210"]));
    let released = server(5, ServerStatus::Releasing, &[]);
    assert!(!TagProof::Unowned.holds(&facts, &released));
}

#[test]
fn its_own_mark_makes_it_the_objects() {
    let own = own_tag();
    let marked = |tags: &[&str]| {
        let mut all = vec![own.as_str()];
        all.extend(tags);
        let case = named(&all).held();
        case.facts(|f| f.own.push(seen(delivered(&all))))
    };
    let lost = known(marked(&[&other_tag()]), Some(false), false);
    let effect = lost.decide().effect;
    let tag_of = |effect: Option<Effect>| match effect {
        Some(Effect::RemoveTag { tag, .. }) => tag,
        other => format!("{other:?}"),
    };
    assert_eq!(tag_of(effect), other_tag(), "the mark of who is gone");
    let kept = marked(&[&kept_of("shop")]).decide().effect;
    assert_eq!(tag_of(kept), kept_of("shop"));
    let draft = marked(&[&kept_of("shop")]).decide().draft;
    assert_eq!(
        draft.status.records.order, None,
        "nothing is on record by then"
    );
    let claimed = |case: Case| match case.decide() {
        Decision {
            effect: Some(Effect::Claim { note, .. }),
            draft,
            ..
        } => (note.intent, draft.status.records.order),
        other => panic!("{other:?}"),
    };
    let (intent, order) = claimed(marked(&[]));
    assert_eq!(intent.attempt, "adopted");
    assert_eq!(order, None, "nothing is on record before the note is");
    let noted = marked(&[]).noted(&intent).decide();
    assert_eq!(
        noted.draft.status.records.order.unwrap().outcome,
        Some(OrderOutcome::Created)
    );
    // The order that was refused before is not this machine's.
    let refused = marked(&[]).ordered(Some(OrderOutcome::Refused), None);
    let refused = refused.facts(|f| {
        let tags = [mark().order_tag(EPOCH + 300)];
        f.own = vec![seen(delivered(&[&tags[0]]))];
    });
    assert_eq!(claimed(refused).0.epoch, EPOCH + 300);
    // Nor is it that of a later order that came to nothing.
    let earlier = marked(&[]).ordered(Some(OrderOutcome::NotSent), None);
    let earlier = earlier.facts(|f| {
        let tags = [mark().order_tag(EPOCH - 100)];
        f.own = vec![seen(delivered(&[&tags[0]]))];
    });
    let (intent, _) = claimed(earlier.clone());
    assert_eq!(intent.epoch, EPOCH - 100);
    let decision = earlier.noted(&intent).decide();
    assert!(
        !matches!(decision.effect, Some(Effect::Claim { .. })),
        "once"
    );
    let order = decision.draft.status.records.order.unwrap();
    assert_eq!(
        (order.intent.epoch, order.outcome),
        (EPOCH - 100, Some(OrderOutcome::Created))
    );
}

#[test]
fn an_object_whose_order_came_to_nothing_looks_before_it_goes() {
    let refused = || {
        Case::new()
            .ordered(Some(OrderOutcome::Refused), None)
            .deleting()
    };
    assert_eq!(short(&refused().decide()).0, Some("LetGo"));
    // The mark that it was about to put on may be there.
    let named = refused().named(5, Some(delivered(&[])));
    assert_eq!(short(&named.decide()).0, None);
    // It has taken one on before, which status does not tell yet.
    let mut intent = refused().intent();
    intent.attempt = "adopted".into();
    intent.epoch = EPOCH - 100;
    let taken = refused().noted(&intent);
    assert_eq!(short(&taken.decide()).0, None);
    // Once that is known to be gone, it is.
    let gone = taken.object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.intent = intent;
        order.outcome = Some(OrderOutcome::Absent);
    });
    assert_eq!(short(&gone.decide()).0, Some("LetGo"));
}

#[test]
fn it_is_put_on_record_by_what_a_read_shows() {
    let (own, others) = (own_tag(), other_tag());
    let case = known(named(&[&own]).held(), Some(true), false);
    let may_claim = |tags: &[&str]| fence::may_claim(&case.0, &delivered(tags));
    assert!(may_claim(&[&own]));
    assert!(!may_claim(&[]), "it gave way since it was seen");
    assert!(!may_claim(&[&others]));
    assert!(
        !may_claim(&[&own, &others]),
        "one of the two gives way first"
    );
    // An order of before that came to nothing says nothing of this machine.
    let refused = known(named(&[&own]), Some(true), false);
    let refused = refused.ordered(Some(OrderOutcome::Refused), None);
    let tag = mark().order_tag(EPOCH + 300);
    let shared = delivered(&[&tag, &others]);
    assert!(!fence::may_claim(&refused.0, &shared));
    assert!(fence::may_claim(&refused.0, &delivered(&[&tag])));
    assert!(rivals::may_give_way(&refused.0, &shared));
}

#[test]
fn of_two_that_took_it_on_at_once_one_gives_way() {
    let (own, others) = (own_tag(), other_tag());
    let both = |case: Case| case.facts(|f| f.own.push(seen(delivered(&[&own, &others]))));
    let unsettled =
        |is_settled| known(both(named(&[&own, &others]).held()), Some(true), is_settled);
    let conflict = Some(Reason::OwnershipConflict);
    table(vec![
        ("the first waits", unsettled(false), None, conflict, false),
        (
            "it gives way to who has it",
            unsettled(true),
            Some("RemoveTag"),
            conflict,
            false,
        ),
        (
            "the second gives way",
            unsettled(false).facts(|f| {
                let late = mark().order_tag(EPOCH + 9);
                f.own = vec![seen(delivered(&[&late, &others]))];
            }),
            Some("RemoveTag"),
            conflict,
            false,
        ),
        (
            "who has it goes on",
            known(
                both(named(&[&own, &others]).ordered(Some(OrderOutcome::Created), Some(5))),
                Some(true),
                false,
            ),
            Some("AddTag"),
            Some(Reason::Delivered),
            false,
        ),
        (
            "deleted before it has it: the machine is not its own",
            unsettled(false).deleting(),
            Some("RemoveTag"),
            None,
            false,
        ),
        (
            "deleted when it has it: not while the other is there",
            known(
                both(named(&[&own, &others]).ordered(Some(OrderOutcome::Created), Some(5))),
                Some(true),
                false,
            )
            .deleting(),
            None,
            conflict,
            true,
        ),
    ]);
    let settled = known(
        named(&[]).ordered(Some(OrderOutcome::Created), Some(5)),
        Some(true),
        false,
    );
    let begun = settled.deleting().begun(5).0;
    let record = delivered(&[&own, &others]);
    let now = begun.now;
    assert!(!fence::may_begin_release(&begun, &record));
    assert!(!fence::may_release(&begun, &record, now, now, secs(30)));
    let alone = delivered(&[&own]);
    assert!(fence::may_release(&begun, &alone, now, now, secs(30)));
    let elsewhere = Facts {
        recorded_elsewhere: vec![alone.id.clone()],
        ..begun.clone()
    };
    assert!(
        !fence::may_release(&elsewhere, &alone, now, now, secs(30)),
        "on record elsewhere"
    );
    let unseen = Facts {
        other_marks: Vec::new(),
        ..begun
    };
    assert!(
        !fence::may_release(&unseen, &record, now, now, secs(30)),
        "a mark that nobody looked up"
    );
    assert!(rivals::rival(&unseen, &Evidence::None, &record).is_some());
}

/// It names its machine and nothing else.
fn bare(case: Case) -> Case {
    case.spec(|s| {
        (s.location, s.instance_type, s.os) = (None, None, None);
    })
}

#[test]
fn an_identifier_alone_is_enough_to_adopt_or_observe() {
    let adopts = bare(named(&["web"]).held());
    assert_eq!(short(&adopts.decide()).0, Some("AddTag"));
    let (shown, asked) = (
        observed(bare(named(&[]))).decide(),
        observed(named(&[])).decide(),
    );
    assert_eq!(short(&shown), short(&asked));
    assert_eq!(
        shown.draft.condition(Type::Synced).unwrap().status,
        Some(true)
    );
    assert_eq!(shown.draft.status, asked.draft.status);
    // Nothing is known of it yet, and nothing is made up.
    let status = observed(bare(Case::new().named(5, None)))
        .decide()
        .draft
        .status;
    assert_eq!(
        (status.location, status.instance_type, status.os),
        (None, None, None)
    );
}

#[test]
fn what_is_observed_is_shown_and_gets_nothing() {
    let shows = |case: &Case| {
        let decision = case.decide();
        (
            decision.effect.is_none(),
            short(&decision).1,
            decision.draft.status.uuid,
        )
    };
    let living = known(named(&[&cluster().tag(), &other_tag()]), Some(true), true);
    for case in [named(&[]), living] {
        assert_eq!(
            shows(&observed(case)),
            (true, Some(Reason::Delivered), Some(uuid(5)))
        );
    }
    let moving = Case::new().named(5, Some(server(5, ServerStatus::Provisioning, &[])));
    assert_eq!(shows(&observed(moving)).1, Some(Reason::Provisioning));
    let none = Case::new().named(5, None);
    assert_eq!(
        shows(&observed(none)),
        (true, Some(Reason::ServerNotFound), None)
    );
    let tenant = through_cluster_account(observed(named(&[])), None);
    assert_eq!(shows(&tenant), (true, Some(Reason::NotAllowed), None));
    let tenant = through_cluster_account(observed(named(&[])), Some(true));
    assert_eq!(shows(&tenant).1, Some(Reason::Delivered));
    // One that asks for another is told so, and gets no change either.
    let differs = observed(named(&[])).spec(|s| s.instance_type = Some("large".into()));
    let synced = differs
        .decide()
        .draft
        .condition(Type::Synced)
        .unwrap()
        .clone();
    assert_eq!(
        (synced.status, synced.reason),
        (Some(false), Reason::PendingChanges)
    );
    let nothing = observed(Case::new());
    table(vec![
        (
            "nothing is named",
            nothing,
            None,
            Some(Reason::ObserveOnly),
            true,
        ),
        (
            "a machine of its own: tags stay as they are",
            observed(
                Case::new()
                    .ordered(Some(OrderOutcome::Created), Some(1))
                    .with(1, ServerStatus::Delivered),
            )
            .spec(|s| s.tags = vec!["new".into()]),
            None,
            Some(Reason::Delivered),
            false,
        ),
        (
            "deleted with a machine of its own",
            observed(
                Case::new()
                    .ordered(Some(OrderOutcome::Created), Some(1))
                    .with(1, ServerStatus::Delivered),
            )
            .deleting(),
            None,
            Some(Reason::ObserveOnly),
            false,
        ),
        (
            "a release that has begun",
            observed(
                Case::new()
                    .ordered(Some(OrderOutcome::Created), Some(1))
                    .with(1, ServerStatus::Delivered),
            )
            .deleting()
            .begun(1),
            None,
            Some(Reason::ObserveOnly),
            false,
        ),
    ]);
}

#[test]
fn it_looks_again_in_step_with_others() {
    let at = |mono: u64, seen_at: u64| {
        let case = observed(named(&[])).facts(|f| {
            f.now.mono = secs(mono);
            let external = f.external.as_mut().unwrap();
            external.shown.as_mut().unwrap().seen = secs(seen_at);
            external.looked = Some(secs(seen_at));
        });
        case.decide().wants_servers
    };
    // The idle poll interval is 120 s.
    assert_eq!(at(1079, 961), None);
    assert_eq!(at(1080, 961), Some(secs(1080)));
    assert_eq!(at(1100, 1079), Some(secs(1080)));
    assert_eq!(at(1100, 1081), None);
}

#[test]
fn a_deleted_object_goes_once_no_mark_of_its_own_is_on_the_machine() {
    let ending = |since: u64| {
        named(&[])
            .held()
            .deleting()
            .memory(move |m| m.ending_since = Some(secs(since)))
    };
    // A mark may be on its way for 30 s.
    assert_eq!(short(&ending(960).decide()).0, Some("LetGo"));
    let early = ending(965).decide();
    assert_eq!(short(&early).0, None);
    assert_eq!(
        (early.wants_servers, early.wants_proof),
        (Some(secs(995)), Some(secs(995)))
    );
    let marked = ending(960).facts(|f| f.own.push(seen(delivered(&[&own_tag()]))));
    assert_eq!(
        short(&marked.decide()).0,
        Some("BeginRelease"),
        "then it is its own"
    );
}

#[test]
fn a_machine_of_a_namespace_is_known_by_its_tag() {
    let tag = kept_of("shop");
    let machine = delivered(&[&tag]);
    let kept: Vec<&str> = marks::retained_in(&machine).collect();
    assert_eq!(kept, [marks::namespace_mark(cluster().as_str(), "shop")]);
    assert!(external::against(&named(&[]).0, &delivered(&[&tag])).is_none());
}

#[test]
fn what_is_observed_and_not_seen_any_more_is_not_synced_after_two_idle_intervals() {
    // Seen at 990, and two idle intervals are 240 s.
    let shown = || observed(named(&[])).written();
    let at = |case: Case, now: u64| {
        let decision = case.facts(|f| f.now.mono = secs(now)).decide();
        let said = |kind| {
            let found = decision.draft.condition(kind).cloned();
            found
                .or_else(|| api::conditions::Wanted::shown(kind, &decision.draft.status.conditions))
        };
        let (ready, synced) = (said(Type::Ready).unwrap(), said(Type::Synced).unwrap());
        assert_eq!(
            (ready.status, ready.reason),
            (Some(true), Reason::Delivered)
        );
        assert_eq!(ready.message, synced.message);
        (synced.status, synced.reason)
    };
    let synced = (Some(true), Reason::InSync);
    let lost = (Some(false), Reason::AccountNotReady);
    assert_eq!(at(shown(), 1229), synced);
    assert_eq!(at(shown(), 1230), lost);
    // After a restart no list came at all.
    let unlisted = || {
        shown().facts(|f| {
            f.external.as_mut().unwrap().looked = None;
            f.external.as_mut().unwrap().shown = None;
            f.first_seen = secs(1000);
        })
    };
    assert_eq!(at(unlisted(), 1239), synced);
    assert_eq!(at(unlisted(), 1240), lost);
    let blocked = || unlisted().blocked(Reason::ProviderUnreachable);
    assert_eq!(at(blocked(), 1240), lost);
    // Reads say that it is not there, and no list has shown it since.
    let missed = |read: u64| shown().memory(move |m| m.missing.reads = vec![secs(read)]);
    assert_eq!(at(missed(985), 1000), synced);
    let gone = (Some(false), Reason::ServerNotFound);
    assert_eq!(at(missed(995), 1235), gone);
    assert_eq!(at(missed(985), 1226), synced, "a later list shows it");
}
