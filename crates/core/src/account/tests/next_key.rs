//! The key in `apiKeyNext`: which one is in use, when the other takes its place, and what is said of that.

use super::{
    lineage::{changed, on_record, recorded},
    *,
};
use crate::{
    account::{
        decide::next_key::{Entries, InForce, Roles, Step, evidence, roles, step, verdict},
        next_key::Tried,
    },
    readings::words::complaints,
};
use api::key_in_use::{KeyEntry, KeyInUse};

fn entries(present: Option<&str>, next: Option<&str>) -> Entries {
    Entries {
        present: present.map(str::to_owned).ok_or(KeyFault::Absent),
        next: next.map(|next| Ok(next.to_owned())),
    }
}

/// The entries, what is in force, and what they are by that.
#[test]
fn the_key_in_use_stays_while_it_stands_in_the_secret() {
    use KeyEntry::{Next, Present};
    let on = |connected| InForce {
        connected: Some(connected),
        ..InForce::default()
    };
    let refused = |connected| InForce {
        is_refused: true,
        ..on(connected)
    };
    let known = |recorded| InForce {
        recorded: Some(recorded),
        ..InForce::default()
    };
    let given_up = |is_refused| InForce {
        given_up: Some("b"),
        is_refused,
        ..on("a")
    };
    let left = |left| InForce {
        left: Some(left),
        ..on("b")
    };
    let no_use = |is_refused| InForce {
        is_of_no_use: Some("c"),
        is_refused,
        ..left("a")
    };
    let both = || entries(Some("a"), Some("b"));
    let cases = [
        // An ordinary Secret.
        (
            entries(Some("a"), None),
            InForce::default(),
            Some(Present),
            None,
        ),
        (entries(Some("a"), None), on("a"), Some(Present), None),
        // A key that was replaced, as ever.
        (entries(Some("c"), None), on("a"), Some(Present), None),
        (entries(None, None), on("a"), None, None),
        // The next key is tried beside it.
        (both(), InForce::default(), Some(Present), Some(Next)),
        (both(), on("a"), Some(Present), Some(Next)),
        (both(), refused("a"), Some(Present), Some(Next)),
        // There is no way back from it while it works, nor after a restart.
        (both(), on("b"), Some(Next), None),
        (both(), known("b"), Some(Next), None),
        (both(), known("a"), Some(Present), Some(Next)),
        (both(), known("z"), Some(Present), Some(Next)),
        // The last good one is tried again where the Secret still has it; the other is then given up.
        (both(), refused("b"), Some(Next), Some(Present)),
        (both(), given_up(false), Some(Present), None),
        (both(), given_up(true), Some(Present), Some(Next)),
        // It was taken out, or another one was put there, while it is in use: it stays, and the others are tried beside it.
        (entries(Some("a"), None), left("a"), None, Some(Present)),
        (entries(Some("a"), Some("c")), left("a"), None, Some(Next)),
        (entries(Some("c"), None), left("a"), Some(Present), None),
        // The one that stands there is of no use, and so is the key in use by now: the other one has its turn.
        (
            entries(Some("a"), Some("c")),
            no_use(true),
            None,
            Some(Present),
        ),
        (
            entries(Some("a"), Some("c")),
            no_use(false),
            None,
            Some(Next),
        ),
        (entries(None, Some("c")), no_use(true), None, Some(Next)),
        // It was moved: the same key, so nothing is connected or tried.
        (entries(Some("b"), None), on("b"), Some(Present), None),
        (entries(Some("b"), Some("b")), on("b"), Some(Present), None),
        // Only the next one is there: the key of before is used until that has shown the account.
        (entries(None, Some("b")), on("a"), None, Some(Next)),
        (entries(None, Some("b")), on("b"), Some(Next), None),
        (entries(None, Some("b")), known("a"), Some(Next), None),
        (
            entries(None, Some("b")),
            InForce::default(),
            Some(Next),
            None,
        ),
    ];
    for (entries, in_force, in_use, beside) in cases {
        let expected = Roles { in_use, beside };
        assert_eq!(
            roles(&entries, in_force),
            expected,
            "{entries:?} {in_force:?}"
        );
    }
    let broken = Entries {
        next: Some(Err(KeyFault::Invalid("no".into()))),
        ..both()
    };
    assert_eq!(roles(&broken, on("a")).beside, None);
}

fn refused() -> Tried {
    match rejected() {
        KeyState::Rejected(refusal) => Tried::Refused(refusal),
        _ => unreachable!(),
    }
}

#[test]
fn a_key_replaces_the_one_in_use_by_a_machine_that_it_shows_or_where_none_is_to_be_shown() {
    let status = facts().status;
    let record = |machines| OnRecord {
        machines,
        open: vec![],
    };
    let nothing = record(vec![]);
    let live = record(vec![recorded(1, true, LINEAGE)]);
    let over = record(vec![recorded(1, false, LINEAGE)]);
    let ordering = OnRecord {
        open: vec!["1".repeat(24)],
        ..record(vec![])
    };
    let after = |tried, on_record| step(&tried, &status, on_record, false, false);
    // What it shows is enough, whatever else is open: what waits for the outcome of an order goes on.
    for on_record in [&nothing, &live, &over, &ordering] {
        assert_eq!(after(Tried::Shows, on_record), Step::Succeeds);
        assert_eq!(after(refused(), on_record), Step::Again);
        assert_eq!(after(Tried::Failed("no".into()), on_record), Step::Again);
    }
    for tried in [Tried::Accepted, Tried::ShowsNone] {
        assert_eq!(after(tried.clone(), &nothing), Step::Replaces);
        assert_eq!(after(tried.clone(), &over), Step::Replaces);
        assert_eq!(after(tried.clone(), &live), Step::Again, "somebody else's");
        assert_eq!(after(tried.clone(), &ordering), Step::Waits);
        assert_eq!(step(&tried, &status, &nothing, true, false), Step::Waits);
        // Over a key that is refused no order is ever settled.
        for (on_record, is_ordering) in [(&ordering, false), (&nothing, true)] {
            let after = step(&tried, &status, on_record, is_ordering, true);
            assert_eq!(after, Step::Replaces);
        }
        assert_eq!(step(&tried, &status, &live, true, true), Step::Again);
    }
    // One of a former lineage has not to be shown.
    let former = record(vec![recorded(1, true, "another")]);
    assert_eq!(after(Tried::ShowsNone, &former), Step::Replaces);
}

#[test]
fn it_is_asked_for_few_machines_at_a_time_those_in_sight_first_and_for_all_in_their_turn() {
    let mut status = facts().status;
    status.known_machines = vec![KnownMachine {
        uuid: uuid(9),
        ..known()
    }];
    let mut machines: Vec<_> = (10..20).map(|n| recorded(n, false, LINEAGE)).collect();
    machines.push(recorded(1, true, LINEAGE));
    let on_record = OnRecord {
        machines,
        open: vec![],
    };
    let asked = |round| evidence(&status, &on_record, |id| id == uuid(15), round);
    let ids = |round| -> Vec<String> {
        let all = asked(round).into_iter();
        all.map(|e| e.id.as_str().to_owned()).collect()
    };
    assert_eq!(ids(0).len(), 5);
    assert_eq!(ids(0)[..3], [uuid(15), uuid(1), uuid(9)]);
    let marks: Vec<_> = asked(0).into_iter().map(|e| e.mark).take(3).collect();
    let own = Some("0".repeat(24));
    assert_eq!(marks, [own.clone(), own, None]);
    let mut all: Vec<String> = (0..3).flat_map(ids).collect();
    assert_eq!(ids(3), ids(0));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12);
    let nothing = evidence(&facts().status, &OnRecord::default(), |_| true, 7);
    assert_eq!(nothing, vec![]);
}

#[test]
fn other_words_for_the_same_are_no_news() {
    let other = |tried: Tried| match tried {
        Tried::Refused(refusal) => Tried::Refused(Refusal {
            message: "request 17".into(),
            ..refusal
        }),
        other => other,
    };
    let first = verdict(None, refused());
    assert_eq!(verdict(Some(first.clone()), other(refused())), first);
    assert_eq!(
        verdict(Some(first.clone()), Tried::Failed("no".into())),
        first
    );
    assert_eq!(verdict(Some(first), Tried::ShowsNone), Tried::ShowsNone);
    let failed = Tried::Failed("no route".into());
    let again = verdict(Some(failed.clone()), Tried::Failed("no way".into()));
    assert_eq!(again, failed);
}

/// An account whose Secret has a next key.
fn with_next(in_use: KeyEntry, tried: Option<Tried>) -> Facts {
    let mut facts = facts();
    let beside = (in_use == KeyEntry::Present).then_some(KeyEntry::Next);
    facts.keys = Keys {
        entries: Some(entries(Some("a"), Some("b"))),
        roles: Roles {
            in_use: Some(in_use),
            beside,
        },
        tried,
        ..Keys::default()
    };
    if in_use == KeyEntry::Next {
        facts.in_force = Some(endpoint("b"));
        facts.status.endpoint = Some(endpoint("b"));
    }
    facts
}

const PUT_NEXT: &str = "kubectl create secret generic api -n n --type=flexmetal.dev/api-key --from-file=apiKeyNext=FILE --dry-run=client -o yaml | kubectl patch secret api -n n --type=merge --patch-file=/dev/stdin";
const MOVE: &str = r#"kubectl patch secret api -n n --type=json -p '[{"op":"move","from":"/data/apiKeyNext","path":"/data/apiKey"}]'"#;

#[test]
fn every_state_of_the_next_key_names_its_entry_and_what_comes_next() {
    use KeyEntry::{Next, Present};
    let mut invalid = with_next(Present, None);
    let fault = KeyFault::Invalid("has a line break".into());
    invalid.keys.entries.as_mut().unwrap().next = Some(Err(fault));
    let mut draining = with_next(Next, None);
    draining.keys.is_draining = true;
    let mut broken = with_next(Next, None);
    broken.report.as_mut().unwrap().key = rejected();
    let mut waits = with_next(Present, Some(Tried::Accepted));
    waits.keys.waits_for_orders = true;
    let mut given_up = with_next(Present, None);
    given_up.keys.roles.beside = None;
    let mut same = with_next(Present, None);
    same.keys.entries = Some(entries(Some("a"), Some("a")));
    let failed = Tried::Failed("no route".into());
    type Case<'a> = (Facts, &'a str, Reason, &'a [&'a str]);
    let cases: [Case<'_>; 11] = [
        (
            with_next(Present, None),
            "Unknown",
            Reason::Pending,
            &["not tried yet"],
        ),
        (
            with_next(Present, Some(refused())),
            "False",
            Reason::KeyRejected,
            &[
                "status 403",
                "the key in use stays",
                "tried again",
                PUT_NEXT,
            ],
        ),
        (
            with_next(Present, Some(Tried::ShowsNone)),
            "False",
            Reason::AccountChanged,
            &["another account", "the key in use stays", PUT_NEXT],
        ),
        (
            with_next(Present, Some(failed)),
            "Unknown",
            Reason::ProviderUnreachable,
            &["no route", "tried again"],
        ),
        (
            waits,
            "Unknown",
            Reason::Pending,
            &["once no order is open", MOVE],
        ),
        (
            invalid,
            "False",
            Reason::InvalidKey,
            &["line break", PUT_NEXT],
        ),
        (
            draining,
            "Unknown",
            Reason::Pending,
            &["keep both keys valid"],
        ),
        (
            with_next(Next, None),
            "True",
            Reason::KeyAccepted,
            &["is in use", MOVE],
        ),
        (
            broken,
            "False",
            Reason::KeyRejected,
            &["was in use", PUT_NEXT],
        ),
        (
            given_up,
            "False",
            Reason::KeyRejected,
            &["is used again", PUT_NEXT],
        ),
        (
            same,
            "True",
            Reason::KeyAccepted,
            &["the same key", "\"op\":\"remove\""],
        ),
    ];
    for (facts, status, reason, words) in cases {
        let (is, why, message) = condition(&facts, Type::NextKeyAccepted);
        assert_eq!((is, why), (status, reason), "{message}");
        assert!(
            message.contains("\"apiKeyNext\" of Secret n/api"),
            "{message}"
        );
        for word in words {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        let decision = decide(&facts);
        for told in &decision.conditions {
            assert_eq!(complaints(told), Vec::<&str>::new(), "{}", told.message);
        }
        // It stops nothing but where the key in use is refused.
        assert_eq!((decision.block, decision.no_orders), (None, None));
        let accepted = facts.report.unwrap().key == KeyState::Accepted;
        let ready = decision.conditions.iter().find(|c| c.kind == Type::Ready);
        assert_eq!(ready.unwrap().status, Some(accepted), "{message}");
    }
    // It was taken out while it was in use: the other one is tried, and that is told.
    let mut taken_out = with_next(Next, Some(refused()));
    taken_out.keys.entries = Some(entries(Some("a"), None));
    taken_out.keys.roles = Roles {
        in_use: None,
        beside: Some(Present),
    };
    let (status, reason, message) = condition(&taken_out, Type::NextKeyAccepted);
    assert_eq!((status, reason), ("False", Reason::KeyRejected));
    for words in [
        "entry \"apiKey\" of Secret n/api",
        "in no entry any more",
        "--from-file=apiKey=FILE",
    ] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    // Also where another one was put there meanwhile, and the key in use is refused by now.
    taken_out.keys.entries = Some(entries(Some("a"), Some("c")));
    taken_out.report.as_mut().unwrap().key = rejected();
    let (_, _, message) = condition(&taken_out, Type::NextKeyAccepted);
    assert!(
        message.contains("entry \"apiKey\" of Secret n/api"),
        "{message}"
    );
    let (_, reason, message) = condition(&taken_out, Type::Ready);
    assert_eq!(reason, Reason::KeyRejected);
    assert!(
        message.contains("the key in use, which is not any more in Secret n/api"),
        "{message}"
    );
    // A Secret without such an entry says nothing of it.
    let decision = decide(&facts());
    let told = decision.conditions.iter();
    assert!(told.clone().all(|c| c.kind != Type::NextKeyAccepted));
}

#[test]
fn a_next_key_that_is_in_use_is_told_where_to_repair_it() {
    let mut facts = with_next(KeyEntry::Next, None);
    facts.report.as_mut().unwrap().key = rejected();
    let (_, reason, message) = condition(&facts, Type::Ready);
    assert_eq!(reason, Reason::KeyRejected);
    assert!(
        message.contains("entry \"apiKeyNext\"") && message.contains(PUT_NEXT),
        "{message}"
    );
}

#[test]
fn the_status_shows_the_key_in_use_once_the_former_one_is_not_needed_any_more() {
    let written = |facts: &Facts| report::next_status(facts, &decide(facts), Timestamp::MIN);
    let shows = |entry, hash: &str| {
        Some(KeyInUse {
            entry,
            key_hash: hash.into(),
        })
    };
    let mut before = with_next(KeyEntry::Present, None);
    before.status = written(&before);
    let former = shows(Some(KeyEntry::Present), "a");
    assert_eq!(before.status.key_in_use, former);

    let mut facts = with_next(KeyEntry::Next, None);
    facts.status = before.status;
    facts.keys.is_shown = true;
    facts.keys.is_draining = true;
    facts.status = written(&facts);
    assert_eq!(
        facts.status.key_in_use, former,
        "calls with it may still follow"
    );
    assert_eq!(
        facts.status.endpoint,
        Some(endpoint("b")),
        "what new orders name"
    );
    assert_eq!(decide(&facts).again, Duration::from_secs(1));
    facts.keys.is_draining = false;
    facts.status = written(&facts);
    assert_eq!(facts.status.key_in_use, shows(Some(KeyEntry::Next), "b"));
    assert_eq!(written(&facts), facts.status, "and is written once");

    // It was moved.
    facts.keys.entries = Some(entries(Some("b"), None));
    facts.keys.roles.in_use = Some(KeyEntry::Present);
    facts.status = written(&facts);
    assert_eq!(facts.status.key_in_use, shows(Some(KeyEntry::Present), "b"));
    let conditions = &facts.status.conditions;
    let told = conditions.iter().any(|c| c.type_ == "NextKeyAccepted");
    assert!(!told, "{conditions:?}");
    assert_eq!(facts.status.lineage.as_deref(), Some(LINEAGE));
}

#[test]
fn a_key_that_showed_a_machine_beside_the_other_goes_on_with_the_lineage() {
    let mut facts = changed();
    on_record(&mut facts, vec![recorded(1, true, LINEAGE)]);
    facts.on_record.as_mut().unwrap().open = vec!["1".repeat(24)];
    facts.keys.is_shown = true;
    // Whatever the last listing showed, and also before the objects are all known.
    for on_record in [facts.on_record.clone(), None] {
        facts.on_record = on_record;
        let decision = decide(&facts);
        assert_eq!((decision.block, decision.no_orders), (None, None));
        assert_eq!(decision.lineage, None);
        assert_eq!(decision.lineage_in_force.as_deref(), Some(LINEAGE));
        assert_eq!(decision.endpoint, Some(endpoint("a")));
    }
    // Without a lineage nothing is kept.
    facts.status.lineage = None;
    assert_eq!(
        decide(&facts).block.map(|(reason, _)| reason),
        Some(Reason::Pending)
    );
}

#[test]
fn a_wrong_next_key_writes_its_verdict_once() {
    let mut facts = with_next(KeyEntry::Present, None);
    facts.status = report::next_status(&facts, &decide(&facts), Timestamp::MIN);
    let mut writes = 0;
    for round in 0..20_u64 {
        // A failure in between, other words, and a trial under way tell nothing new.
        let tried = match round % 3 {
            1 => Tried::Failed(format!("no route {round}")),
            _ => refused(),
        };
        facts.keys.tried = Some(verdict(facts.keys.tried.take(), tried));
        facts.keys.again = Some(Duration::from_secs(round));
        facts.now += Duration::from_secs(60);
        let now = Timestamp::from_second(60 * i64::try_from(round).unwrap()).unwrap();
        let next = report::next_status(&facts, &decide(&facts), now);
        writes += usize::from(next != facts.status);
        facts.status = next;
    }
    assert_eq!(writes, 1);
}
