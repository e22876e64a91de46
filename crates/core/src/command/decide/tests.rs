//! Tests of the decision: what each state leads to, and a simulation that carries decisions out.

mod follow;
mod hosts;
pub(crate) mod readings;
mod sizes;
mod start;
mod world;

use super::*;
use crate::{
    account::view::{AccountState, AccountView},
    cluster_id::ClusterId,
    command::facts::{CommandMemory, CommandObservation, TargetFact},
    moment::Moment,
    ownership::ConflictingOwners,
    reconcile::{Memory, Subject},
    resolved_account::{ResolvedAccount, suspend_view},
};
use api::{
    BareMetalServer, Interval, ManagementPolicy, Reason, ServerCommand,
    command::{CommandIntent, CommandTarget, ListedCommands, ServerCommandSpec},
    conditions::{self, Type},
    names::{COMMAND_ANNOTATION, OBJECT_FINALIZER},
    power::Power,
    records::CommandRecords,
    references::{AccountKind, PinnedAccount},
    target::{Target, TargetRef},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const NOW: Duration = Duration::from_secs(10_000);
const WALL: i64 = 1_790_000_000;
const SERVER_UUID: &str = "00000000-0000-4000-8000-000000000001";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An object with a delivered server.
fn server() -> BareMetalServer {
    serde_json::from_value(json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
        "metadata": {"name": "web", "namespace": "shop", "uid": "server-1"},
        "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
        "status": {
            "uuid": SERVER_UUID, "providerStatus": "delivered",
            "accountRef": {"kind": "ProviderAccount", "name": "default"},
            "records": {"order": {"uid": "server-1", "seq": 1, "nonce": "a", "sendBy": "2026-01-01T00:00:00Z",
                "accountID": "l", "outcome": "Created", "server": SERVER_UUID}},
        },
    }))
    .unwrap()
}

fn account() -> OrderAccount {
    OrderAccount {
        kind: AccountKind::ProviderAccount,
        name: "default".into(),
        uid: "account-1".into(),
        account_id: "account-id-1".into(),
        credentials_hash: "c0ffee".into(),
    }
}

/// An attempt that was started so many seconds ago.
fn attempt(action: PowerAction, name: &str, ago: i64) -> CommandRecord {
    CommandRecord::new_open(CommandIntent {
        uid: "uid-1".into(),
        action,
        server: SERVER_UUID.into(),
        attempt: name.into(),
        started_at: WALL - ago,
        send_by: WALL - ago + 30,
        account: account(),
        listed: ListedCommands::default(),
    })
}

fn accepted(action: PowerAction, state: &str, ago: i64) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        id: Some("00000000-0000-4000-8000-0000000000c1".into()),
        state: Some(state.into()),
        ..attempt(action, "a1", ago)
    }
}

/// Facts of a test. They start with a command that nothing blocks.
#[derive(Clone)]
struct Case(CommandFacts);

impl Case {
    fn new(action: PowerAction) -> Self {
        let spec = ServerCommandSpec {
            target_ref: TargetRef {
                kind: None,
                name: "web".into(),
            },
            action,
            timeout: None,
            escalate_after: None,
            ttl_seconds_after_finished: None,
        };
        let mut object = ServerCommand::new("reboot-1", spec);
        let meta = &mut object.metadata;
        meta.namespace = Some("shop".into());
        meta.uid = Some("uid-1".into());
        meta.generation = Some(1);
        meta.creation_timestamp = moment(WALL - 60);
        object.status = Some(ServerCommandStatus {
            account_ref: Some(PinnedAccount::from_reference(None)),
            records: CommandRecords {
                target: CommandTarget::from_target(None, &Target::Server(Arc::new(server()))),
                ..CommandRecords::default()
            },
            ..ServerCommandStatus::default()
        });
        Self(CommandFacts {
            subject: Subject {
                read_only: false,
                now: Moment {
                    wall: WALL,
                    mono: NOW,
                },
                leader_since: Duration::ZERO,
                first_seen: NOW - secs(60),
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: ResolvedAccount::Found {
                    view: AccountView::usable(),
                    terms: crate::account::terms::Terms::Own,
                },
                memory: Memory::default(),
                object: Arc::new(object),
            },
            steady: WALL,
            target: TargetFact::Found(Target::Server(Arc::new(server()))),
            conflicting_owners: ConflictingOwners::default(),
            is_first: true,
        })
    }

    fn facts(mut self, change: impl FnOnce(&mut CommandFacts)) -> Self {
        change(&mut self.0);
        self
    }

    /// The same with an account that is stopped.
    fn stopped(self) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                suspend_view(
                    view,
                    Some("the account is stopped; ask for the end of it".into()),
                );
            }
        })
    }

    fn object(self, change: impl FnOnce(&mut ServerCommand)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.subject.object)))
    }

    fn server(self, change: impl FnOnce(&mut BareMetalServer)) -> Self {
        let mut found = server();
        change(&mut found);
        self.facts(|f| f.target = TargetFact::Found(Target::Server(Arc::new(found))))
    }

    /// The same with a change of the server that it has.
    fn changed_server(self, change: impl FnOnce(&mut BareMetalServer)) -> Self {
        self.facts(|f| {
            let TargetFact::Found(Target::Server(server)) = &mut f.target else {
                panic!("it was found")
            };
            change(Arc::make_mut(server));
        })
    }

    fn own(self, change: impl FnOnce(&mut CommandMemory)) -> Self {
        self.facts(|f| change(&mut f.subject.memory.own))
    }

    /// Status has these records, and the annotation has the last one.
    fn sent(self, records: &[CommandRecord]) -> Self {
        let text = serde_json::to_string(&records.last().unwrap().intent).unwrap();
        self.object(|o| {
            o.status.get_or_insert_default().records.sent = records.to_vec();
            o.metadata.annotations = Some([(COMMAND_ANNOTATION.to_owned(), text)].into());
            o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]);
        })
    }

    /// Only the annotation has this text.
    fn with_annotation(self, text: &str) -> Self {
        let annotations = [(COMMAND_ANNOTATION.to_owned(), text.to_owned())];
        self.object(|o| o.metadata.annotations = Some(annotations.into()))
    }

    fn deleted(self) -> Self {
        self.object(|o| o.metadata.deletion_timestamp = moment(WALL - 1))
    }

    fn late(self) -> Self {
        self.object(|o| o.metadata.creation_timestamp = moment(WALL - 1800))
    }

    /// The search for the last attempt began so many seconds ago, and a list missed it so many seconds ago.
    fn searched(self, began: u64, missed: Option<u64>) -> Self {
        self.own(|own| {
            own.searches_for(Some("a1"), NOW - secs(began));
            if let Some(missed) = missed {
                own.record_observation(CommandObservation::NotListed(
                    "a1".into(),
                    NOW - secs(missed),
                ));
            }
        })
    }

    fn decide(&self) -> CommandDecision {
        decide(&self.0)
    }

    /// Effect, reason, and whether the command ended: well, or badly.
    fn short(&self) -> (Option<&'static str>, Option<Reason>, Option<bool>) {
        let decision = self.decide();
        let effect = decision.effect.as_ref().map(|effect| match effect {
            CommandEffect::Send(new) => match new.action {
                PowerAction::PowerOff => "send power-off",
                _ => "send",
            },
            CommandEffect::ReadCommand(_) => "look",
            CommandEffect::Search { .. } => "search",
            CommandEffect::RemoveFinalizer => "let go",
            CommandEffect::Delete => "delete",
        });
        let (status, _) = decision.status(&self.0.subject, jiff::Timestamp::UNIX_EPOCH);
        let is = |kind| conditions::is_true(&status.conditions, kind);
        let end = match (is(Type::Complete), is(Type::Failed)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
            (true, true) => panic!("both"),
        };
        (
            effect,
            decision.explanation.map(|explanation| explanation.reason),
            end,
        )
    }
}

fn reboot() -> Case {
    Case::new(PowerAction::Reboot)
}

fn shutdown(after: u64) -> Case {
    let escalates = Some(Interval(secs(after)));
    Case::new(PowerAction::Shutdown).object(|o| o.spec.escalate_after = escalates)
}
#[test]
fn finished_command_is_deleted_after_ttl() {
    let over = |ttl, ago: i64| {
        reboot().object(|o| {
            o.spec.ttl_seconds_after_finished = ttl;
            let status = o.status.get_or_insert_default();
            status.finished_at = moment(WALL - ago);
            let done =
                conditions::DesiredCondition::new(Type::Complete, true, Reason::Completed, "");
            status.conditions = conditions::merge(
                &[],
                &[done],
                api::conditions::Generations::same(Some(1)),
                jiff::Timestamp::UNIX_EPOCH,
            );
        })
    };
    let with_finalizer = over(Some(0), 9).object(|o| {
        o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]);
    });
    assert_eq!(with_finalizer.short().0, Some("let go"));
    // Something adds it again: remove it with backoff until the object is deleted.
    let conflict =
        with_finalizer.facts(|f| f.subject.memory.finalizer_restores.record_restore(NOW));
    assert_eq!(conflict.short().0, None);
    assert_eq!(conflict.deleted().short().0, Some("let go"));
    assert_eq!(over(None, 900_000).short().0, None);
    assert_eq!(over(Some(0), 0).short().0, Some("delete"));
    let waits = over(Some(100), 99).decide();
    assert_eq!((waits.effect, waits.requeue_after), (None, secs(1)));
    assert_eq!(over(Some(100), 100).short().0, Some("delete"));
    let turned = over(Some(100), 0).facts(|f| f.subject.now.wall += 1000);
    assert_eq!(turned.short().0, None, "its clock was turned");
}

/// The provider's server does not have the tag of its object.
fn untagged() -> Case {
    let why = "Server u1 does not have the tag of BareMetalServer web alone; put it right".into();
    reboot()
        .own(|own| own.record_observation(CommandObservation::Busy(Reason::TagsMissing, why, NOW)))
}

#[test]
fn finished_command_ignores_account_changes() {
    let over = reboot()
        .sent(&[accepted(PowerAction::Reboot, "finished", 9)])
        .object(|o| {
            let status = o.status.get_or_insert_default();
            (status.started_at, status.finished_at) = (moment(WALL - 9), moment(WALL - 5));
            let done =
                conditions::DesiredCondition::new(Type::Complete, true, Reason::Completed, "");
            let synced = conditions::DesiredCondition::new(Type::Synced, true, Reason::InSync, "");
            let now = jiff::Timestamp::UNIX_EPOCH;
            status.conditions = conditions::merge(
                &[],
                &[done, synced],
                api::conditions::Generations::same(Some(1)),
                now,
            );
        });
    let blocked = |case: &Case, reason| {
        case.clone().facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                view.state = AccountState::Blocked(reason, "no".into());
            }
            let grace = &mut f.subject.memory.grace;
            grace.record_awaited(Some(Reason::AccountNotReady), NOW - secs(120));
        })
    };
    let written = |case: &Case| {
        let subject = &case.0.subject;
        let (status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
        (status != *subject.object.status.as_ref().unwrap(), status)
    };
    // A command that is under way reports them.
    let running = over
        .clone()
        .object(|o| o.status.as_mut().unwrap().finished_at = None);
    let unsent = reboot().object(|o| o.status = Some(ServerCommandStatus::default()));
    for (reason, live) in [
        (Reason::KeyRejected, &running),
        (Reason::Suspended, &unsent),
    ] {
        let (is_news, status) = written(&blocked(&over, reason));
        assert!(!is_news, "{status:?}");
        assert!(written(&blocked(live, reason)).0);
    }
}

#[test]
fn command_that_ends_is_not_suspended() {
    let shown = |case: &Case, account: Option<Reason>| {
        let case = case.clone().facts(|f| {
            if let (ResolvedAccount::Found { view, .. }, Some(reason)) =
                (&mut f.subject.account, account)
            {
                view.state = AccountState::Blocked(reason, "stopped".into());
            }
        });
        let (status, _) = case
            .decide()
            .status(&case.0.subject, jiff::Timestamp::UNIX_EPOCH);
        let mut suspended = status.conditions.iter();
        let suspended = suspended.find(|c| c.type_ == Type::Suspended.as_str());
        let word = suspended.map(|c| c.status.clone());
        (word, case.object(|o| o.status = Some(status)))
    };
    let waits = reboot().object(|o| o.status = Some(ServerCommandStatus::default()));
    let (word, waits) = shown(&waits, Some(Reason::Suspended));
    assert_eq!(word.as_deref(), Some("True"));
    let late = waits.object(|o| o.metadata.creation_timestamp = moment(WALL - 90_000));
    let late = late.facts(|f| f.steady = WALL);
    let (word, over) = shown(&late, Some(Reason::Suspended));
    assert!(
        over.0
            .subject
            .object
            .status
            .as_ref()
            .unwrap()
            .finished_at
            .is_some()
    );
    assert_eq!(word.as_deref(), Some("False"));
    for account in [None, Some(Reason::Suspended), Some(Reason::Pending)] {
        let (word, after) = shown(&over, account);
        assert_eq!(word.as_deref(), Some("False"));
        assert_eq!(after.0.subject.object.status, over.0.subject.object.status);
    }
}

/// A command for a change of `spec.power` that the server no longer records.
fn overtaken() -> Case {
    of_power(None)
}

/// A command for a change of `spec.power`; its server has this command recorded.
fn of_power(last: Option<&str>) -> Case {
    let owner = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "name": "web",
        "uid": "server-1", "controller": true,
    });
    let command = last
        .map(|name| json!({"name": name, "startedAt": "2026-01-01T00:00:00Z", "state": "Created"}));
    let power = json!({"target": SERVER_UUID, "desired": "PoweredOn", "command": command});
    reboot()
        .object(|o| {
            o.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()])
        })
        .server(|s| {
            s.spec.power = Some(Power::PoweredOn);
            s.status.as_mut().unwrap().records.power = serde_json::from_value(power).unwrap();
        })
}

#[test]
fn outdated_power_command_is_not_sent() {
    let name = reboot().0.subject.object.metadata.name.clone().unwrap();
    let is_sent = |case: &Case| matches!(case.decide().effect, Some(CommandEffect::Send(_)));
    let wanted = of_power(Some(&name));
    assert!(is_sent(&wanted));
    assert!(!is_sent(&of_power(Some("another"))));
    assert!(!is_sent(&overtaken()));
    let off = wanted
        .clone()
        .changed_server(|s| s.spec.power = Some(Power::PoweredOff));
    assert!(!is_sent(&off), "by the time it is its turn");
    let moved = wanted.changed_server(|s| s.status.as_mut().unwrap().uuid = Some("another".into()));
    assert!(!is_sent(&moved), "nor to another machine");
}

#[test]
fn a_target_in_other_letters_is_the_same() {
    let target = |end: &str| {
        let mut server = server();
        let uuid = SERVER_UUID.replace("01", end);
        server.status.as_mut().unwrap().uuid = Some(uuid);
        Target::Server(Arc::new(server))
    };
    let first = CommandTarget::from_target(None, &target("ab"));
    let again = |end: &str| CommandTarget::from_target(first.as_ref(), &target(end));
    assert_eq!(again("AB"), first);
    assert_eq!(again("AC"), None);
}
