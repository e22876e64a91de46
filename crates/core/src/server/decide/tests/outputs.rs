//! `spec.outputs`: written when the content differs, checked periodically, and never over another owner's object.

use super::{existing::with_status, *};
use crate::{
    last_error::LastError,
    server::{
        decide::outputs::{self, DesiredOutput, OutputState},
        memory::{ReleaseAnswer, ServerObservation},
    },
};
use api::{
    names::{OUTPUT_FINALIZER, SERVER_FINALIZER},
    outputs::{OutputRef, Outputs, entries},
};
use serde_json::json;

/// A delivered server with both outputs to be written.
fn with_outputs() -> Case {
    named(with_status(ServerStatus::Delivered), "out")
}

fn named(case: Case, name: &str) -> Case {
    let at = Some(OutputRef { name: name.into() });
    let outputs = Outputs {
        config_map_ref: at.clone(),
        secret_ref: at,
    };
    let case = case.spec(|s| s.outputs = Some(outputs));
    let case = case.holding(OutputKind::ConfigMap, name);
    case.holding(OutputKind::Secret, name)
}

fn due(case: &Case) -> Option<DesiredOutput> {
    match case.decide().effect {
        Some(ServerEffect::WriteOutput(output)) => Some(output),
        // The check for deleted outputs comes last.
        None | Some(ServerEffect::CheckDeletedOutputs(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// The name belongs to another object.
pub(super) fn taken() -> Case {
    left(with_outputs(), OutputState::NotOurs)
}

/// The due output has the desired content, or belongs to another owner.
fn seen(case: Case, is_ours: bool) -> Case {
    left(
        case,
        match is_ours {
            true => OutputState::Written,
            false => OutputState::NotOurs,
        },
    )
}

/// The due output ended in this state.
fn left(case: Case, state: OutputState) -> Case {
    let output = due(&case).expect("something is due");
    let now = case.0.now.mono;
    let observation = ServerObservation::Output {
        place: output.place,
        content: output.content_hash(),
        state,
    };
    case.memory(|m| m.record_observation(observation, now))
}

fn later(case: Case, seconds: u64) -> Case {
    case.facts(|f| {
        f.now.mono += secs(seconds);
        f.own[0].seen = f.now.mono;
    })
}

fn synced(case: &Case) -> (Option<bool>, Reason, String) {
    let decision = case.decide();
    let synced = decision
        .desired
        .condition(Type::Synced)
        .expect("it is said");
    (synced.status, synced.reason, synced.message.clone())
}

#[test]
fn outputs_are_written_once_and_checked_periodically() {
    let first = with_outputs();
    let output = due(&first).unwrap();
    assert_eq!(output.place, OutputKind::ConfigMap);
    assert_eq!(output.name, "out");
    let one = seen(first, true);
    assert_eq!(due(&one).unwrap().place, OutputKind::Secret);
    let both = seen(one, true);
    // An output that was just read is not checked again.
    assert_eq!(short(&both.decide()).0, None);
    assert_eq!(both.decide().requeue, Requeue::After(secs(600)));
    assert_eq!(due(&later(both.clone(), 599)), None);
    assert!(
        due(&later(both.clone(), 600)).is_some(),
        "others may edit it"
    );
    // After a restart the memory is empty.
    assert!(due(&both.clone().memory(|m| *m = ServerMemory::default())).is_some());
    // Other content, or another name.
    let moved = both
        .clone()
        .shown(|s| s.addresses = vec!["192.0.2.9".into()]);
    assert_eq!(due(&moved).unwrap().entries["addresses"], "192.0.2.9");
    assert_eq!(due(&named(both, "other")).unwrap().name, "other");
}

#[test]
fn outputs_are_written_only_for_delivered_servers() {
    for status in [
        ServerStatus::Created,
        ServerStatus::Failed,
        ServerStatus::Released,
    ] {
        let case = named(with_status(status.clone()), "out");
        let effect = case.decide().effect;
        assert!(
            !matches!(effect, Some(ServerEffect::WriteOutput(_))),
            "{status:?}: {effect:?}"
        );
    }
    let deleting = with_outputs().deleting().decide().effect;
    assert!(
        !matches!(deleting, Some(ServerEffect::WriteOutput(_))),
        "{deleting:?}"
    );
    assert_eq!(due(&with_outputs().spec(|s| s.outputs = None)), None);
    // A restored status may name a server that is not listed.
    let restored = with_outputs().facts(|f| f.own.clear()).decide().effect;
    assert!(
        !matches!(restored, Some(ServerEffect::WriteOutput(_))),
        "{restored:?}"
    );
    // Outputs send nothing to the provider, so they are written for observe-only objects, too.
    let observed = with_outputs().spec(|s| {
        s.management_policy = Some(api::ManagementPolicy::ObserveOnly);
    });
    assert!(due(&observed).is_some());
}

#[test]
fn taken_output_name_is_reported_without_blocking() {
    let taken = seen(seen(with_outputs(), false), true);
    assert_eq!(due(&taken), None);
    let (status, reason, message) = synced(&taken);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    for word in ["spec.outputs.configMapRef", "ConfigMap out", "delete it"] {
        assert!(message.contains(word), "{message}");
    }
    let decision = taken.decide();
    let ready = decision.desired.condition(Type::Ready).unwrap();
    assert_eq!(ready.status, Some(true));
    assert_eq!(ready.message, message);
    // Checked again, and at once under another name.
    assert!(due(&later(taken.clone(), 600)).is_some());
    assert_eq!(due(&named(taken.clone(), "free")).unwrap().name, "free");
    // An output of its own that lost our finalizer has another remedy.
    let lost = seen(left(with_outputs(), OutputState::WithoutFinalizer), true);
    let (status, reason, message) = synced(&lost);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    for word in [
        "ConfigMap out",
        "lost the finalizer flexmetal.dev/output",
        "writes it again",
    ] {
        assert!(message.contains(word), "{message}");
    }
    assert!(!message.contains("not this object's"), "{message}");
    // An output that is being deleted is checked sooner.
    let kept = seen(left(with_outputs(), OutputState::Deleted), true);
    let (status, reason, message) = synced(&kept);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    for word in ["ConfigMap out is being deleted", "every 1m"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(kept.decide().requeue, Requeue::After(secs(60)));
    assert_eq!(due(&later(kept.clone(), 59)), None);
    assert_eq!(
        due(&later(kept, 60)).map(|output| output.place),
        Some(OutputKind::ConfigMap)
    );
    // Tags are changed anyway.
    let tagged = taken.spec(|s| s.tags = vec!["team:web".into()]);
    assert!(matches!(
        tagged.decide().effect,
        Some(ServerEffect::AddTag { .. })
    ));
}

/// The outputs that are checked for deletion.
fn check(case: &Case) -> Option<Vec<OutputRecord>> {
    match case.decide().effect {
        Some(ServerEffect::CheckDeletedOutputs(outputs)) => Some(outputs),
        _ => None,
    }
}

fn checked(case: Case) -> Case {
    let outputs = check(&case).expect("a check is due");
    let now = case.0.now.mono;
    case.memory(|m| m.record_observation(ServerObservation::OutputsChecked(outputs), now))
}

#[test]
fn output_is_recorded_before_it_is_created() {
    let unrecorded = with_outputs().object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    let Some(ServerEffect::RecordOutput(first)) = unrecorded.decide().effect else {
        panic!("{:?}", unrecorded.decide().effect);
    };
    assert_eq!(first.kind, OutputKind::ConfigMap);
    assert!(outputs::may_record(&unrecorded.0, &first));
    assert!(!outputs::may_record(
        &unrecorded.clone().deleting().0,
        &first
    ));
    let (status, removed) = outputs::add_record(&unrecorded.0, &first);
    assert_eq!((status.records.outputs, removed), (vec![first], None));
    // The object needs its record and a finalizer, so that its outputs are freed later.
    let output = due(&with_outputs()).unwrap();
    assert!(outputs::may_write(
        &with_outputs().0,
        &with_outputs().0,
        &output
    ));
    assert!(!outputs::may_write(
        &with_outputs().0,
        &unrecorded.0,
        &output
    ));
    assert!(!outputs::may_write(
        &with_outputs().0,
        &with_outputs().deleting().0,
        &output
    ));
    let only = |finalizer: &str| {
        with_outputs().object(|o| o.metadata.finalizers = Some(vec![finalizer.into()]))
    };
    assert!(!outputs::may_write(
        &with_outputs().0,
        &only(SERVER_FINALIZER).0,
        &output
    ));
    assert!(outputs::may_write(
        &with_outputs().0,
        &only(OUTPUT_FINALIZER).0,
        &output
    ));
    // Above the limit, the oldest output that the spec no longer names is freed.
    let mut many = with_outputs();
    for number in 0..14 {
        many = many.holding(OutputKind::Secret, &format!("former-{number}"));
    }
    let full = many.0.status().records.outputs.len();
    let many = many.spec(|s| s.outputs.as_mut().unwrap().config_map_ref = None);
    let next = OutputRecord {
        kind: OutputKind::ConfigMap,
        name: "next".into(),
    };
    let (status, removed) = outputs::add_record(&many.0, &next);
    assert_eq!(status.records.outputs.len(), full);
    assert_eq!(removed.map(|removed| removed.name).as_deref(), Some("out"));
    assert_eq!(status.records.outputs.last(), Some(&next));
}

/// Without the finalizer, a deleted object is gone before its outputs are freed.
#[test]
fn output_finalizer_is_restored_in_every_state() {
    let stripped =
        |case: Case| case.object(|o| o.metadata.finalizers = Some(vec![SERVER_FINALIZER.into()]));
    let seen = seen(seen(with_outputs(), true), true);
    assert_eq!(due(&seen), None, "both were looked at");
    let suspended = with_outputs().spec(|s| s.suspend = Some(true));
    let unnamed = with_outputs().spec(|s| s.outputs = None);
    let password = named(with_status(ServerStatus::Delivered), "out").spec(|s| {
        s.outputs = None;
        s.root_password = serde_json::from_value(json!({"secretRef": {"name": "out"}})).unwrap();
    });
    let password = password.shown(|s| s.os_slug = "Windows-2022".into());
    let status = password.decide().desired.status;
    let password = password.object(|o| o.status = Some(status));
    for case in [seen, suspended, unnamed, with_outputs(), password] {
        let Some(ServerEffect::RecordOutput(output)) = stripped(case.clone()).decide().effect
        else {
            panic!("{:?}", stripped(case).decide().effect);
        };
        let lost = stripped(case);
        assert!(outputs::may_record(&lost.0, &output));
        let (status, removed) = outputs::add_record(&lost.0, &output);
        assert_eq!((status, removed), (lost.0.status(), None));
        // The finalizer is removed again and again.
        let now = lost.0.now.mono;
        let again = lost.memory(|m| {
            m.record_observation(ServerObservation::FinalizerRestored, now);
            m.record_observation(ServerObservation::FinalizerRestored, now);
        });
        assert_ne!(short(&again.decide()).0, Some("RecordOutput"));
    }
}

#[test]
fn outputs_are_freed_only_with_the_finalizer() {
    let names = |case: &Case| -> Vec<String> {
        let outputs = outputs::list_outputs_to_free(&case.0);
        outputs.into_iter().map(|output| output.name).collect()
    };
    let effect = |case: &Case| short(&case.decide()).0;
    let released = || {
        named(with_status(ServerStatus::Released), "out")
            .holding(OutputKind::Secret, "former")
            .deleting()
    };
    assert_eq!(names(&released()), ["out", "out", "former"]);
    assert_eq!(effect(&released()), Some("RemoveFinalizer"));
    // Without the record, the outputs named in the spec are freed.
    let lost = released().object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    assert_eq!(names(&lost), ["out", "out"]);
    let password = lost.spec(|s| {
        s.root_password = serde_json::from_value(json!({"secretRef": {"name": "pass"}})).unwrap();
    });
    assert_eq!(names(&password), ["out", "out", "pass"]);
    // With Retain, and with a deleted CRD.
    let delivered = || {
        with_outputs()
            .deleting()
            .showing(super::retained(1, ServerStatus::Delivered))
    };
    let retained = delivered().spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    let gone = delivered().facts(|f| f.kind_deleting = Some(true));
    for case in [retained, gone] {
        assert_eq!(effect(&case), Some("RemoveFinalizer"));
    }
    // Not before the release: with foreground deletion the outputs outlast the release delay.
    let delayed = with_outputs().deleting();
    let delayed = delayed.spec(|s| s.release_delay = Some(Interval::seconds(999)));
    assert_eq!(effect(&delayed), None);
    // Nor for a failed server that may still be released, with any name in the spec.
    let failed = || super::release::answered(ServerStatus::Failed, ReleaseAnswer::Accepted, 0);
    for name in ["out", "next", "out"] {
        assert_eq!(effect(&named(failed(), name)), None);
    }
    // A user removes the server finalizer, and the object remains only for its outputs.
    let only_output_finalizer =
        |case: Case| case.object(|o| o.metadata.finalizers = Some(vec![OUTPUT_FINALIZER.into()]));
    for case in [
        released(),
        with_outputs().deleting(),
        named(failed(), "out"),
    ] {
        assert_eq!(
            effect(&only_output_finalizer(case)),
            Some("RemoveFinalizer")
        );
    }
    // Finalizers of other controllers lead to no further step.
    let other_finalizer = released();
    let other_finalizer =
        other_finalizer.object(|o| o.metadata.finalizers = Some(vec!["example.com/theirs".into()]));
    assert_eq!(effect(&other_finalizer), None);
}

#[test]
fn what_somebody_deleted_is_freed_within_ten_minutes() {
    let both = seen(seen(with_outputs(), true), true);
    assert_eq!(check(&both), None, "it was looked at");
    // A recorded output that is no longer written is checked.
    let unwritten = both.clone().holding(OutputKind::Secret, "former");
    let outputs = check(&unwritten).expect("it is checked");
    assert_eq!((outputs.len(), &*outputs[0].name), (1, "former"));
    let done = checked(unwritten);
    assert_eq!(short(&done.decide()).0, None);
    assert_eq!(check(&later(done.clone(), 599)), None);
    let again = seen(seen(later(done.clone(), 600), true), true);
    assert!(check(&again).is_some());
    // Or at once on a reconcile request.
    let asked = later(done, 5);
    let now = asked.0.now.mono;
    let asked = asked.memory(|m| m.asked.record_request(Some("now"), now));
    let asked = seen(seen(asked, true), true);
    assert!(check(&asked).is_some(), "once");
    assert_eq!(check(&checked(asked)), None);
    // While suspended, deleted outputs are freed, too.
    let suspended = both.spec(|s| s.suspend = Some(true));
    assert_eq!(check(&suspended), None, "it was looked at");
    let unnamed = suspended.spec(|s| s.outputs = None);
    assert_eq!(check(&unnamed).map(|outputs| outputs.len()), Some(2));
}

#[test]
fn a_failing_effect_keeps_no_deleted_output() {
    let both = seen(seen(with_outputs(), true), true);
    let refused = later(both, 600).spec(|s| s.tags = vec!["team:web".into()]);
    assert_eq!(short(&refused.decide()).0, Some("AddTag"));
    let now = refused.0.now.mono;
    let failing = refused.memory(|m| {
        for _ in 0..9 {
            let reason = Reason::RequestRefused;
            let message = "no".into();
            m.record_observation(
                ServerObservation::Failed(LastError { reason, message }),
                now,
            );
        }
    });
    assert_eq!(check(&failing).map(|of| of.len()), Some(2));
    let effect = failing.decide().effect.unwrap();
    assert_eq!(failing.0.memory.remaining_backoff(&effect, now), None);
    // The check does not reset the backoff of the failing effect, which continues afterwards.
    let failures = failing.0.memory.backoff.failures();
    let failing = checked(failing);
    assert_eq!(failing.0.memory.backoff.failures(), failures);
    assert_eq!(short(&failing.decide()).0, Some("AddTag"));
}

#[test]
fn what_is_not_known_has_no_key() {
    let case = with_outputs().facts(|f| {
        let server = Arc::make_mut(&mut f.own[0].server);
        server.addresses = vec!["10.0.0.7".into(), "192.0.2.1".into(), "2001:db8::1".into()];
    });
    let all = due(&case).unwrap().entries;
    assert_eq!(all["addresses"], "10.0.0.7,192.0.2.1,2001:db8::1");
    assert_eq!(all["internalIP"], "10.0.0.7");
    assert_eq!(all["externalIP"], "192.0.2.1");
    assert_eq!(all["uuid"], uuid(1));
    assert_eq!(all["providerID"], format!("flexmetal://{}", uuid(1)));
    assert_eq!(all["hostname"], "web");
    assert_eq!(all["location"], "here");
    assert_eq!(all["instanceType"], "small");
    assert_eq!(all.len(), 8);
    let only: Vec<String> = entries(&BareMetalServerStatus {
        uuid: Some("u".into()),
        ..BareMetalServerStatus::default()
    })
    .into_keys()
    .collect();
    assert_eq!(only, ["uuid"]);
}

#[test]
fn suspended_output_that_is_not_written_is_unsynced() {
    let suspend = |case: Case| case.spec(|s| s.suspend = Some(true));
    let resumed = |case: &Case| case.clone().spec(|s| s.suspend = None);
    let taken = suspend(seen(seen(with_outputs(), false), true));
    let (status, reason, _) = synced(&taken);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    // An output that this process has not read is read first, and written later.
    let unseen = suspend(with_outputs());
    let read = due(&unseen).expect("it is looked at");
    assert!(outputs::may_write(&unseen.0, &unseen.0, &read));
    assert!(!outputs::may_write(&with_outputs().0, &unseen.0, &read));
    let absent = seen(left(unseen, OutputState::Suspended), true);
    assert_eq!(due(&absent), None);
    let (status, reason, message) = synced(&absent);
    assert_eq!((status, reason), (Some(false), Reason::PendingChanges));
    assert!(message.contains("spec.outputs"), "{message}");
    assert_eq!(due(&resumed(&absent)), Some(read), "at once");
    // An output without a record waits, too.
    let unrecorded = suspend(with_outputs());
    let unrecorded = unrecorded.object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    assert_eq!(short(&unrecorded.decide()).0, None);
    assert_eq!(synced(&unrecorded).1, Reason::PendingChanges);
    // All outputs are up to date.
    let written = suspend(seen(seen(with_outputs(), true), true));
    assert_eq!(synced(&written).1, Reason::InSync);
}
