//! The effect, reason and acknowledgements of each step and wait of the protocol. `tests/protocol` of this crate
//! explores which step follows from which facts.

use super::{
    existing::with_status,
    external::{self, through_cluster_account},
    release::deleted,
    *,
};
use crate::{readings::words, server::memory::ServerObservation};
use Reason::{
    Delivered, OutcomeUnknown, OwnershipConflict, Progressing, ProviderUnreachable,
    ProvisioningFailed, ReleasedExternally, Releasing, ServerExists, ServerNotFound, TagsMissing,
    WaitingForListing,
};

/// A name, the case, the reason of Ready and whether it stalls, and the possible acknowledgements.
type Line = (
    &'static str,
    Case,
    Option<(Reason, bool)>,
    &'static [AcknowledgementEffect],
);

/// Cases with the same result.
fn lines(
    expected: Option<(Reason, bool)>,
    asks: &'static [AcknowledgementEffect],
    cases: Vec<(&'static str, Case)>,
) -> impl Iterator<Item = Line> {
    let line = move |(what, case)| (what, case, expected, asks);
    cases.into_iter().map(line)
}

/// They report nothing new.
fn quiet(cases: Vec<(&'static str, Case)>) -> impl Iterator<Item = Line> {
    lines(None, &[], cases)
}

/// They continue without a user.
fn wait(reason: Reason, cases: Vec<(&'static str, Case)>) -> impl Iterator<Item = Line> {
    lines(Some((reason, false)), &[], cases)
}

/// A user must act.
fn wait_for_user(reason: Reason, cases: Vec<(&'static str, Case)>) -> impl Iterator<Item = Line> {
    lines(Some((reason, true)), &[], cases)
}

/// A user may acknowledge that there is no server.
fn ask(reason: Reason, cases: Vec<(&'static str, Case)>) -> impl Iterator<Item = Line> {
    lines(Some((reason, true)), &[AssumeAbsent], cases)
}

/// Its order has an unknown outcome, and the grace period is over.
pub(super) fn open() -> Case {
    Case::new().ordered(None, None).met(300)
}

/// It has had a finalizer and no record for long.
fn bare() -> Case {
    Case::new().met(300)
}

/// Its server was recorded long ago and is not listed.
pub(super) fn created() -> Case {
    Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .met(300)
}

/// Its server has only these tags.
pub(super) fn stripped(tags: &[&str]) -> Case {
    let bare = seen(server(1, ServerStatus::Delivered, tags));
    created().facts(|f| f.recorded = Some(bare))
}

/// Reads and lists no longer show its server.
pub(super) fn gone() -> Case {
    created().missed(&[800, 960])
}

/// It is about to adopt the server of its spec.
pub(super) fn adopting() -> Case {
    let named = external::named(&[]).ordered(Some(OrderOutcome::Adopting), Some(5));
    named.facts(|f| f.recorded = f.external.as_ref().and_then(|named| named.shown.clone()))
}

/// That server has both tags since then.
fn claimed(case: Case, at: u64) -> Case {
    case.memory(|m| {
        m.protocol
            .record_claim(protocol_facts::server_id(&uuid(5)), secs(at))
    })
}

/// No other known server must be on the lists.
pub(super) fn alone(case: Case) -> Case {
    case.view(|v| v.known.clear())
}

/// The account has another ID now.
pub(super) fn elsewhere(case: Case) -> Case {
    case.view(|v| v.account_id = Some("33333333cccc".into()))
}

/// This process has just become leader.
fn led(case: Case) -> Case {
    case.facts(|f| f.leader_since = secs(980))
}

/// So many of its orders were lost that a user must act.
pub(super) fn lost() -> Case {
    let absent = Case::new().ordered(Some(OrderOutcome::Absent), None);
    absent.order(|record| record.lost = 2)
}

fn with_tags(more: &[&str]) -> Server {
    let tags = [cluster().tag(), own_tag()];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    server(1, ServerStatus::Delivered, &[&tags, more].concat())
}

fn number(number: u8) -> Vec<ServerId> {
    vec![ServerId::parse(&uuid(number)).unwrap()]
}

fn refused() -> Case {
    Case::new().ordered(Some(OrderOutcome::Refused), None)
}

fn living() -> impl Iterator<Item = Line> {
    let new = Case::new;
    let named = |status| new().named(5, Some(server(5, status, &[])));
    let unreachable = |v: &mut AccountView| {
        let text = "Away; retrying every 15s".to_owned();
        v.last_error = Some((Reason::ProviderUnreachable, text));
    };
    let away = new().unlisted().view(unreachable);
    let missed = created().missed(&[980]);
    let led = led(new().loose().met(960));
    let claimed = claimed(adopting(), 990);
    let replaced = with_status(ServerStatus::Releasing).begun(1);
    let owned = external::named(&[&other_tag()]).facts(|f| f.owned_elsewhere = number(5));
    let taken = external::named(&[]).facts(|f| f.recorded_elsewhere = number(5));
    let foreign = external::named(&["fmo-cluster:fedcba9876543210"]);
    let abroad = external::named(&[&external::tag_of("bank")]);
    let abroad = through_cluster_account(abroad, Some(true));
    let shared = created().showing(with_tags(&[&other_tag()]));
    let suspected = refused().met(300).suspecting(1);
    let first = vec![(
        "one of an earlier namespace",
        new().with_previous_servers(&[1]),
    )];
    let two = vec![(
        "two of an earlier namespace",
        new().with_previous_servers(&[1, 2]),
    )];
    let exists = Some((ServerExists, true));
    quiet(vec![
        ("no list yet", new().unlisted()),
        ("not found a moment ago", missed),
    ])
    .chain(wait(
        ProviderUnreachable,
        vec![("no list, as looks fail", away)],
    ))
    .chain(wait(
        WaitingForListing,
        vec![
            ("made before it leads", led),
            ("the finalizer alone", new().met(500)),
            ("incomplete lists", new().empty()),
        ],
    ))
    .chain(wait(
        OutcomeUnknown,
        vec![("open", new().ordered(None, None))],
    ))
    .chain(wait(Progressing, vec![("claimed a moment ago", claimed)]))
    .chain(wait(Releasing, vec![("released to be replaced", replaced)]))
    .chain(ask(
        OutcomeUnknown,
        vec![
            ("open, incomplete lists", open().empty()),
            ("open, no known server", alone(open())),
            ("open, an untagged server", open().suspecting(1)),
            ("the finalizer, no known server", alone(bare())),
            ("the finalizer, an untagged one", bare().suspecting(1)),
            ("refused, when met an untagged one", suspected),
            ("lost twice in a row", lost()),
            ("open, another account", elsewhere(open())),
            ("recorded, another account", elsewhere(created())),
        ],
    ))
    .chain(ask(
        ServerNotFound,
        vec![("gone", gone()), ("gone, no known server", alone(gone()))],
    ))
    .chain(lines(exists, &[OrderAnother, Adopt], first))
    .chain(lines(exists, &[OrderAnother], two))
    .chain(wait_for_user(
        ServerNotFound,
        vec![("named, not there", new().named(5, None))],
    ))
    .chain(wait_for_user(
        ProvisioningFailed,
        vec![
            ("named, failed", named(ServerStatus::Failed)),
            ("failed", with_status(ServerStatus::Failed)),
        ],
    ))
    .chain(wait_for_user(
        ReleasedExternally,
        vec![
            ("named, releasing", named(ServerStatus::Releasing)),
            ("named, released", named(ServerStatus::Released)),
            ("released by others", with_status(ServerStatus::Released)),
        ],
    ))
    .chain(wait_for_user(
        OwnershipConflict,
        vec![
            ("named, another object's by its tag", owned),
            ("named, another object's by its record", taken),
            ("named, another cluster's", foreign),
            ("named, another namespace's", abroad),
            ("recorded, another object's tag, too", shared),
        ],
    ))
    .chain(wait_for_user(
        TagsMissing,
        vec![
            ("no tags any more", stripped(&[])),
            ("another object's tag alone", stripped(&[&other_tag()])),
        ],
    ))
}

fn ending() -> impl Iterator<Item = Line> {
    let protected = deleted(ServerStatus::Delivered).spec(|s| s.deletion_protection = Some(true));
    let shared = created().showing(with_tags(&[&other_tag()]));
    let bare_now = Case::new().loose().deleting();
    let unlisted = refused().met(300).unlisted().deleting();
    let led = led(refused().met(960)).deleting();
    let open_now = Case::new().ordered(None, None).deleting();
    let begun = deleted(ServerStatus::Releasing).begun(1);
    quiet(vec![
        ("deleted, nothing of ours on it", bare_now),
        ("deleted, refused, no list yet", unlisted),
    ])
    .chain(wait(
        WaitingForListing,
        vec![("deleted, refused, a new leader", led)],
    ))
    .chain(wait(OutcomeUnknown, vec![("deleted, open", open_now)]))
    .chain(wait(
        Reason::Protected,
        vec![("deleted, a policy", protected)],
    ))
    .chain(wait(
        Releasing,
        vec![
            (
                "deleted, released by others",
                deleted(ServerStatus::Releasing),
            ),
            ("deleted, under way", begun),
        ],
    ))
    .chain(ask(
        OutcomeUnknown,
        vec![
            ("deleted, incomplete lists", open().empty().deleting()),
            ("deleted, the finalizer", alone(bare()).deleting()),
            ("deleted, another account", elsewhere(created()).deleting()),
        ],
    ))
    .chain(wait_for_user(
        TagsMissing,
        vec![("deleted, no tags", stripped(&[]).deleting())],
    ))
    .chain(wait_for_user(
        OwnershipConflict,
        vec![("deleted, shared", shared.deleting())],
    ))
}

#[test]
fn each_wait_has_its_reason_and_acknowledgements() {
    for (what, case, expected, asks) in living().chain(ending()) {
        let (effect, reason, stalled) = short(&case.decide());
        let actual = reason.map(|reason| (reason, stalled));
        assert_eq!((effect, actual), (None, expected), "{what}");
        let asked = case.written().0.status().pending_acknowledgements;
        let asked: Vec<_> = asked.into_iter().map(|asked| asked.effect).collect();
        assert_eq!(asked, asks, "{what}");
    }
}

#[test]
fn each_message_names_the_next_step() {
    for (what, case, ..) in living().chain(ending()) {
        for condition in &case.decide().desired.conditions {
            let complaints = words::complaints(condition);
            assert!(
                complaints.is_empty(),
                "{what}: {complaints:?}: {condition:?}"
            );
        }
    }
}

#[test]
fn wait_message_is_stable_between_reconciles() {
    for (what, case, expected, _) in living().chain(ending()) {
        if expected.is_none() {
            continue;
        }
        let first = message(&case.decide());
        let later = case.written().facts(|f| {
            f.now.mono += secs(30);
            f.now.wall += 30;
        });
        assert_eq!(message(&later.decide()), first, "{what}");
        for asked in later.0.status().pending_acknowledgements {
            let remedy = format!("set {ACKNOWLEDGE} to {}", asked.token);
            assert!(asked.effect == Adopt || first.contains(&remedy), "{first}");
        }
    }
}

#[test]
fn each_step_has_its_effect() {
    let new = Case::new;
    let kept = || with_status(ServerStatus::Delivered);
    let retained = || retained(1, ServerStatus::Delivered);
    let own = new().loose().with(1, ServerStatus::Delivered);
    let loose = kept().object(|o| o.metadata.finalizers = None);
    let suspended = adopting().spec(|s| s.suspend = Some(true));
    let was_retained = new().showing(retained()).deleting();
    let goes_on = |effect, reason| (effect, reason, false);
    come_to(
        goes_on(Some("Order"), Some(Reason::Ordering)),
        vec![("new", new())],
    );
    come_to(
        goes_on(Some("AddFinalizer"), None),
        vec![("before it adopts", own), ("where it is gone", loose)],
    );
    come_to(
        goes_on(Some("Claim"), Some(Progressing)),
        vec![("adopting", adopting())],
    );
    let claimed = vec![("claimed long ago", claimed(adopting(), 930))];
    come_to(goes_on(Some("Adopt"), Some(Progressing)), claimed);
    let suspended = vec![("suspended meanwhile", suspended)];
    come_to(goes_on(None, Some(Reason::Suspended)), suspended);
    come_to(goes_on(None, Some(Delivered)), vec![("kept", kept())]);
    let unretained = vec![("retained", kept().showing(retained()))];
    come_to(goes_on(Some("RemoveTag"), Some(Delivered)), unretained);
    come_to(goes_on(Some("Read"), None), vec![("not shown", created())]);
    come_to(
        goes_on(Some("RemoveFinalizer"), None),
        vec![
            ("deleted before any order", new().deleting()),
            ("deleted, refused", refused().deleting()),
            ("deleted, gone", gone().deleting()),
            ("deleted, one was retained before", was_retained),
        ],
    );
}

#[test]
fn written_record_requeues_at_once() {
    let answered = |outcome, server| {
        let record = Box::new(order_record(Some(outcome), server));
        let case = Case::new().ordered(None, None);
        case.memory(|m| m.record_observation(ServerObservation::Ordered(record), RUNNING))
    };
    let absent = |case: Case| {
        case.memory(|m| {
            m.protocol.record_absence(secs(400));
            m.protocol.record_absence(secs(990));
        })
    };
    let taken = adopting().facts(|f| f.recorded_elsewhere = number(5));
    let released =
        adopting().facts(|f| f.recorded = Some(seen(server(5, ServerStatus::Released, &[]))));
    let released = released.facts(|f| f.external = None);
    use OrderOutcome::{Absent, Adopting, Created, NotSent, Refused};
    let of = |outcome, server: Option<u8>| Some((Some(outcome), server.map(uuid)));
    let own = |case: Case| case.with(1, ServerStatus::Created);
    let failed = || with_status(ServerStatus::Failed).with(2, ServerStatus::Delivered);
    for (what, case, expected) in [
        (
            "its own server shows",
            own(Case::new()),
            of(Adopting, Some(1)),
        ),
        (
            "so it does on deletion",
            own(Case::new().deleting()),
            of(Adopting, Some(1)),
        ),
        (
            "whatever its order came to",
            own(refused()),
            of(Adopting, Some(1)),
        ),
        (
            "the named one",
            external::named(&["web"]),
            of(Adopting, Some(5)),
        ),
        (
            "the server of the open order",
            own(open()),
            of(Created, Some(1)),
        ),
        (
            "the answer: created",
            answered(Created, Some(1)),
            of(Created, Some(1)),
        ),
        (
            "the answer: refused",
            answered(Refused, None),
            of(Refused, None),
        ),
        ("not sent", answered(NotSent, None), of(NotSent, None)),
        ("absence is confirmed", absent(open()), of(Absent, None)),
        ("another live one", failed(), of(Adopting, Some(2))),
        ("another object has it", taken, None),
        ("it was released meanwhile", released, None),
    ] {
        let decision = case.decide();
        assert_eq!(outcome(&decision), expected, "{what}");
        let next = (&decision.effect, decision.requeue);
        assert_eq!(next, (&None, Requeue::Now), "{what}");
    }
    let counts = |case: Case| {
        let order = absent(case).decide().desired.status.records.order.unwrap();
        (order.lost, order.cut)
    };
    assert_eq!(counts(open()), (0, 1));
    let lost = Case::new().ordered(None, None);
    assert_eq!(
        counts(lost.order(|record| record.answer_lost = true).met(300)),
        (1, 0)
    );
    // The release record is removed once its server is live again.
    let decision = with_status(ServerStatus::Delivered).begun(1).decide();
    assert_eq!(
        (decision.desired.status.records.release, decision.requeue),
        (None, Requeue::Now)
    );
}

#[test]
fn what_a_user_acknowledges_leads_on() {
    let order = |case: Case| match case.decide().effect {
        Some(ServerEffect::Order(plan)) => (plan.lost, plan.cut),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        order(
            Case::new()
                .with_previous_servers(&[1])
                .with_token(OrderAnother)
        ),
        (0, 0)
    );
    assert_eq!(order(alone(bare()).with_token(AssumeAbsent)), (0, 0));
    assert_eq!(order(bare().suspecting(1).with_token(AssumeAbsent)), (0, 0));
    assert_eq!(
        order(refused().met(300).suspecting(1).with_token(AssumeAbsent)),
        (0, 0)
    );
    assert_eq!(
        order(lost().with_token(AssumeAbsent)),
        (0, 0),
        "the count starts anew"
    );
    let adopts = Case::new()
        .with_previous_servers(&[1])
        .with_token(Adopt)
        .decide();
    assert_eq!(
        outcome(&adopts),
        Some((Some(OrderOutcome::Adopting), Some(uuid(1))))
    );
    for (what, stuck) in [
        ("incomplete lists", open().empty()),
        ("no known server", alone(open())),
        ("an untagged server", open().suspecting(1)),
        ("another account", elsewhere(open())),
        ("another account, recorded", elsewhere(created())),
        ("gone", gone()),
        ("gone for all that is shown", alone(gone())),
    ] {
        let given = stuck.with_token(AssumeAbsent);
        let token = given.pending(AssumeAbsent).unwrap();
        let status = given.decide().desired.status;
        let order = status.records.order.unwrap();
        assert_eq!(order.outcome, Some(OrderOutcome::Absent), "{what}");
        assert_eq!((order.lost, order.cut, status.uuid), (0, 0, None), "{what}");
        assert_eq!(status.acknowledged[0].token, token, "{what}");
        assert_eq!(status.pending_acknowledgements, [], "{what}");
    }
    for (what, stuck) in [
        ("the finalizer alone", alone(bare())),
        ("open", alone(open())),
        ("not shown", alone(gone())),
    ] {
        // For an open order it is written to status first.
        let given = stuck.deleting().with_token(AssumeAbsent).written();
        assert_eq!(short(&given.decide()).0, Some("RemoveFinalizer"), "{what}");
    }
    // Within the grace period an order in flight may still appear.
    let early = elsewhere(Case::new().ordered(None, None)).with_token(AssumeAbsent);
    assert_eq!(short(&early.decide()), (None, Some(OutcomeUnknown), true));
}

/// The record and the finalizer of an open order were removed.
fn wiped() -> Case {
    let bare = open().object(|o| (o.metadata.finalizers, o.status) = (None, None));
    bare.facts(|f| {
        let object = protocol_facts::to_protocol_object(f);
        f.memory
            .protocol
            .observe_object(&object, None, false, secs(350));
    })
}

#[test]
fn lost_finalizer_and_record_can_be_acknowledged() {
    for stuck in [
        Case::new().loose().met(300).suspecting(1),
        wiped().suspecting(1),
        alone(wiped()),
    ] {
        let given = stuck.with_token(AssumeAbsent);
        assert_eq!(short(&given.decide()).0, Some("Order"));
    }
}

#[test]
fn incomplete_list_requests_no_object_acknowledgement() {
    for case in [refused().empty(), refused().met(300).empty().deleting()] {
        assert_eq!(
            short(&case.decide()),
            (None, Some(WaitingForListing), false)
        );
    }
    // The message says what to do at the account: no acknowledgement at the object makes such a list complete.
    let bare = bare().empty().written();
    assert_eq!(bare.pending(AssumeAbsent), None);
    let message = message(&bare.decide());
    assert!(message.contains("of ProviderAccount"), "{message}");
}

#[test]
fn record_of_other_account_can_be_acknowledged() {
    let case = elsewhere(with_status(ServerStatus::Delivered));
    let later = case.clone().written().facts(|f| f.now.wall += 30);
    assert_eq!(message(&later.decide()), message(&case.decide()));
    assert!(later.written().pending(AssumeAbsent).is_some());
}

#[test]
fn token_is_void_when_the_obstacle_changes() {
    let given = open().empty().with_token(AssumeAbsent);
    let listed = open().suspecting(1).0;
    let shown = given.facts(|f| (f.account, f.suspects) = (listed.account, listed.suspects));
    assert_eq!(outcome(&shown.decide()), Some((None, None)));
}

#[test]
fn token_covers_suspects_beyond_those_named() {
    let suspecting = |numbers: &[u8]| {
        let all = numbers
            .iter()
            .map(|number| open().suspecting(*number).0.suspects);
        let all: Vec<_> = all.flatten().collect();
        open().facts(|f| f.suspects = all).written()
    };
    let token = |numbers: &[u8]| suspecting(numbers).pending(AssumeAbsent).unwrap();
    let all = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let mut reversed = all;
    reversed.reverse();
    assert_eq!(token(&all), token(&reversed));
    assert_ne!(token(&all), token(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 11]));
}

#[test]
fn the_token_of_an_adoption_is_used_up() {
    let given = Case::new().with_previous_servers(&[1]).with_token(Adopt);
    let token = given.pending(Adopt).unwrap();
    let status = given.written().0.status();
    assert_eq!(
        (
            status.acknowledged[0].token.clone(),
            status.pending_acknowledgements
        ),
        (token, vec![])
    );
}

#[test]
fn one_that_was_retained_hides_no_other_one() {
    let case = Case::new().showing(retained(1, ServerStatus::Delivered));
    let case = case.with(2, ServerStatus::Delivered).deleting();
    let adopts = Some((Some(OrderOutcome::Adopting), Some(uuid(2))));
    assert_eq!(outcome(&case.decide()), adopts);
}

#[test]
fn stopped_account_keeps_finalizer_while_server_is_live() {
    let released = |case: Case| {
        case.facts(|f| {
            for shown in f.recorded.iter_mut().chain(&mut f.own) {
                Arc::make_mut(&mut shown.server).status = ServerStatus::Released;
            }
        })
    };
    let stopped = |case: Case| short(&case.deleting().blocked(Reason::Suspended).decide()).0;
    let alone = released(adopting());
    assert_eq!(stopped(alone.clone()), Some("RemoveFinalizer"));
    assert_eq!(stopped(alone.with(2, ServerStatus::Delivered)), None);
}

#[test]
fn nothing_is_decided_without_account_and_namespace() {
    let unread = Case::new()
        .facts(|f| f.namespace_uid = Err("no".into()))
        .decide();
    assert_eq!(short(&unread), (None, Some(Reason::Pending), false));
    assert_eq!(unread.requeue, Requeue::After(secs(5)));
    let unrecorded = Case::new().view(|v| v.account_id = None).decide();
    assert_eq!(short(&unrecorded), (None, Some(Reason::Pending), false));
}

#[test]
fn a_record_is_read_as_it_was_written() {
    use OrderOutcome::{Absent, Adopting, Created, NotSent, Refused};
    let open = Case::new().ordered(None, None);
    for (outcome, server) in [
        (None, None),
        (Some(Created), Some(1)),
        (Some(Refused), None),
        (Some(NotSent), None),
        (Some(Absent), None),
        (Some(Adopting), Some(1)),
    ] {
        let case = Case::new().ordered(outcome, server);
        let known = case.0.order().unwrap();
        let read = protocol_facts::to_protocol_order(known);
        let written =
            |case: &Case| protocol_facts::to_order_record(&case.0, case.0.view().unwrap(), &read);
        assert_eq!(&written(&case), known);
        // Even if another record, or none, was there before.
        assert_eq!(protocol_facts::to_protocol_order(&written(&open)), read);
        let new = protocol_facts::to_protocol_order(&written(&Case::new()));
        let nonce = new.nonce;
        assert_eq!(new, crate::protocol::ProtocolOrder { nonce, ..read });
    }
}

#[test]
fn tags_say_whose_a_server_is() {
    let now = Case::new().0.now.wall;
    let (own, previous, other) = (own_tag(), previous_tag(), other_tag());
    let elsewhere = external::tag_of("bank");
    let far = seq(now + 2 * 86_400);
    let ahead = owner().order_tag(far);
    let cluster_tag = cluster().tag();
    let read = |tags: &[&str]| {
        let case = Case::new();
        let read = protocol_facts::to_protocol_server(
            &case.0,
            &owner(),
            &server(1, ServerStatus::Delivered, tags),
        );
        let flags = [
            (read.has_cluster_tag, "cluster"),
            (read.has_other_cluster, "foreign"),
            (read.is_of_previous_namespace, "former"),
            (read.has_other_owner, "others"),
            (read.has_other_namespace, "elsewhere"),
            (read.is_retained, "retained"),
        ];
        let flags = flags.into_iter().filter(|(is_so, _)| *is_so);
        (
            read.own_seq,
            flags.map(|(_, what)| what).collect::<Vec<_>>(),
        )
    };
    let (number, none) = (Some(seq(EPOCH)), Vec::<&str>::new());
    assert_eq!(read(&["web", "fmo-order:web"]), (None, none.clone()));
    assert_eq!(read(&[&cluster_tag, &own]), (number, vec!["cluster"]));
    assert_eq!(
        read(&[&own, &owner().order_tag(7)]),
        (number, none.clone()),
        "the highest number"
    );
    // A clock that is behind does not hide an own server.
    assert_eq!(read(&[&ahead]), (Some(far), none));
    assert_eq!(read(&[&previous]), (None, vec!["former", "others"]));
    assert_eq!(read(&[&own, &other]), (number, vec!["others"]));
    assert_eq!(read(&[&elsewhere]), (None, vec!["others", "elsewhere"]));
    assert_eq!(
        read(&["fmo-cluster:fedcba9876543210"]),
        (None, vec!["foreign"])
    );
    assert_eq!(read(&[&own, RETAINED_TAG]), (number, vec!["retained"]));
}

#[test]
fn recreated_object_has_the_same_owner() {
    let owner_with = |change: fn(&mut ServerFacts)| Case::new().facts(change).0.owner();
    let again =
        |f: &mut ServerFacts| Arc::make_mut(&mut f.object).metadata.uid = Some("uid-2".into());
    assert_eq!(owner_with(again), Some(owner()));
    let namespace = owner_with(|f| f.namespace_uid = Ok("ns-2".into())).unwrap();
    assert_ne!(namespace, owner());
    assert_eq!(namespace.name_hash(), owner().name_hash());
    assert_eq!(owner_with(|f| f.namespace_uid = Err("no".into())), None);
}

#[test]
fn ended_server_needs_no_tags() {
    let over = |status: &ServerStatus| {
        let bare = seen(server(1, status.clone(), &[]));
        created().facts(|f| f.recorded = Some(bare))
    };
    let (failed, released) = (ServerStatus::Failed, ServerStatus::Released);
    come_to(
        (None, Some(ProvisioningFailed), true),
        vec![("failed", over(&failed))],
    );
    come_to(
        (None, Some(ReleasedExternally), true),
        vec![("released", over(&released))],
    );
    for status in [failed, released] {
        let deleted = short(&over(&status).deleting().decide()).0;
        assert_eq!(deleted, Some("RemoveFinalizer"), "{status:?}");
    }
}

#[test]
fn server_without_cluster_tag_is_read_separately() {
    let last = |at: u64, tags: &[&str]| {
        let mut shown = seen(server(1, ServerStatus::Delivered, tags));
        shown.seen = secs(at);
        created().facts(|f| (f.own, f.recorded) = (vec![shown.clone()], Some(shown)))
    };
    let own = own_tag();
    let suspended = |case: Case| case.spec(|s| s.suspend = Some(true));
    let full: Vec<String> = (0..59)
        .map(|n| format!("t{n}"))
        .chain([own_tag()])
        .collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let refused = |case: Case| {
        case.memory(|m| {
            m.backoff.fail(RUNNING, secs(600));
        })
    };
    let effect = |case: Case| short(&case.decide()).0;
    for (what, late, recent) in [
        (
            "suspended",
            suspended(last(870, &[&own])),
            suspended(last(890, &[&own])),
        ),
        ("no tag at all", last(870, &[]), last(890, &[])),
        (
            "deleted",
            suspended(last(870, &[&own])).deleting(),
            suspended(last(890, &[&own])).deleting(),
        ),
    ] {
        assert_eq!(effect(late), Some("Read"), "{what}");
        assert_eq!(effect(recent.clone()), None, "{what}");
        let again = recent.decide().requeue;
        let is_soon = matches!(again, Requeue::After(rest) if rest <= secs(10));
        assert!(is_soon, "{what}: {again:?}");
    }
    let crowded = refused(last(870, &full));
    assert_eq!(effect(crowded), Some("Read"), "full");
    let listed = [cluster().tag(), own_tag()];
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(effect(suspended(last(870, &listed))), None, "it is listed");
}

#[test]
fn deleted_object_names_the_servers_it_leaves() {
    let restored = || alone(bare()).with_previous_servers(&[1]).deleting();
    let decision = restored().decide();
    let text = message(&decision);
    let token = restored().written().pending(AssumeAbsent).unwrap();
    for word in [&uuid(1), "release them", "keep them", &token] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_ne!(
        Some(token.clone()),
        alone(bare()).deleting().written().pending(AssumeAbsent),
        "it says nothing of a server that was not named"
    );
    let given = restored().written().giving(&token);
    assert_eq!(short(&given.decide()).0, Some("RemoveFinalizer"));
    let kept = alone(bare()).showing(retained(1, ServerStatus::Delivered));
    assert!(message(&kept.deleting().decide()).contains(&uuid(1)));
    // An object that may not adopt its own server names it.
    let own = || bare().with(1, ServerStatus::Delivered).deleting();
    for blocked in [
        own().spec(|s| s.suspend = Some(true)),
        own().spec(|s| s.management_policy = Some(api::server::ManagementPolicy::ObserveOnly)),
    ] {
        let text = message(&blocked.decide());
        for word in [&uuid(1), "To release it, set", "to keep it"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn no_order_follows_the_highest_number() {
    let last = |seq: u32| refused().order(|record| record.seq = seq);
    let decision = last(u32::MAX).decide();
    assert_eq!(short(&decision), (None, Some(Reason::OrderRefused), true));
    assert_eq!(short(&last(u32::MAX - 1).decide()).0, Some("Order"));
}

#[test]
fn known_server_matches_in_any_letter_case() {
    let shouted = |case: Case| {
        case.view(|v| v.known[0].uuid = "00000000-0000-4000-8000-00000000AB09".into())
            .view(|v| {
                let known = Server {
                    id: ServerId::parse("00000000-0000-4000-8000-00000000ab09").unwrap(),
                    ..server(KNOWN_SERVER, ServerStatus::Delivered, &[])
                };
                v.complete_list.as_mut().map(Arc::make_mut).unwrap().servers =
                    vec![Arc::new(known)];
            })
    };
    assert_eq!(short(&shouted(Case::new()).decide()).0, Some("Order"));
}
