//! The release limit, and the acknowledgement that lifts it.

use super::*;
use api::{
    acknowledgement::{AcknowledgementEffect, PendingAcknowledgement},
    release_limit::{Admission, NamespaceReleases, ReleaseLimit, ReleaseLimitStatus},
};

fn limit() -> ReleaseLimit {
    serde_json::from_value(json!({"maxReleases": 1, "window": "1h"})).unwrap()
}

/// One release was counted, and another one is requested.
fn limited() -> AccountFacts {
    let none = ReleaseLimitStatus::default();
    let Admission::Count(one) = limit().admit(&none, "team", "a", 1000) else {
        panic!("the first one is let");
    };
    let Admission::Block(held) = limit().admit(&one, "team", "b", 1001) else {
        panic!("the second is not");
    };
    let mut facts = facts();
    facts.spec.release_limit = Some(limit());
    facts.status.release_limit = held;
    facts
}

#[test]
fn release_limit_token_lifts_block_once() {
    let mut facts = limited();
    let (status, reason, message) = condition(&facts, Type::ReleaseLimitReached);
    assert_eq!((status, reason), ("True", Reason::ReleaseLimited));
    assert_eq!(condition(&facts, Type::Ready).0, "True", "it works");
    let pending = decide(&facts).pending;
    let [asked] = &pending[..] else {
        panic!("{pending:?}")
    };
    assert_eq!(asked.effect, AcknowledgementEffect::LiftReleaseLimit);
    let token = asked.token.clone();
    let remedy = format!("set flexmetal.dev/acknowledge to {token}");
    assert!(message.contains(&remedy), "{message}");
    // Neither a token that status does not show nor another one counts.
    acknowledge(&mut facts, &token);
    assert_eq!(decide(&facts).release_limit, facts.status.release_limit);
    write(&mut facts);
    acknowledge(&mut facts, "0123456789ab");
    assert_eq!(decide(&facts).release_limit, facts.status.release_limit);
    acknowledge(&mut facts, &token);
    let decision = decide(&facts);
    assert_eq!((decision.release_limit, decision.effect), (None, None));
    write(&mut facts);
    assert_eq!(facts.status.acknowledged[0].token, token);
    assert!(facts.status.pending_acknowledgements.is_empty());
    assert_eq!(condition(&facts, Type::ReleaseLimitReached).0, "False");
    // The same release is blocked once more.
    facts.status.release_limit = limited().status.release_limit;
    let decision = decide(&facts);
    assert_eq!(decision.release_limit, facts.status.release_limit);
    assert_ne!(decision.pending[0].token, token);
}

#[test]
fn another_release_or_time_makes_the_token_void() {
    let mut facts = limited();
    write(&mut facts);
    let token = facts.status.pending_acknowledgements[0].token.clone();
    acknowledge(&mut facts, &token);
    let later = || Time(jiff::Timestamp::from_second(2000).unwrap());
    let changes: [fn(&mut NamespaceReleases, Time); 2] = [
        |status, at| status.blocked_since = Some(at),
        |status, _| status.releases.push(status.releases[0].clone()),
    ];
    for change in changes {
        let mut facts = facts.clone();
        let status = facts.status.release_limit.as_mut().unwrap();
        change(&mut status.namespaces[0], later());
        assert_eq!(decide(&facts).release_limit, facts.status.release_limit);
        write(&mut facts);
        assert_ne!(facts.status.pending_acknowledgements[0].token, token);
    }
}

#[test]
fn raised_or_removed_limit_blocks_nothing() {
    let mut facts = limited();
    facts.spec.release_limit.as_mut().unwrap().max_releases = 2;
    assert_eq!(condition(&facts, Type::ReleaseLimitReached).0, "False");
    assert_eq!(decide(&facts).release_limit, facts.status.release_limit);
    // An account that had a limit reports that nothing is blocked any more.
    let mut facts = limited();
    facts.status.conditions = api::conditions::merge(
        &[],
        &decide(&facts).conditions,
        api::conditions::Generations::same(Some(3)),
        jiff::Timestamp::MIN,
    );
    facts.spec.release_limit = None;
    assert_eq!(condition(&facts, Type::ReleaseLimitReached).0, "False");
    assert_eq!(decide(&facts).release_limit, None);
    // An account that never had a limit reports nothing.
    let conditions = decide(&super::facts()).conditions;
    assert!(
        conditions
            .iter()
            .all(|c| c.kind != Type::ReleaseLimitReached)
    );
}

#[test]
fn each_namespace_has_a_token_of_its_own() {
    let mut facts = limited();
    let both = facts.status.release_limit.as_mut().unwrap();
    let mut other = both.namespaces[0].clone();
    other.namespace = "other".into();
    both.namespaces.push(other.clone());
    write(&mut facts);
    let pending = facts.status.pending_acknowledgements.clone();
    let [team, of_other] = &pending[..] else {
        panic!("{pending:?}")
    };
    assert!(
        team.subject.contains("namespace team") && of_other.subject.contains("namespace other")
    );
    let (_, _, message) = condition(&facts, Type::ReleaseLimitReached);
    assert!(message.contains("; same in 1 more"), "{message}");
    acknowledge(&mut facts, &team.token);
    assert_eq!(decide(&facts).release_limit.unwrap().namespaces, [other]);
    write(&mut facts);
    let left = &facts.status.pending_acknowledgements;
    assert_eq!(left[..], pending[1..]);
}

#[test]
fn newest_blocked_namespaces_get_the_tokens() {
    let mut facts = limited();
    let all = facts.status.release_limit.as_mut().unwrap();
    for number in 1..9 {
        let mut other = all.namespaces[0].clone();
        other.namespace = format!("other-{number}");
        let since = jiff::Timestamp::from_second(2000 + number).unwrap();
        other.blocked_since = Some(Time(since));
        all.namespaces.push(other);
    }
    let pending = decide(&facts).pending;
    assert_eq!(pending.len(), 6);
    let newest = |asked: &PendingAcknowledgement| asked.subject.contains("namespace other-8");
    assert!(pending.iter().any(newest), "{pending:?}");
    let (_, _, message) = condition(&facts, Type::ReleaseLimitReached);
    assert!(message.contains("; same in 8 more"), "{message}");
}
