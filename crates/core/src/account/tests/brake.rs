//! The brake on releases, and the word that lifts it.

use super::*;
use api::{
    brake::{BrakeStatus, Braking, ReleaseBrake},
    names::ACKNOWLEDGE_RELEASES,
};

fn brake() -> ReleaseBrake {
    serde_json::from_value(json!({"maxReleases": 1, "window": "1h"})).unwrap()
}

/// One release was counted, and another one asked for.
fn held() -> Facts {
    let none = BrakeStatus::default();
    let Braking::Count(one) = brake().judge(&none, "a", 1000) else {
        panic!("the first one is let");
    };
    let Braking::Hold(held) = brake().judge(&one, "b", 1001) else {
        panic!("the second is not");
    };
    let mut facts = facts();
    facts.spec.release_brake = Some(brake());
    facts.status.release_brake = held;
    facts
}

fn said(facts: &mut Facts, word: &str) {
    let annotations = facts.meta.annotations.get_or_insert_default();
    annotations.insert(ACKNOWLEDGE_RELEASES.into(), word.into());
}

#[test]
fn what_is_held_is_told_with_the_word_that_lifts_it_and_the_word_counts_once() {
    let mut facts = held();
    let (status, reason, message) = condition(&facts, Type::ReleasesHeld);
    assert_eq!((status, reason), ("True", Reason::ReleaseHeld));
    let word = facts.status.release_brake.as_ref().unwrap().word();
    let command = format!(
        "kubectl annotate provideraccount default -n n flexmetal.dev/acknowledge-releases={word} --overwrite"
    );
    assert!(message.contains(&command), "{message}");
    assert_eq!(condition(&facts, Type::Ready).0, "True", "it works");
    // Another word says nothing.
    said(&mut facts, "1-0123456789ab");
    let decision = decide(&facts);
    assert_eq!(decision.brake, facts.status.release_brake);
    assert_eq!(decision.effect, None);
    said(&mut facts, &word);
    let decision = decide(&facts);
    assert_eq!((decision.brake, decision.effect), (None, None));
    // First on record, then the word is used up.
    facts.status.release_brake = None;
    let decision = decide(&facts);
    assert_eq!(decision.effect, Some(Effect::ForgetReleases));
    assert_eq!(condition(&facts, Type::ReleasesHeld).0, "False");
}

#[test]
fn a_higher_number_or_no_brake_holds_nothing() {
    let mut facts = held();
    facts.spec.release_brake.as_mut().unwrap().max_releases = 2;
    assert_eq!(condition(&facts, Type::ReleasesHeld).0, "False");
    assert_eq!(decide(&facts).brake, facts.status.release_brake);
    // An account that had one says that nothing is held any more.
    let mut facts = held();
    facts.status.conditions = api::conditions::merge(
        &[],
        &decide(&facts).conditions,
        Some(3),
        jiff::Timestamp::MIN,
    );
    facts.spec.release_brake = None;
    assert_eq!(condition(&facts, Type::ReleasesHeld).0, "False");
    assert_eq!(decide(&facts).brake, None);
    // One that never had any says nothing.
    let conditions = decide(&super::facts()).conditions;
    assert!(conditions.iter().all(|c| c.kind != Type::ReleasesHeld));
}
