//! The object is being deleted.

use super::*;
use crate::account_facts::stop;
use crate::{
    account_facts::LiveAccount,
    server::{
        decide::fence::TagProof,
        memory::{Missing, ReleaseAnswer, Sent},
    },
};
use AcknowledgementEffect::AssumeAbsent;
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

pub(super) fn answered(status: ServerStatus, answer: ReleaseAnswer, ago: u64) -> Case {
    let failed = status == ServerStatus::Failed;
    begun(status).memory(|m| {
        m.release.sent = Some(Sent {
            uuid: uuid(1),
            failed,
            answer,
            at: RUNNING - secs(ago),
        });
    })
}

/// Its account lets one release begin in an hour, and that of machine 2 was one; another one was asked for.
pub(super) fn release_limited(case: Case) -> Case {
    let limit: ReleaseLimit =
        serde_json::from_value(serde_json::json!({"maxReleases": 1, "window": "1h"})).unwrap();
    let none = ReleaseLimitStatus::default();
    let Admission::Count(one) = limit.admit(&none, &uuid(2), START + 900) else {
        panic!("the first one is let");
    };
    let Admission::Block(Some(held)) = limit.admit(&one, &uuid(3), START + 910) else {
        panic!("the second is not");
    };
    case.view(|v| v.release_limit = Some((limit, held)))
}

/// One that was restored or copied, or that was on a living object, decides nothing: the policy, protection and delay do.
#[test]
fn a_release_record_counts_on_its_own_deleted_object() {
    let retain = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    let kept = |case: Case| short(&case.spec(retain).decide()).0;
    assert_eq!(kept(begun(ServerStatus::Delivered)), Some("Release"));
    let deleted = || deleted(ServerStatus::Delivered);
    let copied = deleted().recorded_release("uid-0", uuid(1));
    assert_eq!(kept(copied.clone()), Some("AddTag"));
    assert_eq!(kept(deleted().begun(2)), Some("AddTag"));
    assert_eq!(short(&copied.decide()).0, Some("BeginRelease"));
    let delayed = copied.spec(|s| s.release_delay = Some(Interval::seconds(999)));
    let waits = (None, Some(Reason::ReleaseDelayed), false);
    assert_eq!(short(&delayed.decide()), waits);
    // It is written with the version that was read, and binds object and server.
    let written = crate::server::decide::release::recorded(&deleted().0, &uuid(1))
        .records
        .release;
    assert_eq!(
        written,
        begun(ServerStatus::Delivered).0.status().records.release
    );

    let living = Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .with(1, ServerStatus::Delivered)
        .begun(1);
    assert_eq!(living.0.release_begun(), None);
    let decision = living.decide();
    assert_ne!(short(&decision).0, Some("Release"));
    assert_eq!(decision.draft.status.records.release, None, "and it goes");
}

#[test]
fn a_release_that_goes_on_costs_one_status() {
    let delivered = deleted(ServerStatus::Delivered);
    let written = crate::server::decide::release::recorded(&delivered.0, &uuid(1));
    let follows = |status: ServerStatus, ago| {
        let sent = answered(status, ReleaseAnswer::Accepted, ago);
        let sent = sent.facts(|f| Arc::make_mut(&mut f.object).status = Some(written.clone()));
        let now = Timestamp::from_second(sent.0.now.wall).unwrap();
        sent.decide().draft.finish(now)
    };
    assert_eq!(follows(ServerStatus::Delivered, 3), written);
    assert_eq!(follows(ServerStatus::Releasing, 3), written);
    let later = follows(ServerStatus::Releasing, 121);
    assert_eq!(later.provider_status.as_deref(), Some("releasing"));
}

#[test]
fn a_release_waits_for_a_command_that_may_be_under_way() {
    let with = |case: Case| case.facts(|f| f.commands = UnderWay::Command("reboot".into()));
    let waits = with(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::Queued), false));
    // Whose intent was noted while the release was is waited for, too.
    let begun = with(deleted(ServerStatus::Delivered).begun(1)).decide();
    assert_eq!(short(&begun).0, None);
    // After a start nobody knows until they are listed. What has begun asks the API server before it sends anything.
    let unlisted = |case: Case| case.facts(|f| f.commands = UnderWay::NotListed);
    let waits = unlisted(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&waits), (None, Some(Reason::Queued), false));
    let begun = unlisted(deleted(ServerStatus::Delivered).begun(1)).decide();
    assert_eq!(short(&begun).0, Some("Release"));
    // What does not run is not commanded.
    let failed = with(deleted(ServerStatus::Failed)).decide();
    assert_eq!(short(&failed).0, Some("BeginRelease"));
    let retain = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    let kept = with(deleted(ServerStatus::Delivered).spec(retain)).decide();
    assert_eq!(short(&kept).0, Some("AddTag"));
}

#[test]
fn a_release_waits_at_the_release_limit_unless_it_is_counted_or_nothing_runs() {
    let held = release_limited(deleted(ServerStatus::Delivered)).decide();
    assert_eq!(short(&held), (None, Some(Reason::ReleaseLimited), false));
    let begins = |case: &Case| short(&case.decide()).0 == Some("BeginRelease");
    assert!(begins(&release_limited(deleted(ServerStatus::Failed))));
    let higher = release_limited(deleted(ServerStatus::Delivered)).view(|v| {
        v.release_limit.as_mut().unwrap().0.max_releases = 2;
    });
    assert!(begins(&higher));
    let counted = release_limited(deleted(ServerStatus::Delivered)).view(|v| {
        v.release_limit.as_mut().unwrap().1.releases[0].uuid = uuid(1).to_uppercase();
    });
    assert!(begins(&counted));
    // What is kept is not released, and what has begun goes on.
    let kept = release_limited(deleted(ServerStatus::Delivered))
        .spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    assert_eq!(short(&kept.decide()).0, Some("AddTag"));
    assert_eq!(
        short(&release_limited(begun(ServerStatus::Delivered)).decide()).0,
        Some("Release")
    );
}

#[test]
fn a_delayed_release_begins_when_its_delay_is_over_by_a_clock_that_nobody_turned() {
    // Deleted at START + 900; it is START + 1000 now, and the process has run since START.
    let delayed = |seconds: u64| {
        deleted(ServerStatus::Delivered).spec(|s| s.release_delay = Some(Interval(secs(seconds))))
    };
    let begins = |case: &Case| short(&case.decide()).0 == Some("BeginRelease");
    assert!(begins(&delayed(100)) && begins(&delayed(0)));
    let waits = delayed(101).decide();
    assert_eq!(short(&waits), (None, Some(Reason::ReleaseDelayed), false));
    assert_eq!(waits.again, Again::After(secs(1)));
    let said = &waits.draft.condition(Type::Ready).unwrap().message;
    for words in [
        "is released at 20",
        "billed until then",
        "set spec.releaseDelay to 0s",
        "set spec.deletionPolicy to Retain",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // A day later by the wall clock alone.
    let turned = delayed(3600).facts(|f| f.now.wall += 86_400);
    assert_eq!(short(&turned.decide()).1, Some(Reason::ReleaseDelayed));
    let later = turned.facts(|f| f.now.mono += secs(3500));
    assert!(begins(&later), "by both");
    // Or it was seen deleted for so long, by a process whose wall clock was set right after it started.
    let seen = |since: u64| {
        let case = delayed(600).facts(|f| f.wall_at_start -= 86_400);
        begins(&case.memory(|m| m.delayed_since = Some(secs(since))))
    };
    assert!(seen(400) && !seen(401));
    // One that failed does not run.
    let failed =
        deleted(ServerStatus::Failed).spec(|s| s.release_delay = Some(Interval(secs(999))));
    assert!(begins(&failed));
    // Long delays are looked at now and then.
    assert_eq!(delayed(999_999).decide().again, Again::After(secs(600)));
    // What is kept waits for nothing, and protection holds whatever the delay.
    let kept = delayed(999).spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    assert_eq!(short(&kept.decide()).0, Some("AddTag"));
    let protected = delayed(0).spec(|s| s.deletion_protection = Some(true));
    assert_eq!(short(&protected.decide()).1, Some(Reason::Protected));
    // The account's word counts where the object has none; its own does, if only to say: none.
    let by_account = |case: Case| {
        case.view(|v| v.defaults.as_mut().unwrap().release_delay = Some(Interval(secs(999))))
    };
    assert!(!begins(&by_account(deleted(ServerStatus::Delivered))));
    assert!(begins(&by_account(delayed(0))));
    // Once it has begun the delay is over.
    let noted = delayed(999).begun(1);
    assert_eq!(short(&noted.decide()).0, Some("Release"));
}

#[test]
fn a_release_takes_its_steps_in_order() {
    let retain = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    let delivered = || deleted(ServerStatus::Delivered);
    let releasing = Some(Reason::Releasing);
    table(vec![
        (
            "nothing of ours holds it",
            Case::new().deleting(),
            None,
            None,
            false,
        ),
        ("not begun", delivered(), Some("BeginRelease"), None, false),
        (
            "protected",
            delivered().spec(|s| s.deletion_protection = Some(true)),
            None,
            Some(Reason::Protected),
            false,
        ),
        (
            "suspended",
            delivered().spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "not allowed any more: orders only",
            delivered().facts(|f| {
                if let AccountFacts::Found { terms, .. } = &mut f.account {
                    *terms = crate::account::terms::Terms::Refused("not this namespace".into());
                }
            }),
            Some("BeginRelease"),
            None,
            false,
        ),
        (
            "blocked",
            delivered().blocked(Reason::KeyRejected),
            None,
            Some(Reason::KeyRejected),
            true,
        ),
        (
            "no account",
            delivered().facts(|f| f.account = unsaid("default")),
            None,
            Some(Reason::AccountNotFound),
            false,
        ),
        (
            "protected by the account",
            delivered().view(|v| v.defaults.as_mut().unwrap().deletion_protection = Some(true)),
            None,
            Some(Reason::Protected),
            false,
        ),
        (
            "retain by the account",
            delivered().view(|v| {
                v.defaults.as_mut().unwrap().deletion_policy = Some(DeletionPolicy::Retain);
            }),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "retain and protection by the account",
            delivered().view(|v| {
                let defaults = v.defaults.as_mut().unwrap();
                defaults.deletion_policy = Some(DeletionPolicy::Retain);
                defaults.deletion_protection = Some(true);
            }),
            None,
            Some(Reason::Protected),
            false,
        ),
        (
            "retain by the object, protected by the account",
            delivered()
                .spec(retain)
                .view(|v| v.defaults.as_mut().unwrap().deletion_protection = Some(true)),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "suspended, and retain",
            delivered().spec(retain).spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "suspended and protected, and the kind is deleted",
            delivered()
                .spec(|s| {
                    s.suspend = Some(true);
                    s.deletion_protection = Some(true);
                })
                .facts(|f| f.kind_deleting = Some(true)),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "retain by the account, and release by the object",
            delivered()
                .spec(|s| s.deletion_policy = Some(DeletionPolicy::Release))
                .view(|v| {
                    v.defaults.as_mut().unwrap().deletion_policy = Some(DeletionPolicy::Retain);
                }),
            Some("BeginRelease"),
            None,
            false,
        ),
        (
            "retain",
            delivered().spec(retain),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "the kind is deleted",
            delivered().facts(|f| f.kind_deleting = Some(true)),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "retained",
            delivered()
                .spec(retain)
                .facts(|f| f.own = vec![retained(1, ServerStatus::Delivered)]),
            Some("LetGo"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "retained by a former version, whose tag does not say for whom",
            delivered().spec(retain).facts(|f| {
                let tags = [&*cluster().tag(), &own_tag(), RETAINED_PREFIX];
                f.own = vec![seen(server(1, ServerStatus::Delivered, &tags))];
            }),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "retained, and the policy was turned back in time",
            delivered().facts(|f| f.own = vec![retained(1, ServerStatus::Delivered)]),
            Some("RemoveTag"),
            None,
            false,
        ),
        (
            "begun",
            begun(ServerStatus::Delivered),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "begun: retain comes too late",
            begun(ServerStatus::Delivered).spec(retain),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "begun, and suspended: nothing more is sent",
            begun(ServerStatus::Delivered).spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "under way",
            begun(ServerStatus::Releasing),
            None,
            releasing,
            false,
        ),
        (
            "the end",
            begun(ServerStatus::Released),
            Some("LetGo"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "the end, seen although the account is blocked now",
            begun(ServerStatus::Released).blocked(Reason::KeyRejected),
            Some("LetGo"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "another machine of it lives",
            begun(ServerStatus::Released).with(2, ServerStatus::Created),
            Some("BeginRelease"),
            None,
            false,
        ),
        (
            "another machine of it lives, and stays by policy",
            begun(ServerStatus::Released)
                .with(2, ServerStatus::Delivered)
                .spec(retain),
            Some("AddTag"),
            None,
            false,
        ),
        (
            "another machine of it stays, and the kind is deleted",
            begun(ServerStatus::Released)
                .with(2, ServerStatus::Delivered)
                .facts(|f| f.kind_deleting = Some(true)),
            Some("AddTag"),
            None,
            false,
        ),
    ]);
}

#[test]
fn a_delete_is_asked_again_in_its_time() {
    use ReleaseAnswer::{Accepted, Refused, Unknown};
    let releasing = Some(Reason::Releasing);
    let delivered = |answer, ago| answered(ServerStatus::Delivered, answer, ago);
    table(vec![
        (
            "accepted a moment ago",
            delivered(Accepted, 59),
            None,
            releasing,
            false,
        ),
        (
            "accepted without effect",
            delivered(Accepted, 60),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "no answer a moment ago",
            delivered(Unknown, 14),
            None,
            releasing,
            false,
        ),
        (
            "no answer",
            delivered(Unknown, 15),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "refused while it was failed",
            delivered(Refused, 1).memory(|m| m.release.sent.as_mut().unwrap().failed = true),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "refused a moment ago",
            delivered(Refused, 14),
            None,
            Some(Reason::RequestRefused),
            false,
        ),
        (
            "refused",
            delivered(Refused, 15),
            Some("Release"),
            Some(Reason::RequestRefused),
            false,
        ),
    ]);
}

#[test]
fn refused_release_of_a_delivered_server_blames_no_state() {
    let told = |status| message(&answered(status, ReleaseAnswer::Refused, 1).decide());
    let delivered = told(ServerStatus::Delivered);
    assert!(
        delivered.starts_with("the provider refuses the release; "),
        "{delivered}"
    );
    let created = told(ServerStatus::Created);
    assert!(created.contains("while it is \"created\""), "{created}");
}

#[test]
fn a_failed_machine_goes_only_when_it_was_never_delivered() {
    use ReleaseAnswer::{Accepted, Refused};
    let releasing = Some(Reason::Releasing);
    let refused = |reads: &[u64]| {
        let reads: Vec<Duration> = reads.iter().map(|s| secs(*s)).collect();
        answered(ServerStatus::Failed, Refused, 100).memory(|m| m.release.failed_reads = reads)
    };
    let held = Some(Reason::RequestRefused);
    table(vec![
        (
            "asked once",
            begun(ServerStatus::Failed),
            Some("Release"),
            releasing,
            false,
        ),
        (
            "taken",
            answered(ServerStatus::Failed, Accepted, 10),
            None,
            releasing,
            false,
        ),
        (
            "taken without effect",
            answered(ServerStatus::Failed, Accepted, 301),
            None,
            held,
            true,
        ),
        ("refused", refused(&[]), Some("Read"), releasing, false),
        (
            "refused, read once a moment ago",
            refused(&[960]),
            None,
            releasing,
            false,
        ),
        (
            "refused, read once a while ago",
            refused(&[940]),
            Some("Read"),
            releasing,
            false,
        ),
        (
            "refused, read twice",
            refused(&[900, 960]),
            Some("LetGo"),
            Some(Reason::Progressing),
            false,
        ),
        (
            "refused, and it was delivered",
            refused(&[900, 960]).facts(|f| {
                let mut failed = server(1, ServerStatus::Failed, &[&cluster().tag(), &own_tag()]);
                failed.delivered_at = Some(EPOCH + 60);
                f.own = vec![seen(failed)];
            }),
            None,
            held,
            true,
        ),
    ]);
}

#[test]
fn a_machine_that_was_missed_long_ago_is_looked_for_again_before_its_object_goes() {
    // Looks are 60 s apart, and the last one counts for ten minutes. It is 1000 s now.
    let missed = |reads: [u64; 2], listings: [u64; 2]| {
        let created = Case::new().ordered(Some(OrderOutcome::Created), Some(1));
        // Long after its order.
        let created = created.facts(|f| f.now.wall += 10_000);
        let case = created.deleting().memory(|m| {
            m.missing = Missing {
                reads: reads.map(secs).to_vec(),
                listings: listings.map(secs).to_vec(),
            };
        });
        short(&case.decide()).0
    };
    assert_eq!(missed([100, 400], [100, 400]), Some("LetGo"));
    assert_eq!(missed([100, 399], [100, 900]), Some("Read"));
    assert_eq!(missed([100, 900], [100, 399]), Some("Read"));
}

#[test]
fn an_order_is_settled_before_its_object_goes() {
    let closed = |outcome| Case::new().ordered(Some(outcome), None).deleting();
    let unknown = Some(Reason::OutcomeUnknown);
    let missing = Missing {
        reads: vec![secs(800), secs(900)],
        listings: vec![secs(800), secs(900)],
    };
    let created = Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .deleting();
    let alone = created.clone().view(|v| v.known.clear());
    let unshown = |reads: &[u64]| {
        let reads = reads.iter().map(|s| secs(*s)).collect();
        alone.clone().memory(|m| m.missing.reads = reads)
    };
    let given = || unshown(&[300, 360, 990]).given(AssumeAbsent);
    table(vec![
        (
            "refused",
            closed(OrderOutcome::Refused),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "not sent",
            closed(OrderOutcome::NotSent),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "absent",
            closed(OrderOutcome::Absent),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "unknown",
            Case::new().open(300, &[]).deleting(),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "unknown and suspended: look-ups go on",
            Case::new()
                .open(300, &[])
                .deleting()
                .spec(|s| s.suspend = Some(true)),
            Some("LookForOrder"),
            unknown,
            false,
        ),
        (
            "proved absent",
            Case::new().open(300, &[320, 400, 900]).deleting(),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "only the finalizer",
            Case::new().held().deleting(),
            None,
            unknown,
            true,
        ),
        (
            "only the finalizer, and a user acknowledges that there is none",
            Case::new().held().deleting().given(AssumeAbsent),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "the machine is not shown",
            created.clone(),
            Some("Read"),
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "the machine is not shown, and stays by policy: that takes the same proof",
            created
                .clone()
                .spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain))
                .memory(|m| m.missing.reads = vec![secs(990)]),
            None,
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "the machine is not shown, nor any known one",
            alone.clone(),
            Some("Read"),
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "two reads do not show it either: both may lag behind",
            unshown(&[800, 900]),
            Some("Read"),
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "nor do they for the absence grace period: a user is asked",
            unshown(&[300, 360, 990]),
            None,
            Some(Reason::ServerNotFound),
            true,
        ),
        (
            "a user acknowledges that it is gone",
            given(),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "that may be long ago",
            given().facts(|f| f.now.mono += secs(4000)),
            Some("Read"),
            Some(Reason::ServerNotFound),
            true,
        ),
        (
            "this process has just started",
            given().memory(|m| m.missing = Missing::default()),
            Some("Read"),
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "no listing yet",
            given().view(|v| v.proof = None),
            None,
            Some(Reason::ServerNotFound),
            false,
        ),
        (
            "the last listing is from before the grace period was over",
            given().view(|v| {
                let proof = v.proof.as_mut().unwrap();
                Arc::make_mut(proof).began = secs(899);
            }),
            None,
            Some(Reason::ServerNotFound),
            true,
        ),
        (
            "the machine is proved gone",
            created
                .clone()
                .memory(|m| m.missing = missing)
                .facts(|f| f.now.wall = EPOCH + 600),
            Some("LetGo"),
            None,
            false,
        ),
        (
            "marks stripped: nothing destructive",
            created.facts(|f| f.recorded = Some(seen(server(1, ServerStatus::Delivered, &[])))),
            None,
            Some(Reason::TagsMissing),
            true,
        ),
    ]);
}

#[test]
fn a_delete_needs_the_note_the_mark_and_a_fresh_record() {
    let machine = server(1, ServerStatus::Delivered, &[&cluster().tag(), &own_tag()]);
    let now = |after: u64| Moment {
        wall: START + 1000,
        mono: RUNNING + secs(after),
    };
    let may = |case: &Case, record: &Server, after| {
        fence::may_release(&case.0, record, now(0), now(after), secs(30))
    };
    let good = begun(ServerStatus::Delivered);
    assert!(may(&good, &machine, 29));
    assert!(!may(&good, &machine, 30), "the record is too old");
    assert!(
        !may(&deleted(ServerStatus::Delivered), &machine, 0),
        "not noted"
    );
    assert!(
        !may(&deleted(ServerStatus::Delivered).begun(2), &machine, 0),
        "another machine is noted"
    );
    let suspended = good.clone().spec(|s| s.suspend = Some(true));
    assert!(!may(&suspended, &machine, 0), "suspended");
    assert!(
        !may(
            &good,
            &server(1, ServerStatus::Delivered, &[&cluster().tag()]),
            0
        ),
        "no mark"
    );
    assert!(
        !may(&good, &retained(1, ServerStatus::Delivered).server, 0),
        "it was let go"
    );
    assert!(fence::may_begin_release(
        &deleted(ServerStatus::Delivered).0,
        &machine
    ));
    for (what, case) in [
        (
            "alive",
            Case::new().ordered(Some(OrderOutcome::Created), Some(1)),
        ),
        (
            "retain",
            deleted(ServerStatus::Delivered)
                .spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain)),
        ),
        (
            "protected",
            deleted(ServerStatus::Delivered).spec(|s| s.deletion_protection = Some(true)),
        ),
        (
            "suspended",
            deleted(ServerStatus::Delivered).spec(|s| s.suspend = Some(true)),
        ),
        (
            "stopped at the account",
            deleted(ServerStatus::Delivered).view(|v| {
                stop(
                    v,
                    Some("the account is stopped; ask for the end of it".into()),
                )
            }),
        ),
        (
            "the kind is deleted",
            deleted(ServerStatus::Delivered).facts(|f| f.kind_deleting = Some(true)),
        ),
        (
            "retain, as the account says by now",
            deleted(ServerStatus::Delivered).facts(|f| {
                f.set_live(LiveAccount {
                    stopped: None,
                    terms: crate::account::terms::Terms::Own,
                    uid: "account-1".into(),
                    lineage: Some(LINEAGE.into()),
                    defaults: Policies {
                        deletion_policy: Some(DeletionPolicy::Retain),
                        ..Policies::default()
                    },
                    limits: api::limits::Limits::default(),
                });
            }),
        ),
        (
            "nobody knows what the account says",
            deleted(ServerStatus::Delivered).view(|v| v.defaults = None),
        ),
    ] {
        assert!(!fence::may_begin_release(&case.0, &machine), "{what}");
    }
}

#[test]
fn tags_are_changed_only_on_what_is_ours() {
    let case = Case::new();
    let (cluster_tag, own) = (cluster().tag(), own_tag());
    let holds = |proof: &TagProof, tags: &[&str]| {
        proof.holds(&case.0, &server(1, ServerStatus::Delivered, tags))
    };
    assert!(holds(&TagProof::OwnMark, &[&own]));
    assert!(!holds(&TagProof::OwnMark, &[&cluster_tag]));
    assert!(holds(&TagProof::ClusterMarkOnly, &[&cluster_tag]));
    assert!(!holds(&TagProof::ClusterMarkOnly, &[&cluster_tag, &own]));
    assert!(!holds(&TagProof::ClusterMarkOnly, &[]));
}

#[test]
fn a_machine_is_let_go_only_while_its_release_is_not_noted() {
    let may = |case: Case| fence::may_retain(&case.0, &uuid(1));
    let retain = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    assert!(may(deleted(ServerStatus::Delivered).spec(retain)));
    let kind = |f: &mut Facts| f.kind_deleting = Some(true);
    assert!(may(deleted(ServerStatus::Delivered).facts(kind)));
    // The account said Retain when that was decided, and does not any more.
    assert!(!may(deleted(ServerStatus::Delivered)));
    let suspended = |s: &mut BareMetalServerSpec| s.suspend = Some(true);
    assert!(!may(deleted(ServerStatus::Delivered)
        .spec(retain)
        .spec(suspended)));
    assert!(
        !may(begun(ServerStatus::Delivered).spec(retain)),
        "retain comes too late"
    );
    assert!(
        may(deleted(ServerStatus::Delivered).begun(2).spec(retain)),
        "the release of another machine was noted"
    );
    assert!(!may(Case::new()), "a living object keeps its machine");
    let effect = |tag: &str| Effect::AddTag {
        uuid: uuid(1),
        tag: tag.into(),
        when: fence::TagProof::OwnMark,
    };
    assert!(effect(RETAINED_PREFIX).lets_stay());
    assert!(!effect(&own_tag()).lets_stay());
}

#[test]
fn a_noted_release_sends_what_is_not_over() {
    for (status, over, at_once) in [
        (ServerStatus::Delivered, false, true),
        (ServerStatus::Provisioning, false, true),
        (ServerStatus::Failed, false, false),
        (ServerStatus::Releasing, false, false),
        (ServerStatus::Released, true, false),
    ] {
        let record = server(1, status, &[]);
        assert_eq!(fence::is_over(&record), over, "{:?}", record.status);
        assert_eq!(
            fence::follows_the_note(&record),
            at_once,
            "{:?}",
            record.status
        );
    }
}

#[test]
fn whoever_waits_for_the_provider_reads_when_it_is_asked_again() {
    use ReleaseAnswer::{Accepted, Refused, Unknown};
    let cases = [
        (
            ServerStatus::Provisioning,
            Refused,
            "asking again every 15s",
        ),
        (ServerStatus::Delivered, Accepted, "sent again after 1m"),
        (ServerStatus::Delivered, Unknown, "sent again after 1m"),
        (ServerStatus::Failed, Accepted, "5m at most"),
        (ServerStatus::Failed, Refused, "looked at every 1m"),
    ];
    for (status, answer, words) in cases {
        let said = |ago| {
            let decision = answered(status.clone(), answer, ago).decide();
            let ready = decision.draft.condition(Type::Ready).unwrap();
            ready.message.clone()
        };
        assert!(said(3).contains(words), "{}", said(3));
        assert_eq!(said(3), said(9), "the same from pass to pass");
    }
}
