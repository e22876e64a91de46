//! Objects: the intent, the record of an order, the status.

use super::{super::world::*, *};
use api::{
    BareMetalServer, Interval, ManagementPolicy, Policies, Reason,
    acknowledgement::Acknowledged,
    conditions::Type,
    names::{ACKNOWLEDGE, ORDER_ANNOTATION, SERVER_FINALIZER},
    order::{OrderAccount, OrderNote},
    records::{ReleaseRecord, ServerRecords},
    references::AccountKind,
    server::{
        BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, ExternalReleasePolicy,
        FailurePolicy, Intent,
        OrderOutcome::{NotSent, Refused},
        OrderRecord, Replaced,
    },
};
use hosting_types::ServerStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::collections::BTreeMap;

pub fn intent(i: &IntentA) -> Intent {
    Intent {
        cluster: CLUSTER.into(),
        uid: uid(i.who),
        mark: mark(i.who).as_str().into(),
        epoch: BASE + i64::from(i.epoch),
        attempt: if i.attempt == ADOPTED {
            "adopted".into()
        } else {
            format!("a{}", i.attempt)
        },
        send_by: BASE + i64::from(i.send_by),
        hostname: hostname(i.who.slot, i.renamed),
        account: i.account.map(|(number, connection)| OrderAccount {
            kind: AccountKind::ProviderAccount,
            name: "default".into(),
            uid: ACCOUNT_UID.into(),
            lineage: lineage(number),
            connection: word(connection),
        }),
        unknown_before: i32::from(i.unknown_before),
    }
}

pub fn intent_of(i: &Intent) -> IntentA {
    IntentA {
        who: who_of(&Mark::parse(&i.mark).unwrap()),
        epoch: offset(i.epoch),
        send_by: offset(i.send_by),
        attempt: i
            .attempt
            .strip_prefix('a')
            .and_then(|n| n.parse().ok())
            .unwrap_or(ADOPTED),
        renamed: i.hostname == RENAMED,
        account: i.account.as_ref().map(|account| {
            let connection = connection_by(&account.connection);
            (lineage_of(&account.lineage), connection)
        }),
        unknown_before: u8::try_from(i.unknown_before).unwrap(),
    }
}

pub fn note(n: &NoteA) -> OrderNote {
    OrderNote {
        intent: intent(&n.intent),
        outcome: n.outcome,
    }
}

pub fn note_of(n: &OrderNote) -> NoteA {
    NoteA {
        intent: intent_of(&n.intent),
        outcome: n.outcome,
    }
}

pub fn record(r: &RecordA) -> OrderRecord {
    OrderRecord {
        outcome: r.outcome,
        outcome_at: r.outcome.map(|_| BASE + i64::from(r.settled)),
        failures: i32::from(r.failures),
        acknowledged: r.acknowledged,
        acknowledgement: (r.token != 0).then(|| TEXTS.get(r.token)),
        ..OrderRecord::open(intent(&r.intent))
    }
}

pub fn record_of(r: &OrderRecord) -> RecordA {
    let paced = matches!(r.outcome, Some(Refused | NotSent));
    RecordA {
        intent: intent_of(&r.intent),
        outcome: r.outcome,
        settled: if paced {
            offset(r.outcome_at.unwrap_or(BASE))
        } else {
            0
        },
        failures: u8::try_from(r.failures).unwrap(),
        acknowledged: r.acknowledged,
        token: (r.acknowledgement.as_ref())
            .map_or(0, |token| TEXTS.put(token.clone(), || token.clone())),
    }
}

fn status(s: &StatusA) -> BareMetalServerStatus {
    let condition = |kind: Type, on: bool, reason: Reason| Condition {
        type_: kind.as_str().into(),
        status: if on { "True" } else { "False" }.into(),
        reason: reason.as_str().into(),
        message: String::new(),
        observed_generation: Some(1),
        last_transition_time: Time(Timestamp::from_second(BASE).unwrap()),
    };
    let conditions = s.ready.map_or_else(Vec::new, |r| {
        let reason = Reason::ALL[usize::from(r.reason)];
        vec![
            condition(Type::Ready, r.on, reason),
            condition(Type::Reconciling, !r.on && !s.stalled, reason),
            condition(Type::Stalled, s.stalled, reason),
        ]
    });
    let lists = LISTS.get(s.asked);
    BareMetalServerStatus {
        observed_generation: Some(1),
        conditions,
        pending_acknowledgements: lists.0.clone(),
        acknowledged: lists.1.clone(),
        uuid: s.uuid.map(uuid),
        provider_status: s
            .uuid
            .map(|_| if s.over { "released" } else { "delivered" }.into()),
        records: ServerRecords {
            order: s.order.as_ref().map(record),
            ..Default::default()
        },
        replaced_servers: s.replaced.iter().flatten().map(replaced).collect(),
        ..Default::default()
    }
}

pub fn status_of(s: &BareMetalServerStatus) -> StatusA {
    let find = |kind: Type| s.conditions.iter().find(|c| c.type_ == kind.as_str());
    StatusA {
        order: s.records.order.as_ref().map(record_of),
        uuid: s.uuid.as_deref().map(machine_of),
        over: s.uuid.is_some() && s.provider_status.as_deref().is_some_and(is_over),
        // No decision is another one because it was said that the object waits for its turn.
        ready: find(Type::Ready)
            .filter(|c| c.reason != Reason::Queued.as_str())
            .map(|c| ReadyA {
                on: c.status == "True",
                reason: reason_index(&c.reason),
            }),
        stalled: find(Type::Stalled).is_some_and(|c| c.status == "True"),
        replaced: {
            let mut all = s.replaced_servers.iter().map(|r| {
                let is_failed = ServerStatus::parse(&r.provider_status) == ServerStatus::Failed;
                (machine_of(&r.uuid), is_failed)
            });
            [all.next(), all.next()]
        },
        asked: lists(&s.pending_acknowledgements, &used(s)),
    }
}

/// What was acted on. Nothing is decided by when.
fn used(s: &BareMetalServerStatus) -> Vec<Acknowledged> {
    let mut all = s.acknowledged.clone();
    for used in &mut all {
        used.acknowledged_at = Time(Timestamp::from_second(BASE).unwrap());
    }
    all
}

fn replaced((machine, is_failed): &(u8, bool)) -> Replaced {
    Replaced {
        uuid: uuid(*machine),
        provider_status: if *is_failed { "failed" } else { "released" }.into(),
        location: "here".into(),
        instance_type: "small".into(),
        recorded_at: Time(Timestamp::from_second(BASE).unwrap()),
    }
}

fn is_over(word: &str) -> bool {
    !ServerStatus::parse(word).is_live()
}

fn reason_index(word: &str) -> u8 {
    let found = Reason::ALL.iter().position(|r| r.as_str() == word);
    u8::try_from(found.unwrap()).unwrap()
}

pub fn reason_number(reason: Reason) -> u8 {
    reason_index(reason.as_str())
}

/// The least that a spec must say; a field that is added to the kind has its own default.
static SPEC: LazyLock<BareMetalServerSpec> = LazyLock::new(|| {
    let least = r#"{"location": "here", "instanceType": "small", "os": {"slug": "some-os"}}"#;
    serde_json::from_str(least).unwrap()
});

/// Whether the object states its policy; of the others, the account does.
fn says_itself(o: &Obj) -> bool {
    o.who.slot == 0
}

fn policy(o: &Obj) -> DeletionPolicy {
    match o.retain {
        true => DeletionPolicy::Retain,
        false => DeletionPolicy::Release,
    }
}

/// What the account says to this object.
pub fn defaults(o: &Obj) -> Policies {
    Policies {
        deletion_policy: (!says_itself(o)).then(|| policy(o)),
        ..Policies::default()
    }
}

pub fn object(o: &Obj) -> BareMetalServer {
    let time = |tick| Time(Timestamp::from_second(wall(tick)).unwrap());
    let spec = BareMetalServerSpec {
        hostname: o.renamed.then(|| RENAMED.into()),
        deletion_policy: says_itself(o).then(|| policy(o)),
        suspend: Some(o.suspend),
        external_id: o.names.map(uuid),
        management_policy: o.observe.then_some(ManagementPolicy::ObserveOnly),
        failure_policy: o.replaces.then_some(FailurePolicy::Replace),
        external_release_policy: o.replaces.then_some(ExternalReleasePolicy::Reorder),
        expires_at: (o.expires > 0).then(|| Time(Timestamp::from_second(wall(o.expires)).unwrap())),
        release_delay: (o.delay > 0).then(|| Interval(ticks(o.delay))),
        ..SPEC.clone()
    };
    let mut object = BareMetalServer::new(&name(o.who.slot), spec);
    let meta = &mut object.metadata;
    meta.namespace = Some("shop".into());
    meta.uid = Some(uid(o.who));
    meta.resource_version = Some(o.version.to_string());
    meta.generation = Some(1);
    meta.creation_timestamp = Some(time(o.created));
    meta.deletion_timestamp = o.deleting.then(|| time(o.created));
    meta.finalizers = o.finalizer.then(|| vec![SERVER_FINALIZER.into()]);
    let mut annotations = BTreeMap::new();
    if let Some(note) = &o.note {
        let text = serde_json::to_string(&self::note(note)).unwrap();
        annotations.insert(ORDER_ANNOTATION.to_owned(), text);
    }
    if o.given != 0 {
        annotations.insert(ACKNOWLEDGE.to_owned(), TEXTS.get(o.given));
    }
    meta.annotations = Some(annotations);
    object.status = o.status.as_ref().map(status);
    if let Some(machine) = o.begun {
        object.status.get_or_insert_default().records.release = Some(ReleaseRecord {
            uid: uid(o.who),
            server: uuid(machine),
        });
    }
    object
}
