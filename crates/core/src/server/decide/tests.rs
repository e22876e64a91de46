//! The tests of decisions, with the builder of their facts. Each file tests the file of the same name;
//! `protocol` tests every step and wait of the protocol.

mod answers;
mod desired_status;
mod events;
mod existing;
mod expiry;
mod explain;
mod external;
mod finalizer;
mod order;
mod outputs;
mod placement_candidates;
mod power;
mod properties;
mod protocol;
mod read_only;
pub(crate) mod readings;
mod reconcile_request;
mod refresh;
mod reinstall;
mod release;
mod repeated_failure;
mod replace;
mod root_password;
mod sizes;
mod tags;
mod terms;

use super::{
    super::facts::{ExternalServer, Installation, ServerFacts, is_same_uuid},
    *,
};
use crate::{
    account::view::{AccountState, AccountTimes, Catalogue, CompleteList, SeenServer},
    cluster_id::ClusterId,
    explanation::Explanation,
    moment::Moment,
    owner::Owner,
    power::KnownCommand,
    protocol::{ProtocolObject, ProtocolOutcome},
    resolved_account::ResolvedAccount,
    server::memory::ServerMemory,
    server_commands::RunningCommand,
};
use api::{
    BareMetalServer, Interval, Policies, PoliciesInForce,
    account::KnownServer,
    acknowledgement::AcknowledgementEffect,
    conditions::Type,
    names::{ACKNOWLEDGE, OUTPUT_FINALIZER, RETAINED_TAG, SERVER_FINALIZER},
    order::OrderAccount,
    outputs::{OutputKind, OutputRecord},
    records::{ReleaseRecord, ServerRecords},
    references::AccountKind,
    server::{BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, OrderRecord},
};
use hosting_types::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;

/// Wall time at the start of the process.
const START: i64 = 1_790_000_000;
/// Start of the last order, if any.
const EPOCH: i64 = START + 500;
/// The process has run for this long.
const RUNNING: Duration = Duration::from_secs(1000);
/// The credentials hash in use.
const CONNECTION: &str = "c0ffee000001";
/// The ID of the account.
const ACCOUNT_ID: &str = "11111111aaaa";
/// A known server, which complete lists must contain.
const KNOWN_SERVER: u8 = 9;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn seq(second: i64) -> u32 {
    u32::try_from(second).unwrap()
}

fn uuid(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02}")
}

/// The minimal spec. Every other field has a default.
fn spec() -> BareMetalServerSpec {
    serde_json::from_value(serde_json::json!({
        "location": "here", "instanceType": "small", "os": {"slug": "some-os"},
    }))
    .unwrap()
}

fn cluster() -> ClusterId {
    ClusterId::parse("0123456789abcdef").unwrap()
}

/// The owner of an object of this name.
fn owner_of(name: &str) -> Owner {
    Owner::new(&cluster(), "shop", name, "ns-1")
}

fn owner() -> Owner {
    owner_of("web")
}

/// The object's order tag.
fn own_tag() -> String {
    owner().order_tag(seq(EPOCH))
}

/// The order tag of another object in the namespace.
fn other_tag() -> String {
    owner_of("api").order_tag(seq(EPOCH + 7))
}

/// The order tag of the same name, from before the namespace was recreated.
fn previous_tag() -> String {
    Owner::new(&cluster(), "shop", "web", "ns-0").order_tag(seq(EPOCH))
}

fn time(wall: i64) -> Time {
    Time(Timestamp::from_second(wall).unwrap())
}

/// Facts under construction. They start with a new object that is free to order: this process saw its creation and
/// added the finalizer.
#[derive(Clone)]
struct Case(ServerFacts);

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let facts = &self.0;
        let view = facts.view();
        f.debug_struct("Case")
            .field("metadata", &facts.object.metadata)
            .field("spec", &facts.object.spec)
            .field("status", &facts.object.status)
            .field("state", &view.map(|v| &v.state))
            .field("proof", &view.and_then(|v| v.complete_list.as_ref()))
            .field("own", &facts.own)
            .field("recorded", &facts.recorded)
            .field("former", &facts.previous)
            .field("suspects", &facts.suspects)
            .field("named", &facts.external)
            .field("memory", &facts.memory)
            .finish_non_exhaustive()
    }
}

impl Case {
    fn new() -> Self {
        let mut object = BareMetalServer::new("web", spec());
        let meta = &mut object.metadata;
        meta.namespace = Some("shop".into());
        meta.uid = Some("uid-1".into());
        meta.generation = Some(3);
        meta.creation_timestamp = Some(time(START + 100));
        meta.finalizers = Some(vec![SERVER_FINALIZER.into()]);
        let began = secs(990);
        let known = Server {
            name: "known".into(),
            ..server(KNOWN_SERVER, ServerStatus::Delivered, &[])
        };
        let view = AccountView {
            times: AccountTimes {
                absence_grace_period: secs(600),
                absence_check_interval: secs(60),
                send_window: secs(30),
                order_timeout: secs(60),
                active_poll_interval: secs(15),
                idle_poll_interval: secs(120),
                orphan_scan_interval: secs(600),
            },
            complete_list: Some(Arc::new(CompleteList {
                began,
                ended: began,
                servers: vec![Arc::new(known.clone())],
            })),
            known: vec![KnownServer {
                uuid: uuid(KNOWN_SERVER),
                order_tag: "fmo-order:known".into(),
                live: true,
            }],
            catalogue: Some((began, Arc::new(Catalogue::default()))),
            servers: Some((began, Arc::new(vec![known]))),
            credentials_hash: Some(CONNECTION.into()),
            account_id: Some(ACCOUNT_ID.into()),
            ..AccountView::usable()
        };
        let facts = ServerFacts {
            read_only: false,
            now: Moment {
                wall: START + 1000,
                mono: RUNNING,
            },
            wall_at_start: START,
            cluster: cluster(),
            kind_deleting: Some(false),
            namespace_uid: Ok("ns-1".into()),
            leader_since: Duration::ZERO,
            first_seen: secs(100),
            created_since_leading: true,
            object: Arc::new(object),
            account: ResolvedAccount::Found {
                view,
                terms: crate::account::terms::Terms::Own,
            },
            installation: Some(Ok(Installation::default())),
            denied: None,
            named_keys: Vec::new(),
            own: Vec::new(),
            recorded: None,
            previous: Vec::new(),
            suspects: Vec::new(),
            external: None,
            recorded_elsewhere: Vec::new(),
            owned_elsewhere: Vec::new(),
            is_handed_over: false,
            commands: RunningCommand::Nothing,
            power: KnownCommand::NotRead,
            memory: ServerMemory {
                leader_since: Some(Duration::ZERO),
                ..ServerMemory::default()
            },
        };
        Self(facts).born(100)
    }

    /// Changes the facts. The recorded server stays the same in `own` and `recorded`.
    fn facts(mut self, change: impl FnOnce(&mut ServerFacts)) -> Self {
        let before = own_record(&self.0);
        change(&mut self.0);
        let own = own_record(&self.0);
        if own.is_some() || before.is_some() && self.0.recorded == before {
            self.0.recorded = own;
        }
        self
    }

    fn object(self, change: impl FnOnce(&mut BareMetalServer)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.object)))
    }

    fn spec(self, change: impl FnOnce(&mut BareMetalServerSpec)) -> Self {
        self.object(|o| change(&mut o.spec))
    }

    /// Changes the order record, which this process then knows.
    fn order(self, change: impl FnOnce(&mut OrderRecord)) -> Self {
        let mut record = self.0.order().unwrap().clone();
        change(&mut record);
        let case = self.object(|o| o.status.as_mut().unwrap().records.order = Some(record));
        case.answered_at(989)
    }

    fn view(self, change: impl FnOnce(&mut AccountView)) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.account {
                change(view);
            }
        })
    }

    fn memory(self, change: impl FnOnce(&mut ServerMemory)) -> Self {
        self.facts(|f| change(&mut f.memory))
    }

    /// This process saw the creation of the object at this moment, and added the finalizer.
    fn born(self, at: u64) -> Self {
        self.facts(|f| {
            f.memory.protocol = new_at(f, at);
            f.memory.protocol.added_finalizer();
        })
    }

    /// The lists of servers began at this moment.
    fn listed(self, began: u64) -> Self {
        self.view(|v| {
            if let Some(complete_list) = &mut v.complete_list {
                Arc::make_mut(complete_list).began = secs(began);
            }
            if let Some((at, _)) = &mut v.servers {
                *at = secs(began);
            }
        })
    }

    /// There is no list of servers yet.
    fn unlisted(self) -> Self {
        self.view(|v| (v.complete_list, v.servers) = (None, None))
    }

    /// The lists are empty.
    fn empty(self) -> Self {
        self.view(|v| {
            v.complete_list
                .as_mut()
                .map(Arc::make_mut)
                .unwrap()
                .servers
                .clear();
            v.servers.as_mut().unwrap().1 = Arc::default();
        })
    }

    /// The object has waited for this reason for two minutes.
    fn waited_for(self, reason: Reason) -> Self {
        let since = RUNNING - secs(120);
        self.memory(|m| m.reference_grace.record_awaited(Some(reason), since))
    }

    fn deleting(self) -> Self {
        self.object(|o| o.metadata.deletion_timestamp = Some(time(START + 900)))
    }

    /// Without our finalizer: it was never added.
    fn loose(self) -> Self {
        self.object(|o| o.metadata.finalizers = None)
            .facts(|f| f.memory.protocol = new_at(f, 100))
    }

    fn annotated(self, name: &str, value: String) -> Self {
        self.object(|o| {
            o.metadata
                .annotations
                .get_or_insert_default()
                .insert(name.into(), value);
        })
    }

    /// This process first saw the object at this moment, and knows nothing of its orders.
    fn met(self, at: u64) -> Self {
        self.facts(|f| {
            f.created_since_leading = false;
            f.memory.protocol = crate::protocol::ProtocolMemory::default();
            let (object, order) = (
                protocol_facts::to_protocol_object(f),
                f.order().map(protocol_facts::to_protocol_order),
            );
            f.memory
                .protocol
                .observe_object(&object, order, false, secs(at));
        })
    }

    /// Reads at these moments did not find the recorded server.
    fn missed(self, reads: &[u64]) -> Self {
        self.memory(|m| {
            for at in reads {
                m.protocol.read_missing(secs(*at));
            }
        })
    }

    /// The release of this server is recorded, for the present deletion state.
    fn begun(self, number: u8) -> Self {
        self.recorded_release("uid-1", uuid(number))
    }

    fn recorded_release(self, uid: &str, server: String) -> Self {
        let release = Some(ReleaseRecord {
            uid: uid.to_owned(),
            server,
            send_by: START + 1030,
            deleting: self.0.deleting(),
        });
        self.object(|o| o.status.get_or_insert_default().records.release = release)
    }

    /// This output is recorded, and the object has our output finalizer.
    fn holding(self, kind: OutputKind, name: &str) -> Self {
        let name = name.to_owned();
        let output = OutputRecord { kind, name };
        self.object(|o| {
            let records = &mut o.status.get_or_insert_default().records;
            if !records.outputs.contains(&output) {
                records.outputs.push(output);
            }
            let finalizers = o.metadata.finalizers.get_or_insert_default();
            if !finalizers.iter().any(|f| f == OUTPUT_FINALIZER) {
                finalizers.push(OUTPUT_FINALIZER.into());
            }
        })
    }

    /// The status of the decision is written.
    fn written(self) -> Self {
        let now = Timestamp::from_second(self.0.now.wall).unwrap();
        let status = self.decide().desired.finish(now);
        self.facts(|f| {
            let before = f.order().map(protocol_facts::to_protocol_order);
            Arc::make_mut(&mut f.object).status = Some(status);
            let order = f.order().map(protocol_facts::to_protocol_order);
            if order != before {
                f.memory.record_written_order(order, f.now.mono);
            }
        })
    }

    /// The pending token of this effect in status.
    fn pending(&self, effect: AcknowledgementEffect) -> Option<String> {
        let status = self.0.status();
        let mut all = status.pending_acknowledgements.into_iter();
        all.find(|asked| asked.effect == effect).map(|a| a.token)
    }

    /// A user sets the acknowledgement annotation.
    fn giving(self, tokens: &str) -> Self {
        self.annotated(ACKNOWLEDGE, tokens.into())
    }

    /// The status is written, and a user gives its token.
    fn with_token(self, effect: AcknowledgementEffect) -> Self {
        let asked = self.written();
        let token = asked.pending(effect);
        let token = token.unwrap_or_else(|| panic!("{effect:?} is not asked for: {asked:?}"));
        asked.giving(&token)
    }

    /// An order that this process sent is recorded.
    fn ordered(self, outcome: Option<OrderOutcome>, server: Option<u8>) -> Self {
        let record = order_record(outcome, server);
        let shown = record.created().map(str::to_owned);
        let case = self.object(|o| {
            let previous = o.status.take().unwrap_or_default();
            o.status = Some(BareMetalServerStatus {
                records: ServerRecords {
                    order: Some(record),
                    ..Default::default()
                },
                uuid: shown,
                pending_acknowledgements: previous.pending_acknowledgements,
                acknowledged: previous.acknowledged,
                ..Default::default()
            });
        });
        case.answered_at(989)
    }

    /// This process wrote the outcome at this moment, and the open record 5 s before.
    fn answered_at(self, at: u64) -> Self {
        self.facts(|f| {
            let mut memory = new_at(f, 100);
            let record = f.order().map(protocol_facts::to_protocol_order).unwrap();
            let open = crate::protocol::ProtocolOrder {
                outcome: ProtocolOutcome::Open,
                ..record
            };
            if !matches!(record.outcome, ProtocolOutcome::Adopting(_)) {
                memory.record_written(Some(open), secs(at - 5));
            }
            if record != open {
                memory.record_written(Some(record), secs(at));
            }
            f.memory.protocol = memory;
        })
    }

    /// A server with its order tag and the cluster tag.
    fn with(self, number: u8, status: ServerStatus) -> Self {
        self.showing(server(number, status, &[&cluster().tag(), &own_tag()]))
    }

    /// Lists show this server as one of the object's own.
    fn showing(self, server: Server) -> Self {
        self.facts(|f| {
            f.own.retain(|s| s.server.id != server.id);
            f.own.push(seen(server));
        })
    }

    /// Changes the shown own servers.
    fn shown(self, change: impl Fn(&mut Server)) -> Self {
        self.facts(|f| {
            let own = f.own.iter_mut();
            own.for_each(|s| change(Arc::make_mut(&mut s.server)));
        })
    }

    /// The own servers were last seen at this moment.
    fn seen_at(self, at: Duration) -> Self {
        self.facts(|f| f.own.iter_mut().for_each(|s| s.seen = at))
    }

    /// The spec names this server, which the last list showed like this.
    fn named(self, number: u8, shown: Option<Server>) -> Self {
        let named = ExternalServer {
            uuid: uuid(number),
            shown: shown.map(seen),
            listed_at: Some(secs(990)),
        };
        self.spec(|s| s.external_id = Some(uuid(number)))
            .facts(|f| f.external = Some(named))
    }

    /// These servers of the same name are live, from before the namespace was recreated.
    fn with_previous_servers(self, numbers: &[u8]) -> Self {
        let tags = [cluster().tag(), previous_tag()];
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let left = numbers.iter();
        let left = left.map(|n| seen(server(*n, ServerStatus::Delivered, &tags)));
        let left = left.collect();
        self.facts(|f| f.previous = left)
    }

    /// This server has the host name, but no order tag.
    fn suspecting(self, number: u8) -> Self {
        let suspect = seen(server(number, ServerStatus::Delivered, &[]));
        self.facts(|f| f.suspects = vec![suspect])
    }

    fn blocked(self, reason: Reason) -> Self {
        self.view(|v| {
            v.state = AccountState::Blocked(
                reason,
                "The account cannot be used; correct it; retrying within 1m".into(),
            )
        })
    }

    fn decide(&self) -> ServerDecision {
        decide(&self.0)
    }
}

/// The recorded server, as shown among the own ones.
fn own_record(facts: &ServerFacts) -> Option<SeenServer> {
    let recorded = facts.order()?.server.as_deref()?;
    let is_it = |s: &&SeenServer| is_same_uuid(s.server.id.as_str(), recorded);
    facts.own.iter().find(is_it).cloned()
}

/// The memory of a process that saw the creation of the object at this moment.
fn new_at(facts: &ServerFacts, at: u64) -> crate::protocol::ProtocolMemory {
    let mut memory = crate::protocol::ProtocolMemory::default();
    let object = ProtocolObject {
        finalizer: false,
        ..protocol_facts::to_protocol_object(facts)
    };
    memory.observe_object(&object, None, true, secs(at));
    memory
}

fn order_record(outcome: Option<OrderOutcome>, server: Option<u8>) -> OrderRecord {
    let is_failure = matches!(outcome, Some(OrderOutcome::Refused | OrderOutcome::NotSent));
    OrderRecord {
        uid: "uid-1".into(),
        seq: seq(EPOCH),
        nonce: "nonce".into(),
        send_by: EPOCH + 30,
        hostname: "web".into(),
        account_id: ACCOUNT_ID.into(),
        outcome,
        server: server.map(uuid),
        outcome_at: outcome.map(|_| EPOCH),
        answer_lost: false,
        lost: 0,
        cut: 0,
        message: None,
        failures: i32::from(is_failure),
        acknowledgement: None,
        request_hash: None,
        location: None,
        instance_type: None,
        sent: Default::default(),
        key_uids: Vec::new(),
        secret_texts: false,
    }
}

fn ordered_from(account_id: &str, credentials_hash: &str) -> OrderAccount {
    OrderAccount {
        kind: AccountKind::ProviderAccount,
        name: "default".into(),
        uid: "account-1".into(),
        account_id: account_id.into(),
        credentials_hash: credentials_hash.into(),
    }
}

fn seen(server: Server) -> SeenServer {
    SeenServer {
        server: Arc::new(server),
        seen: secs(990),
    }
}

fn server(number: u8, status: ServerStatus, tags: &[&str]) -> Server {
    let delivered = status == ServerStatus::Delivered;
    Server {
        id: ServerId::parse(&uuid(number)).unwrap(),
        name: "web".into(),
        status,
        status_message: String::new(),
        location_id: None,
        location: "here".into(),
        instance_type_id: None,
        instance_type: "small".into(),
        os_slug: "some-os".into(),
        addresses: if delivered {
            vec!["192.0.2.1".into()]
        } else {
            Vec::new()
        },
        tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        created_at: Some(EPOCH + i64::from(number)),
        delivered_at: delivered.then_some(EPOCH + 60),
        released_at: None,
        contract_id: None,
    }
}

/// An own server, tagged as retained.
fn retained(number: u8, status: ServerStatus) -> Server {
    server(
        number,
        status,
        &[&cluster().tag(), &own_tag(), RETAINED_TAG],
    )
}

/// The message of the condition Ready.
fn message(decision: &ServerDecision) -> String {
    let ready = decision.desired.condition(Type::Ready).unwrap();
    ready.message.clone()
}

/// The effect and the condition of a decision, short enough for a table.
fn short(decision: &ServerDecision) -> Short {
    let effect = decision.effect.as_ref().map(|e| match e {
        ServerEffect::Order(_) => "Order",
        ServerEffect::AddFinalizer => "AddFinalizer",
        ServerEffect::Claim { .. } => "Claim",
        ServerEffect::Adopt { .. } => "Adopt",
        ServerEffect::Read { .. } => "Read",
        ServerEffect::AddTag { .. } => "AddTag",
        ServerEffect::RemoveTag { .. } => "RemoveTag",
        ServerEffect::Retain { .. } => "Retain",
        ServerEffect::Release { .. } => "Release",
        ServerEffect::Expire { .. } => "Expire",
        ServerEffect::Command { .. } => "Command",
        ServerEffect::Reinstall(_) => "Reinstall",
        ServerEffect::PollInstall { .. } => "PollInstall",
        ServerEffect::WriteOutput(_) => "WriteOutput",
        ServerEffect::RecordOutput(_) => "RecordOutput",
        ServerEffect::CheckDeletedOutputs(_) => "CheckDeletedOutputs",
        ServerEffect::FindPassword { .. } => "FindPassword",
        ServerEffect::FetchPassword { .. } => "FetchPassword",
        ServerEffect::ForgetPassword { .. } => "ForgetPassword",
        ServerEffect::RemoveFinalizer => "RemoveFinalizer",
    });
    let reason = decision.desired.condition(Type::Ready).map(|c| c.reason);
    // A queued object without earlier conditions has no reason here.
    let reason = match reason {
        Some(Reason::Queued) if !decision.desired.status.conditions.is_empty() => {
            Some(Reason::Queued)
        }
        Some(Reason::Queued) if decision.desired.condition(Type::DeletionBlocked).is_none() => None,
        reason => reason,
    };
    let stalled = decision
        .desired
        .condition(Type::Stalled)
        .is_some_and(|c| c.status == Some(true));
    (effect, reason, stalled)
}

/// The outcome and the server of the decided order record.
fn outcome(decision: &ServerDecision) -> Option<(Option<OrderOutcome>, Option<String>)> {
    let order = decision.desired.status.records.order.as_ref()?;
    Some((order.outcome, order.server.clone()))
}

/// The effect, the reason of Ready, and whether the object is Stalled.
type Short = (Option<&'static str>, Option<Reason>, bool);

/// Each of these cases has this decision.
fn come_to(expected: Short, cases: Vec<(&'static str, Case)>) {
    for (what, case) in cases {
        assert_eq!(short(&case.decide()), expected, "{what}");
    }
}

fn unsaid(account: &str) -> ResolvedAccount {
    ResolvedAccount::Missing(format!("ProviderAccount {account}"))
}

fn waits(reason: Reason) -> Explanation {
    Explanation::waits(reason, "some cause")
}
