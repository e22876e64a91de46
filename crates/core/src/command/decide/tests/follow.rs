//! Tests: a command that was sent, or may have been.

use super::*;

#[test]
fn possibly_sent_command_is_never_resent() {
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let by_status = reboot().sent(std::slice::from_ref(&open));
    let stripped = by_status.clone().object(|o| o.metadata.annotations = None);
    let waits = Some(Reason::OutcomeUnknown);
    for case in [&by_status, &stripped] {
        // Until its send window is over, another process may send it; a command that is listed before is not the one.
        let early = case.clone().searched(29, None);
        assert_eq!(early.short(), (None, waits, None));
        let own = early.own(|own| own.sent = Some(open.clone()));
        assert_eq!(own.short(), (Some("search"), waits, None));
        let case = case.clone().searched(30, None);
        assert_eq!(case.short(), (Some("search"), waits, None));
        let missed = case.clone().searched(90, Some(5));
        assert_eq!(missed.short(), (None, waits, None));
        // The account's absence grace period is ten minutes: a list from within it does not count.
        let behind = by_status.clone().searched(730, Some(101));
        assert_eq!(behind.short(), (Some("search"), waits, None));
        let settled = by_status.clone().searched(730, Some(100));
        assert_eq!(settled.short(), (None, waits, Some(false)));
    }
    let several = by_status.clone().searched(1, None).own(|own| {
        own.record_observation(CommandObservation::Several("a1".into(), "x, y".into()));
    });
    assert_eq!(several.short(), (None, waits, Some(false)));
    assert_eq!(by_status.clone().late().short(), (None, waits, Some(false)));
    let elsewhere = |case: Case| {
        case.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                view.credentials_hash = Some("other".into());
                view.account_id = Some("other".into());
            }
        })
    };
    assert_eq!(
        elsewhere(by_status.clone()).short(),
        (None, waits, Some(false))
    );
    let known = reboot().sent(&[accepted(PowerAction::Reboot, "pending", 9)]);
    assert_eq!(elsewhere(known).short(), (None, waits, Some(false)));
    // Deleted meanwhile: the search continues, so that the next command does not run at the same time.
    let deleted = by_status.searched(30, None).deleted();
    assert_eq!(deleted.short(), (Some("search"), waits, None));
}

#[test]
fn unrecorded_outcome_in_memory_counts() {
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let case = reboot().sent(std::slice::from_ref(&open));
    let done = CommandRecord {
        intent: open.intent.clone(),
        ..accepted(PowerAction::Reboot, "finished", 9)
    };
    let known = |record| {
        case.clone()
            .own(|own| own.record_observation(CommandObservation::Sent(record, NOW)))
    };
    assert_eq!(known(done).short().2, Some(true));
    let unsent = CommandRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..open.clone()
    };
    assert_eq!(known(unsent).short().0, Some("send"));
    let refused = CommandRecord {
        outcome: Some(CommandOutcome::Refused),
        message: Some("not today".into()),
        ..open
    };
    let refused = known(refused);
    assert_eq!(
        refused.short(),
        (None, Some(Reason::RequestRefused), Some(false))
    );
    let message = refused.decide().explanation.unwrap().message;
    assert!(message.contains("not today"), "{message}");
}

#[test]
fn a_command_is_followed_to_its_end() {
    let sent = |state: &str| reboot().sent(&[accepted(PowerAction::Reboot, state, 9)]);
    assert_eq!(
        sent("finished").short(),
        (None, Some(Reason::Completed), Some(true))
    );
    assert_eq!(
        sent("failed").short(),
        (None, Some(Reason::CommandFailed), Some(false))
    );
    for word in ["pending", "queued"] {
        let case = sent(word);
        assert_eq!(case.short().0, Some("look"), "{word}");
        let was_read = case.clone().own(|own| own.last_read = Some(NOW - secs(10)));
        let decision = was_read.decide();
        assert_eq!((decision.effect, decision.requeue_after), (None, secs(20)));
        let never = case.late();
        assert_eq!(
            never.short(),
            (None, Some(Reason::CommandFailed), Some(false))
        );
    }
}

#[test]
fn unfinished_shutdown_becomes_power_off() {
    let sent = |case: Case, state: &str, ago| {
        let case = case.sent(&[accepted(PowerAction::Shutdown, state, ago)]);
        case.own(|own| own.last_read = Some(NOW - secs(1)))
    };
    let plain = Case::new(PowerAction::Shutdown);
    assert_eq!(sent(plain, "pending", 900).short().0, None);
    let early = sent(shutdown(300), "pending", 290).decide();
    assert_eq!((early.effect, early.requeue_after), (None, secs(10)));
    let due = sent(shutdown(300), "pending", 300);
    assert_eq!(due.short().0, Some("send power-off"));
    assert_eq!(
        sent(shutdown(300), "failed", 1).short().0,
        Some("send power-off")
    );
    assert_eq!(sent(shutdown(300), "finished", 900).short().2, Some(true));
    // The object has another server by now, which was not asked to shut down.
    let another = |state| {
        sent(shutdown(300), state, 300).server(|s| {
            s.status.as_mut().unwrap().uuid = Some("00000000-0000-4000-8000-000000000002".into());
        })
    };
    assert_eq!(another("pending").short().0, None);
    assert_eq!(another("failed").short().2, Some(false));
    // A clock that jumps forward switches nothing off.
    let turned = sent(shutdown(300), "pending", 10).facts(|f| f.subject.now.wall += 1000);
    assert_eq!(turned.short().0, None);
    assert_eq!(due.clone().deleted().short().0, None);
    // What blocks the power-off does not hide how the shutdown continues.
    let suspended = due.server(|s| s.spec.suspend = Some(true));
    assert_eq!(suspended.short(), (None, Some(Reason::Progressing), None));
    assert_eq!(suspended.decide().requeue_after, secs(29), "the next look");
    // Neither does what rules it out.
    let ending = sent(shutdown(300), "pending", 300)
        .server(|s| s.metadata.deletion_timestamp = moment(WALL));
    assert_eq!(ending.short(), (None, Some(Reason::Progressing), None));
    // A lost answer does not stop the power-off: it is another command.
    let lost = shutdown(300).sent(&[attempt(PowerAction::Shutdown, "a1", 300)]);
    assert_eq!(lost.searched(9, Some(1)).short().0, Some("send power-off"));
    let both = [
        accepted(PowerAction::Shutdown, "pending", 400),
        CommandRecord {
            intent: attempt(PowerAction::PowerOff, "a2", 90).intent,
            ..accepted(PowerAction::PowerOff, "finished", 90)
        },
    ];
    let off = shutdown(300).sent(&both);
    assert_eq!(off.short(), (None, Some(Reason::Completed), Some(true)));
    // The power-off is not sent again, whatever the last record is.
    let turned: Vec<CommandRecord> = both.iter().rev().cloned().collect();
    let case = sent(shutdown(300), "pending", 900).sent(&turned);
    assert_eq!(case.short().0, None);
}

#[test]
fn newer_status_record_overrides_memory() {
    let seen = |state: &str| CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        state: Some(state.into()),
        ..attempt(PowerAction::Reboot, "a1", 9)
    };
    let (ours, theirs) = (seen("pending"), seen("running"));
    let with_read = |case: Case| {
        case.own(|own| own.record_observation(CommandObservation::CommandRead(ours.clone(), NOW)))
    };
    // What this process has read goes into status once.
    let news = with_read(reboot().sent(std::slice::from_ref(&theirs)));
    assert_eq!(news.0.records(), std::slice::from_ref(&ours));
    let written = with_read(reboot().sent(std::slice::from_ref(&ours)));
    let after = written
        .own(|own| own.compare(std::slice::from_ref(&ours), None))
        .sent(std::slice::from_ref(&theirs));
    assert_eq!(after.0.records(), std::slice::from_ref(&theirs));
}
