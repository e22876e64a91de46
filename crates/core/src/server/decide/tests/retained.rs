//! Machines of earlier objects of the same name: is another one ordered beside them?

use super::*;
use api::names::ORDER_ANOTHER;

const HELD: (Option<&str>, Option<Reason>, bool) = (None, Some(Reason::RetainedMachine), true);

fn saying(case: Case, word: &str) -> (Option<&'static str>, Option<Reason>, bool) {
    short(&case.annotated(ORDER_ANOTHER, word.into()).decide())
}

fn message(case: &Case) -> String {
    let draft = case.decide().draft;
    draft.condition(Type::Ready).unwrap().message.clone()
}

/// The word in the command that the message has.
fn word_in(message: &str) -> String {
    let (_, rest) = message.split_once(&format!("{ORDER_ANOTHER}=")).unwrap();
    rest.split(' ').next().unwrap().to_owned()
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
fn a_word_orders_another_only_while_it_names_every_machine_that_is_kept() {
    let two = || Case::new().beside(&[1, 2]);
    let order = (Some("Order"), Some(Reason::Ordering), false);
    let (one, other) = (uuid(1), uuid(2));
    for word in [
        format!("{one},{other}"),
        format!(" {other} , {one} "),
        format!("{other}\n{one}"),
        format!("{one},{other}").to_uppercase(),
        // What was kept when the word was written may be released by now.
        format!("{one},{other},{}", uuid(3)),
    ] {
        assert_eq!(saying(two(), &word), order, "{word:?}");
    }
    for word in ["", ",", "yes", "*", &one, &other, &format!("{one}{other}")] {
        assert_eq!(saying(two(), word), HELD, "{word:?}");
    }
    // One more makes it stale.
    let said = format!("{one},{other}");
    assert_eq!(saying(Case::new().beside(&[1, 2, 3]), &said), HELD);
    // Nothing is kept any more.
    assert_eq!(saying(Case::new(), &said), order);
}

#[test]
fn an_account_that_may_keep_one_is_looked_at_before_anything_is_ordered() {
    let waits = |case: Case| case.facts(|f| f.unlisted = vec![other_account()]);
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
        "kubectl describe provideraccount other -n shop",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
    // A word for what is known says nothing of what is not, and what is known is told.
    let kept = || free.clone().beside(&[1]);
    let named = kept().annotated(ORDER_ANOTHER, uuid(1));
    assert_eq!(short(&named.clone().decide()).0, Some("Order"));
    assert_eq!(short(&waits(named).decide()), (None, reason, false));
    assert_eq!(short(&waits(kept()).decide()), HELD);
    // A person who names the account orders without knowing.
    let account = "provideraccount/other";
    let blind = |word: String| waits(free.clone()).annotated(ORDER_ANOTHER, word).decide();
    assert_eq!(short(&blind(account.into())).0, Some("Order"));
    assert_eq!(
        short(&blind("clusterprovideraccount/other".into())).1,
        reason
    );
    assert_eq!(word_in(&said), account);
    let both = waits(kept()).annotated(ORDER_ANOTHER, uuid(1));
    let both = word_in(&message(&both));
    assert_eq!(both, format!("{},{account}", uuid(1)));
    let both = waits(kept()).annotated(ORDER_ANOTHER, both).decide();
    assert_eq!(short(&both).0, Some("Order"));
    // Right before the order, too.
    let Some(Effect::Order(planned)) = free.decide().effect else {
        panic!("nothing keeps it from being ordered");
    };
    assert!(fence::start(&waits(free).0, &planned, "nonce", secs(30)).is_none());
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
    let named = free.beside(&[1]).annotated(ORDER_ANOTHER, uuid(1));
    assert!(start(named).is_some());
}

#[test]
fn the_message_has_a_word_that_works_for_any_number_of_machines() {
    let mut words = Vec::new();
    for most in [1, 2, 4, 5, 9, 60] {
        let numbers: Vec<u8> = (1..=most).collect();
        let case = || Case::new().beside(&numbers);
        let message = message(&case());
        assert!(message.len() < 900, "{}: {message}", message.len());
        let word = word_in(&message);
        assert_eq!(saying(case(), &word).0, Some("Order"), "{word}");
        // The same number of others is another word.
        let others: Vec<u8> = (2..=most + 1).collect();
        assert_eq!(saying(Case::new().beside(&others), &word), HELD, "{word}");
        words.push(word);
    }
    assert_eq!(words[1], format!("{},{}", uuid(1), uuid(2)));
    assert!(words[5].starts_with("60-") && words[5].len() == 19);
}

#[test]
fn the_message_says_what_is_kept_and_what_to_do() {
    let case = Case::new().beside(&[1, 2]);
    let message = message(&case);
    let (one, other) = (uuid(1), uuid(2));
    let command = format!(
        "kubectl annotate baremetalserver web -n shop flexmetal.dev/order-another={one},{other} --overwrite"
    );
    for words in [
        &format!("2 machines of an earlier shop/web are kept and still billed: {one}, {other}"),
        &*command,
        "\"externalID\":\"",
        "once they are released at the provider",
        "delete this object: kubectl delete baremetalserver web -n shop",
        "every 2m",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message:?}");
    }
    assert!(
        message.ends_with(&command),
        "what costs comes last: {message}"
    );
    // It looks again by itself.
    assert_eq!(case.decide().again, Again::After(secs(120)));
}

#[test]
fn an_annotation_that_does_not_name_them_all_is_told() {
    let says = "its annotation flexmetal.dev/order-another does not name all of these machines";
    let named = |word: &str| {
        message(
            &Case::new()
                .beside(&[1, 2])
                .annotated(ORDER_ANOTHER, word.into()),
        )
    };
    assert!(named(&uuid(1)).contains(says));
    assert!(!message(&Case::new().beside(&[1, 2])).contains(says));
}

#[test]
fn any_number_of_accounts_that_may_keep_one_is_named_within_a_few_messages() {
    let account =
        |n| AccountKey::named(AccountKind::ProviderAccount, Some("shop"), &format!("a{n}"));
    let case = || {
        Case::new()
            .beside(&[1])
            .facts(|f| f.unlisted = (0..9).map(account).collect())
    };
    let mut word = uuid(1);
    for _ in 0..3 {
        let case = case().annotated(ORDER_ANOTHER, word.clone());
        assert_eq!(short(&case.decide()).1, Some(Reason::WaitingForListing));
        let message = message(&case);
        assert!(message.len() < 1000, "{message}");
        word = word_in(&message);
    }
    assert_eq!(saying(case(), &word).0, Some("Order"), "{word}");
}
