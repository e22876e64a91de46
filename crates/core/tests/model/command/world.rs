//! The world of a command: its object, its server, the provider, two processes and what they read.

use super::{super::interner::Interner, scenes::Scene};
use api::{
    ServerCommand,
    command::{CommandOutcome, CommandRecord, PowerAction},
    names::COMMAND_ANNOTATION,
    references::PinnedAccount,
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::{terms::Terms, view::AccountView},
    attempt_state::AttemptState,
    cluster_id::ClusterId,
    command::{
        decide::NewCommand,
        facts::{CommandFacts, CommandMemory, CommandObservation, TargetFact},
    },
    moment::Moment,
    ownership::ConflictingOwners,
    provider_commands::command_of,
    reconcile::{Memory, Subject},
    resolved_account::ResolvedAccount,
};
use hosting_types::{
    CommandId,
    command::{Command, CommandState},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

pub(super) const BASE: i64 = 1_790_000_000;
/// Seconds of one tick. Nothing begun before it is sent after it.
pub(super) const TICK: i64 = 600;
/// Number of ticks in a walk.
pub(super) const TICKS: u8 = 3;
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// Maximum number of attempts.
pub(super) const ATTEMPTS: u8 = 2;

/// What the object consists of. Its decoder sees nothing else.
#[derive(PartialEq, Eq, Hash)]
struct ObjectParts {
    kind: TargetKind,
    action: PowerAction,
    annotation: Option<String>,
    sent: Vec<CommandRecord>,
    ended: Option<bool>,
}

/// The same for the target.
#[derive(PartialEq, Eq, Hash)]
struct TargetParts {
    kind: TargetKind,
    server: u8,
    is_deleted: bool,
}

/// What was decoded: to decode an object takes as long as to decide about it.
static OBJECTS: LazyLock<Interner<ObjectParts, Arc<ServerCommand>>> =
    LazyLock::new(Interner::default);
static TARGETS: LazyLock<Interner<TargetParts, TargetFact>> = LazyLock::new(Interner::default);

/// An attempt and its current state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    pub(super) new: NewCommand,
    pub(super) record: CommandRecord,
    /// The records next to it.
    pub(super) records: Vec<CommandRecord>,
    /// The version that the next write is based on.
    pub(super) base: u8,
    pub(super) since: u8,
    pub(super) stage: AttemptState,
    /// Whether the server was checked. Next: send the request.
    pub(super) is_let: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) memory: CommandMemory,
    pub(super) started: u8,
    pub(super) sending: Option<Sending>,
}

/// A command at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Made {
    pub(super) action: PowerAction,
    pub(super) at: u8,
    pub(super) is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u8,
    /// The object.
    pub(super) version: u8,
    pub(super) annotation: Option<String>,
    pub(super) sent: Vec<CommandRecord>,
    pub(super) ended: Option<bool>,
    /// The server.
    pub(super) server: u8,
    pub(super) is_deleted: bool,
    pub(super) is_release_recorded: bool,
    pub(super) has_asked: bool,
    pub(super) is_released: bool,
    /// The provider.
    pub(super) made: Vec<Made>,
    pub(super) wire: Vec<(PowerAction, u8)>,
    pub(super) posts: Vec<PowerAction>,
    pub(super) processes: [Process; 2],
    pub(super) attempts: u8,
    pub(super) crashes: u8,
    pub(super) user_actions: u8,
    pub(super) broken: Option<&'static str>,
}

/// The target's ID in an intent.
pub(super) fn target_id(kind: TargetKind, number: u8) -> String {
    match kind {
        TargetKind::BareMetalServer => server_uuid(number),
        TargetKind::DedicatedHost => number.to_string(),
    }
}

/// The fate of a write or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    Done,
    /// Done, and the answer is lost.
    Unanswered,
    /// Still in flight, and the answer is lost.
    Late,
    /// It never arrives, and there is no answer.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Move {
    Tick,
    /// A reconcile: decides, and does the first step.
    Pass(usize),
    Write(usize, Fate),
    CheckServer(usize),
    Post(usize, Fate),
    Crash(usize),
    Arrive(usize),
    End(usize),
    UserCommand,
    MakeUp,
    Strip,
    Delete,
    Rebind,
    RecordRelease,
    Ask,
    Release,
}

pub(super) fn server_uuid(number: u8) -> String {
    format!("00000000-0000-4000-8000-00000000000{number}")
}

pub(super) fn at(tick: u8) -> i64 {
    BASE + i64::from(tick) * TICK
}

pub(super) fn moment(tick: u8) -> Moment {
    let since = u64::from(tick) * TICK.unsigned_abs();
    Moment {
        wall: at(tick),
        mono: Duration::from_secs(100_000 + since),
    }
}

pub(super) fn process(started: u8) -> Process {
    Process {
        memory: CommandMemory::default(),
        started,
        sending: None,
    }
}

pub(super) fn unsent(record: CommandRecord) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..record
    }
}

pub(super) fn accepted(record: &CommandRecord, command: &Command) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        id: Some(command.id.as_str().to_owned()),
        state: Some(command.state.as_str().to_owned()),
        ..record.clone()
    }
}

impl State {
    /// The object as the API server has it.
    pub(super) fn object(&self, scene: &Scene) -> Arc<ServerCommand> {
        let parts = ObjectParts {
            kind: scene.kind,
            action: scene.action,
            annotation: self.annotation.clone(),
            sent: self.sent.clone(),
            ended: self.ended,
        };
        OBJECTS.get(OBJECTS.put(parts, |parts| Arc::new(parts.decode())))
    }

    /// The target as the API server has it.
    pub(super) fn target(&self, scene: &Scene) -> TargetFact {
        let parts = TargetParts {
            kind: scene.kind,
            server: self.server,
            is_deleted: self.is_deleted,
        };
        TARGETS.get(TARGETS.put(parts, TargetParts::decode))
    }

    pub(super) fn facts(&self, scene: &Scene, process: usize) -> CommandFacts {
        let me = &self.processes[process];
        let mut facts = CommandFacts {
            subject: Subject {
                read_only: false,
                now: moment(self.now),
                leader_since: Duration::ZERO,
                first_seen: moment(me.started).mono,
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: ResolvedAccount::Found {
                    view: AccountView::usable(),
                    terms: Terms::Own,
                },
                memory: Memory {
                    own: me.memory.clone(),
                    ..Memory::default()
                },
                object: self.object(scene),
            },
            steady: at(self.now),
            target: self.target(scene),
            conflicting_owners: ConflictingOwners::default(),
            is_first: true,
        };
        facts.subject.memory.own.compare(&self.sent, None);
        let attempt = facts.open_attempt();
        let now = facts.subject.now.mono;
        facts
            .subject
            .memory
            .own
            .searches_for(attempt.as_deref(), now);
        facts
    }

    /// The host's power state. Each arrived and ended command has switched it.
    pub(super) fn power(&self) -> &'static str {
        let last = self.made.iter().rev().find(|made| made.is_over);
        match last.map(|made| made.action) {
            Some(PowerAction::PowerOff | PowerAction::Shutdown) => "stopped",
            Some(PowerAction::PowerOn | PowerAction::Reboot) => "running",
            None => "stopped",
        }
    }

    pub(super) fn commands(&self) -> Vec<Command> {
        let all = self.made.iter().zip(1_u32..);
        let command = |(made, number): (&Made, u32)| Command {
            id: CommandId::parse(&format!("00000000-0000-4000-9000-{number:012}")).unwrap(),
            server: None,
            command: Some(command_of(made.action).as_str().into()),
            state: match made.is_over {
                true => CommandState::Finished,
                false => CommandState::Pending,
            },
            created_at: Timestamp::from_second(at(made.at)).ok(),
            updated_at: None,
        };
        all.map(command).collect()
    }

    pub(super) fn make(&mut self, action: PowerAction) {
        self.made.push(Made {
            action,
            at: self.now,
            is_over: false,
        });
    }

    pub(super) fn record_observation(&mut self, process: usize, observation: CommandObservation) {
        self.processes[process]
            .memory
            .record_observation(observation);
    }
}

impl ObjectParts {
    fn decode(&self) -> ServerCommand {
        let mut spec = json!({
            "targetRef": {"kind": self.kind, "name": "web"}, "action": self.action,
            "timeout": "24h",
        });
        if self.action == PowerAction::Shutdown {
            spec["escalateAfter"] = json!("5m");
        }
        let conditions: Vec<Value> = self
            .ended
            .iter()
            .map(|well| {
                let kind = if *well { "Complete" } else { "Failed" };
                json!({
                    "type": kind, "status": "True", "reason": "Completed", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let annotations = self
            .annotation
            .as_ref()
            .map(|text| json!({COMMAND_ANNOTATION: text}));
        let target = json!({"uid": "server", "server": target_id(self.kind, 1), "accountID": "account-id-1"});
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {
                "name": "c", "namespace": "shop", "uid": "uid", "annotations": annotations,
                "creationTimestamp": Timestamp::from_second(BASE).unwrap().to_string(),
            },
            "spec": spec,
            "status": {
                "accountRef": PinnedAccount::from_reference(None), "conditions": conditions,
                // It first saw the target before the scene.
                "records": {"sent": self.sent, "target": target},
            },
        });
        serde_json::from_value(object).unwrap()
    }
}

impl TargetParts {
    fn decode(&self) -> TargetFact {
        match self.kind {
            TargetKind::DedicatedHost => self.decode_host(),
            TargetKind::BareMetalServer => self.decode_server(),
        }
    }

    fn decode_host(&self) -> TargetFact {
        let mut host = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
            "metadata": {"name": "web", "namespace": "shop", "uid": "server"},
            "spec": {"hostID": self.server},
            "status": {"accountRef": PinnedAccount::from_reference(None), "records": {"accountID": "account-id-1"}},
        });
        if self.is_deleted {
            host["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        TargetFact::Found(Target::Host(Arc::new(
            serde_json::from_value(host).unwrap(),
        )))
    }

    fn decode_server(&self) -> TargetFact {
        let mut server = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "shop", "uid": "server"},
            "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
            "status": {
                "uuid": server_uuid(self.server), "providerStatus": "delivered",
                "accountRef": PinnedAccount::from_reference(None),
                "records": {"order": {"uid": "server", "seq": 1, "nonce": "a", "accountID": "account-id-1",
                    "sendBy": "2026-01-01T00:00:00Z", "outcome": "Created", "server": server_uuid(self.server)}},
            },
        });
        if self.is_deleted {
            server["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        TargetFact::Found(Target::Server(Arc::new(
            serde_json::from_value(server).unwrap(),
        )))
    }
}
