//! The recorded machine is not among those that bear the mark.

use super::*;
use crate::server::memory::Missing;
use AcknowledgementEffect::AssumeAbsent;

/// Its machine was ordered ten minutes ago.
pub(super) fn created() -> Case {
    let case = Case::new().ordered(Some(OrderOutcome::Created), Some(1));
    case.facts(|f| f.now.wall = EPOCH + 600)
}

pub(super) fn tried(reads: &[u64], listings: &[u64]) -> Missing {
    Missing {
        reads: reads.iter().map(|s| secs(*s)).collect(),
        listings: listings.iter().map(|s| secs(*s)).collect(),
    }
}

pub(super) fn stripped(tags: &[&str]) -> Case {
    let sighting = seen(server(1, ServerStatus::Delivered, tags));
    created().facts(|f| f.recorded = Some(sighting))
}

#[test]
fn missing_is_not_gone() {
    let not_found = Some(Reason::ServerNotFound);
    let (cluster_tag, own) = (cluster().tag(), own_tag());
    let other = cluster()
        .object_mark("shop", "db", "uid-9")
        .order_tag(EPOCH);
    table(vec![
        (
            "not shown: read it, say nothing yet",
            created(),
            Some("Read"),
            None,
            false,
        ),
        (
            "blocked: nothing changes",
            created().blocked(Reason::KeyRejected),
            None,
            None,
            false,
        ),
        (
            "read a moment ago",
            created().memory(|m| m.missing = tried(&[980], &[])),
            None,
            None,
            false,
        ),
        (
            "two reads and one listing are no proof",
            created().memory(|m| m.missing = tried(&[800, 900], &[900])),
            Some("Read"),
            None,
            false,
        ),
        (
            "two reads and two listings are",
            created().memory(|m| m.missing = tried(&[800, 900], &[800, 900])),
            None,
            not_found,
            true,
        ),
        (
            "but not of what was ordered a moment ago",
            created()
                .memory(|m| m.missing = tried(&[800, 900], &[800, 900]))
                .facts(|f| f.now.wall = EPOCH + 599),
            Some("Read"),
            None,
            false,
        ),
        (
            "a clock that was turned back makes nothing new",
            created()
                .memory(|m| m.missing = tried(&[800, 900], &[800, 900]))
                .facts(|f| f.now.wall = EPOCH - 1),
            None,
            not_found,
            true,
        ),
        (
            "all marks gone",
            stripped(&[]),
            None,
            Some(Reason::TagsMissing),
            true,
        ),
        (
            "the cluster's mark is left: the order's is put back",
            stripped(&[&cluster_tag]),
            Some("AddTag"),
            Some(Reason::TagsMissing),
            true,
        ),
        (
            "but not while suspended",
            stripped(&[&cluster_tag]).spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::TagsMissing),
            true,
        ),
        (
            "another object's mark",
            stripped(&[&cluster_tag, &other]),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
        (
            "the order's mark is left: the cluster's is put back",
            created().facts(|f| f.own = vec![seen(server(1, ServerStatus::Delivered, &[&own]))]),
            Some("AddTag"),
            Some(Reason::Delivered),
            false,
        ),
    ]);
}

#[test]
fn a_listing_counts_only_with_a_control_and_without_the_machine() {
    let not_listed = |case: Case| match case.decide().effect {
        Some(Effect::Read { not_listed, .. }) => not_listed,
        other => panic!("{other:?}"),
    };
    let missed = |at: u64| created().memory(|m| m.missing.reads = vec![secs(at)]);
    assert_eq!(not_listed(missed(900)), Some(secs(990)));
    assert_eq!(
        not_listed(created()),
        None,
        "a listing from before the first miss proves nothing"
    );
    assert_eq!(not_listed(missed(900).view(|v| v.known.clear())), None);
    let listed = missed(900).view(|v| {
        let servers = vec![
            Arc::new(server(CONTROL, ServerStatus::Delivered, &[])),
            Arc::new(server(1, ServerStatus::Delivered, &[])),
        ];
        v.proof = Some(Arc::new(Proof {
            began: secs(990),
            ended: secs(990),
            servers,
        }));
    });
    assert_eq!(not_listed(listed), None);
}

#[test]
fn the_message_names_the_tags_to_put_back() {
    let decision = stripped(&[]).decide();
    let message = &decision.draft.condition(Type::Ready).unwrap().message;
    assert!(
        message.contains(&own_tag()) && message.contains(&cluster().tag()),
        "{message}"
    );
}

#[test]
fn a_machine_whose_identifier_is_lost_is_looked_for_by_its_mark() {
    let lost = || Case::new().ordered(Some(OrderOutcome::Created), None);
    let search = |case: Case, samples: &[u64]| {
        case.memory(|m| {
            m.search_for("nonce", secs(300));
            let search = m.search.as_mut().unwrap();
            search.samples = samples.iter().map(|s| secs(*s)).collect();
        })
    };
    let looked = search(lost(), &[]);
    assert_eq!(short(&looked.decide()).0, Some("LookForOrder"));
    let found = looked.with(1, ServerStatus::Delivered).decide();
    assert_eq!(found.draft.status.uuid, Some(uuid(1)));
    // Proved absent it is gone: nothing is ordered in its place.
    let gone = search(lost(), &[320, 400, 900]);
    let decision = gone.decide();
    assert_eq!(short(&decision), (None, Some(Reason::ServerNotFound), true));
    let order = decision.draft.status.records.order.unwrap();
    assert_eq!(order.outcome, Some(OrderOutcome::Created));
    assert_eq!(short(&gone.deleting().decide()).0, Some("LetGo"));
    // While the process that ordered lives, it knows.
    let remembered = lost().memory(|m| {
        m.order = Some(OrderRecord {
            outcome: Some(OrderOutcome::Created),
            ..OrderRecord::open(intent_of("web", "uid-1"))
        });
        m.uuid = Some(uuid(1));
    });
    assert_eq!(short(&remembered.decide()).0, Some("Read"));
}

#[test]
fn a_uuid_is_the_same_in_other_letters() {
    let upper = |text: String| text.replace("0000-4000", "00AB-4000");
    let machine = || {
        let mut machine = server(1, ServerStatus::Delivered, &[&cluster().tag(), &own_tag()]);
        machine.id = ServerId::parse(&upper(uuid(1)).to_lowercase()).unwrap();
        machine
    };
    let case = Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .facts(|f| f.own = vec![seen(machine())])
        .object(|o| o.status.as_mut().unwrap().uuid = Some(upper(uuid(1))))
        .recorded_release("uid-1", upper(uuid(1)))
        .deleting();
    assert_eq!(short(&case.decide()).0, Some("Release"));
    let at = case.0.now;
    assert!(fence::may_release(&case.0, &machine(), at, at, secs(30)));
    assert!(!fence::may_retain(&case.0, machine().id.as_str()));
}

#[test]
fn a_mark_is_put_back_only_on_what_may_be_the_machine_of_the_order() {
    let half = |change: fn(&mut Server)| {
        let mut machine = server(1, ServerStatus::Delivered, &[&cluster().tag()]);
        change(&mut machine);
        created().facts(|f| f.recorded = Some(seen(machine)))
    };
    assert_eq!(short(&half(|_| ()).decide()).0, Some("AddTag"));
    let older = |s: &mut Server| s.created_at = Some(EPOCH - 301);
    let other = |s: &mut Server| s.name = "db".into();
    for change in [older as fn(&mut Server), other] {
        assert_eq!(
            short(&half(change).decide()),
            (None, Some(Reason::TagsMissing), true)
        );
    }
    // What bears the mark of another object is not shown by this one.
    let theirs = stripped(&["fmo-order:0123456789abcdef0123456700000001"]).decide();
    assert!(theirs.draft.status.hostname.is_none() && theirs.draft.status.addresses.is_empty());
}

#[test]
fn a_machine_that_is_missing_for_the_grace_period_may_be_acknowledged_as_absent() {
    let missed = |reads: &[u64], listings: &[u64]| {
        let tried = tried(reads, listings);
        created().memory(|m| m.missing = tried)
    };
    let not_found = Some(Reason::ServerNotFound);
    let early = missed(&[800, 900], &[800, 900]);
    assert_eq!(short(&early.decide()), (None, not_found, true));
    assert_eq!(early.written().pending(AssumeAbsent), None);
    // Ten minutes after the first read it is read once more, beside a listing of that time.
    let due = missed(&[300, 360], &[300, 360]);
    assert_eq!(short(&due.decide()), (Some("Read"), not_found, true));
    assert_eq!(due.decide().wants_proof, Some(secs(900)));
    assert_eq!(due.written().pending(AssumeAbsent), None);

    let long = || missed(&[300, 360, 990], &[300, 360, 990]);
    assert_eq!(short(&long().decide()), (None, not_found, true));
    let given = long().given(AssumeAbsent);
    let token = given.pending(AssumeAbsent).unwrap();
    let draft = given.decide().draft;
    assert_eq!(
        draft.status.records.order.unwrap().outcome,
        Some(OrderOutcome::Absent)
    );
    assert_eq!(draft.status.acknowledged[0].token, token);
    let closed = given.clone().written();
    assert_eq!(closed.0.status().uuid, None);
    assert_eq!(short(&closed.decide()).0, Some("Order"));
    assert_eq!(closed.pending(AssumeAbsent), None);

    // It is shown again.
    let shown = given.clone().with(1, ServerStatus::Delivered);
    assert_eq!(short(&shown.decide()).1, Some(Reason::Delivered));
    let told = shown.written();
    assert_eq!(told.pending(AssumeAbsent), None);
    assert_eq!(told.0.status().acknowledged, []);
    // It is shown without its tags, and then not any more.
    let bare = server(1, ServerStatus::Delivered, &[]);
    let stripped = given.clone().facts(|f| f.recorded = Some(seen(bare)));
    assert_eq!(short(&stripped.decide()).1, Some(Reason::TagsMissing));
    let lost = stripped.written().facts(|f| {
        f.recorded = None;
        f.now.wall += 1;
    });
    assert_eq!(short(&lost.decide()), (None, not_found, true));
    assert_ne!(lost.written().pending(AssumeAbsent).unwrap(), token);
    // The token was read long ago, or by another process: it is looked for once more.
    let later = given.clone().facts(|f| f.now.mono += secs(4000));
    assert_eq!(short(&later.decide()), (Some("Read"), not_found, true));
    let restarted = given.memory(|m| m.missing = Missing::default());
    assert_eq!(short(&restarted.decide()).0, Some("Read"));
    assert_eq!(restarted.written().pending(AssumeAbsent), Some(token));
}

/// An account without another known machine: no listing proves anything there.
#[test]
fn the_only_known_machine_may_be_acknowledged_as_absent_after_the_grace_period() {
    let alone = |reads: &[u64]| {
        let tried = tried(reads, &[]);
        created()
            .view(|v| v.known.clear())
            .memory(|m| m.missing = tried)
    };
    assert_eq!(
        short(&alone(&[800, 900]).decide()),
        (Some("Read"), None, false)
    );
    assert_eq!(alone(&[800, 900]).written().pending(AssumeAbsent), None);
    let long = alone(&[300, 360, 990]);
    let not_found = (None, Some(Reason::ServerNotFound), true);
    assert_eq!(short(&long.decide()), not_found);
    let closed = long
        .given(AssumeAbsent)
        .decide()
        .draft
        .status
        .records
        .order
        .unwrap();
    assert_eq!(closed.outcome, Some(OrderOutcome::Absent));
    // After the grace period a listing of that time is asked for.
    let due = alone(&[300, 360]).view(|v| {
        let proof = v.proof.as_mut().unwrap();
        Arc::make_mut(proof).began = secs(899);
    });
    assert_eq!(due.decide().wants_proof, Some(secs(900)));
}
