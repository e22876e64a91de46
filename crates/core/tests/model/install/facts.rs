//! Builds the inputs of the decision code from the model's world.

use super::{
    scenes::{Scene, Variant},
    world::*,
};
use api::{
    BareMetalServer, Interval,
    command::CommandOutcome,
    install::Install,
    lifetime::Provisioning,
    names::{RETAINED_TAG, SERVER_FINALIZER},
    records::{ReleaseRecord, ServerRecords},
    references::PinnedAccount,
    server::{
        BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, OrderOutcome, OrderRecord,
    },
};
use flexmetal_core::{
    account::{
        terms::Terms,
        view::{AccountTimes, AccountView, SeenServer},
    },
    cluster_id::ClusterId,
    owner::Owner,
    power::KnownCommand,
    resolved_account::ResolvedAccount,
    server::{
        facts::{Installation, ServerFacts, ServerKey},
        memory::ServerMemory,
        refresh::{ServerIndex, refresh_facts},
    },
    server_commands::RunningCommand,
};
use hosting_types::{
    CommandId, Server, ServerId, ServerStatus,
    command::{Command, CommandState},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

pub(super) const SERVER_UUID: &str = "00000000-0000-4000-8000-000000000001";
/// The server was ordered long before the scene.
const ORDERED: i64 = BASE - 100_000;
const ACCOUNT: &str = "account-id-1";
const NAMESPACE_UID: &str = "ns";

static CLUSTER: LazyLock<ClusterId> =
    LazyLock::new(|| ClusterId::parse("0123456789abcdef").unwrap());

static OWNER: LazyLock<Owner> =
    LazyLock::new(|| Owner::new(&CLUSTER, "shop", "web", NAMESPACE_UID));

fn seq() -> u32 {
    u32::try_from(ORDERED).unwrap()
}

fn order() -> OrderRecord {
    OrderRecord {
        uid: "uid".into(),
        seq: seq(),
        nonce: "order".into(),
        send_by: ORDERED + 30,
        hostname: "web".into(),
        account_id: ACCOUNT.into(),
        outcome: Some(OrderOutcome::Created),
        server: Some(SERVER_UUID.into()),
        outcome_at: Some(ORDERED),
        answer_lost: false,
        lost: 0,
        cut: 0,
        message: None,
        failures: 0,
        acknowledgement: None,
        request_hash: None,
        location: None,
        instance_type: None,
        sent: Default::default(),
        key_uids: Vec::new(),
        secret_texts: false,
    }
}

static SPEC: LazyLock<BareMetalServerSpec> = LazyLock::new(|| {
    let least = r#"{"location": "here", "instanceType": "small", "os": {"slug": "some-os"}}"#;
    serde_json::from_str(least).unwrap()
});

pub(super) fn provider_server(is_retained: bool) -> Server {
    let mut tags = vec![CLUSTER.tag(), OWNER.order_tag(seq())];
    if is_retained {
        tags.push(RETAINED_TAG.to_owned());
    }
    Server {
        id: ServerId::parse(SERVER_UUID).unwrap(),
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
    // An object that lost its status knows its server again, but no installation.
    object.status = Some(BareMetalServerStatus {
        account_ref: Some(PinnedAccount::from_reference(None)),
        uuid: Some(SERVER_UUID.into()),
        provider_status: Some("delivered".into()),
        records: ServerRecords {
            order: Some(order()),
            install: match o.said {
                Said::Lost => None,
                Said::Installs(number) => Some((*STATUSES.get(number)).clone()),
            },
            ..ServerRecords::default()
        },
        ..BareMetalServerStatus::default()
    });
    if o.is_begun {
        object.status.get_or_insert_default().records.release = Some(ReleaseRecord {
            uid: "uid".into(),
            server: SERVER_UUID.into(),
            send_by: BASE,
            deleting: o.is_deleting,
        });
    }
    object
}

fn times() -> AccountTimes {
    let tick = Duration::from_secs(TICK.unsigned_abs());
    AccountTimes {
        absence_grace_period: tick,
        absence_check_interval: tick,
        send_window: WINDOW,
        order_timeout: WINDOW,
        active_poll_interval: tick,
        idle_poll_interval: tick,
        orphan_scan_interval: tick,
    }
}

/// What a process knows about the server.
struct Seen(SeenServer);

impl ServerIndex for Seen {
    fn servers_by_namespaced_name_hash(&self, _: &str) -> Vec<SeenServer> {
        vec![self.0.clone()]
    }

    fn find_server(&self, uuid: &str) -> Option<SeenServer> {
        (uuid == SERVER_UUID).then(|| self.0.clone())
    }

    fn is_owner(&self, _: &str, _: &str) -> Option<bool> {
        Some(false)
    }

    fn is_recorded(&self, _: &str, _: &str) -> bool {
        false
    }

    fn is_named(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }
}

/// What a process knows apart from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Around {
    pub(super) memory: u32,
    pub(super) now: u8,
    pub(super) is_retained: bool,
    pub(super) power: bool,
}

impl Around {
    pub(super) fn from_state(state: &State, it: usize) -> Self {
        Self {
            memory: state.processes[it].memory,
            now: state.now,
            is_retained: state.is_retained,
            power: state.power.is_under_way(),
        }
    }
}

/// The facts, refreshed as in every reconcile.
pub(super) fn facts(scene: &Scene, o: &Object, around: Around) -> ServerFacts {
    let now = moment(around.now, 0);
    let mut object = object(scene, o);
    let mut memory: ServerMemory = (*MEMORIES.get(around.memory)).clone();
    // Each process considers itself leader from the start.
    memory.leader_since = Some(Duration::ZERO);
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
    let mut facts = ServerFacts {
        read_only: false,
        now,
        wall_at_start: now.wall,
        leader_since: Duration::ZERO,
        first_seen: Duration::ZERO,
        created_since_leading: false,
        cluster: CLUSTER.clone(),
        kind_deleting: Some(false),
        object: Arc::new(object),
        account: ResolvedAccount::Found {
            view: AccountView {
                times: times(),
                account_id: Some(ACCOUNT.into()),
                ..AccountView::usable()
            },
            terms: Terms::Own,
        },
        denied: None,
        installation: Some(Ok(Installation {
            ssh_keys: vec![ServerKey {
                sent: SERVER_UUID.into(),
                known_by: "a key".into(),
                object: None,
            }],
            ..Installation::default()
        })),
        named_keys: Vec::new(),
        namespace_uid: Ok(NAMESPACE_UID.into()),
        own: Vec::new(),
        recorded: None,
        previous: Vec::new(),
        suspects: Vec::new(),
        external: None,
        recorded_elsewhere: Vec::new(),
        owned_elsewhere: Vec::new(),
        is_handed_over: false,
        commands: match around.power {
            true => RunningCommand::Command("reboot".into()),
            false => RunningCommand::Nothing,
        },
        power: KnownCommand::NotRead,
        memory,
    };
    let seen = Seen(SeenServer {
        server: Arc::new(provider_server(around.is_retained)),
        seen: now.mono,
    });
    refresh_facts(&mut facts, Some(&seen));
    if scene.variant == Variant::RetainAtOnce
        && let Some((_, since)) = &mut facts.memory.install.unanswered
    {
        *since = Duration::ZERO;
    }
    facts
}

/// The server's commands as the provider lists them.
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

/// The command with this ID.
pub(super) fn made_of(state: &State, command: &str) -> Option<Made> {
    let mut all = state.made.iter().flatten().zip(1_u32..);
    all.find(|(_, number)| id(*number) == command)
        .map(|(made, _)| *made)
}
