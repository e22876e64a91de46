//! The candidate key: when it replaces the key in use, and what is reported about it.

use super::{
    account_identity::{changed, name_hash, ordered, pending_token, record_servers, recorded},
    *,
};
use crate::{
    account::decide::candidate::{
        CandidateKeyState, CandidateStep, KeyInUse, TrialResult, merge_trial_result, next_step,
        select_verification_servers,
    },
    readings::words::complaints,
};
use api::{Interval, account::Credentials, acknowledgement::AcknowledgementEffect};

fn refused() -> TrialResult {
    match rejected() {
        KeyState::Rejected(refusal) => TrialResult::Refused(refusal),
        _ => unreachable!(),
    }
}

#[test]
fn candidate_step_follows_trial_and_records() {
    let status = facts().status;
    let record = |servers| RecordedResources {
        servers,
        ..RecordedResources::default()
    };
    let nothing = record(vec![]);
    let live = record(vec![recorded(1, true, ACCOUNT_ID)]);
    let over = record(vec![recorded(1, false, ACCOUNT_ID)]);
    let ordering = RecordedResources {
        open_orders: vec![ordered(ACCOUNT_ID)],
        ..record(vec![])
    };
    let after = |tried, on_record| next_step(&tried, &status, on_record, KeyInUse::default());
    // A server that it shows is enough, whatever else is open: an order that waits for its outcome goes on.
    for on_record in [&nothing, &live, &over, &ordering] {
        assert_eq!(
            after(TrialResult::Shows, on_record),
            CandidateStep::SwitchOver
        );
        assert_eq!(after(refused(), on_record), CandidateStep::Retry);
        assert_eq!(
            after(TrialResult::Failed("no".into()), on_record),
            CandidateStep::Retry
        );
    }
    for tried in [TrialResult::Accepted, TrialResult::ShowsNone] {
        assert_eq!(
            after(tried.clone(), &nothing),
            CandidateStep::ReplaceAccount
        );
        assert_eq!(after(tried.clone(), &over), CandidateStep::ReplaceAccount);
        assert_eq!(
            after(tried.clone(), &live),
            CandidateStep::Retry,
            "somebody else's"
        );
        assert_eq!(
            after(tried.clone(), &ordering),
            CandidateStep::WaitForOrders
        );
        let ordering_now = KeyInUse {
            has_open_order: true,
            ..KeyInUse::default()
        };
        assert_eq!(
            next_step(&tried, &status, &nothing, ordering_now),
            CandidateStep::WaitForOrders
        );
        // With a refused key no order is ever settled.
        for (on_record, has_open_order) in [(&ordering, false), (&nothing, true)] {
            let in_use = KeyInUse {
                has_open_order,
                is_refused: true,
            };
            assert_eq!(
                next_step(&tried, &status, on_record, in_use),
                CandidateStep::ReplaceAccount
            );
            assert_eq!(
                next_step(&tried, &status, &live, in_use),
                CandidateStep::Retry
            );
        }
    }
    // A server of a previous account ID need not be shown.
    let previous = record(vec![recorded(1, true, "another")]);
    assert_eq!(
        after(TrialResult::ShowsNone, &previous),
        CandidateStep::ReplaceAccount
    );
}

#[test]
fn trials_cover_all_servers_listed_first() {
    let mut status = facts().status;
    status.records.known_servers = vec![KnownServer {
        uuid: uuid(9),
        ..known()
    }];
    let mut servers: Vec<_> = (10..20).map(|n| recorded(n, false, ACCOUNT_ID)).collect();
    servers.push(recorded(1, true, ACCOUNT_ID));
    let on_record = RecordedResources {
        servers,
        ..RecordedResources::default()
    };
    let asked =
        |trial| select_verification_servers(&status, &on_record, |id| id == uuid(15), trial);
    let ids = |trial| -> Vec<String> {
        let all = asked(trial).into_iter();
        all.map(|e| e.id.as_str().to_owned()).collect()
    };
    assert_eq!(ids(0).len(), 5);
    assert_eq!(ids(0)[..3], [uuid(15), uuid(1), uuid(9)]);
    let hashes: Vec<_> = asked(0).into_iter().map(|e| e.name_hash).take(3).collect();
    let own = Some(name_hash("0"));
    assert_eq!(hashes, [own.clone(), own, None]);
    let mut all: Vec<String> = (0..3).flat_map(ids).collect();
    assert_eq!(ids(3), ids(0));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12);
    let nothing =
        select_verification_servers(&facts().status, &RecordedResources::default(), |_| true, 7);
    assert_eq!(nothing, vec![]);
}

#[test]
fn other_words_for_the_same_are_no_news() {
    let other = |tried: TrialResult| match tried {
        TrialResult::Refused(refusal) => TrialResult::Refused(Refusal {
            message: "request 17".into(),
            ..refusal
        }),
        other => other,
    };
    let first = merge_trial_result(None, refused());
    assert_eq!(
        merge_trial_result(Some(first.clone()), other(refused())),
        first
    );
    assert_eq!(
        merge_trial_result(Some(first.clone()), TrialResult::Failed("no".into())),
        first
    );
    assert_eq!(
        merge_trial_result(Some(first), TrialResult::ShowsNone),
        TrialResult::ShowsNone
    );
    let failed = TrialResult::Failed("no route".into());
    let again = merge_trial_result(Some(failed.clone()), TrialResult::Failed("no way".into()));
    assert_eq!(again, failed);
}

/// An account whose Secret has another key than the one in use.
fn with_candidate(tried: Option<TrialResult>) -> AccountFacts {
    let mut facts = facts();
    secret(&mut facts, Ok("b".into()), false, true);
    facts.keys.candidate = Some(CandidateKeyState {
        tried,
        ..CandidateKeyState::default()
    });
    facts
}

#[test]
fn candidate_blocks_nothing_and_says_next() {
    let broken = |fault| {
        let mut facts = with_candidate(None);
        secret(&mut facts, Err(fault), false, true);
        facts
    };
    let mut draining = facts();
    draining.keys.is_draining = true;
    // Orders may take longer than other changes.
    let mut slow = draining.clone();
    slow.timing.order_timeout = Interval(Duration::from_secs(200));
    draining.timing.order_timeout = Interval(Duration::from_secs(10));
    let mut refused_too = with_candidate(None);
    refused_too.report.as_mut().unwrap().key = rejected();
    let mut waits = with_candidate(Some(TrialResult::Accepted));
    waits.keys.candidate.as_mut().unwrap().waits_for_orders = true;
    let failed = TrialResult::Failed("no route".into());
    let invalid = KeyFault::Invalid("has a line break".into());
    type Case<'a> = (AccountFacts, &'a str, Reason, &'a [&'a str]);
    let stays = "the key in use stays";
    let cases: [Case<'_>; 11] = [
        (
            with_candidate(None),
            "Unknown",
            Reason::Pending,
            &["a try follows"],
        ),
        (
            with_candidate(Some(refused())),
            "False",
            Reason::KeyRejected,
            &["status 403", stays, "retrying at", PUT_KEY],
        ),
        (
            with_candidate(Some(TrialResult::ShowsNone)),
            "False",
            Reason::AccountChanged,
            &[
                "another account",
                stays,
                "Put a key of this account",
                "set spec.suspend",
            ],
        ),
        (
            with_candidate(Some(failed)),
            "Unknown",
            Reason::ProviderUnreachable,
            &["no route", "retrying at growing intervals of at most 5m"],
        ),
        (
            waits,
            "Unknown",
            Reason::Pending,
            &["once no order is open", "intervals of at most 15s"],
        ),
        (
            broken(invalid),
            "False",
            Reason::InvalidKey,
            &["line break", stays, PUT_KEY],
        ),
        (
            broken(KeyFault::Absent),
            "False",
            Reason::ReferenceNotFound,
            &["no key \"apiKey\"", stays, PUT_KEY],
        ),
        (
            broken(KeyFault::OtherType),
            "False",
            Reason::InvalidKey,
            &["type flexmetal.dev/api-key", stays, PUT_KEY],
        ),
        (
            draining,
            "Unknown",
            Reason::Pending,
            &["end within 3m. Keep the former key valid"],
        ),
        (slow, "Unknown", Reason::Pending, &["end within 3m20s"]),
        (refused_too, "Unknown", Reason::Pending, &["a try follows"]),
    ];
    for (facts, status, reason, words) in cases {
        let (is, why, message) = condition(&facts, Type::CandidateAccepted);
        assert_eq!((is, why), (status, reason), "{message}");
        assert!(message.contains("Secret n/api"), "{message}");
        for word in words {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        let decision = decide(&facts);
        for reported in &decision.conditions {
            assert_eq!(
                complaints(reported),
                Vec::<&str>::new(),
                "{}",
                reported.message
            );
        }
        // It stops nothing unless the key in use is refused.
        assert_eq!((decision.block, decision.no_orders), (None, None));
        let accepted = facts.report.unwrap().key == KeyState::Accepted;
        let ready = decision.conditions.iter().find(|c| c.kind == Type::Ready);
        assert_eq!(ready.unwrap().status, Some(accepted), "{message}");
    }
    // An account without a candidate does not report on it.
    let decision = decide(&facts());
    let reported = decision.conditions.iter();
    assert!(reported.clone().all(|c| c.kind != Type::CandidateAccepted));
}

#[test]
fn rejected_key_outside_secret_is_reported() {
    let mut facts = with_candidate(Some(refused()));
    facts.report.as_mut().unwrap().key = rejected();
    let (_, reason, message) = condition(&facts, Type::Ready);
    assert_eq!(reason, Reason::KeyRejected);
    let which = "the key in use, no longer in Secret n/api";
    assert!(
        message.contains(which) && message.contains(PUT_KEY),
        "{message}"
    );
}

#[test]
fn status_shows_new_key_once_old_drained() {
    let written = |facts: &AccountFacts| report::next_status(facts, &decide(facts), Timestamp::MIN);
    let shows = |hash: &str, at: i64| {
        Some(Credentials {
            hash: hash.into(),
            in_use_since: Some(Time(Timestamp::from_second(at).unwrap())),
        })
    };
    let mut before = facts();
    before.status = written(&before);
    let previous = shows("a", before.wall);
    assert_eq!(before.status.credentials, previous);

    let mut facts = facts();
    facts.status = before.status;
    facts.in_force = Some(endpoint("b"));
    facts.keys.is_verified = true;
    facts.keys.is_draining = true;
    facts.wall += 60;
    facts.status = written(&facts);
    assert_eq!(
        facts.status.credentials, previous,
        "calls with it may still follow"
    );
    assert_eq!(
        facts.status.verified,
        Some(endpoint("b")),
        "what new orders name"
    );
    assert_eq!(decide(&facts).requeue_after, Duration::from_secs(1));
    facts.keys.is_draining = false;
    facts.wall += 60;
    facts.status = written(&facts);
    assert_eq!(facts.status.credentials, shows("b", facts.wall));
    let conditions = &facts.status.conditions;
    let is_reported = conditions.iter().any(|c| c.type_ == "CandidateAccepted");
    assert!(!is_reported, "{conditions:?}");
    facts.wall += 60;
    assert_eq!(written(&facts), facts.status, "and is written once");
    assert_eq!(facts.status.account_id.as_deref(), Some(ACCOUNT_ID));
}

#[test]
fn verified_candidate_keeps_account_id() {
    let mut facts = changed();
    record_servers(&mut facts, vec![recorded(1, true, ACCOUNT_ID)]);
    facts.on_record.as_mut().unwrap().open_orders = vec![ordered(ACCOUNT_ID)];
    facts.keys.is_verified = true;
    // Whatever the last list showed, and also before all objects are known.
    for on_record in [facts.on_record.clone(), None] {
        facts.on_record = on_record;
        let decision = decide(&facts);
        assert_eq!((decision.block, decision.no_orders), (None, None));
        assert_eq!(decision.account_id, None);
        assert_eq!(decision.account_id_in_force.as_deref(), Some(ACCOUNT_ID));
        assert_eq!(decision.verified, Some(endpoint("a")));
    }
    // Without an account ID nothing is kept.
    facts.status.account_id = None;
    assert_eq!(
        decide(&facts).block.map(|(reason, _)| reason),
        Some(Reason::Pending)
    );
}

#[test]
fn a_wrong_candidate_writes_its_verdict_once() {
    let mut facts = with_candidate(None);
    facts.status = report::next_status(&facts, &decide(&facts), Timestamp::MIN);
    let mut writes = 0;
    for step in 0..20_u64 {
        // A failure in between, another wording, and a running trial are no news.
        let tried = match step % 3 {
            1 => TrialResult::Failed(format!("no route {step}")),
            _ => refused(),
        };
        let candidate = facts.keys.candidate.as_mut().unwrap();
        candidate.tried = Some(merge_trial_result(candidate.tried.take(), tried));
        candidate.retry_after = Some(Duration::from_secs(step));
        facts.now += Duration::from_secs(60);
        let now = Timestamp::from_second(60 * i64::try_from(step).unwrap()).unwrap();
        let next = report::next_status(&facts, &decide(&facts), now);
        writes += usize::from(next != facts.status);
        facts.status = next;
    }
    assert_eq!(writes, 1);
}

#[test]
fn candidate_switch_can_be_acknowledged() {
    let mut facts = with_candidate(Some(TrialResult::ShowsNone));
    record_servers(&mut facts, vec![recorded(1, true, ACCOUNT_ID)]);
    // Each order and each release would change the token.
    write(&mut facts);
    assert!(facts.status.pending_acknowledgements.is_empty());
    let message = condition(&facts, Type::CandidateAccepted).2;
    assert!(message.contains("set spec.suspend"), "{message}");
    facts.spec.suspend = true;
    write(&mut facts);
    let token = pending_token(&facts, AcknowledgementEffect::NewAccount);
    let message = condition(&facts, Type::CandidateAccepted).2;
    assert!(message.contains(&token), "{message}");
    facts.spec.suspend = false;
    write(&mut facts);
    assert_eq!(
        pending_token(&facts, AcknowledgementEffect::NewAccount),
        token
    );
    // While it is tried again nothing is known, and its token stays.
    facts.keys.candidate.as_mut().unwrap().tried = None;
    write(&mut facts);
    assert_eq!(
        pending_token(&facts, AcknowledgementEffect::NewAccount),
        token
    );
    // It is in use: after a restart, or since a user acknowledged it.
    facts.keys = AccountKeys::default();
    facts.in_force = Some(endpoint("b"));
    let reason = |facts: &AccountFacts| decide(facts).block.map(|(reason, _)| reason);
    assert_eq!(reason(&facts), Some(Reason::AccountChanged));
    write(&mut facts);
    assert_eq!(
        pending_token(&facts, AcknowledgementEffect::NewAccount),
        token
    );
    acknowledge(&mut facts, &token);
    assert_eq!(reason(&facts), None);
    write(&mut facts);
    assert_eq!(facts.status.acknowledged[0].token, token);
    assert_eq!(facts.status.verified, Some(endpoint("b")));
}
