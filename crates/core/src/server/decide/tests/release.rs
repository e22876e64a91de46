//! Decisions for an object that is being deleted.

use super::*;
use crate::{
    last_error::LastError,
    resolved_account::{LiveAccount, suspend_view},
    server::{
        decide::{
            precondition::{self, ReleaseObstacle},
            release,
        },
        memory::{ReleaseAnswer, SentRelease, ServerObservation},
    },
};
use api::release_limit::{Admission, ReleaseLimit, ReleaseLimitStatus};

pub(super) fn deleted(status: ServerStatus) -> Case {
    Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .with(1, status)
        .deleting()
}

fn begun(status: ServerStatus) -> Case {
    deleted(status).begun(1)
}

fn retain(case: Case) -> Case {
    case.spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain))
}

/// The answer to a DELETE was an error 503.
pub(super) fn unanswered() -> ReleaseAnswer {
    ReleaseAnswer::Unknown(LastError {
        reason: Reason::ProviderUnreachable,
        message: "The hosting API answers 503".into(),
    })
}

/// A DELETE was sent this many seconds ago.
pub(super) fn answered(status: ServerStatus, answer: ReleaseAnswer, ago: u64) -> Case {
    let sent = SentRelease {
        uuid: uuid(1),
        failed: status == ServerStatus::Failed,
        answer,
        at: RUNNING - secs(ago),
    };
    begun(status)
        .memory(|m| m.record_observation(ServerObservation::Released(sent), RUNNING - secs(ago)))
}

/// Its account permits one release per hour: server 2 used it, and another one was requested.
pub(super) fn release_limited(case: Case) -> Case {
    let limit: ReleaseLimit =
        serde_json::from_value(serde_json::json!({"maxReleases": 1, "window": "1h"})).unwrap();
    let none = ReleaseLimitStatus::default();
    let Admission::Count(one) = limit.admit(&none, "shop", &uuid(2), START + 900) else {
        panic!("the first one is let");
    };
    let Admission::Block(Some(held)) = limit.admit(&one, "shop", &uuid(3), START + 910) else {
        panic!("the second is not");
    };
    case.view(|v| v.release_limit = Some((limit, held)))
}

/// A restored or copied release record, or one of another server, decides nothing: policy, protection and delay do.
#[test]
fn release_record_counts_only_for_its_object() {
    let effect = |case: Case| short(&case.decide()).0;
    let deleted = || deleted(ServerStatus::Delivered);
    assert_eq!(effect(retain(deleted().begun(1))), Some("Release"));
    let copied = deleted().recorded_release("uid-0", uuid(1));
    let replaced = deleted().begun(1).object(|o| {
        let release = o.status.as_mut().unwrap().records.release.as_mut();
        release.unwrap().deleting = false;
    });
    for other in [copied, replaced, deleted().begun(2)] {
        assert_eq!(effect(retain(other.clone())), Some("Retain"));
        let delayed = other.spec(|s| s.release_delay = Some(Interval::seconds(999)));
        let waits = (None, Some(Reason::ReleaseDelayed), false);
        assert_eq!(short(&delayed.decide()), waits);
    }
    // The record names object and server.
    let written = release::status_with_release(&deleted().0, &uuid(1), START + 1030);
    let begun = deleted().begun(1).0.status();
    assert_eq!(written.records.release, begun.records.release);
}

#[test]
fn continuing_release_writes_one_status() {
    let delivered = deleted(ServerStatus::Delivered);
    let written = release::status_with_release(&delivered.0, &uuid(1), START + 1030);
    let follows = |status: ServerStatus, ago| {
        let sent = answered(status, ReleaseAnswer::Accepted, ago);
        let sent = sent.object(|o| o.status = Some(written.clone()));
        let now = Timestamp::from_second(sent.0.now.wall).unwrap();
        sent.decide().desired.finish(now)
    };
    assert_eq!(follows(ServerStatus::Delivered, 3), written);
    assert_eq!(follows(ServerStatus::Releasing, 3), written);
    let later = follows(ServerStatus::Releasing, 121);
    assert_eq!(later.provider_status.as_deref(), Some("releasing"));
}

#[test]
fn release_waits_for_running_command() {
    let with = |case: Case| case.facts(|f| f.commands = RunningCommand::Command("reboot".into()));
    let waits = with(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::Queued), false));
    // A command that was recorded along with the release is waited for, too.
    let begun = with(deleted(ServerStatus::Delivered).begun(1)).decide();
    assert_eq!(short(&begun).0, None);
    // After a start, commands are unknown until they are listed. A release that has begun asks the API server before it
    // sends.
    let unlisted = |case: Case| case.facts(|f| f.commands = RunningCommand::NotListed);
    let waits = unlisted(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::Queued), false));
    let begun = unlisted(deleted(ServerStatus::Delivered).begun(1)).decide();
    assert_eq!(short(&begun).0, Some("Release"));
    // A failed server gets no commands.
    let failed = with(deleted(ServerStatus::Failed)).decide();
    assert_eq!(short(&failed).0, Some("Release"));
    let kept = with(retain(deleted(ServerStatus::Delivered))).decide();
    assert_eq!(short(&kept).0, Some("Retain"));
}

#[test]
fn release_limit_blocks_only_uncounted_live_servers() {
    let held = release_limited(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&held), (None, Some(Reason::ReleaseLimited), false));
    let begins = |case: &Case| short(&case.decide()).0 == Some("Release");
    assert!(begins(&release_limited(deleted(ServerStatus::Failed))));
    let higher = release_limited(deleted(ServerStatus::Delivered)).view(|v| {
        v.release_limit.as_mut().unwrap().0.max_releases = 2;
    });
    assert!(begins(&higher));
    let counted = release_limited(deleted(ServerStatus::Delivered)).view(|v| {
        v.release_limit.as_mut().unwrap().1.namespaces[0].releases[0].uuid = uuid(1).to_uppercase();
    });
    assert!(begins(&counted));
    let of_another_team = release_limited(deleted(ServerStatus::Delivered)).view(|v| {
        v.release_limit.as_mut().unwrap().1.namespaces[0].namespace = "other".into();
    });
    assert!(begins(&of_another_team));
    // A retained server is not released, and a release that has begun continues.
    let kept = retain(release_limited(deleted(ServerStatus::Delivered)));
    assert_eq!(short(&kept.decide()).0, Some("Retain"));
    assert_eq!(
        short(&release_limited(begun(ServerStatus::Delivered)).decide()).0,
        Some("Release")
    );
}

#[test]
fn delayed_release_ignores_a_forwarded_clock() {
    // Deleted at START + 900. Now it is START + 1000, and the process has run since START.
    let delayed = |seconds: u64| {
        deleted(ServerStatus::Delivered).spec(|s| s.release_delay = Some(Interval(secs(seconds))))
    };
    let begins = |case: &Case| short(&case.decide()).0 == Some("Release");
    assert!(begins(&delayed(100)) && begins(&delayed(0)));
    let waits = delayed(101).decide();
    assert_eq!(short(&waits), (None, Some(Reason::ReleaseDelayed), false));
    assert_eq!(waits.requeue, Requeue::After(secs(1)));
    let text = &waits.desired.condition(Type::Ready).unwrap().message;
    for words in [
        "is released at 20",
        "billed until then",
        "set spec.releaseDelay to 0s",
        "set spec.deletionPolicy to Retain",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // A day later by the wall clock only.
    let forwarded = delayed(3600).facts(|f| f.now.wall += 86_400);
    assert_eq!(short(&forwarded.decide()).1, Some(Reason::ReleaseDelayed));
    let later = forwarded.facts(|f| f.now.mono += secs(3500));
    assert!(begins(&later), "by both");
    // Not before it is due by the API server's clock, once that was read.
    let read = |ago: u64| {
        let read = later.0.now.mono - secs(ago);
        let deleted = later.0.release_due().unwrap() - 3600;
        let case = later
            .clone()
            .memory(|m| m.server_time = Some((deleted, read)));
        begins(&case)
    };
    assert!(!read(3599) && read(3600));
    // Or this process saw it deleted for that long, even if its wall clock was set right after the start.
    let seen = |since: u64| {
        let case = delayed(600).facts(|f| f.wall_at_start -= 86_400);
        begins(&case.memory(|m| m.delayed_since = Some(secs(since))))
    };
    assert!(seen(400) && !seen(401));
    // A failed server has no delay.
    let failed =
        deleted(ServerStatus::Failed).spec(|s| s.release_delay = Some(Interval(secs(999))));
    assert!(begins(&failed));
    // A long delay is checked every 10 minutes.
    assert_eq!(delayed(999_999).decide().requeue, Requeue::After(secs(600)));
    // A retained server waits for nothing, and protection blocks with any delay.
    assert_eq!(short(&retain(delayed(999)).decide()).0, Some("Retain"));
    let protected = delayed(0).spec(|s| s.deletion_protection = Some(true));
    assert_eq!(short(&protected.decide()).1, Some(Reason::Protected));
    // The account's delay counts if the object has none; the object's own wins, even if it is 0.
    let by_account = |case: Case| {
        case.view(|v| v.defaults.as_mut().unwrap().release_delay = Some(Interval(secs(999))))
    };
    assert!(!begins(&by_account(deleted(ServerStatus::Delivered))));
    assert!(begins(&by_account(delayed(0))));
    // A release that has begun has no delay.
    let begun = delayed(999).begun(1);
    assert_eq!(short(&begun.decide()).0, Some("Release"));
}

#[test]
fn deletion_follows_its_policies() {
    let delivered = || deleted(ServerStatus::Delivered);
    let defaults =
        |case: Case, change: fn(&mut Policies)| case.view(|v| change(v.defaults.as_mut().unwrap()));
    let retained_by_account =
        |case| defaults(case, |d| d.deletion_policy = Some(DeletionPolicy::Retain));
    let protected_by_account = |case| defaults(case, |d| d.deletion_protection = Some(true));
    let suspended = |case: Case| case.spec(|s| s.suspend = Some(true));
    let protected = |case: Case| case.spec(|s| s.deletion_protection = Some(true));
    let kind_deleting = |case: Case| case.facts(|f| f.kind_deleting = Some(true));
    let kept = || delivered().showing(retained(1, ServerStatus::Delivered));
    let refused = |f: &mut ServerFacts| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.account {
            *terms = crate::account::terms::Terms::Refused("not this namespace".into());
        }
    };
    let (releasing, progressing) = (Some(Reason::Releasing), Some(Reason::Progressing));
    // Status does not report it before it is recorded.
    come_to(
        (Some("Release"), None, false),
        vec![
            ("not begun", delivered()),
            (
                "not allowed any more: orders only",
                delivered().facts(refused),
            ),
            (
                "release by the object, retain by the account",
                retained_by_account(delivered())
                    .spec(|s| s.deletion_policy = Some(DeletionPolicy::Release)),
            ),
            ("the policy was turned back in time", kept()),
        ],
    );
    come_to(
        (Some("Release"), releasing, false),
        vec![
            ("begun", begun(ServerStatus::Delivered)),
            (
                "begun: retain comes too late",
                retain(begun(ServerStatus::Delivered)),
            ),
            (
                "begun: so does a hand-over",
                begun(ServerStatus::Delivered).facts(|f| f.is_handed_over = true),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::Protected), false),
        vec![
            ("protected", protected(delivered())),
            (
                "protected by the account",
                protected_by_account(delivered()),
            ),
            (
                "retain and protection by the account",
                retained_by_account(protected_by_account(delivered())),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::Suspended), false),
        vec![
            ("suspended", suspended(delivered())),
            ("suspended, and retain", suspended(retain(delivered()))),
            (
                "begun, and suspended: nothing more is sent",
                suspended(begun(ServerStatus::Delivered)),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::KeyRejected), true),
        vec![("blocked", delivered().blocked(Reason::KeyRejected))],
    );
    come_to(
        (None, Some(Reason::AccountNotFound), false),
        vec![(
            "no account",
            delivered().facts(|f| f.account = unsaid("default")),
        )],
    );
    come_to(
        (Some("Retain"), None, false),
        vec![
            ("retain", retain(delivered())),
            ("retain by the account", retained_by_account(delivered())),
            (
                "retain by the object, protected by the account",
                retain(protected_by_account(delivered())),
            ),
            ("the kind is deleted", kind_deleting(delivered())),
            (
                "the kind is deleted, whatever else is said",
                kind_deleting(suspended(protected(delivered()))),
            ),
            (
                "handed over to another object",
                delivered().facts(|f| f.is_handed_over = true),
            ),
        ],
    );
    come_to(
        (None, releasing, false),
        vec![(
            "the kind cannot be seen",
            delivered().facts(|f| f.kind_deleting = None),
        )],
    );
    come_to(
        (Some("RemoveFinalizer"), progressing, false),
        vec![
            ("retained", retain(kept())),
            ("the end", begun(ServerStatus::Released)),
            (
                "the end, and another one of it lives: that is reported, and not released",
                begun(ServerStatus::Released).with(2, ServerStatus::Created),
            ),
        ],
    );
}

#[test]
fn retained_server_message_names_how_to_adopt() {
    let kept =
        || retain(deleted(ServerStatus::Delivered).showing(retained(1, ServerStatus::Delivered)));
    let text = message(&kept().decide());
    let stays = format!("Retained server {}; it is still billed", uuid(1));
    assert!(
        text.starts_with(&stays) && text.contains("Apply shop/web again"),
        "{text}"
    );
    let handed = kept().facts(|f| f.is_handed_over = true);
    let text = message(&handed.decide());
    assert!(
        text.starts_with(&stays) && text.contains("spec.externalID"),
        "{text}"
    );
    let two = kept().showing(retained(2, ServerStatus::Delivered));
    let text = message(&two.decide());
    let stay = format!(
        "Retained 2 servers; they are still billed: {}, {}. Apply",
        uuid(1),
        uuid(2)
    );
    assert!(text.starts_with(&stay), "{text}");
}

/// The account may be deleted for good.
#[test]
fn object_without_server_is_deleted_without_account() {
    let refused = || {
        Case::new()
            .ordered(Some(OrderOutcome::Refused), None)
            .deleting()
    };
    for case in [
        Case::new().deleting().blocked(Reason::KeyRejected),
        refused().blocked(Reason::KeyRejected),
        refused().facts(|f| f.account = unsaid("default")),
        deleted(ServerStatus::Released).blocked(Reason::KeyRejected),
    ] {
        assert_eq!(short(&case.decide()).0, Some("RemoveFinalizer"), "{case:?}");
    }
}

#[test]
fn deletion_reports_that_its_server_is_missing() {
    let gone = protocol::created().deleting();
    assert_eq!(
        short(&gone.decide()),
        (Some("Read"), Some(Reason::ServerNotFound), false)
    );
    let missed = gone.missed(&[980]);
    assert_eq!(
        short(&missed.decide()),
        (None, Some(Reason::ServerNotFound), false)
    );
    // Without a known server on the list, the absence cannot be confirmed, and it stalls.
    let unproved = protocol::alone(protocol::gone()).deleting();
    assert_eq!(
        short(&unproved.decide()),
        (None, Some(Reason::ServerNotFound), true)
    );
}

#[test]
fn delete_is_repeated_after_its_interval() {
    use ReleaseAnswer::{Accepted, Refused};
    let releasing = Some(Reason::Releasing);
    let delivered = |answer, ago| answered(ServerStatus::Delivered, answer, ago);
    come_to(
        (None, releasing, false),
        vec![("accepted a moment ago", delivered(Accepted, 59))],
    );
    come_to(
        (Some("Release"), releasing, false),
        vec![
            ("accepted without effect", delivered(Accepted, 60)),
            (
                "refused while it was failed",
                delivered(Refused, 1).memory(|m| m.sent.as_mut().unwrap().failed = true),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::RequestRefused), false),
        vec![("refused a moment ago", delivered(Refused, 14))],
    );
    come_to(
        (Some("Release"), Some(Reason::RequestRefused), false),
        vec![("refused", delivered(Refused, 15))],
    );
    let unreachable = Some(Reason::ProviderUnreachable);
    come_to(
        (None, unreachable, false),
        vec![("an error a moment ago", delivered(unanswered(), 14))],
    );
    come_to(
        (Some("Release"), unreachable, false),
        vec![("an error", delivered(unanswered(), 15))],
    );
}

/// Each retry may have another request ID in its error, and a status that changes each time is written each time.
#[test]
fn repeated_errors_of_a_release_show_one_message() {
    let mut case = answered(ServerStatus::Delivered, unanswered(), 15);
    let before = message(&case.decide());
    let ReleaseAnswer::Unknown(mut error) = unanswered() else {
        panic!("it is unknown");
    };
    error.message = "The hosting API answers 503; request 2".into();
    let again = |error: LastError| SentRelease {
        answer: ReleaseAnswer::Unknown(error),
        ..case.0.memory.sent.clone().unwrap()
    };
    let (same, other) = (
        again(error.clone()),
        again(LastError {
            reason: Reason::RequestRefused,
            ..error
        }),
    );
    case = case.memory(|m| m.record_observation(ServerObservation::Released(same), RUNNING));
    assert_eq!(message(&case.decide()), before);
    let case = case.memory(|m| m.record_observation(ServerObservation::Released(other), RUNNING));
    assert!(message(&case.decide()).contains("request 2"));
}

#[test]
fn refused_release_of_delivered_server_blames_no_state() {
    let message_for = |status| message(&answered(status, ReleaseAnswer::Refused, 1).decide());
    let delivered = message_for(ServerStatus::Delivered);
    assert!(
        delivered.starts_with("The provider refuses the release; "),
        "{delivered}"
    );
    let created = message_for(ServerStatus::Created);
    assert!(created.contains("while it is \"created\""), "{created}");
}

#[test]
fn failed_server_deletion_ends_after_two_refusals() {
    use ReleaseAnswer::{Accepted, Refused};
    let failed = |answer, ago| answered(ServerStatus::Failed, answer, ago);
    let twice = failed(Refused, 20).memory(|m| {
        m.record_observation(
            ServerObservation::Released(m.sent.clone().unwrap()),
            RUNNING,
        )
    });
    let untagged = server(1, ServerStatus::Failed, &[&cluster().tag()]);
    let untagged = deleted(ServerStatus::Failed).facts(|f| {
        f.own.clear();
        f.recorded = Some(seen(untagged));
    });
    let (releasing, progressing) = (Some(Reason::Releasing), Some(Reason::Progressing));
    come_to(
        (Some("Release"), releasing, false),
        vec![
            ("asked once", begun(ServerStatus::Failed)),
            ("taken without effect", failed(Accepted, 60)),
            ("refused", failed(Refused, 15)),
        ],
    );
    come_to(
        (None, releasing, false),
        vec![
            ("taken", failed(Accepted, 10)),
            ("refused a moment ago", failed(Refused, 14)),
        ],
    );
    come_to(
        (Some("RemoveFinalizer"), progressing, false),
        vec![
            ("refused twice", twice),
            ("nothing says that it is its own", untagged),
        ],
    );
}

#[test]
fn delete_needs_release_record_tag_and_fresh_read() {
    let tags = [cluster().tag(), own_tag()];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let server_with = |more: &[&str]| server(1, ServerStatus::Delivered, &[&tags, more].concat());
    let now = |after: u64| Moment {
        wall: START + 1000,
        mono: RUNNING + secs(after),
    };
    let check = |case: &Case, record: &Server, after| {
        precondition::check_release(&case.0, record, now(0), now(after))
    };
    let may = |case: &Case, record: &Server, after| check(case, record, after).is_ok();
    let too_late = Err(ReleaseObstacle::TooLate);
    let good = begun(ServerStatus::Delivered);
    assert!(may(&good, &server_with(&[]), 29));
    assert!(
        may(&good, &server_with(&[RETAINED_TAG]), 29),
        "it counts for nothing any more"
    );
    assert_eq!(check(&good, &server_with(&[]), 30), too_late);
    assert!(
        !may(&good, &server_with(&[&other_tag()]), 0),
        "another's, too"
    );
    assert!(!may(
        &good,
        &server(1, ServerStatus::Delivered, &[&cluster().tag()]),
        0
    ));
    assert!(!may(&good, &server(1, ServerStatus::Releasing, &tags), 0));
    let late = good.clone().object(|o| {
        let release = o.status.as_mut().unwrap().records.release.as_mut();
        release.unwrap().send_by = START + 999;
    });
    assert_eq!(check(&late, &server_with(&[]), 0), too_late);
    let others = check(&late, &server_with(&[&other_tag()]), 0);
    assert_eq!(others, Err(ReleaseObstacle::NotAllowed));
    for (what, case) in [
        ("not recorded", deleted(ServerStatus::Delivered)),
        (
            "another server is",
            deleted(ServerStatus::Delivered).begun(2),
        ),
        ("suspended", good.clone().spec(|s| s.suspend = Some(true))),
        ("not of a deletion", Case::new().begun(1).deleting()),
    ] {
        assert!(!may(&case, &server_with(&[]), 0), "{what}");
    }
}

#[test]
fn release_is_recorded_only_when_still_due() {
    let delivered = || deleted(ServerStatus::Delivered);
    let stopped = |v: &mut AccountView| {
        suspend_view(
            v,
            Some("the account is stopped; ask for the end of it".into()),
        )
    };
    let live = |deletion_policy| LiveAccount {
        stopped: None,
        terms: crate::account::terms::Terms::Own,
        uid: "account-1".into(),
        account_id: Some(ACCOUNT_ID.into()),
        defaults: Policies {
            deletion_policy,
            ..Policies::default()
        },
        limits: api::limits::Limits::default(),
    };
    let said = |policy| delivered().facts(|f| f.set_live(live(policy)));
    let paced = answered(ServerStatus::Delivered, ReleaseAnswer::Accepted, 0);
    for (what, case, is_let) in [
        ("due", delivered(), true),
        ("as the account says", said(None), true),
        ("once more, whatever pauses there are", paced, true),
        (
            "alive",
            Case::new()
                .ordered(Some(OrderOutcome::Created), Some(1))
                .with(1, ServerStatus::Delivered),
            false,
        ),
        ("retain", retain(delivered()), false),
        (
            "retain, as the account says by now",
            said(Some(DeletionPolicy::Retain)),
            false,
        ),
        (
            "protected",
            delivered().spec(|s| s.deletion_protection = Some(true)),
            false,
        ),
        (
            "suspended",
            delivered().spec(|s| s.suspend = Some(true)),
            false,
        ),
        ("stopped at the account", delivered().view(stopped), false),
        (
            "the kind is deleted",
            delivered().facts(|f| f.kind_deleting = Some(true)),
            false,
        ),
        (
            "handed over",
            delivered().facts(|f| f.is_handed_over = true),
            false,
        ),
    ] {
        assert_eq!(
            precondition::may_record_release(&case.0, &uuid(1)),
            is_let,
            "{what}"
        );
        assert!(
            !precondition::may_record_release(&case.0, &uuid(2)),
            "{what}"
        );
    }
    let shouted = uuid(1).replace("0000-4000", "00AB-4000");
    let same = delivered().facts(|f| {
        f.own[0].server = Arc::new(Server {
            id: ServerId::parse(&shouted.to_lowercase()).unwrap(),
            ..(*f.own[0].server).clone()
        })
    });
    let same = same.order(|record| record.server = Some(shouted.clone()));
    assert!(
        precondition::may_record_release(&same.0, &shouted),
        "in other letters"
    );
}

#[test]
fn server_is_retained_only_before_release_is_recorded() {
    let record = |tags: &[&str]| server(1, ServerStatus::Delivered, tags);
    let own = record(&[&own_tag()]);
    let may = |case: Case| precondition::may_retain(&case.0, &own);
    let delivered = || deleted(ServerStatus::Delivered);
    assert!(may(retain(delivered())));
    assert!(may(delivered().facts(|f| f.kind_deleting = Some(true))));
    // The account's policy was Retain when that was decided, and is not any more.
    assert!(!may(delivered()));
    assert!(!may(retain(delivered()).spec(|s| s.suspend = Some(true))));
    assert!(
        !may(retain(begun(ServerStatus::Delivered))),
        "retain comes too late"
    );
    assert!(
        may(retain(delivered().begun(2))),
        "the release of another one"
    );
    assert!(!may(Case::new()), "a living object keeps its server");
    for other in [
        record(&[]),
        record(&[&own_tag(), &other_tag()]),
        server(2, ServerStatus::Delivered, &[&own_tag()]),
    ] {
        assert!(
            !precondition::may_retain(&retain(delivered()).0, &other),
            "{other:?}"
        );
    }
}

#[test]
fn release_message_names_the_retry_interval() {
    use ReleaseAnswer::{Accepted, Refused};
    let cases = [
        (ServerStatus::Provisioning, Refused, "retrying every 15s"),
        (ServerStatus::Delivered, Accepted, "checked every 15s"),
        (
            ServerStatus::Delivered,
            unanswered(),
            "The hosting API answers 503; retrying every 15s",
        ),
        (ServerStatus::Failed, Refused, "retrying once after 15s"),
    ];
    for (status, answer, words) in cases {
        let said = |ago| message(&answered(status.clone(), answer.clone(), ago).decide());
        assert!(said(3).contains(words), "{}", said(3));
        assert_eq!(said(3), said(9), "the same from pass to pass");
    }
}
