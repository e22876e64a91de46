//! A higher revision installs a host once, and its outcome is read from the host and its log.

use super::*;
use crate::resolved_account::suspend_view;
use crate::{
    explanation::ReadyState,
    host::decide::attempt::{HostInstallCheck, check_before_install},
    host_record::against,
    report::Severity,
};

fn due(case: &Case) -> Option<NewHostInstall> {
    match case.effect() {
        Some(HostEffect::Install(new)) => Some(*new),
        _ => None,
    }
}

#[test]
fn host_installs_only_on_a_higher_revision() {
    let new = due(&Case::known().installs(1)).unwrap();
    assert_eq!((new.revision, new.os_id, new.key.as_str()), (1, 12, KEY));
    assert_eq!(new.family, SystemFamily::Linux);
    let performed = Case::new().installs(3).log(HostLog::default()).written();
    let edited = performed.clone().spec(|s| {
        s.hostname = Some("other".into());
    });
    assert_eq!(due(&edited), None);
    let lower = performed.installs(2);
    assert_eq!(due(&lower), None);
    assert_eq!(
        lower.reason_and_state(),
        (Some(Reason::InvalidSpec), Some(ReadyState::Stalled))
    );
    assert!(lower.message().contains("spec.install.revision"));
}

#[test]
fn blocked_installation_stays_requested() {
    let requested = || Case::known().installs(1);
    let stalled = Some(ReadyState::Stalled);
    let cases: [(Case, Reason, Option<ReadyState>); 16] = [
        (
            requested().spec(|s| s.suspend = Some(true)),
            Reason::Suspended,
            Some(ReadyState::Suspended),
        ),
        (
            requested().view(|v| {
                suspend_view(
                    v,
                    Some("the account is stopped; ask for the end of it".into()),
                )
            }),
            Reason::Suspended,
            Some(ReadyState::Suspended),
        ),
        (
            requested().spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            Reason::ObserveOnly,
            stalled,
        ),
        (
            requested().view(|v| v.account_id = None),
            Reason::WaitingForListing,
            Some(ReadyState::Reconciling),
        ),
        (
            requested().view(|v| {
                v.state = AccountState::Blocked(Reason::KeyRejected, "no; put a key".into())
            }),
            Reason::KeyRejected,
            stalled,
        ),
        (
            requested().facts(|f| f.key = Some(KeyLookup::Missing)),
            Reason::ReferenceNotFound,
            Some(ReadyState::Missing),
        ),
        (
            requested().facts(|f| f.key = Some(KeyLookup::Ending)),
            Reason::ReferenceNotFound,
            Some(ReadyState::Missing),
        ),
        (
            requested().facts(|f| f.key = Some(KeyLookup::NotReady("no".into()))),
            Reason::ReferenceNotReady,
            Some(ReadyState::Reconciling),
        ),
        (
            requested().facts(|f| {
                let mut key = stored();
                key.account.name = "other".into();
                f.key = Some(KeyLookup::Ready(key));
            }),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().spec(|s| s.os.as_mut().unwrap().slug = Some("none".into())),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().spec(|s| s.os = None),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().spec(|s| s.ssh_key_ref = None),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().spec(|s| {
                let os = s.os.as_mut().unwrap();
                (os.slug, os.id) = (None, Some(14));
            }),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().spec(|s| {
                let os = s.os.as_mut().unwrap();
                os.kernel_params = vec![Default::default()];
            }),
            Reason::InvalidSpec,
            stalled,
        ),
        (
            requested().shown(|h| h.install_status = InstallStatus::Installing),
            Reason::Reinstalling,
            Some(ReadyState::Reconciling),
        ),
        (
            requested().own(|own| {
                own.blocked_install = Some(BlockedInstall {
                    generation: Some(1),
                    at: NOW - secs(1),
                    explanation: Explanation::waits(
                        Reason::ChecksFailed,
                        "no; looked at again within 1m",
                    ),
                });
            }),
            Reason::ChecksFailed,
            Some(ReadyState::Reconciling),
        ),
    ];
    for (case, reason, state) in cases {
        assert_eq!(
            case.reason_and_state(),
            (Some(reason), state),
            "{}",
            case.message()
        );
        assert_eq!(case.effect(), None, "{reason}");
        let performed = case.decide().status.records.install.unwrap().performed();
        assert_eq!(performed, 0, "{reason}: the consent stays");
    }
    // While the policies are unknown, nothing is sent.
    let unknown = requested().status(|s| s.policies = None);
    let unknown = unknown.view(|v| v.defaults = None);
    assert_eq!(
        (unknown.effect(), unknown.reason()),
        (None, Some(Reason::Pending))
    );
}

#[test]
fn systems_are_listed_only_when_needed() {
    let without = |case: Case| case.view(|v| v.catalogue = None).decide();
    let due = without(Case::known().installs(1));
    let since = NOW - secs(300);
    assert_eq!(due.wants_also, Some((ListKind::Catalogue, since)));
    assert_eq!(without(Case::known()).wants_also, None);
    // In an older list the same number may name another system.
    let aged = Case::known()
        .installs(1)
        .view(|v| v.catalogue.as_mut().unwrap().0 = since - secs(1));
    assert_eq!(aged.effect(), None);
    assert_eq!(aged.decide().wants_also, Some((ListKind::Catalogue, since)));
}

#[test]
fn hosts_are_polled_while_awaiting_systems() {
    let requested = || Case::known().installs(1);
    let unoffered = requested().spec(|s| s.os.as_mut().unwrap().slug = Some("none".into()));
    let unlisted = requested().view(|v| v.catalogue = None);
    for case in [unlisted, unoffered] {
        // The next poll of the hosts is overdue.
        let case = case.list(NOW - secs(900), &[host()]);
        let decision = case.decide();
        assert_eq!(decision.effect, None);
        let (also, _) = decision.wants_also.unwrap();
        assert_eq!(also, ListKind::Catalogue);
        assert_eq!(decision.wants, Some((ListKind::Hosts, NOW - secs(600))));
        assert!(
            decision.requeue_after >= secs(1),
            "{:?}",
            decision.requeue_after
        );
    }
}

#[test]
fn accepted_installation_is_followed() {
    let taken = sent(1, Some(CommandOutcome::Accepted));
    assert_eq!(taken.reason(), Some(Reason::Reinstalling));
    let runs = taken
        .shown(|h| h.install_status = InstallStatus::Installing)
        .written();
    assert!(runs.install_status().last.unwrap().is_seen);
    assert!(matches!(
        runs.effect(),
        None | Some(HostEffect::ReadLog { .. })
    ));
    // The end counts once the log was read after it. The whole log is known from then on.
    let over = runs.shown(|h| h.install_status = InstallStatus::Finished);
    assert!(matches!(over.effect(), Some(HostEffect::ReadLog { .. })));
    let log = HostLog {
        entries: 4,
        last_id: Some(4),
        newest: Some(WALL),
    };
    let read = over.own(|own| {
        own.record_observation(HostObservation::Log(InstallLogSnapshot {
            at: NOW,
            log,
            error: None,
        }));
    });
    let ended = read.written();
    let known = ended.install_status();
    assert_eq!(known.last.unwrap().end, Some(InstallEnd::Finished));
    assert_eq!((known.log, known.revision), (Some(log), 1));
    assert_eq!(ended.reason(), Some(Reason::Available));
    assert!(due(&ended.installs(2)).is_some());
}

#[test]
fn previous_end_does_not_count_for_this_one() {
    let mut previous = sent(1, Some(CommandOutcome::Accepted));
    previous = previous.status(|s| {
        let last = s.records.install.as_mut().unwrap().last.as_mut().unwrap();
        last.intent.before = Some("finished".into());
    });
    previous = previous.own(|own| {
        own.install.as_mut().unwrap().intent.before = Some("finished".into());
    });
    let shows = previous
        .shown(|h| h.install_status = InstallStatus::Finished)
        .refreshed();
    assert!(
        shows
            .decide()
            .status
            .records
            .install
            .unwrap()
            .unfinished()
            .is_some()
    );
    assert_eq!(shows.reason(), Some(Reason::Reinstalling));
}

#[test]
fn missing_install_status_shows_nothing() {
    let finished = |host: &mut Host| host.install_status = InstallStatus::Finished;
    let previous = sent(1, None).status(|s| {
        let last = s.records.install.as_mut().unwrap().last.as_mut().unwrap();
        last.intent.before = Some("finished".into());
    });
    let previous = previous.own(|own| {
        own.install.as_mut().unwrap().intent.before = Some("finished".into());
    });
    let bare = previous.shown(|h| h.install_status = InstallStatus::None);
    let bare = bare.written();
    let last = bare.install_status().last.unwrap();
    assert_eq!((last.is_seen, last.outcome), (false, None));
    // The status is back, and belongs to the previous installation.
    let again = bare.shown(finished).own(|own| {
        own.record_observation(HostObservation::Log(InstallLogSnapshot {
            at: NOW,
            log: HostLog::default(),
            error: None,
        }));
    });
    let again = again.written();
    assert_eq!(again.install_status().last.unwrap().end, None);
}

#[test]
fn refusal_text_is_hidden_if_secrets_sent() {
    let script = |value: Option<&str>, from: bool| {
        Some(api::installation::TextSource {
            value: value.map(str::to_owned),
            value_from: from.then(Default::default),
        })
    };
    let has = |change: &dyn Fn(&mut DedicatedHostSpec)| {
        let mut case = Case::known().installs(1);
        case = case.spec(|s| change(s));
        let check = (&host(), HostLog::default());
        let Some(HostEffect::Install(new)) = case.effect() else {
            panic!("nothing is due");
        };
        let started = (case.0.subject.now, secs(30));
        attempt::intent(&case.0, &new, "a1".into(), started, check).secret_texts
    };
    assert!(!has(&|_| {}));
    assert!(has(
        &|s| s.post_install_script = script(Some("#!/bin/sh"), false)
    ));
    assert!(has(&|s| s.post_install_script = script(None, true)));
    let mut spec = Case::known().installs(1).0.subject.object.spec.clone();
    spec.os.as_mut().unwrap().kernel_params = vec![api::host_install::HostKernelParam {
        key: "a".into(),
        value: Some("plain".into()),
        value_from: None,
    }];
    assert!(!spec.has_secret_texts());
    spec.os.as_mut().unwrap().kernel_params[0].value_from = Some(Default::default());
    assert!(spec.has_secret_texts());
    // A record without the field counts as one with secrets.
    let mut old = serde_json::to_value(record(&Case::known(), 1, "a1")).unwrap();
    old.as_object_mut().unwrap().remove("secretTexts");
    let old: HostInstallRecord = serde_json::from_value(old).unwrap();
    assert!(old.intent.secret_texts);

    let refused = |status| {
        hosting_types::Error::Refused(hosting_types::Refusal {
            status,
            code: None,
            message: "line 2: export DB_PW=hunter2".into(),
            fields: vec![("postInstallScript".into(), "hunter2".into())],
            retry_after: None,
            idempotent: false,
        })
    };
    let answered = |is_secret: bool| {
        let mut record = record(&Case::known(), 1, "a1");
        record.intent.secret_texts = is_secret;
        attempt::answered_install(record, &Err(refused(422)))
    };
    assert!(answered(false).message.unwrap().contains("hunter2"));
    let secret = answered(true);
    assert_eq!(secret.outcome, Some(CommandOutcome::Refused));
    let message = secret.message.unwrap();
    assert!(
        message.contains("422") && !message.contains("hunter2"),
        "{message}"
    );
}

#[test]
fn installation_events_are_reported_once() {
    let events = |case: &Case| -> Vec<_> {
        let news = case.decide().news.into_iter();
        news.map(|news| (news.reason.as_str(), news.severity))
            .collect()
    };
    assert_eq!(events(&sent(1, None)), [], "it may not have been taken");
    let taken = sent(1, Some(CommandOutcome::Accepted));
    assert_eq!(events(&taken), [("Reinstalling", Severity::Warning)]);
    let text = &taken.decide().news[0].note;
    assert!(
        text.contains("host 7") && text.contains("erases the disks"),
        "{text}"
    );
    let taken = taken.written();
    assert_eq!(events(&taken), []);
    let began = NOW + secs(40);
    let mut shown = host();
    shown.install_status = InstallStatus::Finished;
    let done = taken.list(began, &[shown]).at(began + secs(2)).own(|own| {
        own.record_observation(HostObservation::Log(InstallLogSnapshot {
            at: began + secs(1),
            log: HostLog {
                entries: 3,
                ..HostLog::default()
            },
            error: None,
        }));
    });
    assert_eq!(events(&done), [("Reinstalled", Severity::Normal)]);
    assert_eq!(events(&done.written()), []);
}

#[test]
fn failed_install_reports_last_log_error() {
    let failed = |error: Option<&str>| {
        let case = sent(1, Some(CommandOutcome::Accepted));
        let began = NOW + secs(40);
        let mut shown = host();
        shown.install_status = InstallStatus::Failed;
        let case = case.list(began, &[shown]).at(began + secs(2));
        let case = case.own(|own| {
            own.record_observation(HostObservation::Log(InstallLogSnapshot {
                at: began + secs(1),
                log: HostLog {
                    entries: 3,
                    ..HostLog::default()
                },
                error: error.map(str::to_owned),
            }));
        });
        case.status(|s| {
            let last = s.records.install.as_mut().unwrap().last.as_mut().unwrap();
            last.is_seen = true;
        })
        .written()
    };
    let reported = failed(Some("install: disk failure"));
    assert_eq!(reported.reason(), Some(Reason::ReinstallFailed));
    assert!(
        reported.message().contains("install: disk failure"),
        "{}",
        reported.message()
    );
    assert_eq!(failed(None).reason(), Some(Reason::ReinstallFailed));
}

#[test]
fn lost_install_answer_is_never_resent() {
    let lost = sent(1, None);
    assert_eq!(
        lost.reason_and_state(),
        (Some(Reason::Reinstalling), Some(ReadyState::Reconciling))
    );
    // The host or its log shows the installation.
    let shown = lost
        .clone()
        .shown(|h| h.install_status = InstallStatus::Created);
    let last = |case: Case| case.written().install_status().last.unwrap();
    assert_eq!(last(shown).outcome, Some(CommandOutcome::Accepted));
    let logged = lost.clone().log(HostLog {
        entries: 1,
        ..HostLog::default()
    });
    assert_eq!(last(logged).outcome, Some(CommandOutcome::Accepted));
    // Nothing shows it, so a user decides what comes next.
    let began = NOW + secs(700);
    let given_up = lost.list(began, &[host()]).at(began + secs(1));
    let given_up = given_up.view(|v| v.catalogue.as_mut().unwrap().0 = began);
    let given_up = given_up.written();
    assert_eq!(
        given_up.install_status().last.unwrap().end,
        Some(InstallEnd::Unknown)
    );
    assert_eq!(
        given_up.reason_and_state(),
        (Some(Reason::OutcomeUnknown), Some(ReadyState::Stalled))
    );
    assert_eq!(given_up.effect(), None);
    assert!(due(&given_up.clone().installs(2)).is_some());
    let mut without = given_up;
    without = without.spec(|s| s.install = None);
    assert_eq!(
        without.reason(),
        Some(Reason::Available),
        "the host is left as it is"
    );
}

#[test]
fn log_of_another_process_is_unaccounted() {
    let log = HostLog {
        entries: 5,
        last_id: Some(5),
        newest: Some(WALL),
    };
    let over = found(1).shown(|h| h.install_status = InstallStatus::Finished);
    let began = NOW + secs(100);
    let over = over.list(
        began,
        &[{
            let mut host = host();
            host.install_status = InstallStatus::Finished;
            host
        }],
    );
    let over = over.at(began + secs(5)).own(|own| {
        own.log = Some(InstallLogSnapshot {
            at: began + secs(1),
            log,
            error: None,
        });
    });
    let ended = over.written();
    let known = ended.install_status();
    assert_eq!(known.last.as_ref().unwrap().end, Some(InstallEnd::Finished));
    assert_eq!(
        known.log,
        Some(HostLog::default()),
        "as it was before that one"
    );
    let before = attempt::check_before_install(&known, &log);
    assert!(matches!(before, HostInstallCheck::Repeated(_)));
    // Once that was reported, the next revision counts.
    let mut open = record(&ended, 2, "a2");
    open.intent.log = log;
    let reported = attempt::repeated(open.intent, "by somebody else".into(), WALL);
    let ended = ended.installs(2).own(|own| {
        own.record_observation(HostObservation::Installed(
            Box::new(reported),
            began + secs(6),
        ));
    });
    let mut finished = host();
    finished.install_status = InstallStatus::Finished;
    let began = began + secs(10);
    let ended = ended.list(began, &[finished]).at(began).written();
    assert_eq!(
        ended.reason_and_state(),
        (Some(Reason::NotRepeated), Some(ReadyState::Stalled))
    );
    let known = ended.install_status();
    assert_eq!(known.log, Some(log));
    assert!(matches!(
        attempt::check_before_install(&known, &log),
        HostInstallCheck::Free
    ));
    assert!(due(&ended.installs(3)).is_some());
}

#[test]
fn restored_status_repeats_no_installation() {
    // The status is older than the log.
    let restored = Case::known().installs(6);
    let known = restored.0.install().unwrap();
    let log = HostLog {
        entries: 9,
        ..HostLog::default()
    };
    assert!(matches!(
        attempt::check_before_install(&known, &log),
        HostInstallCheck::Repeated(_)
    ));
    // Without a status the first observed revision counts as performed.
    let bare = restored.object(|o| o.status = None);
    let bare = bare.log(log).written();
    assert_eq!((bare.effect(), bare.install_status().revision), (None, 6));
}

#[test]
fn only_an_unsent_install_is_retried() {
    let refused = sent(1, Some(CommandOutcome::Refused)).written();
    assert_eq!(
        refused.reason_and_state(),
        (Some(Reason::RequestRefused), Some(ReadyState::Stalled))
    );
    assert_eq!(refused.effect(), None);
    let not_sent = sent(1, Some(CommandOutcome::NotSent)).written();
    assert!(due(&not_sent).is_some());
}

#[test]
fn slow_installation_is_reported_and_polled() {
    let runs = sent(1, Some(CommandOutcome::Accepted));
    let runs = runs
        .shown(|h| h.install_status = InstallStatus::Installing)
        .written();
    let late = runs.facts(|f| f.subject.now.wall += 7200);
    assert_eq!(
        late.reason_and_state(),
        (Some(Reason::ReinstallFailed), Some(ReadyState::Stalled))
    );
    assert_eq!(
        late.decide().wants,
        Some((ListKind::Hosts, NOW - secs(1) + secs(30)))
    );
    assert!(
        late.decide()
            .status
            .records
            .install
            .unwrap()
            .unfinished()
            .is_some()
    );
    // A higher revision gives it up, and waits until the host is free.
    let next = late.installs(2).written();
    assert_eq!(
        next.install_status().last.unwrap().end,
        Some(InstallEnd::TimedOut)
    );
    assert_eq!(
        (due(&next), next.reason()),
        (None, Some(Reason::Reinstalling))
    );
}

#[test]
fn unreadable_log_blocks_only_installation() {
    let unread = |is_lasting| {
        Case::new().refreshed().own(|own| {
            own.record_observation(HostObservation::NoLog(
                NOW - secs(1),
                "no".into(),
                is_lasting,
            ));
        })
    };
    let idle = unread(false).written();
    assert_eq!(
        (idle.effect(), idle.reason()),
        (None, Some(Reason::Available))
    );
    let requested = unread(true).written().installs(1);
    assert_eq!(
        requested.reason_and_state(),
        (Some(Reason::ChecksFailed), Some(ReadyState::Stalled))
    );
    assert_eq!(requested.effect(), None);
    // A long log is read again at once, with more pages.
    let long = Case::new()
        .refreshed()
        .own(|own| own.record_observation(HostObservation::LongLog));
    let (status, _) = long
        .decide()
        .status(&long.0.subject, jiff::Timestamp::UNIX_EPOCH);
    let long = long.object(|o| o.status = Some(status));
    let more = HostEffect::ReadLog { pages: 20 };
    assert_eq!(long.effect(), Some(more));
    let switched = idle.spec(|s| s.power = Some(Power::PoweredOff)).written();
    assert!(matches!(switched.effect(), Some(HostEffect::Power { .. })));
}

#[test]
fn what_changed_in_between_sends_nothing() {
    let case = Case::known().installs(1);
    let new = due(&case).unwrap();
    assert!(install::may_start(&case.0, &new).is_some());
    let intent = record(&case, 1, "a1").intent;
    let recorded = case.status(|s| {
        s.records.install.as_mut().unwrap().last =
            Some(HostInstallRecord::unfinished(intent.clone()));
    });
    assert!(install::may_send(&recorded.0, &new, &intent));
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    let changes: [(&str, Case); 9] = [
        (
            "deleted",
            recorded
                .clone()
                .object(|o| o.metadata.deletion_timestamp = Some(time)),
        ),
        (
            "edited",
            recorded.clone().object(|o| o.metadata.generation = Some(2)),
        ),
        (
            "suspended",
            recorded.clone().view(|v| {
                suspend_view(
                    v,
                    Some("the account is stopped; ask for the end of it".into()),
                )
            }),
        ),
        (
            "only looked at",
            recorded.clone().view(|v| {
                v.defaults.as_mut().unwrap().management_policy =
                    Some(ManagementPolicy::ObserveOnly);
            }),
        ),
        (
            "not allowed",
            recorded.clone().terms(Terms::Refused("no".into())),
        ),
        (
            "not granted",
            recorded.clone().terms(Terms::Entry(Arc::default())),
        ),
        (
            "another lineage",
            recorded.clone().view(|v| v.account_id = Some("l2".into())),
        ),
        (
            "another key",
            recorded.clone().facts(|f| f.key = Some(KeyLookup::Ending)),
        ),
        (
            "another attempt",
            recorded.clone().status(|s| {
                let last = s.records.install.as_mut().unwrap().last.as_mut().unwrap();
                last.intent.attempt = "a2".into();
            }),
        ),
    ];
    for (what, case) in changes {
        assert!(!install::may_send(&case.0, &new, &intent), "{what}");
    }
}

#[test]
fn lease_loss_or_newer_status_clears_memory() {
    let own = sent(1, Some(CommandOutcome::Accepted));
    assert!(own.0.subject.memory.own.install.is_some());
    let lost = own
        .clone()
        .facts(|f| f.subject.leader_since = secs(9_500))
        .refreshed();
    assert_eq!(lost.0.subject.memory.own.install, None);
    // Another process recorded a later revision: status takes precedence, independent of the clocks.
    let other = own.clone().status(|s| {
        let install = s.records.install.as_mut().unwrap();
        let last = install.last.as_mut().unwrap();
        last.intent.attempt = "b1".into();
        last.intent.revision = 2;
        last.intent.started_at = 0;
    });
    let other = other.refreshed();
    assert_eq!(other.0.subject.memory.own.install, None);
    assert_eq!(
        other.0.install().unwrap().last.unwrap().intent.attempt,
        "b1"
    );
    // A late status lacks what this process remembers.
    let late = own
        .status(|s| s.records.install.as_mut().unwrap().last = None)
        .refreshed();
    assert_eq!(late.0.install().unwrap().performed(), 1);
    assert_eq!(due(&late), None);
}

#[test]
fn shorter_log_allows_no_installation() {
    let of = |entries| HostLog {
        entries,
        last_id: Some(entries),
        newest: Some(entries),
    };
    let mut known = HostInstallHistory::new("uid-1", 3);
    known.log = Some(of(6));
    assert!(matches!(
        check_before_install(&known, &of(6)),
        HostInstallCheck::Free
    ));
    assert!(matches!(
        check_before_install(&known, &of(0)),
        HostInstallCheck::Repeated(_)
    ));
    assert!(matches!(
        check_before_install(&known, &of(9)),
        HostInstallCheck::Repeated(_)
    ));
}

#[test]
fn lasting_unknown_status_needs_the_user() {
    let says =
        |case: Case, word: &str| case.shown(|h| h.install_status = InstallStatus::parse(word));
    let later = |case: Case, hours: i64| case.facts(|f| f.subject.now.wall += hours * 3600);
    let stalled = (Some(Reason::ReinstallFailed), Some(ReadyState::Stalled));
    // Known statuses match in any letter case.
    assert_eq!(
        due(&says(Case::known().installs(1), "Finished"))
            .unwrap()
            .revision,
        1
    );

    let unknown = says(Case::known().installs(1), "reserved").written();
    assert_eq!(unknown.reason(), Some(Reason::Reinstalling));
    let early = later(unknown.clone(), 1).written();
    assert_eq!(
        (early.reason(), due(&early)),
        (Some(Reason::Reinstalling), None)
    );
    // Another unknown status restarts the timeout.
    let other = later(says(early.clone(), "held").written(), 1);
    assert_eq!(other.written().reason(), Some(Reason::Reinstalling));
    let stuck = later(early, 1).written();
    assert_eq!(stuck.reason_and_state(), stalled, "{}", stuck.message());
    assert!(
        stuck.message().contains("\"reserved\""),
        "{}",
        stuck.message()
    );
    assert_eq!(due(&stuck), None, "what was asked for before is not enough");
    let known = stuck.install_status();
    let host = stuck.0.hosts().unwrap().1[&7].clone();
    assert_eq!(
        against(&host, 7, None, Some(&known)),
        None,
        "it is switched again"
    );
    assert!(against(&host, 7, None, None).is_some());
    assert_eq!(due(&stuck.installs(2)).unwrap().revision, 2);

    // The same for an installation that this object sent.
    let own = says(
        sent(1, Some(CommandOutcome::Accepted)).shown(|_| {}),
        "reserved",
    );
    let own = own.list(
        NOW + secs(40),
        &[Host {
            install_status: InstallStatus::parse("reserved"),
            ..super::host()
        }],
    );
    let own = own.at(NOW + secs(42)).written();
    assert_eq!(own.reason(), Some(Reason::Reinstalling));
    let own = later(own, 3).written();
    assert_eq!(own.reason_and_state(), stalled, "{}", own.message());
    let known = own.install_status();
    assert_eq!(known.last.as_ref().unwrap().end, Some(InstallEnd::TimedOut));
    assert_eq!(due(&own.installs(2)).unwrap().revision, 2);
}
