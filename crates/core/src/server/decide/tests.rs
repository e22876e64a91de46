//! Tables and properties of the decisions. The facts are built here; each file beside this one has
//! the cases of the file of the same name.

mod adopt;
mod answers;
mod ask;
mod candidates;
mod draft;
mod evidence;
mod expiry;
mod external;
mod lineage;
mod machine;
mod metadata;
mod missing;
mod order;
mod outputs;
mod power;
mod properties;
pub(crate) mod readings;
mod recall;
mod reinstall;
mod release;
mod replace;
mod resolve;
mod retained;
mod root_password;
mod sizes;
mod steps;
mod tags;
mod terms;

use super::{
    super::facts::{External, Facts, Former, Installation},
    *,
};
use crate::{
    account::{
        key::AccountKey,
        view::{Catalogue, Proof, Sighting, State, Times},
    },
    account_facts::AccountFacts,
    cause::Cause,
    mark::{ClusterId, Mark},
    moment::Moment,
    power::KnownCommand,
    server::memory::Memory,
    server_commands::UnderWay,
};
use api::{
    BareMetalServer, Interval, Policies, PoliciesInForce,
    acknowledgement::AcknowledgementEffect,
    conditions::Type,
    names::{ACKNOWLEDGE, ORDER_ANNOTATION, OUTPUT_FINALIZER, RETAINED_PREFIX, SERVER_FINALIZER},
    order::{OrderAccount, OrderNote},
    outputs::{OutputPlace, OutputRecord},
    records::{ReleaseRecord, ServerRecords},
    references::AccountKind,
    server::{BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, Intent, OrderRecord},
};
use hosting_types::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;

/// Wall time at the start of the process.
const START: i64 = 1_790_000_000;
/// Start of the last order, where there is one.
const EPOCH: i64 = START + 500;
/// The process has run for this long.
const RUNNING: Duration = Duration::from_secs(1000);
/// The connection in force.
const CONNECTION: &str = "c0ffee000001";
/// The lineage of the account.
const LINEAGE: &str = "11111111aaaa";
/// The machine that everybody knows.
const CONTROL: u8 = 9;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn uuid(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02}")
}

/// Another account of the namespace.
fn other_account() -> AccountKey {
    AccountKey::named(AccountKind::ProviderAccount, Some("shop"), "other")
}

/// The least that a spec must say; a field that is added to the kind has its own default.
fn spec() -> BareMetalServerSpec {
    serde_json::from_value(serde_json::json!({
        "location": "here", "instanceType": "small", "os": {"slug": "some-os"},
    }))
    .unwrap()
}

fn cluster() -> ClusterId {
    ClusterId::parse("0123456789abcdef").unwrap()
}

fn time(wall: i64) -> Time {
    Time(Timestamp::from_second(wall).unwrap())
}

/// Facts under construction. They start with a new object that nothing keeps from being ordered.
#[derive(Clone)]
struct Case(Facts);

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let facts = &self.0;
        let view = facts.view();
        f.debug_struct("Case")
            .field("evidence", &evidence(facts))
            .field("metadata", &facts.object.metadata)
            .field("spec", &facts.object.spec)
            .field("status", &facts.object.status)
            .field("state", &view.map(|v| &v.state))
            .field("proof", &view.and_then(|v| v.proof.as_ref()))
            .field("own", &facts.own)
            .field("recorded", &facts.recorded)
            .field("retained", &facts.retained)
            .field("unlisted", &facts.unlisted)
            .field("former", &facts.former)
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
        let began = secs(990);
        let view = View {
            times: Times {
                absence_grace_period: secs(600),
                absence_check_interval: secs(60),
                send_window: secs(30),
                order_timeout: secs(60),
                active_poll_interval: secs(15),
                idle_poll_interval: secs(120),
                orphan_scan_interval: secs(600),
            },
            proof: Some(Arc::new(Proof {
                began,
                ended: began,
                servers: vec![Arc::new(server(CONTROL, ServerStatus::Delivered, &[]))],
            })),
            known: vec![KnownServer {
                uuid: uuid(CONTROL),
                order_tag: "fmo-order:known".into(),
                live: true,
            }],
            catalogue: Some((began, Arc::new(Catalogue::default()))),
            servers: Some((began, Arc::default())),
            connection: Some(CONNECTION.into()),
            lineage: Some(LINEAGE.into()),
            ..View::usable()
        };
        Self(Facts {
            now: Moment {
                wall: START + 1000,
                mono: RUNNING,
            },
            wall_at_start: START,
            cluster: cluster(),
            all_namespaces: true,
            kind_deleting: Some(false),
            acting_since: Duration::ZERO,
            first_seen: secs(100),
            is_newcomer: true,
            object: Arc::new(object),
            account: AccountFacts::Found {
                view,
                terms: crate::account::terms::Terms::Own,
            },
            installation: Some(Ok(Installation::default())),
            denied: None,
            named_keys: Vec::new(),
            own: Vec::new(),
            recorded: None,
            retained: Vec::new(),
            unlisted: Vec::new(),
            former: None,
            external: None,
            other_marks: Vec::new(),
            recorded_elsewhere: Vec::new(),
            commands: UnderWay::Nothing,
            power: KnownCommand::NotRead,
            memory: Memory::default(),
        })
    }

    fn facts(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.0);
        self
    }

    fn object(self, change: impl FnOnce(&mut BareMetalServer)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.object)))
    }

    fn spec(self, change: impl FnOnce(&mut BareMetalServerSpec)) -> Self {
        self.object(|o| change(&mut o.spec))
    }

    fn view(self, change: impl FnOnce(&mut View)) -> Self {
        self.facts(|f| {
            if let AccountFacts::Found { view, .. } = &mut f.account {
                change(view);
            }
        })
    }

    fn memory(self, change: impl FnOnce(&mut Memory)) -> Self {
        self.facts(|f| change(&mut f.memory))
    }

    /// It has waited for this for two minutes.
    fn waited_for(self, reason: Reason) -> Self {
        let since = RUNNING - secs(120);
        self.memory(|m| m.patience.note(Some(reason), since))
    }

    fn deleting(self) -> Self {
        self.object(|o| o.metadata.deletion_timestamp = Some(time(START + 900)))
    }

    fn held(self) -> Self {
        self.object(|o| o.metadata.finalizers = Some(vec![SERVER_FINALIZER.into()]))
    }

    fn annotated(self, name: &str, value: String) -> Self {
        self.object(|o| {
            o.metadata
                .annotations
                .get_or_insert_default()
                .insert(name.into(), value);
        })
    }

    /// The annotation of an intent.
    fn noted(self, intent: &Intent) -> Self {
        let text = serde_json::to_string(&OrderNote::open(intent.clone())).unwrap();
        self.annotated(ORDER_ANNOTATION, text)
    }

    /// It was there before this process began to act.
    fn old(self) -> Self {
        self.facts(|f| f.is_newcomer = false)
    }

    /// The release of this server is on record.
    fn begun(self, number: u8) -> Self {
        self.recorded_release("uid-1", uuid(number))
    }

    fn recorded_release(self, uid: &str, server: String) -> Self {
        let uid = uid.to_owned();
        let release = Some(ReleaseRecord { uid, server });
        self.object(|o| o.status.get_or_insert_default().records.release = release)
    }

    /// This is on record as written for the object.
    fn holding(self, kind: OutputPlace, name: &str) -> Self {
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
        let status = self.decide().draft.finish(now);
        self.object(|o| o.status = Some(status))
    }

    /// The token that status shows for this effect.
    fn pending(&self, effect: AcknowledgementEffect) -> Option<String> {
        let status = self.0.status();
        let mut all = status.pending_acknowledgements.into_iter();
        all.find(|asked| asked.effect == effect).map(|a| a.token)
    }

    /// A user writes this annotation.
    fn giving(self, tokens: &str) -> Self {
        self.annotated(ACKNOWLEDGE, tokens.into())
    }

    /// What the object asks for is written, and a user gives it.
    fn given(self, effect: AcknowledgementEffect) -> Self {
        let asked = self.written();
        let token = asked.pending(effect);
        let token = token.unwrap_or_else(|| panic!("{effect:?} is not asked for: {asked:?}"));
        asked.giving(&token)
    }

    /// An own order, in finalizer, annotation and status.
    fn ordered(self, outcome: Option<OrderOutcome>, machine: Option<u8>) -> Self {
        let intent = self.intent();
        let record = OrderRecord {
            outcome,
            outcome_at: outcome.map(|_| EPOCH),
            failures: i32::from(matches!(
                outcome,
                Some(OrderOutcome::Refused | OrderOutcome::NotSent)
            )),
            ..OrderRecord::open(intent.clone())
        };
        let note = OrderNote {
            intent,
            outcome: outcome.filter(|o| o.is_closed()),
        };
        let note = serde_json::to_string(&note).unwrap();
        self.held().annotated(ORDER_ANNOTATION, note).object(|o| {
            let former = o.status.take().unwrap_or_default();
            o.status = Some(BareMetalServerStatus {
                records: ServerRecords {
                    order: Some(record),
                    ..Default::default()
                },
                uuid: machine.map(uuid),
                pending_acknowledgements: former.pending_acknowledgements,
                acknowledged: former.acknowledged,
                ..Default::default()
            });
        })
    }

    /// An order of unknown outcome, and how far the search for it is.
    fn open(self, first_seen: u64, samples: &[u64]) -> Self {
        self.ordered(None, None).memory(|m| {
            m.search_for("nonce", secs(first_seen));
            let search = m.search.as_mut().unwrap();
            search.samples = samples.iter().map(|s| secs(*s)).collect();
            search.looked = samples.last().map(|s| secs(*s));
        })
    }

    fn intent(&self) -> Intent {
        intent_of("web", "uid-1")
    }

    /// A machine that bears this object's mark and the cluster's.
    fn with(self, number: u8, status: ServerStatus) -> Self {
        let sighting = seen(server(number, status, &[&cluster().tag(), &own_tag()]));
        self.facts(|f| f.own.push(sighting))
    }

    /// Its spec names this machine, which was seen like this at the last look.
    fn named(self, number: u8, shown: Option<Server>) -> Self {
        let shown = shown.map(seen);
        let external = External {
            uuid: uuid(number),
            shown,
            looked: Some(secs(990)),
        };
        self.spec(|s| s.external_id = Some(uuid(number)))
            .facts(|f| f.external = Some(external))
    }

    /// Earlier objects of its name left these machines behind.
    fn beside(self, numbers: &[u8]) -> Self {
        let former = cluster().object_mark("shop", "web", "uid-0");
        let kept = cluster().tag_of_retained("shop", "web");
        let tags = [cluster().tag(), former.order_tag(EPOCH), kept];
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let left = numbers
            .iter()
            .map(|n| seen(server(*n, ServerStatus::Delivered, &tags)))
            .collect();
        self.facts(|f| f.retained = left)
    }

    fn blocked(self, reason: Reason) -> Self {
        self.view(|v| {
            v.state = State::Blocked(
                reason,
                "the account cannot be used; correct it; tried again within a minute".into(),
            )
        })
    }

    fn decide(&self) -> Decision {
        decide(&self.0)
    }
}

fn mark() -> Mark {
    cluster().object_mark("shop", "web", "uid-1")
}

fn own_tag() -> String {
    mark().order_tag(EPOCH)
}

fn intent_of(name: &str, uid: &str) -> Intent {
    Intent {
        cluster: cluster().as_str().into(),
        uid: uid.into(),
        mark: cluster().object_mark("shop", name, uid).as_str().into(),
        epoch: EPOCH,
        attempt: "nonce".into(),
        send_by: EPOCH + 30,
        hostname: name.into(),
        account: Some(ordered_from(LINEAGE, CONNECTION)),
        unknown_before: 0,
    }
}

fn ordered_from(lineage: &str, connection: &str) -> OrderAccount {
    OrderAccount {
        kind: AccountKind::ProviderAccount,
        name: "default".into(),
        uid: "account-1".into(),
        lineage: lineage.into(),
        connection: connection.into(),
    }
}

fn seen(server: Server) -> Sighting {
    Sighting {
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

/// The message of the condition Ready.
fn message(decision: &Decision) -> String {
    let ready = decision.draft.condition(Type::Ready).unwrap();
    ready.message.clone()
}

/// What a decision says and does, short enough for a table.
fn short(decision: &Decision) -> (Option<&'static str>, Option<Reason>, bool) {
    let effect = decision.effect.as_ref().map(|e| match e {
        Effect::Order(_) => "Order",
        Effect::WriteNote(_) => "WriteNote",
        Effect::Claim { .. } => "Claim",
        Effect::PutBack(_) => "PutBack",
        Effect::HoldObject => "HoldObject",
        Effect::LookForOrder(_) => "LookForOrder",
        Effect::Read { .. } => "Read",
        Effect::AddTag { .. } => "AddTag",
        Effect::RemoveTag { .. } => "RemoveTag",
        Effect::BeginRelease { .. } => "BeginRelease",
        Effect::Release { .. } => "Release",
        Effect::ReleaseFailed { .. } => "ReleaseFailed",
        Effect::Expire { .. } => "Expire",
        Effect::Command { .. } => "Command",
        Effect::Reinstall(_) => "Reinstall",
        Effect::LookAtInstall { .. } => "LookAtInstall",
        Effect::WriteOutput(_) => "WriteOutput",
        Effect::RecordOutput(_) => "RecordOutput",
        Effect::CheckDeletedOutputs(_) => "CheckDeletedOutputs",
        Effect::FindPassword { .. } => "FindPassword",
        Effect::FetchPassword { .. } => "FetchPassword",
        Effect::ForgetPassword { .. } => "ForgetPassword",
        Effect::LetGo => "LetGo",
    });
    let reason = decision.draft.condition(Type::Ready).map(|c| c.reason);
    // What waits for its turn says no more than before.
    let reason = match reason {
        Some(Reason::Queued) if !decision.draft.status.conditions.is_empty() => {
            Some(Reason::Queued)
        }
        Some(Reason::Queued) if decision.draft.condition(Type::DeletionBlocked).is_none() => None,
        reason => reason,
    };
    let stalled = decision
        .draft
        .condition(Type::Stalled)
        .is_some_and(|c| c.status == Some(true));
    (effect, reason, stalled)
}

/// One line of a table: the case, the effect, the reason of Ready, and whether a person is needed.
type Line = (
    &'static str,
    Case,
    Option<&'static str>,
    Option<Reason>,
    bool,
);

fn table(lines: Vec<Line>) {
    for (what, case, effect, reason, stalled) in lines {
        assert_eq!(short(&case.decide()), (effect, reason, stalled), "{what}");
    }
}

fn unsaid(account: &str) -> AccountFacts {
    AccountFacts::Missing(format!("ProviderAccount {account}"))
}

fn waits(reason: Reason) -> Cause {
    Cause::waits(reason, "some cause")
}

fn former(claimed: Option<bool>, machines: Vec<Sighting>) -> Option<Former> {
    Some(Former { claimed, machines })
}

fn retained(number: u8, status: ServerStatus) -> Sighting {
    seen(server(
        number,
        status,
        &[
            &cluster().tag(),
            &own_tag(),
            &cluster().tag_of_retained("shop", "web"),
        ],
    ))
}
