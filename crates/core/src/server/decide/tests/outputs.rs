//! `spec.outputs`: written when it differs, looked at now and then, never over another's.

use super::{machine::kept, *};
use crate::server::{
    decide::outputs::{self, Output, OutputSight},
    memory::{Observation, ReleaseAnswer},
};
use api::{
    names::OUTPUT_FINALIZER,
    outputs::{OutputRef, Outputs, entries},
};

/// A delivered server of which both are to be written.
fn wanted() -> Case {
    named(kept(ServerStatus::Delivered), "out")
}

fn named(case: Case, name: &str) -> Case {
    let at = Some(OutputRef { name: name.into() });
    let outputs = Outputs {
        config_map_ref: at.clone(),
        secret_ref: at,
    };
    let case = case.spec(|s| s.outputs = Some(outputs));
    let case = case.holding(OutputPlace::ConfigMap, name);
    case.holding(OutputPlace::Secret, name)
}

fn due(case: &Case) -> Option<Output> {
    match case.decide().effect {
        Some(Effect::WriteOutput(output)) => Some(output),
        // A look whether somebody deleted one comes last.
        None | Some(Effect::CheckDeletedOutputs(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// The name belongs to something else.
pub(super) fn taken() -> Case {
    seen(wanted(), OutputSight::NotOurs)
}

/// What is due was found, or left, like this.
fn seen(case: Case, sight: OutputSight) -> Case {
    let output = due(&case).expect("something is due");
    let now = case.0.now.mono;
    let noted = Observation::Output {
        place: output.place,
        content: output.content(),
        sight,
    };
    case.memory(|m| m.note(noted, now, secs(60)))
}

fn later(case: Case, seconds: u64) -> Case {
    case.facts(|f| {
        f.now.mono += secs(seconds);
        f.own[0].seen = f.now.mono;
    })
}

fn synced(case: &Case) -> (Option<bool>, Reason, String) {
    let decision = case.decide();
    let synced = decision.draft.condition(Type::Synced).expect("it is said");
    (synced.status, synced.reason, synced.message.clone())
}

#[test]
fn both_are_written_once_and_looked_at_now_and_then() {
    let first = wanted();
    let output = due(&first).unwrap();
    assert_eq!(output.place, OutputPlace::ConfigMap);
    assert_eq!(output.name, "out");
    let one = seen(first, OutputSight::Written);
    assert_eq!(due(&one).unwrap().place, OutputPlace::Secret);
    let both = seen(one, OutputSight::Written);
    assert_eq!(due(&both), None);
    let (looked, now) = (free(&both), both.0.now.mono);
    let both = both.memory(|m| m.note(looked, now, secs(60)));
    assert_eq!(both.decide().again, Again::After(secs(600)));
    assert_eq!(due(&later(both.clone(), 599)), None);
    assert!(
        due(&later(both.clone(), 600)).is_some(),
        "others may edit it"
    );
    // Another process knows nothing.
    assert!(due(&both.clone().memory(|m| *m = Memory::default())).is_some());
    // Another content, or another name.
    let moved = both.clone().facts(|f| {
        Arc::make_mut(&mut f.own[0].server).addresses = vec!["192.0.2.9".into()];
    });
    assert_eq!(due(&moved).unwrap().entries["addresses"], "192.0.2.9");
    assert_eq!(due(&named(both, "other")).unwrap().name, "other");
}

#[test]
fn nothing_is_written_of_a_machine_that_is_not_there_or_while_it_must_not_be() {
    for status in [
        ServerStatus::Created,
        ServerStatus::Failed,
        ServerStatus::Released,
    ] {
        let case = named(kept(status.clone()), "out");
        let effect = case.decide().effect;
        assert!(
            !matches!(effect, Some(Effect::WriteOutput(_))),
            "{status:?}: {effect:?}"
        );
    }
    assert_eq!(due(&wanted().spec(|s| s.suspend = Some(true))), None);
    let deleting = wanted().deleting().decide().effect;
    assert!(
        !matches!(deleting, Some(Effect::WriteOutput(_))),
        "{deleting:?}"
    );
    assert_eq!(due(&wanted().spec(|s| s.outputs = None)), None);
    // A status that was restored speaks of a machine that nobody sees.
    let restored = wanted().facts(|f| f.own.clear()).decide().effect;
    assert!(
        !matches!(restored, Some(Effect::WriteOutput(_))),
        "{restored:?}"
    );
    // Nothing is sent to the provider, so it is written of what is only looked at, too.
    let observed = wanted().spec(|s| {
        s.management_policy = Some(api::ManagementPolicy::ObserveOnly);
    });
    assert!(due(&observed).is_some());
}

#[test]
fn a_name_that_is_taken_is_told_and_all_else_goes_on() {
    let taken = seen(seen(wanted(), OutputSight::NotOurs), OutputSight::Written);
    assert_eq!(due(&taken), None);
    let (status, reason, message) = synced(&taken);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    for word in ["spec.outputs.configMapRef", "ConfigMap out", "delete it"] {
        assert!(message.contains(word), "{message}");
    }
    let decision = taken.decide();
    let ready = decision.draft.condition(Type::Ready).unwrap();
    assert_eq!(ready.status, Some(true));
    assert_eq!(ready.message, message);
    // The same of one that lost our finalizer, which another one takes the place of once it is deleted.
    let bare = seen(
        seen(wanted(), OutputSight::WithoutFinalizer),
        OutputSight::Written,
    );
    let (status, reason, message) = synced(&bare);
    assert_eq!((status, reason), (Some(false), Reason::NameTaken));
    let lost = "ConfigMap out lost the finalizer flexmetal.dev/output";
    assert!(message.contains(lost), "{message}");
    assert!(!message.contains("is not this object's"), "{message}");
    // Looked at again, and by another name at once.
    assert!(due(&later(taken.clone(), 600)).is_some());
    assert_eq!(due(&named(taken.clone(), "free")).unwrap().name, "free");
    // Tags are changed all the same.
    let tagged = taken.spec(|s| s.tags = vec!["team:web".into()]);
    assert!(matches!(
        tagged.decide().effect,
        Some(Effect::AddTag { .. })
    ));
}

/// Our finalizer is taken off, as the decision says.
fn free(case: &Case) -> Observation {
    match case.decide().effect {
        Some(Effect::CheckDeletedOutputs(_)) => Observation::DeletedOutputsChecked,
        Some(Effect::ReleaseOutputs(outputs)) => Observation::OutputsReleased(outputs),
        other => panic!("{other:?}"),
    }
}

fn freed(case: Case) -> Case {
    let (freed, now) = (free(&case), case.0.now.mono);
    case.memory(|m| m.note(freed, now, secs(60)))
}

#[test]
fn an_output_is_on_record_before_it_is_created() {
    let unheld = wanted().object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    let Some(Effect::RecordOutput(first)) = unheld.decide().effect else {
        panic!("{:?}", unheld.decide().effect);
    };
    assert_eq!(first.kind, OutputPlace::ConfigMap);
    assert!(outputs::may_record(&unheld.0, &first));
    assert!(!outputs::may_record(&unheld.clone().deleting().0, &first));
    let (status, former) = outputs::with_record(&unheld.0, &first);
    assert_eq!((status.records.outputs, former), (vec![first], None));
    // The object has to stay until they are freed.
    let output = due(&wanted()).unwrap();
    assert!(outputs::may_write(&wanted().0, &output));
    assert!(!outputs::may_write(&unheld.0, &output));
    assert!(!outputs::may_write(&wanted().deleting().0, &output));
    let loose = wanted().object(|o| o.metadata.finalizers = None);
    assert!(!outputs::may_write(&loose.0, &output));
    let only = loose.object(|o| o.metadata.finalizers = Some(vec![OUTPUT_FINALIZER.into()]));
    assert!(outputs::may_write(&only.0, &output));
    // Of too many the oldest goes that the spec names no more.
    let mut many = wanted();
    for number in 0..14 {
        many = many.holding(OutputPlace::Secret, &format!("former-{number}"));
    }
    let full = many.0.status().records.outputs.len();
    let many = many.spec(|s| s.outputs.as_mut().unwrap().config_map_ref = None);
    let next = OutputRecord {
        kind: OutputPlace::ConfigMap,
        name: "next".into(),
    };
    let (status, former) = outputs::with_record(&many.0, &next);
    assert_eq!(status.records.outputs.len(), full);
    assert_eq!(former.map(|former| former.name).as_deref(), Some("out"));
    assert_eq!(status.records.outputs.last(), Some(&next));
}

#[test]
fn outputs_are_freed_before_the_finalizer_goes() {
    let names = |case: &Case| match case.decide().effect {
        Some(Effect::ReleaseOutputs(outputs)) => {
            outputs.into_iter().map(|output| output.name).collect()
        }
        _ => Vec::new(),
    };
    let effect = |case: &Case| short(&case.decide()).0;
    let released = || {
        named(kept(ServerStatus::Released), "out")
            .holding(OutputPlace::Secret, "former")
            .deleting()
    };
    assert_eq!(names(&released()), ["out", "out", "former"]);
    assert_eq!(effect(&freed(released())), Some("LetGo"));
    // Another process does it again, and so does one that lost the record.
    let again = freed(released()).memory(|m| *m = Memory::default());
    assert_eq!(names(&again).len(), 3);
    let lost = released().object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    assert_eq!(names(&lost), ["out", "out"]);
    // Under Retain, and with a deleted kind.
    let tags = [
        cluster().tag(),
        own_tag(),
        cluster().tag_of_retained("shop", "web"),
    ];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let stays = |case: Case| case.facts(|f| f.own = vec![seen_as(&tags)]);
    let delivered = || stays(wanted().deleting());
    let retained = delivered().spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    let gone = delivered().facts(|f| f.kind_deleting = Some(true));
    for case in [retained, gone] {
        assert_eq!(names(&case).len(), 2);
        assert_eq!(effect(&freed(case)), Some("LetGo"));
    }
    // Not before the end: with foreground deletion they outlast the delay of the release.
    let delayed = wanted().deleting();
    let delayed = delayed.spec(|s| s.release_delay = Some(Interval::seconds(999)));
    assert_eq!(effect(&delayed), None);
    // What the provider may keep on record for ever, a user lets go by hand.
    let failed = super::release::answered(ServerStatus::Failed, ReleaseAnswer::Accepted, 0);
    assert_eq!(names(&named(failed, "out")).len(), 2);
    // An object that has no server of its own stays for them alone.
    let shown = wanted().deleting().facts(|f| f.own.clear()).object(|o| {
        o.metadata.finalizers = Some(vec![OUTPUT_FINALIZER.into()]);
        o.metadata.annotations = None;
        o.status.as_mut().unwrap().records.order = None;
    });
    assert_eq!(names(&shown).len(), 2);
    assert_eq!(effect(&freed(shown)), Some("LetGo"));
}

fn seen_as(tags: &[&str]) -> Sighting {
    super::seen(server(1, ServerStatus::Delivered, tags))
}

#[test]
fn what_somebody_deleted_is_freed_at_the_next_look() {
    let both = seen(seen(wanted(), OutputSight::Written), OutputSight::Written);
    let looked = freed(both.clone());
    assert_eq!(short(&looked.decide()).0, None);
    let later = later(looked, 600);
    let again = seen(seen(later, OutputSight::Written), OutputSight::Written);
    assert_eq!(short(&again.decide()).0, Some("CheckDeletedOutputs"));
    // Suspended, nothing is written, and what is deleted goes.
    let suspended = both.spec(|s| s.suspend = Some(true));
    assert_eq!(short(&suspended.decide()).0, Some("CheckDeletedOutputs"));
}

#[test]
fn what_is_not_known_has_no_key() {
    let case = wanted().facts(|f| {
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
