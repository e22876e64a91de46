//! `spec.outputs`: written when it differs, looked at now and then, never over another's.

use super::{machine::kept, *};
use crate::server::{decide::outputs::Output, memory::Observation};
use api::outputs::{OutputPlace, OutputRef, Outputs, entries};

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
    case.spec(|s| s.outputs = Some(outputs))
}

fn due(case: &Case) -> Option<Output> {
    match case.decide().effect {
        Some(Effect::WriteOutput(output)) => Some(output),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// The name belongs to something else.
pub(super) fn taken() -> Case {
    seen(wanted(), false)
}

/// What is due was found, or left, like this.
fn seen(case: Case, is_ours: bool) -> Case {
    let output = due(&case).expect("something is due");
    let now = case.0.now.mono;
    let noted = Observation::Output {
        place: output.place,
        content: output.content(),
        is_ours,
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
    let one = seen(first, true);
    assert_eq!(due(&one).unwrap().place, OutputPlace::Secret);
    let both = seen(one, true);
    assert_eq!(due(&both), None);
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
    let taken = seen(seen(wanted(), false), true);
    assert_eq!(due(&taken), None);
    let (status, reason, message) = synced(&taken);
    assert_eq!((status, reason), (Some(false), Reason::OutputNotOwned));
    for word in [
        "spec.outputs.configMapRef",
        "ConfigMap out",
        "kubectl delete configmap out -n shop",
    ] {
        assert!(message.contains(word), "{message}");
    }
    let decision = taken.decide();
    let ready = decision.draft.condition(Type::Ready).unwrap();
    assert_eq!(ready.status, Some(true));
    assert!(ready.message.contains("Synced"), "{}", ready.message);
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
