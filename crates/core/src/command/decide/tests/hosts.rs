//! Tests: a command for a dedicated host: who owns the host, and what shows the end of the command.

use super::*;
use crate::{
    account::{key::AccountKey, terms::Terms},
    ownership::Claimant,
};
use api::{
    DedicatedHost, allowed::AllowedNamespaces, host::DedicatedHostStatus, target::TargetKind,
};

/// A host that its account has shown.
fn host() -> DedicatedHost {
    serde_json::from_value(json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
        "metadata": {"name": "web", "namespace": "shop", "uid": "host-1"},
        "spec": {"hostID": 7},
        "status": {
            "accountRef": {"kind": "ProviderAccount", "name": "default"}, "serverID": 70,
            "records": {"accountID": "account-id-1"},
        },
    }))
    .unwrap()
}

/// A command that nothing blocks.
fn to_host(action: PowerAction) -> Case {
    Case::new(action)
        .object(|o| o.spec.target_ref.kind = Some(TargetKind::DedicatedHost))
        .host(|_| {})
        .first_saw(host())
}

impl Case {
    fn host(self, change: impl FnOnce(&mut DedicatedHost)) -> Self {
        let mut found = host();
        change(&mut found);
        self.facts(|f| f.target = TargetFact::Found(Target::Host(Arc::new(found))))
    }

    fn first_saw(self, host: DedicatedHost) -> Self {
        let target = CommandTarget::from_target(None, &Target::Host(Arc::new(host)));
        self.object(|o| o.status.get_or_insert_default().records.target = target)
    }

    fn terms(self, new: Terms) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { terms, .. } = &mut f.subject.account {
                *terms = new;
            }
        })
    }

    fn owned_by_another(self) -> Self {
        let owner = Claimant {
            uid: "host-0".into(),
            namespace: "shop".into(),
            name: "first".into(),
            account: AccountKey::from_reference(&PinnedAccount::from_reference(None), "shop"),
            is_deleting: false,
        };
        self.facts(|f| f.conflicting_owners.owner = Some(Arc::new(owner)))
    }
}

fn status(host: &mut DedicatedHost) -> &mut DedicatedHostStatus {
    host.status.as_mut().unwrap()
}

/// The host is being installed.
fn installing(host: &mut DedicatedHost) {
    let last = json!({
        "uid": "host-1", "hostID": 7, "revision": 1, "osID": 1, "attempt": "i1",
        "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z",
        "account": account(), "log": {}, "isSeen": false,
    });
    let install = json!({"uid": "host-1", "revision": 0, "last": last});
    status(host).records.install = serde_json::from_value(install).unwrap();
}

/// A host that another account has shown.
fn host_of_other_account() -> DedicatedHost {
    let mut host = host();
    status(&mut host).records.account_id = Some("lineage-0".into());
    host
}

/// What blocks a command for a host, with the reason, and whether that ends the command.
fn blocked_cases() -> Vec<(Case, Reason, Option<bool>)> {
    let reboot = || to_host(PowerAction::Reboot);
    let entry = AllowedNamespaces {
        name: "shop".into(),
        host_ids: vec![8],
        ..AllowedNamespaces::default()
    };
    vec![
        (reboot().owned_by_another(), Reason::OwnershipConflict, None),
        (
            reboot().terms(Terms::Entry(Arc::new(entry))),
            Reason::NotAllowed,
            None,
        ),
        (
            reboot().terms(Terms::Refused("no".into())),
            Reason::NotAllowed,
            None,
        ),
        (
            reboot().host(|h| status(h).records.account_id = None),
            Reason::ReferenceNotReady,
            None,
        ),
        (
            reboot()
                .first_saw(host_of_other_account())
                .host(|h| *h = host_of_other_account()),
            Reason::ReferenceNotReady,
            None,
        ),
        // The command first saw it in another account with the same numbers, or as another object.
        (
            reboot().first_saw(host_of_other_account()),
            Reason::Superseded,
            Some(false),
        ),
        (
            reboot().host(|h| h.metadata.uid = Some("host-2".into())),
            Reason::Superseded,
            Some(false),
        ),
        (
            reboot().host(|h| h.spec.host_id = 8),
            Reason::Superseded,
            Some(false),
        ),
        (
            reboot().host(|h| h.spec.suspend = Some(true)),
            Reason::Suspended,
            None,
        ),
        (reboot().stopped(), Reason::Suspended, None),
        (
            reboot().host(|h| h.spec.management_policy = Some(ManagementPolicy::ObserveOnly)),
            Reason::ObserveOnly,
            None,
        ),
        (
            reboot().host(|h| h.metadata.deletion_timestamp = moment(WALL)),
            Reason::Superseded,
            Some(false),
        ),
        (reboot().host(installing), Reason::Reinstalling, None),
    ]
}

#[test]
fn command_is_sent_only_to_an_owned_host() {
    let Some(CommandEffect::Send(new)) = to_host(PowerAction::PowerOff).decide().effect else {
        panic!("it is not sent");
    };
    assert_eq!((new.server.as_str(), new.server_id), ("7", Some(70)));
    for (case, reason, ends) in blocked_cases() {
        assert_eq!(case.short(), (None, Some(reason), ends), "{reason}");
    }
}

#[test]
fn recorded_command_needs_the_same_host() {
    let Some(CommandEffect::Send(new)) = to_host(PowerAction::Reboot).decide().effect else {
        panic!("it is not sent");
    };
    let may = |case: Case| {
        let recorded = CommandRecord::new_open(CommandIntent {
            server: "7".into(),
            ..attempt(PowerAction::Reboot, "a1", 0).intent
        });
        may_send(&case.sent(&[recorded]).0, &new)
    };
    assert!(may(to_host(PowerAction::Reboot)));
    for (case, reason, _) in blocked_cases() {
        assert!(!may(case), "{reason}");
    }
    let reboot = || to_host(PowerAction::Reboot);
    let view = |change: fn(&mut AccountView)| {
        reboot().facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                change(view);
            }
        })
    };
    for (what, case) in [
        (
            "another object",
            reboot().host(|h| h.metadata.uid = Some("host-2".into())),
        ),
        ("another number", reboot().host(|h| h.spec.host_id = 8)),
        (
            "another machine behind it",
            reboot().host(|h| status(h).server_id = Some(71)),
        ),
        (
            "another account",
            view(|v| v.account_id = Some("other".into())),
        ),
        (
            "another key",
            view(|v| v.credentials_hash = Some("other".into())),
        ),
    ] {
        assert!(!may(case), "{what}");
    }
}

/// A record of a command to host 7.
fn record(action: PowerAction, state: Option<&str>) -> CommandRecord {
    let open = CommandRecord::new_open(CommandIntent {
        server: "7".into(),
        ..attempt(action, "a1", 9).intent
    });
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        state: state.map(str::to_owned),
        ..open
    }
}

#[test]
fn the_power_of_the_host_shows_the_end() {
    let done = (None, Some(Reason::Completed), Some(true));
    let runs = (None, Some(Reason::Progressing), None);
    for (action, word, is_done) in [
        (PowerAction::PowerOff, Some("stopped"), true),
        (PowerAction::PowerOff, Some("OFF"), true),
        (PowerAction::PowerOff, Some("running"), false),
        (PowerAction::PowerOn, Some("on"), true),
        (PowerAction::PowerOn, Some("stopped"), false),
        // Nothing shows a restart: only its acceptance is known.
        (PowerAction::Reboot, Some("stopped"), true),
        (PowerAction::Reboot, None, true),
        // It was not read since the answer.
        (PowerAction::PowerOn, None, false),
        // A word that says nothing about the power, and an empty one.
        (PowerAction::PowerOn, Some("active"), true),
        (PowerAction::PowerOff, Some("active"), true),
        (PowerAction::PowerOff, Some(""), true),
    ] {
        let sent = to_host(action).sent(&[record(action, word)]);
        let sent = sent.own(|own| own.last_read = Some(NOW));
        let expected = if is_done { done } else { runs };
        assert_eq!(sent.short(), expected, "{action:?} {word:?}");
    }
    for (action, word, how) in [
        (PowerAction::PowerOff, Some("stopped"), "is done"),
        (PowerAction::PowerOff, Some(""), "was accepted"),
        (PowerAction::Reboot, None, "was accepted"),
    ] {
        let decision = to_host(action).sent(&[record(action, word)]).decide();
        let message = decision.explanation.unwrap().message;
        assert!(message.contains(how), "{message}");
        let shown = decision.status.provider_state;
        assert_eq!(shown.as_deref(), word.filter(|word| !word.is_empty()));
    }
    let due = to_host(PowerAction::PowerOn).sent(&[record(PowerAction::PowerOn, None)]);
    let due = due.own(|own| own.last_read = Some(NOW - secs(3600)));
    assert_eq!(due.short().0, Some("look"));
    assert_eq!(
        due.late().short(),
        (None, Some(Reason::CommandFailed), Some(false))
    );
}

#[test]
fn only_a_lost_host_reboot_is_not_searched() {
    let waits = Some(Reason::OutcomeUnknown);
    let open = |action| CommandRecord {
        outcome: None,
        ..record(action, None)
    };
    let lost = |action| to_host(action).sent(&[open(action)]);
    let stop = lost(PowerAction::PowerOff);
    // Until its send window is over, another process may send it.
    let early = stop.clone().searched(29, None);
    assert_eq!(early.short(), (None, waits, None));
    let due = stop.clone().searched(30, None);
    let effect = due.decide().effect.unwrap();
    assert!(
        matches!(effect, CommandEffect::Search { calls: 1, .. }),
        "{effect:?}"
    );
    let over = stop.searched(730, Some(100));
    assert_eq!(over.short(), (None, waits, Some(false)));
    let restart = lost(PowerAction::Reboot);
    let early = restart.clone().searched(29, None);
    assert_eq!(early.short(), (None, waits, None));
    assert_eq!(
        restart.clone().searched(30, None).short(),
        (None, waits, Some(false))
    );
    let own = restart
        .searched(0, None)
        .own(|own| own.sent = Some(open(PowerAction::Reboot)));
    assert_eq!(own.short(), (None, waits, Some(false)));
}

/// A command for a host that another object owns.
pub(super) fn conflict() -> Case {
    to_host(PowerAction::Reboot).owned_by_another()
}

/// A command for a host that the account does not grant.
pub(super) fn not_granted() -> Case {
    to_host(PowerAction::Reboot).terms(Terms::Entry(Arc::default()))
}

/// A command for a host that is being installed.
pub(super) fn meets_installation() -> Case {
    to_host(PowerAction::Reboot).host(installing)
}
