//! Decisions for an object that has a server.

use super::*;

pub(super) fn with_status(status: ServerStatus) -> Case {
    Case::new()
        .ordered(Some(OrderOutcome::Created), Some(1))
        .with(1, status)
}

#[test]
fn provisioning_timeout_needs_a_read_after_deadline() {
    let after = |seconds: u64, seen: u64| {
        let case = with_status(ServerStatus::Created).shown(|s| s.created_at = Some(START + 1000));
        case.seen_at(RUNNING + secs(seen)).facts(|f| {
            f.now.mono = RUNNING + secs(seconds);
            f.now.wall = START + 1000 + i64::try_from(seconds).unwrap();
        })
    };
    let read = || Some(ServerEffect::Read { uuid: uuid(1) });
    for (seconds, seen, effect, reason) in [
        (2699, 2400, None, Reason::Provisioning),
        (2700, 2400, read(), Reason::Provisioning),
        (2760, 2699, read(), Reason::Provisioning),
        (2760, 2700, None, Reason::ProvisioningTimeout),
    ] {
        let decision = after(seconds, seen).decide();
        assert_eq!(decision.effect, effect, "{seconds} {seen}");
        let ready = decision.desired.condition(Type::Ready).unwrap();
        assert_eq!(ready.reason, reason, "{seconds} {seen}");
    }
}

#[test]
fn each_server_state_has_its_reason() {
    come_to(
        (None, Some(Reason::Provisioning), false),
        vec![
            ("created", with_status(ServerStatus::Created)),
            (
                "an unknown word",
                with_status(ServerStatus::parse("polishing")),
            ),
            (
                "delivered without an address",
                with_status(ServerStatus::Delivered).shown(|s| s.addresses.clear()),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::Delivered), false),
        vec![
            ("delivered", with_status(ServerStatus::Delivered)),
            (
                "a dead one beside it is no twin",
                with_status(ServerStatus::Delivered).with(2, ServerStatus::Failed),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::ProvisioningFailed), true),
        vec![("failed", with_status(ServerStatus::Failed))],
    );
    come_to(
        (None, Some(Reason::ReleasedExternally), true),
        vec![
            ("released outside", with_status(ServerStatus::Released)),
            (
                "being released outside",
                with_status(ServerStatus::Releasing),
            ),
        ],
    );
    come_to(
        (None, Some(Reason::DuplicateServers), true),
        vec![(
            "a twin",
            with_status(ServerStatus::Delivered).with(2, ServerStatus::Created),
        )],
    );
    come_to(
        (None, None, false),
        vec![(
            "blocked: what was shown stays",
            with_status(ServerStatus::Failed).blocked(Reason::KeyRejected),
        )],
    );
    come_to(
        (Some("AddTag"), Some(Reason::Delivered), false),
        vec![(
            "the tag of the cluster is gone",
            with_status(ServerStatus::Delivered).shown(|s| s.tags.retain(|tag| *tag == own_tag())),
        )],
    );
}

#[test]
fn status_lists_duplicate_live_servers() {
    let many = (3..33).fold(with_status(ServerStatus::Delivered), |case, number| {
        case.with(number, ServerStatus::Delivered)
    });
    let shown = many.decide().desired.status;
    assert_eq!(shown.uuid, Some(uuid(1)));
    assert_eq!(
        (shown.duplicate_uuids.len(), shown.duplicates_omitted),
        (20, Some(10))
    );
}

#[test]
fn recorded_live_server_is_kept_over_older_duplicate() {
    let case = with_status(ServerStatus::Delivered).with(2, ServerStatus::Delivered);
    let case = case.facts(|f| {
        let mut own = f.own.iter_mut();
        let older = own.find(|s| s.server.id.as_str() == uuid(2)).unwrap();
        Arc::make_mut(&mut older.server).created_at = Some(1);
    });
    let decision = case.decide();
    let shown = &decision.desired.status;
    assert_eq!(shown.uuid, Some(uuid(1)));
    assert_eq!(shown.duplicate_uuids, [uuid(2)]);
    let text = message(&decision);
    let kept = format!("it uses {}.", uuid(1));
    assert!(text.contains(&kept) && text.contains(&uuid(2)), "{text}");
}

#[test]
fn edits_after_order_send_nothing_and_are_reported() {
    let decision = with_status(ServerStatus::Delivered)
        .spec(|s| {
            s.hostname = Some("other".into());
            s.os.as_mut().unwrap().slug = "other-os".into();
        })
        .decide();
    assert_eq!(short(&decision), (None, Some(Reason::Delivered), false));
    let synced = decision.desired.condition(Type::Synced).unwrap();
    assert_eq!(
        (synced.status, synced.reason),
        (Some(false), Reason::PendingChanges)
    );
    for words in [
        "spec.hostname is other, the server has web",
        "spec.os.slug is other-os, the server has some-os",
    ] {
        assert!(
            synced.message.contains(words),
            "{words}: {}",
            synced.message
        );
    }
    // `kubectl get` shows the same message. Without such an edit it shows none, and a wait keeps its own message.
    let messages = |case: Case| {
        let desired = case.decide().desired;
        [Type::Ready, Type::Synced].map(|kind| desired.condition(kind).unwrap().message.clone())
    };
    let edited =
        |status| with_status(status).spec(|s| s.os.as_mut().unwrap().slug = "other-os".into());
    let [ready, synced] = messages(edited(ServerStatus::Delivered));
    assert!(ready.contains("spec.os.slug"), "{ready}");
    assert_eq!(ready, synced);
    assert_eq!(messages(with_status(ServerStatus::Delivered)), ["", ""]);
    let [ready, synced] = messages(edited(ServerStatus::Provisioning));
    assert_ne!(ready, synced);
}

#[test]
fn differing_hostname_suggests_spec_hostname_first() {
    let adopted = with_status(ServerStatus::Delivered).shown(|server| server.name = "old".into());
    let desired = adopted.decide().desired;
    for kind in [Type::Synced, Type::InstallUpToDate] {
        let Some(condition) = desired.condition(kind) else {
            continue;
        };
        let text = &condition.message;
        let field = text
            .find("set spec.hostname to old")
            .unwrap_or_else(|| panic!("{text}"));
        let wipe = text.find("spec.install.revision").unwrap_or(usize::MAX);
        assert!(field < wipe, "{kind:?}: {text}");
    }
    let synced = desired.condition(Type::Synced).unwrap();
    assert_eq!(synced.reason, Reason::PendingChanges);
}

/// A suspended object is still read, and status shows the result. Suspended is a condition of its own.
#[test]
fn suspended_object_still_shows_its_server() {
    let split_suspended = |case: Case, change: fn(&mut BareMetalServerSpec)| {
        let mut conditions = case.spec(change).decide().desired.conditions;
        let suspended = conditions.iter().position(|c| c.kind == Type::Suspended);
        let suspended = suspended.map(|at| conditions.remove(at));
        (conditions, suspended.map(|c| (c.status, c.reason)))
    };
    for status in [
        ServerStatus::Provisioning,
        ServerStatus::Delivered,
        ServerStatus::Released,
    ] {
        let (as_ever, none) = split_suspended(with_status(status.clone()), |_| {});
        let (shown, suspended) = split_suspended(with_status(status), |s| s.suspend = Some(true));
        assert_eq!(shown, as_ever);
        assert_eq!(none, None);
        assert_eq!(suspended, Some((Some(true), Reason::Suspended)));
    }
    // A resumed object reports that it is no longer suspended.
    let suspended = with_status(ServerStatus::Delivered).spec(|s| s.suspend = Some(true));
    let shown = suspended.decide().desired.finish(Timestamp::UNIX_EPOCH);
    let lifted = suspended.object(|o| {
        o.spec.suspend = None;
        o.status = Some(shown.clone());
    });
    let desired = lifted.decide().desired;
    let now = desired.condition(Type::Suspended).unwrap();
    assert_eq!((now.status, now.reason), (Some(false), Reason::InSync));
}

#[test]
fn suspended_object_without_server_keeps_its_reason() {
    let ready_reason = |reason: Reason| {
        let explanation = Explanation::stalled(reason, "m").to_conditions(None, &[], false);
        let conditions = api::conditions::merge(
            &[],
            &explanation,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
        let suspended = Case::new().spec(|s| s.suspend = Some(true));
        let case = suspended.object(|o| {
            o.status
                .get_or_insert_default()
                .conditions
                .clone_from(&conditions);
        });
        let desired = case.decide().desired;
        assert_eq!(
            desired.condition(Type::Suspended).unwrap().status,
            Some(true)
        );
        desired.condition(Type::Ready).unwrap().reason
    };
    assert_eq!(ready_reason(Reason::LimitReached), Reason::LimitReached);
    let why = "the account may be there by now, and nobody looks";
    assert_eq!(
        ready_reason(Reason::AccountNotFound),
        Reason::Suspended,
        "{why}"
    );
}

/// Neither the conditions nor the observed generation show the edit as done, for both kinds of suspension.
#[test]
fn edit_of_suspended_server_is_reported_as_pending() {
    let edits: [fn(&mut BareMetalServerSpec); 4] = [
        |s| s.tags = vec!["later".into()],
        |s| s.power = Some(api::power::Power::PoweredOff),
        |s| {
            let outputs = serde_json::json!({"configMapRef": {"name": "out"}});
            s.outputs = serde_json::from_value(outputs).unwrap();
        },
        |s| s.expires_at = Some(time(START + 9_000)),
    ];
    let ready = with_status(ServerStatus::Delivered).object(|o| o.metadata.generation = Some(7));
    let mut shown = ready.clone();
    for _ in 0..3 {
        let status = shown.decide().desired.finish(Timestamp::UNIX_EPOCH);
        shown = shown.object(|o| o.status = Some(status));
    }
    assert_eq!(shown.0.status().observed_generation, Some(7));
    let edited = |edit: fn(&mut BareMetalServerSpec)| {
        let case = shown.clone().spec(edit);
        case.object(|o| o.metadata.generation = Some(8))
    };
    let reported = |case: &Case| {
        let desired = case.decide().desired;
        let status = desired.finish(Timestamp::UNIX_EPOCH);
        let find = |kind: Type| {
            let mut all = status.conditions.iter();
            all.find(|c| c.type_ == kind.as_str()).cloned().unwrap()
        };
        let (ready, synced) = (find(Type::Ready), find(Type::Synced));
        assert_eq!((&*ready.status, &*ready.reason), ("True", "Delivered"));
        assert_eq!(ready.observed_generation, status.observed_generation);
        let mut all = status.conditions.iter();
        if let Some(suspended) = all.find(|c| c.type_ == Type::Suspended.as_str()) {
            let why = "somebody waits for it to be suspended";
            assert_eq!(suspended.observed_generation, Some(8), "{why}");
        }
        (status.observed_generation, synced.reason)
    };
    let unsent = (Some(7), Reason::PendingChanges.to_string());
    for edit in edits {
        let stopped = edited(edit).blocked(Reason::Suspended);
        assert_eq!(reported(&stopped), unsent, "by the account");
    }
    let own = |edit| edited(edit).spec(|s| s.suspend = Some(true));
    assert_eq!(reported(&own(edits[0])), unsent);
    assert_eq!(reported(&own(edits[1])), unsent);
    assert_eq!(reported(&own(edits[2])), unsent);
    let recorded = |case: Case| case.holding(OutputKind::ConfigMap, "out");
    let compared = (Some(8), Reason::InSync.to_string());
    assert_eq!(
        reported(&recorded(own(edits[2]))),
        compared,
        "it was written"
    );
    assert_eq!(reported(&own(edits[3])), compared, "nothing is to be sent");
    // The change was in progress when the account was suspended.
    let begun = edited(edits[0]);
    let status = begun.decide().desired.finish(Timestamp::UNIX_EPOCH);
    let begun = begun.object(|o| o.status = Some(status.clone()));
    assert_eq!(reported(&begun), (Some(8), Reason::Progressing.to_string()));
    let stopped = begun.blocked(Reason::Suspended);
    assert_eq!(reported(&stopped).1, Reason::PendingChanges.to_string());
}

/// Calls that fail, or are not sent, because of the account do not change Ready.
#[test]
fn calls_that_a_lost_account_fails_leave_ready() {
    for reason in [
        Reason::KeyRejected,
        Reason::ProviderUnreachable,
        Reason::RateLimited,
    ] {
        let failing = with_status(ServerStatus::Delivered)
            .spec(|s| s.tags = vec!["later".into()])
            .memory(|m| {
                for _ in 0..3 {
                    m.backoff.fail(RUNNING - secs(600), secs(1));
                }
                m.last_error = Some(crate::last_error::LastError {
                    reason,
                    message: "no".into(),
                });
            });
        let synced = |case: &Case| {
            let desired = case.decide().desired;
            let find = |kind| {
                desired
                    .condition(kind)
                    .map(|c| (c.status, c.reason))
                    .unwrap()
            };
            assert_eq!(find(Type::Ready), (Some(true), Reason::Delivered));
            find(Type::Synced)
        };
        assert_eq!(synced(&failing).1, Reason::Progressing, "at first");
        let waited = failing.waited_for(Reason::AccountNotReady);
        assert_eq!(synced(&waited), (Some(false), Reason::AccountNotReady));
    }
}

/// Status shows the server as last seen. After two minutes without answers, Synced reports it.
#[test]
fn unreachable_account_changes_only_synced() {
    let ready = || with_status(ServerStatus::Delivered);
    let away = |case: Case| {
        case.view(|v| {
            v.is_unreachable = true;
            v.last_error = Some((Reason::ProviderUnreachable, "away".into()));
        })
    };
    let synced = |case: Case| {
        let decision = case.decide();
        let ready = decision.desired.condition(Type::Ready).map(|c| c.status);
        let synced = decision.desired.condition(Type::Synced);
        (
            ready,
            synced.map(|c| (c.status, c.reason)),
            decision.requeue,
        )
    };
    let in_sync = Some((Some(true), Reason::InSync));
    let (shown, said, again) = synced(away(ready()));
    assert_eq!((shown, said), (Some(Some(true)), in_sync));
    assert_eq!(again, Requeue::After(secs(120)), "and looks again in time");

    let waited = |case: Case| case.waited_for(Reason::AccountNotReady);
    let out_of_touch = Some((Some(false), Reason::AccountNotReady));
    let (shown, said, _) = synced(waited(away(ready())));
    assert_eq!((shown, said), (Some(Some(true)), out_of_touch));
    let (shown, said, _) = synced(waited(ready().blocked(Reason::KeyRejected)));
    assert_eq!(
        (shown, said),
        (None, out_of_touch),
        "all else stays as it was"
    );
    let (_, said, _) = synced(waited(ready().blocked(Reason::Pending)));
    assert_eq!(said, None, "the operator has just started");
    let (_, said, _) = synced(waited(ready()));
    assert_eq!(said, in_sync, "it answers again");
    let list = |case: Case| case.view(|v| v.last_error = Some((Reason::RateLimited, "no".into())));
    assert_eq!(
        synced(waited(list(ready()))).1,
        in_sync,
        "only a list fails"
    );
    // After a restart nothing was seen yet, and Synced reports the missing answers anyway.
    let unseen = || Case::new().ordered(Some(OrderOutcome::Created), Some(1));
    let (shown, said, _) = synced(waited(unseen().blocked(Reason::ProviderUnreachable)));
    assert_eq!((shown, said), (None, out_of_touch));
    let no_account = unseen().facts(|f| f.account = unsaid("default"));
    assert_eq!(synced(waited(no_account)).1, out_of_touch);
    assert_eq!(synced(waited(away(unseen()))).1, out_of_touch);

    // The error may differ from failure to failure; status must not be written each time.
    let text = |case: Case| {
        let desired = case.decide().desired;
        desired.condition(Type::Synced).unwrap().message.clone()
    };
    let other =
        |case: Case| away(case).view(|v| v.last_error = Some((Reason::RateLimited, "no".into())));
    assert_eq!(text(waited(away(ready()))), text(waited(other(ready()))));
    assert!(text(waited(away(ready()))).contains("conditions of the account"));
}

#[test]
fn status_keeps_policies_while_account_is_unread() {
    let shown = |case: Case| case.decide().desired.status.policies;
    let retain = Policies {
        deletion_policy: Some(DeletionPolicy::Retain),
        ..Policies::default()
    };
    let ready = || with_status(ServerStatus::Delivered);
    let operators = PoliciesInForce::default();
    assert_eq!(shown(ready()), Some(operators));
    let by_account = ready().view(|v| v.defaults = Some(retain));
    let in_force = retain.over(operators);
    assert_eq!(shown(by_account.clone()), Some(in_force));
    let by_object = by_account.spec(|s| s.deletion_policy = Some(DeletionPolicy::Release));
    assert_eq!(shown(by_object), Some(operators));
    // A new object waits for its account, and shows no policies that it cannot know.
    let waiting = Case::new().facts(|f| f.account = unsaid("default"));
    assert_eq!(shown(waiting.clone()), None);
    let kept_on = waiting.object(|o| o.status.get_or_insert_default().policies = Some(in_force));
    assert_eq!(shown(kept_on), Some(in_force));
}

#[test]
fn provider_message_is_hidden_for_secret_texts() {
    let failed = || {
        with_status(ServerStatus::Failed).shown(|s| s.status_message = "cannot run c4nary".into())
    };
    let shown = |case: &Case| {
        let decision = case.decide();
        let status = decision.desired.status.status_message.clone();
        (status.unwrap(), message(&decision))
    };
    let (status, text) = shown(&failed());
    assert_eq!(status, "cannot run c4nary");
    assert!(text.contains("c4nary"), "{text}");
    let refers = failed().spec(|s| {
        let script = serde_json::json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
        s.post_install_script = Some(serde_json::from_value(script).unwrap());
    });
    let referred = failed().object(|o| {
        let records = &mut o.status.as_mut().unwrap().records;
        records.order.as_mut().unwrap().secret_texts = true;
    });
    for case in [refers, referred] {
        let (status, text) = shown(&case);
        assert!(status.starts_with("hidden, because"), "{status}");
        assert!(
            text.contains("hidden, because") && !text.contains("c4nary"),
            "{text}"
        );
    }
}
