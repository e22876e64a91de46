//! Machines of earlier objects of the same name: is another one ordered beside them?

use super::*;
use AcknowledgementEffect::OrderAnother;
use api::{ExternalReleasePolicy, lifetime::Replaced};

type Short = (Option<&'static str>, Option<Reason>, bool);
const HELD: Short = (None, Some(Reason::ServerExists), true);
const ORDERED: Short = (Some("Order"), Some(Reason::Ordering), false);

fn message(case: &Case) -> String {
    let draft = case.decide().draft;
    draft.condition(Type::Ready).unwrap().message.clone()
}

#[test]
fn nothing_is_ordered_beside_a_machine_that_is_kept_of_an_earlier_object() {
    let kept = Case::new().beside(&[1]);
    table(vec![
        ("one is kept", kept.clone(), None, HELD.1, true),
        (
            "one is kept, and an earlier order was refused",
            kept.clone().ordered(Some(OrderOutcome::Refused), None),
            None,
            HELD.1,
            true,
        ),
        (
            "one is kept, and an earlier order is proved absent",
            kept.clone().ordered(Some(OrderOutcome::Absent), None),
            None,
            HELD.1,
            true,
        ),
        (
            "one is kept, and a stranger's annotation is acknowledged",
            kept.clone()
                .noted(&intent_of("db", "uid-9"))
                .facts(|f| f.former = former(Some(true), Vec::new())),
            None,
            HELD.1,
            true,
        ),
        (
            "suspended objects say so",
            kept.clone().spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "no listing yet",
            kept.view(|v| v.proof = None),
            None,
            None,
            false,
        ),
    ]);
}

#[test]
fn a_token_orders_another_only_beside_exactly_those_that_are_kept() {
    let two = || Case::new().beside(&[1, 2]);
    let given = two().given(OrderAnother);
    assert_eq!(short(&given.decide()), ORDERED);
    let (one, other) = (uuid(1), uuid(2));
    let token = given.pending(OrderAnother).unwrap();
    for said in ["", ",", "yes", "*", &one, &format!("{one},{other}")] {
        assert_eq!(
            short(&two().written().giving(said).decide()),
            HELD,
            "{said:?}"
        );
    }
    assert_eq!(
        short(&two().giving(&token).decide()),
        HELD,
        "status does not show it yet"
    );
    // One more makes it void, and so do one less and another one: also once the two are there again.
    for kept in [&[1, 2, 3][..], &[1], &[2, 3]] {
        let changed = given.clone().beside(kept);
        assert_eq!(short(&changed.decide()), HELD, "{kept:?}");
        let told = changed.written();
        assert_ne!(told.pending(OrderAnother).unwrap(), token);
        assert_eq!(short(&told.decide()), HELD, "{kept:?}");
        assert_eq!(short(&told.beside(&[1, 2]).decide()), HELD, "{kept:?}");
    }
    // Nothing is kept any more.
    let free = given.beside(&[]);
    assert_eq!(short(&free.decide()), ORDERED);
    assert_eq!(free.written().pending(OrderAnother), None);
}

#[test]
fn a_copied_manifest_and_its_status_order_nothing() {
    let given = Case::new().beside(&[1]).given(OrderAnother);
    let copied = given.object(|o| o.metadata.uid = Some("uid-2".into()));
    assert_eq!(short(&copied.decide()), HELD);
    assert_eq!(short(&copied.written().decide()), HELD);
}

#[test]
fn a_token_counts_until_an_order_may_have_made_a_machine() {
    let given = || Case::new().beside(&[1]).given(OrderAnother);
    let token = given().pending(OrderAnother).unwrap();
    let Some(Effect::Order(planned)) = given().decide().effect else {
        panic!("it is given");
    };
    let record = intent::open(&given().0, &given().intent(), &planned);
    assert_eq!(record.acknowledgement.as_ref(), Some(&token));
    let started = intent::status(&given().0, &record);
    assert_eq!(started.pending_acknowledgements.len(), 1);
    // What is refused or never sent is tried again by the same token.
    for outcome in [OrderOutcome::Refused, OrderOutcome::NotSent] {
        let again = given()
            .ordered(Some(outcome), None)
            .facts(|f| f.now.wall = EPOCH + 4000)
            .beside(&[1]);
        assert_eq!(short(&again.decide()).0, Some("Order"), "{outcome:?}");
        let told = again.written();
        assert_eq!(told.pending(OrderAnother).as_ref(), Some(&token));
        assert!(told.0.status().acknowledged.is_empty());
    }
    let made = given().ordered(Some(OrderOutcome::Created), Some(2));
    for case in [
        started_by(made, EPOCH, &token).with(2, ServerStatus::Delivered),
        started_by(given().open(300, &[]), EPOCH, &token),
    ] {
        let told = case.written();
        assert_eq!(told.pending(OrderAnother), None, "{told:?}");
        let used = told.0.status().acknowledged;
        assert_eq!((used.len(), &used[0].token), (1, &token));
    }
}

/// Its last order was started at this moment, by this token.
fn started_by(case: Case, epoch: i64, token: &str) -> Case {
    let mut intent = case.intent();
    intent.epoch = epoch;
    case.noted(&intent).object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.intent = intent;
        order.acknowledgement = Some(token.to_owned());
    })
}

/// Somebody releases the machine that was ordered beside another one, and it is replaced.
#[test]
fn a_token_orders_one_machine_and_none_in_its_place() {
    let reorder = Some(ExternalReleasePolicy::Reorder);
    let given = Case::new()
        .spec(|s| s.external_release_policy = reorder)
        .beside(&[1])
        .given(OrderAnother);
    let token = given.pending(OrderAnother).unwrap();
    let epoch = given.0.now.wall;
    let made = given.ordered(Some(OrderOutcome::Created), Some(2));
    let made = started_by(made, epoch, &token);
    let tag = mark().order_tag(epoch);
    let own = |status| server(2, status, &[&cluster().tag(), &tag]);
    let made = made.facts(|f| f.own = vec![seen(own(ServerStatus::Delivered))]);
    let released = made.written().beside(&[1]).facts(|f| {
        f.own = vec![seen(own(ServerStatus::Released))];
        f.own[0].seen = RUNNING;
    });
    let over = own(ServerStatus::Released);
    let due = released
        .memory(|m| m.over_seen(Some(&over), RUNNING - secs(700)))
        .object(|o| {
            o.status.as_mut().unwrap().replaced_servers = vec![Replaced {
                uuid: uuid(2),
                provider_status: "released".into(),
                location: "here".into(),
                instance_type: "small".into(),
                recorded_at: time(START),
            }];
        });
    // Without one that is kept it would be ordered.
    assert_eq!(short(&due.clone().beside(&[]).decide()).0, Some("Order"));
    assert_eq!(short(&due.decide()), HELD);
    let told = due.written();
    assert_ne!(told.pending(OrderAnother).unwrap(), token);
    assert_eq!(short(&told.decide()), HELD);
    // The next token orders the next one.
    assert_eq!(
        short(&told.clone().given(OrderAnother).decide()).0,
        Some("Order")
    );
    // Also where the clock was turned back behind the last order, and the next one needs another reconcile.
    let later = started_by(told, epoch + 5000, &token).given(OrderAnother);
    let installation = later.0.installation.clone();
    let waits = later.facts(|f| f.installation = None);
    assert_eq!(short(&waits.decide()).0, None);
    let read = waits.written().facts(|f| f.installation = installation);
    assert_eq!(short(&read.decide()).0, Some("Order"));
}

#[test]
fn an_account_that_may_keep_one_is_looked_at_before_anything_is_ordered() {
    let waits = |case: Case| unlisted_since(case, RUNNING - secs(120));
    let free = Case::new();
    let decision = waits(free.clone()).decide();
    let reason = Some(Reason::WaitingForListing);
    assert_eq!(short(&decision), (None, reason, false));
    assert_eq!(decision.again, Again::After(secs(15)));
    assert!(decision.wants_elsewhere);
    let said = message(&waits(free.clone()));
    for words in [
        "shop/web",
        "ProviderAccount shop/other",
        "look at the conditions of ProviderAccount shop/other",
        "set flexmetal.dev/acknowledge to ",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
    // A token for what is known says nothing of what is not, and what is known is told.
    let kept = || free.clone().beside(&[1]);
    let known = kept().given(OrderAnother);
    assert_eq!(short(&known.decide()), ORDERED);
    assert_eq!(short(&waits(known).decide()), HELD);
    assert_eq!(short(&waits(kept()).decide()), HELD);
    // One that names the account orders without knowing.
    let blind = waits(free.clone()).given(OrderAnother);
    assert_eq!(short(&blind.decide()).0, Some("Order"));
    let another = |f: &mut Facts| {
        let kind = AccountKind::ClusterProviderAccount;
        f.unlisted = vec![AccountKey::named(kind, None, "other")];
    };
    assert_eq!(short(&blind.facts(another).decide()).1, reason);
    let both = waits(kept()).given(OrderAnother);
    assert_eq!(short(&both.decide()).0, Some("Order"));
    // Right before the order, too.
    let Some(Effect::Order(planned)) = free.decide().effect else {
        panic!("nothing keeps it from being ordered");
    };
    assert!(fence::start(&waits(free).0, &planned, "nonce", secs(30)).is_none());
}

#[test]
fn what_is_only_not_listed_yet_makes_no_token_void() {
    let given = Case::new().beside(&[1]).given(OrderAnother);
    let token = given.pending(OrderAnother).unwrap();
    // Its session is new, in a process that is old.
    let unlisted = unlisted_since(given, secs(985));
    assert_eq!(short(&unlisted.decide()), HELD);
    let told = unlisted.written();
    assert_eq!(told.pending(OrderAnother).as_ref(), Some(&token));
    assert!(!message(&told).contains("acknowledge"));
    let listed = told.clone().facts(|f| f.unlisted.clear());
    assert_eq!(short(&listed.decide()), ORDERED);
    // Longer than that, it is part of what is asked.
    let asked = unlisted_since(told, RUNNING - secs(120)).written();
    assert_ne!(asked.pending(OrderAnother), Some(token));
}

/// An account that may keep one is not listed since this moment.
fn unlisted_since(case: Case, since: Duration) -> Case {
    case.facts(|f| f.unlisted = vec![other_account()])
        .memory(|m| m.unlisted_since = Some(since))
}

#[test]
fn a_machine_that_is_kept_by_the_time_of_the_order_stops_it_right_before() {
    let free = Case::new();
    let Some(Effect::Order(planned)) = free.decide().effect else {
        panic!("nothing keeps it from being ordered");
    };
    let start = |case: Case| fence::start(&case.0, &planned, "nonce", secs(30));
    assert!(start(free.clone()).is_some());
    assert!(start(free.clone().beside(&[1])).is_none());
    let given = free.beside(&[1]).given(OrderAnother);
    assert!(start(given.clone()).is_some());
    assert!(start(given.beside(&[1, 2])).is_none());
}

#[test]
fn any_number_of_machines_and_accounts_has_one_token() {
    let account =
        |n| AccountKey::named(AccountKind::ProviderAccount, Some("shop"), &format!("a{n}"));
    for (most, accounts) in [(1, 0), (2, 0), (4, 0), (9, 0), (60, 0), (1, 9), (0, 9)] {
        let numbers: Vec<u8> = (1..=most).collect();
        let unlisted: Vec<_> = (0..accounts).map(account).collect();
        let case = Case::new()
            .beside(&numbers)
            .facts(|f| f.unlisted = unlisted)
            .memory(|m| m.unlisted_since = Some(Duration::ZERO));
        let message = message(&case);
        assert!(message.len() < 900, "{}: {message}", message.len());
        let given = case.given(OrderAnother);
        assert_eq!(short(&given.decide()).0, Some("Order"), "{message}");
        let asked = given.0.status().pending_acknowledgements;
        assert!(asked[0].subject.chars().count() <= 256, "{asked:?}");
        // As many others are another situation.
        let others: Vec<u8> = (2..=most + 1).collect();
        let is_ordered = short(&given.beside(&others).decide()).0.is_some();
        assert_eq!(is_ordered, most == 0, "{message}");
    }
}

#[test]
fn the_message_says_what_is_kept_and_what_to_do() {
    let case = Case::new().beside(&[1, 2]);
    let message = message(&case);
    let (one, other) = (uuid(1), uuid(2));
    let asked = case.clone().written().0.status().pending_acknowledgements;
    assert_eq!(asked[0].subject, format!("next to {one}, {other}"));
    let remedy = format!("set flexmetal.dev/acknowledge to {}", asked[0].token);
    for words in [
        &format!("2 machines of an earlier shop/web are kept and still billed: {one}, {other}"),
        &format!("set spec.externalID to {one}"),
        "once they are released at the provider",
        "delete this object",
        "every 2m",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    assert!(
        message.ends_with(&remedy),
        "what costs comes last: {message}"
    );
    // It looks again by itself.
    assert_eq!(case.decide().again, Again::After(secs(120)));
}

#[test]
fn an_object_that_names_a_machine_asks_for_no_order() {
    let asked = Case::new().beside(&[1]).written();
    assert!(asked.pending(OrderAnother).is_some());
    assert_eq!(asked.named(1, None).written().pending(OrderAnother), None);
}
