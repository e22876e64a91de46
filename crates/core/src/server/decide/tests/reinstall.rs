//! `spec.install`: only a higher revision re-installs a server, and only once.

use super::{existing::with_status, *};
use crate::{
    report::Severity,
    server::{
        decide::{
            precondition, reinstall,
            sent_hashes::{KEYS, keys_hash},
        },
        events,
        facts::ServerKey,
        install_memory::InstallObservation,
        memory::ServerObservation,
    },
};
use api::{
    command::{CommandOutcome, ListedCommands},
    conditions::{DesiredCondition, Type},
    install::{Install, InstallEnd, InstallHistory, InstallIntent, InstallRecord},
};
use hosting_types::server::DiskWipe;

const COMMAND: &str = "00000000-0000-4000-8000-00000000c001";

/// A delivered server whose first revision is recorded.
pub(super) fn delivered(revision: i64) -> Case {
    let key = ServerKey {
        sent: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdWJDPZaMHmkaDKXDnMxkGJgFZgRqkUXnrqxnYJBkVa x"
            .into(),
        known_by: "k".into(),
        object: None,
    };
    let case = with_status(ServerStatus::Delivered).facts(|f| {
        f.installation = Some(Ok(Installation {
            ssh_keys: vec![key],
            ..Installation::default()
        }));
    });
    written(wishes(case, revision))
}

pub(super) fn wishes(case: Case, revision: i64) -> Case {
    case.spec(|s| {
        s.install = Some(Install {
            revision,
            wipe_disk: None,
        });
    })
}

fn shown(case: &Case) -> InstallHistory {
    case.decide().desired.status.records.install.unwrap()
}

/// The decided status is written.
fn written(case: Case) -> Case {
    let status = case.decide().desired.status;
    case.object(|o| {
        let shown = o.status.as_mut().unwrap();
        shown.records.install = status.records.install;
        shown.records.power = status.records.power;
    })
}

fn due(case: &Case) -> NewReinstall {
    match case.decide().effect {
        Some(ServerEffect::Reinstall(new)) => *new,
        other => panic!("nothing is sent: {other:?}"),
    }
}

fn record(case: &Case, revision: i64) -> InstallRecord {
    InstallRecord::unfinished(InstallIntent {
        uid: case.0.uid().into(),
        server: uuid(1),
        revision,
        wipe_disk: true,
        attempt: format!("attempt-{revision}"),
        started_at: START + 990,
        send_by: START + 1020,
        account: ordered_from(ACCOUNT_ID, CONNECTION),
        listed: ListedCommands::default(),
        key_uids: Vec::new(),
        sent: crate::server::decide::sent_hashes::Hashes::from([(
            "sshKeys".to_owned(),
            "aaaa".to_owned(),
        )]),
        secret_texts: false,
    })
}

/// Status has the intent of a second revision, and the memory follows it since then.
fn open(change: impl FnOnce(&mut InstallRecord)) -> Case {
    let case = wishes(delivered(1), 2);
    let mut record = record(&case, 2);
    change(&mut record);
    let case = case.object(|o| {
        let install = o.status.as_mut().unwrap().records.install.as_mut().unwrap();
        install.last = Some(record.clone());
    });
    case.memory(|m| m.install.follow_open(Some(&record), secs(990)))
}

fn accepted(record: &mut InstallRecord) {
    record.outcome = Some(CommandOutcome::Accepted);
}

fn going_on(state: &str) -> impl FnOnce(&mut InstallRecord) {
    let state = state.to_owned();
    move |record| {
        accepted(record);
        record.command_id = Some(COMMAND.into());
        record.state = Some(state);
    }
}

/// The server is being re-installed.
pub(super) fn installing() -> Case {
    open(going_on("pending"))
}

/// The re-installation takes too long.
pub(super) fn late() -> Case {
    open(|record| {
        going_on("pending")(record);
        record.intent.started_at = START + 1000 - 2 * 2700;
    })
    .facts(|f| f.wall_at_start = START)
}

/// The re-installation ended like this.
pub(super) fn ended(end: InstallEnd) -> Case {
    open(|record| {
        accepted(record);
        record.end = Some(end);
        record.ended_at = Some(START + 995);
        record.message = Some("the answer was lost".into());
    })
    .object(|o| {
        let install = o.status.as_mut().unwrap().records.install.as_mut().unwrap();
        install.revision = 2;
    })
}

fn ready(case: &Case) -> (Option<bool>, Reason) {
    condition_of(&case.decide(), Type::Ready)
}

fn condition_of(decision: &ServerDecision, kind: Type) -> (Option<bool>, Reason) {
    let condition = decision.desired.condition(kind).unwrap();
    (condition.status, condition.reason)
}

fn up_to_date(case: &Case) -> DesiredCondition {
    let decision = case.decide();
    decision
        .desired
        .condition(Type::InstallUpToDate)
        .unwrap()
        .clone()
}

#[test]
fn first_observed_revision_counts_as_performed() {
    let first = wishes(with_status(ServerStatus::Delivered), 7);
    let decision = first.decide();
    assert_eq!(decision.effect, None);
    assert_eq!(shown(&first).performed(), 7);
    assert_eq!(written(first).decide().effect, None);
    // Its status was lost, names another server, or was restored from an earlier object.
    let lost =
        wishes(delivered(7), 9).object(|o| o.status.as_mut().unwrap().records.install = None);
    let another = wishes(delivered(7), 9).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.records.install.as_mut().unwrap().server = uuid(5);
    });
    for case in [lost, another] {
        assert_eq!(shown(&case).performed(), 9);
        assert_eq!(case.decide().effect, None);
    }
    let waiting = wishes(with_status(ServerStatus::Provisioning), 7);
    assert_eq!(waiting.decide().desired.status.records.install, None);
}

#[test]
fn spec_edit_alone_only_reports_reinstall_data_loss() {
    let edited = delivered(3).spec(|s| s.os.as_mut().unwrap().slug = "later".into());
    assert_eq!(edited.decide().effect, None);
    let condition = up_to_date(&edited);
    assert_eq!(
        (condition.status, condition.reason),
        (Some(false), Reason::PendingChanges)
    );
    for part in [
        "spec.os.slug",
        "install.revision to 4",
        "wipes the whole disk",
    ] {
        assert!(condition.message.contains(part), "{part}: {condition:?}");
    }
    assert_eq!(ready(&edited), (Some(true), Reason::Delivered));
    let kept = edited.spec(|s| s.install.as_mut().unwrap().wipe_disk = Some(false));
    assert!(
        up_to_date(&kept)
            .message
            .contains("loses all data, although")
    );
    let same = up_to_date(&delivered(3));
    assert_eq!((same.status, same.reason), (Some(true), Reason::InSync));
}

#[test]
fn only_a_higher_revision_installs() {
    let case = wishes(delivered(3), 4).spec(|s| {
        s.os.as_mut().unwrap().slug = "later".into();
        s.hostname = Some("db".into());
    });
    let new = due(&case);
    assert_eq!((new.server_uuid.as_str(), new.revision), (&*uuid(1), 4));
    assert_eq!(new.request.wipe, DiskWipe::Whole);
    assert_eq!(new.request.name.as_deref(), Some("db"));
    assert_eq!(new.request.os.as_ref().unwrap().slug, "later");
    assert_eq!(new.request.ssh_keys.as_ref().unwrap().len(), 1);
    assert_eq!(ready(&case), (Some(false), Reason::Reinstalling));
    let skipping = case
        .clone()
        .spec(|s| s.install.as_mut().unwrap().wipe_disk = Some(false));
    assert_eq!(due(&skipping).request.wipe, DiskWipe::Skip);

    let nameless = case.clone().spec(|s| s.os = None);
    assert_eq!(nameless.decide().effect, None);

    let lower = wishes(delivered(3), 2);
    assert_eq!(lower.decide().effect, None);
    assert!(up_to_date(&lower).message.contains("3 counts as performed"));
    assert_eq!(shown(&lower).performed(), 3);
    let unset = delivered(3).spec(|s| s.install = None);
    assert_eq!(unset.decide().effect, None);
    assert_eq!(shown(&unset).performed(), 3);
}

#[test]
fn what_is_installed_is_read_first() {
    let unread = wishes(delivered(3), 4).facts(|f| f.installation = None);
    let decision = unread.decide();
    assert_eq!(decision.effect, None);
    assert!(decision.wants_installation);
    assert_eq!(decision.requeue, Requeue::Now);
    let missing = Explanation::missing(Reason::ReferenceNotFound, "no; create it");
    let missing = unread.facts(|f| f.installation = Some(Err(missing)));
    assert_eq!(missing.decide().effect, None);
    let synced = condition_of(&missing.decide(), Type::Synced);
    assert_eq!(synced, (Some(false), Reason::ReferenceNotFound));
    // The API installs no Linux without a key. This is reported before.
    let keyless =
        wishes(delivered(3), 4).facts(|f| f.installation = Some(Ok(Installation::default())));
    assert_eq!(
        condition_of(&keyless.decide(), Type::Synced).1,
        Reason::InvalidSpec
    );
}

#[test]
fn policies_block_reinstall_and_are_reported() {
    type Change = fn(&mut BareMetalServerSpec);
    let against: [(Change, Reason); 3] = [
        (|s| s.deletion_protection = Some(true), Reason::Protected),
        (
            |s| s.management_policy = Some(api::ManagementPolicy::ObserveOnly),
            Reason::ObserveOnly,
        ),
        (|s| s.suspend = Some(true), Reason::PendingChanges),
    ];
    for (change, reason) in against {
        let due_then = due(&wishes(delivered(1), 2));
        let case = wishes(delivered(1), 2).spec(change);
        let decision = case.decide();
        assert_eq!(decision.effect, None, "{reason}");
        assert_eq!(condition_of(&decision, Type::Synced).1, reason);
        assert_eq!(up_to_date(&case).reason, reason);
        assert!(
            reinstall::may_start(&case.0, &due_then).is_none(),
            "{reason}"
        );
    }
}

#[test]
fn reinstall_waits_for_running_command() {
    for under_way in [
        RunningCommand::Command("reboot".into()),
        RunningCommand::NotListed,
    ] {
        let case = wishes(delivered(1), 2).facts(|f| f.commands = under_way.clone());
        assert_eq!(case.decide().effect, None);
        assert_eq!(condition_of(&case.decide(), Type::Synced).1, Reason::Queued);
    }
}

#[test]
fn busy_server_reinstall_is_retried_after_pause() {
    let busy = InstallObservation::Busy("it runs another".into(), secs(995));
    let case = wishes(delivered(1), 2)
        .memory(|m| m.record_observation(ServerObservation::Reinstall(busy), secs(995)));
    assert_eq!(case.decide().effect, None);
    assert_eq!(case.decide().requeue, Requeue::After(secs(10)));
    let later = case.facts(|f| f.now.mono = secs(1010));
    due(&later);
}

#[test]
fn reinstall_checks_use_the_current_object() {
    let case = wishes(delivered(1), 2);
    let new = due(&case);
    assert!(reinstall::may_start(&case.0, &new).is_some());
    let stray = case.clone().begun(1);
    assert!(reinstall::may_start(&stray.0, &new).is_some());
    let changed: [fn(Case) -> Case; 6] = [
        Case::deleting,
        |c| c.object(|o| o.metadata.generation = Some(4)),
        |c| wishes(c, 1),
        |c| wishes(c, 3),
        |c| c.object(|o| o.status.as_mut().unwrap().uuid = Some(uuid(4))),
        |c| c.object(|o| o.status.as_mut().unwrap().records.install = None),
    ];
    for (number, change) in changed.into_iter().enumerate() {
        let changed = change(case.clone());
        assert!(reinstall::may_start(&changed.0, &new).is_none(), "{number}");
    }
    // After the intent: exactly this intent must be recorded, and nothing else may have changed.
    let recorded = open(|_| {});
    let intent = record(&recorded, 2).intent;
    assert!(reinstall::may_send(&recorded.0, &new, &intent));
    assert!(!reinstall::may_send(
        &recorded.clone().deleting().0,
        &new,
        &intent
    ));
    let mut another = intent.clone();
    another.attempt = "another".into();
    assert!(!reinstall::may_send(&recorded.0, &new, &another));
    assert!(!reinstall::may_send(&case.0, &new, &intent));
}

#[test]
fn shared_retained_or_undelivered_server_is_not_wiped() {
    let case = delivered(1);
    let its = |status, tags: &[&str]| {
        let mut all = vec![cluster().tag(), own_tag()];
        all.extend(tags.iter().map(|t| (*t).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        server(1, status, &all)
    };
    let against = |record: &Server| precondition::explain_blocked_reinstall(&case.0, record);
    assert_eq!(against(&its(ServerStatus::Delivered, &[])), None);
    assert!(against(&its(ServerStatus::Delivered, &[&other_tag()])).is_some());
    assert!(against(&its(ServerStatus::Delivered, &[RETAINED_TAG])).is_some());
    assert!(against(&its(ServerStatus::Releasing, &[])).is_some());
    assert!(against(&server(1, ServerStatus::Delivered, &[])).is_some());
}

#[test]
fn it_is_followed_to_its_end() {
    let case = installing();
    assert_eq!(ready(&case), (Some(false), Reason::Reinstalling));
    assert!(matches!(
        case.decide().effect,
        Some(ServerEffect::PollInstall { .. })
    ));
    let looked = |state: &str| {
        let mut record = record(&case, 2);
        going_on(state)(&mut record);
        let looked = InstallObservation::Polled(Box::new(record), RUNNING);
        case.clone()
            .memory(|m| m.record_observation(ServerObservation::Reinstall(looked), RUNNING))
    };
    assert_eq!(looked("pending").decide().requeue, Requeue::After(secs(15)));
    let finished = looked("finished");
    assert_eq!(
        finished.decide().effect,
        None,
        "its end goes on record first"
    );
    assert_eq!(finished.decide().requeue_once_written, Requeue::Now);
    let status = shown(&finished);
    assert_eq!(
        status.last.as_ref().unwrap().end,
        Some(InstallEnd::Finished)
    );
    assert_eq!((status.revision, status.unfinished()), (2, None));
    assert_eq!(status.installed.as_ref().unwrap()["sshKeys"], "aaaa");
    let done = written(finished).memory(|m| m.install = Default::default());
    assert_eq!(ready(&done), (Some(true), Reason::Delivered));
    assert_eq!(done.decide().effect, None);
    let failed = written(looked("failed"));
    assert_eq!(ready(&failed), (Some(false), Reason::ReinstallFailed));
    assert_eq!(failed.decide().effect, None, "nothing is sent again");
    due(&wishes(failed.clone(), 3));
    // A user who sets the revision back accepts the server as it is.
    assert_eq!(ready(&wishes(failed, 1)), (Some(true), Reason::Delivered));
}

#[test]
fn lost_reinstall_answer_is_never_sent_again() {
    let sought = |missed: Option<u64>| {
        open(|_| {}).memory(|m| {
            if let Some(at) = missed {
                let missed = InstallObservation::NotListed("attempt-2".into(), secs(at));
                m.record_observation(ServerObservation::Reinstall(missed), secs(at));
            }
        })
    };
    // Another process may be about to send it.
    assert_eq!(sought(None).decide().effect, None);
    let polls =
        |case: &Case| matches!(case.decide().effect, Some(ServerEffect::PollInstall { .. }));
    assert!(polls(&sought(None).facts(|f| f.now.mono = secs(1020))));
    let late = |missed: u64| sought(Some(missed)).facts(|f| f.now.mono = secs(2000));
    assert!(polls(&late(1619)));
    let over = late(1620);
    assert_eq!(shown(&over).last.unwrap().end, Some(InstallEnd::Unknown));
    let over = written(over);
    assert_eq!(ready(&over), (Some(false), Reason::OutcomeUnknown));
    assert_eq!(over.decide().effect, None);
    due(&wishes(over, 3));
    let several = InstallObservation::Several("attempt-2".into(), "a, b".into());
    let several = open(|_| {})
        .memory(|m| m.record_observation(ServerObservation::Reinstall(several), RUNNING));
    assert_eq!(shown(&several).last.unwrap().end, Some(InstallEnd::Unknown));
    // While it is open nothing else is sent, for any revision.
    assert!(!matches!(
        wishes(open(|_| {}), 5).decide().effect,
        Some(ServerEffect::Reinstall(_))
    ));
}

#[test]
fn reinstall_and_missing_key_are_warnings() {
    let reported = |case: &Case| -> Vec<_> {
        let status = case.decide().desired.finish(Timestamp::MIN);
        let news = events::collect_events(&case.0, &status).into_iter();
        news.map(|n| (n.reason.as_str(), n.severity)).collect()
    };
    for (keys, expected) in [
        (keys_hash(&[]), &["NoSSHKey", "Reinstalling"][..]),
        ("aaaa".to_owned(), &["Reinstalling"]),
    ] {
        let case = open(|record| record.intent.sent = [(KEYS.to_owned(), keys)].into());
        let mut taken = shown(&case).last.unwrap();
        accepted(&mut taken);
        let taken = InstallObservation::Sent(Box::new(taken), RUNNING);
        let case =
            case.memory(|m| m.record_observation(ServerObservation::Reinstall(taken), RUNNING));
        let expected: Vec<_> = expected.iter().map(|it| (*it, Severity::Warning)).collect();
        assert_eq!(reported(&case), expected);
        assert_eq!(reported(&written(case)), []);
    }
}

#[test]
fn unsent_reinstall_is_retried_and_refused_is_not() {
    let unsent = open(|record| record.outcome = Some(CommandOutcome::NotSent));
    assert_eq!(due(&unsent).revision, 2);
    assert_eq!(shown(&unsent).performed(), 1);
    let refused = open(|record| {
        record.outcome = Some(CommandOutcome::Refused);
        record.message = Some("no such system".into());
    });
    let refused = written(refused);
    assert_eq!(shown(&refused).revision, 2);
    assert_eq!(ready(&refused), (Some(true), Reason::Delivered));
    assert_eq!(
        condition_of(&refused.decide(), Type::Synced).1,
        Reason::RequestRefused
    );
    assert_eq!(refused.decide().effect, None);
    due(&wishes(refused, 3));
}

#[test]
fn late_reinstall_stalls_until_a_higher_revision() {
    let case = late();
    assert_eq!(ready(&case), (Some(false), Reason::ReinstallFailed));
    assert!(case.decide().effect.is_some(), "it is still looked at");
    let raised = wishes(case, 3);
    assert_eq!(shown(&raised).last.unwrap().end, Some(InstallEnd::TimedOut));
    due(&written(raised));
}

#[test]
fn external_reinstall_is_left_until_next_revision() {
    let case = ended(InstallEnd::NotRepeated);
    assert_eq!(case.decide().effect, None);
    assert_eq!(ready(&case), (Some(true), Reason::Delivered));
    assert_eq!(
        condition_of(&case.decide(), Type::Synced).1,
        Reason::NotRepeated
    );
    due(&wishes(case, 3));
}

#[test]
fn remembered_reinstall_is_not_sent_twice() {
    // The watch is behind: the intent and its answer are not shown yet.
    let mut sent = record(&delivered(1), 2);
    accepted(&mut sent);
    let observation = InstallObservation::Sent(Box::new(sent), RUNNING);
    let behind = wishes(delivered(1), 2).memory(|m| {
        m.record_observation(ServerObservation::Reinstall(observation.clone()), RUNNING)
    });
    assert_eq!(behind.decide().effect, None);
    assert_eq!(shown(&behind).performed(), 2);
    // The whole status was lost meanwhile. The re-installation is followed anyway.
    let lost = behind.object(|o| o.status.as_mut().unwrap().records.install = None);
    assert!(shown(&lost).unfinished().is_some());
    // Another process has sent a later one since, so this memory is outdated.
    let later = ended(InstallEnd::Finished).object(|o| {
        let install = o.status.as_mut().unwrap().records.install.as_mut().unwrap();
        install.last.as_mut().unwrap().intent.started_at = START + 999;
        install.last.as_mut().unwrap().intent.attempt = "later".into();
    });
    let later =
        later.memory(|m| m.record_observation(ServerObservation::Reinstall(observation), RUNNING));
    assert_eq!(shown(&later).last.unwrap().intent.attempt, "later");
}

#[test]
fn release_waits_while_reinstall_is_in_flight() {
    let open = open(|_| {}).deleting();
    assert_eq!(open.decide().effect, None);
    assert_eq!(
        open.decide().desired.condition(Type::Ready).unwrap().reason,
        Reason::Reinstalling
    );
    let may_release = |case: &Case| precondition::may_record_release(&case.0, &uuid(1));
    assert!(!may_release(&open));
    // 30 s to send, and 180 s for the answer to the last request.
    let on_its_way = open.clone().facts(|f| f.now.mono = secs(990 + 209));
    assert!(!may_release(&on_its_way));
    let over = open.facts(|f| f.now.mono = secs(990 + 210));
    assert_eq!(short(&over.decide()).0, Some("Release"));
    assert!(may_release(&over));
}

#[test]
fn no_power_command_is_decided_meanwhile() {
    let off = |case: Case| case.spec(|s| s.power = Some(api::power::Power::PoweredOff));
    let command = |case: &Case| case.decide().desired.status.records.power.unwrap().command;
    assert!(command(&off(delivered(1))).is_some());
    assert!(command(&off(installing())).is_none());
}
