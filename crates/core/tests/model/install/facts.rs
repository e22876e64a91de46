//! What the deciding code reads, made of the small world.

use super::{
    scenes::{Scene, Variant},
    world::*,
};
use api::{
    BareMetalServer, Interval,
    command::CommandOutcome,
    install::Install,
    lifetime::Provisioning,
    names::{ORDER_ANNOTATION, SERVER_FINALIZER},
    order::{OrderAccount, OrderNote},
    records::{ReleaseRecord, ServerRecords},
    references::{AccountKind, PinnedAccount},
    server::{
        BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, Intent, OrderOutcome,
        OrderRecord,
    },
};
use flexmetal_core::{
    account::{
        left_behind::{Left, LeftBehind},
        terms::Terms,
        view::{Sighting, Times, View},
    },
    account_facts::AccountFacts,
    mark::{ClusterId, Mark},
    power::KnownCommand,
    server::{
        facts::{Facts, Installation, ServerKey},
        memory::Memory,
        recall::{Known, recall},
    },
    server_commands::UnderWay,
};
use hosting_types::{
    CommandId, Server, ServerId, ServerStatus,
    command::{Command, CommandState},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

pub(super) const MACHINE: &str = "00000000-0000-4000-8000-000000000001";
/// The machine was ordered long before all that happens here.
const ORDERED: i64 = BASE - 100_000;

static CLUSTER: LazyLock<ClusterId> =
    LazyLock::new(|| ClusterId::parse("0123456789abcdef").unwrap());

static MARK: LazyLock<Mark> = LazyLock::new(|| CLUSTER.object_mark("shop", "web", "uid"));

static INTENT: LazyLock<Intent> = LazyLock::new(|| Intent {
    cluster: CLUSTER.as_str().into(),
    uid: "uid".into(),
    mark: MARK.as_str().into(),
    epoch: ORDERED,
    attempt: "order".into(),
    send_by: ORDERED + 30,
    hostname: "web".into(),
    account: Some(OrderAccount {
        kind: AccountKind::ProviderAccount,
        name: "default".into(),
        uid: "account-1".into(),
        lineage: "lineage-1".into(),
        connection: "c0ffee".into(),
    }),
    unknown_before: 0,
});

static SPEC: LazyLock<BareMetalServerSpec> = LazyLock::new(|| {
    let least = r#"{"location": "here", "instanceType": "small", "os": {"slug": "some-os"}}"#;
    serde_json::from_str(least).unwrap()
});

pub(super) fn machine(is_retained: bool) -> Server {
    let mut tags = vec![CLUSTER.tag(), MARK.order_tag(ORDERED)];
    if is_retained {
        tags.push(CLUSTER.tag_of_retained("shop", "web"));
    }
    Server {
        id: ServerId::parse(MACHINE).unwrap(),
        name: "web".into(),
        status: ServerStatus::Delivered,
        status_message: String::new(),
        location_id: None,
        location: "here".into(),
        instance_type_id: None,
        instance_type: "small".into(),
        os_slug: "some-os".into(),
        addresses: vec!["192.0.2.1".into()],
        tags,
        created_at: Some(ORDERED),
        delivered_at: Some(ORDERED + 60),
        released_at: None,
        contract_id: None,
    }
}

fn time(at: i64) -> Time {
    Time(Timestamp::from_second(at).unwrap())
}

/// The object as the API server has it.
pub(super) fn object(scene: &Scene, o: &Object) -> BareMetalServer {
    let spec = BareMetalServerSpec {
        install: Some(Install {
            revision: i64::from(o.revision),
            wipe_disk: None,
        }),
        deletion_policy: Some(match scene.retains {
            true => DeletionPolicy::Retain,
            false => DeletionPolicy::Release,
        }),
        deletion_protection: Some(o.is_protected),
        suspend: Some(false),
        provisioning: Some(Provisioning {
            timeout: Some(Interval(Duration::from_secs(2 * TICK.unsigned_abs()))),
            ..Provisioning::default()
        }),
        ..SPEC.clone()
    };
    let mut object = BareMetalServer::new("web", spec);
    let meta = &mut object.metadata;
    meta.namespace = Some("shop".into());
    meta.uid = Some("uid".into());
    meta.generation = Some(i64::from(o.generation));
    meta.creation_timestamp = Some(time(ORDERED - 60));
    meta.deletion_timestamp = o.is_deleting.then(|| time(BASE));
    meta.finalizers = Some(vec![SERVER_FINALIZER.into()]);
    let note = serde_json::to_string(&OrderNote::open(INTENT.clone())).unwrap();
    meta.annotations = Some(BTreeMap::from([(ORDER_ANNOTATION.to_owned(), note)]));
    object.status = match o.said {
        Said::Lost => None,
        Said::Installs(number) => Some(BareMetalServerStatus {
            account_ref: Some(PinnedAccount::of(None)),
            uuid: Some(MACHINE.into()),
            provider_status: Some("delivered".into()),
            records: ServerRecords {
                order: Some(OrderRecord {
                    outcome: Some(OrderOutcome::Created),
                    outcome_at: Some(ORDERED),
                    ..OrderRecord::open(INTENT.clone())
                }),
                install: Some((*STATUSES.get(number)).clone()),
                ..ServerRecords::default()
            },
            ..BareMetalServerStatus::default()
        }),
    };
    if o.is_begun {
        object.status.get_or_insert_default().records.release = Some(ReleaseRecord {
            uid: "uid".into(),
            server: MACHINE.into(),
        });
    }
    object
}

fn times() -> Times {
    let tick = Duration::from_secs(TICK.unsigned_abs());
    Times {
        absence_grace_period: tick,
        absence_check_interval: tick,
        send_window: WINDOW,
        order_timeout: WINDOW,
        active_poll_interval: tick,
        idle_poll_interval: tick,
        orphan_scan_interval: tick,
    }
}

/// What a process knows of the machine.
struct Seen(Sighting);

impl Known for Seen {
    fn bearing(&self, mark: &Mark) -> Vec<Sighting> {
        let is_own = *mark == *MARK;
        is_own.then(|| self.0.clone()).into_iter().collect()
    }

    fn machine(&self, uuid: &str) -> Option<Sighting> {
        (uuid == MACHINE).then(|| self.0.clone())
    }

    fn left_behind(&self, _: &Left<'_>) -> LeftBehind {
        LeftBehind::default()
    }

    fn is_claimed(&self, _: &Mark, _: &str, _: bool) -> Option<bool> {
        Some(false)
    }

    fn has_settled(&self, _: &Mark, _: &str) -> bool {
        false
    }

    fn is_recorded(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// What a process knows beside the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Around {
    pub(super) memory: u32,
    pub(super) now: u8,
    pub(super) is_retained: bool,
    pub(super) power: bool,
}

impl Around {
    pub(super) fn of(state: &State, it: usize) -> Self {
        Self {
            memory: state.processes[it].memory,
            now: state.now,
            is_retained: state.is_retained,
            power: state.power.is_under_way(),
        }
    }
}

/// The facts, recalled as every pass does it.
pub(super) fn facts(scene: &Scene, o: &Object, around: Around) -> Facts {
    let now = moment(around.now, 0);
    let mut object = object(scene, o);
    let mut memory: Memory = (*MEMORIES.get(around.memory)).clone();
    if scene.variant == Variant::AgainAfterLost {
        let status = object
            .status
            .as_mut()
            .and_then(|s| s.records.install.as_mut());
        let shown = status.and_then(|install| install.last.as_mut());
        for record in shown
            .into_iter()
            .chain(memory.install.record.as_deref_mut())
        {
            if record.outcome.is_none() && record.end.is_none() {
                record.outcome = Some(CommandOutcome::NotSent);
            }
        }
    }
    let mut facts = Facts {
        now,
        wall_at_start: now.wall,
        acting_since: Duration::ZERO,
        first_seen: Duration::ZERO,
        is_newcomer: false,
        cluster: CLUSTER.clone(),
        all_namespaces: true,
        kind_deleting: Some(false),
        object: Arc::new(object),
        account: AccountFacts::Found {
            view: View {
                times: times(),
                ..View::usable()
            },
            terms: Terms::Own,
        },
        denied: None,
        installation: Some(Ok(Installation {
            ssh_keys: vec![ServerKey {
                sent: MACHINE.into(),
                known_by: "a key".into(),
            }],
            ..Installation::default()
        })),
        named_keys: Vec::new(),
        own: Vec::new(),
        recorded: None,
        retained: Vec::new(),
        unlisted: Vec::new(),
        former: None,
        external: None,
        other_marks: Vec::new(),
        recorded_elsewhere: Vec::new(),
        commands: match around.power {
            true => UnderWay::Command("reboot".into()),
            false => UnderWay::Nothing,
        },
        power: KnownCommand::NotRead,
        memory,
    };
    let seen = Seen(Sighting {
        server: Arc::new(machine(around.is_retained)),
        seen: now.mono,
    });
    recall(&mut facts, Some(&seen));
    if scene.variant == Variant::RetainAtOnce
        && let Some((_, since)) = &mut facts.memory.install.unanswered
    {
        *since = Duration::ZERO;
    }
    facts
}

/// The commands of the machine as the provider lists them.
pub(super) fn commands(state: &State) -> Vec<Command> {
    let all = state.made.iter().flatten().zip(1_u32..);
    let command = |(made, number): (&Made, u32)| Command {
        id: CommandId::parse(&id(number)).unwrap(),
        server: None,
        command: None,
        state: match made.state {
            Progress::Pending => CommandState::Pending,
            Progress::Finished => CommandState::Finished,
            Progress::Failed => CommandState::Failed,
        },
        created_at: Timestamp::from_second(wall(made.at)).ok(),
        updated_at: None,
    };
    all.map(command).collect()
}

fn id(number: u32) -> String {
    format!("00000000-0000-4000-9000-{number:012}")
}

/// The command of this identifier.
pub(super) fn made_of(state: &State, command: &str) -> Option<Made> {
    let mut all = state.made.iter().flatten().zip(1_u32..);
    all.find(|(_, number)| id(*number) == command)
        .map(|(made, _)| *made)
}
