//! From the small world to what the deciding code reads, and back.

use super::world::*;
use flexmetal_operator::{
    account::view::{Catalogue, Proof, Sighting, State, Times, View},
    controllers::server::{
        facts::{AccountFacts, Facts, Former},
        mark::{ClusterId, Mark, parse_order_tag},
        memory::Memory,
    },
    kinds::{
        BareMetalServer, Reason,
        account::KnownMachine,
        conditions::Type,
        names::{
            ACKNOWLEDGE_ABSENT, ORDER_ANNOTATION, RELEASE_ANNOTATION, RETAINED_TAG,
            SERVER_FINALIZER,
        },
        server::{
            BareMetalServerSpec, BareMetalServerStatus, DeletionPolicy, Intent, OperatingSystem,
            OrderRecord,
        },
    },
    runtime::Moment,
};
use hosting::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

/// Values by small numbers, so that a state that holds them stays `Copy`.
pub struct Interner<K, V> {
    inner: Mutex<(HashMap<K, u32>, Vec<V>)>,
}

impl<K, V> Default for Interner<K, V> {
    fn default() -> Self {
        Self {
            inner: Mutex::new((HashMap::new(), Vec::new())),
        }
    }
}

impl<K: Hash + Eq, V: Clone> Interner<K, V> {
    pub fn put(&self, key: K, value: impl FnOnce() -> V) -> u32 {
        let mut inner = self.inner.lock().unwrap();
        let (numbers, values) = &mut *inner;
        *numbers.entry(key).or_insert_with(|| {
            values.push(value());
            u32::try_from(values.len() - 1).unwrap()
        })
    }
    pub fn get(&self, number: u32) -> V {
        self.inner.lock().unwrap().1[number as usize].clone()
    }
}

/// Memories; number 0 is the empty one.
pub static MEMORIES: LazyLock<Interner<Memory, Arc<Memory>>> = LazyLock::new(|| {
    let all = Interner::default();
    all.put(Memory::default(), Arc::default);
    all
});

pub fn keep(memory: Memory) -> u32 {
    MEMORIES.put(memory.clone(), || Arc::new(memory))
}

const CLUSTER: &str = "0123456789abcdef";
const LIVES: u8 = 4;

pub fn cluster() -> ClusterId {
    ClusterId::parse(CLUSTER).unwrap()
}

static MARKS: LazyLock<Vec<(Who, Mark)>> = LazyLock::new(|| {
    let slots = u8::try_from(SLOTS).unwrap();
    (0..slots)
        .flat_map(|slot| (0..LIVES).map(move |life| Who { slot, life }))
        .map(|who| {
            let mark = cluster().object_mark("shop", &name(who.slot), &uid(who));
            (who, mark)
        })
        .collect()
});

pub fn mark(who: Who) -> &'static Mark {
    &MARKS[usize::from(who.slot * LIVES + who.life)].1
}

fn who_of(mark: &Mark) -> Who {
    MARKS.iter().find(|(_, m)| m == mark).unwrap().0
}

fn name(slot: u8) -> String {
    format!("server-{slot}")
}

fn uid(who: Who) -> String {
    format!("uid-{}-{}", who.slot, who.life)
}

/// A machine's identifier; 9 is the machine that everybody knows.
pub fn uuid(machine: u8) -> String {
    format!("00000000-0000-4000-8000-00000000000{machine}")
}

pub fn machine_of(uuid: &str) -> u8 {
    uuid.as_bytes().last().unwrap() - b'0'
}

pub const CONTROL: u8 = 9;

pub fn ticks(ticks: Tick) -> Duration {
    Duration::from_secs(u64::from(ticks) * TICK.unsigned_abs())
}

pub fn wall(now: Tick) -> i64 {
    BASE + i64::from(now) * TICK
}

fn offset(wall: i64) -> i16 {
    i16::try_from((wall - BASE).clamp(-1000, 30_000)).unwrap()
}

pub fn moment(now: Tick, started: Tick) -> Moment {
    Moment {
        wall: wall(now),
        mono: ticks(now - started),
    }
}

pub fn times() -> Times {
    Times {
        settle: ticks(SETTLE),
        listing_spacing: ticks(1),
        send_window: ticks(1),
        order_timeout: ticks(1),
        poll_moving: ticks(1),
        poll_still: ticks(2),
        sweep: ticks(2),
    }
}

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
        unknown_before: u8::try_from(i.unknown_before).unwrap(),
    }
}

pub fn record(r: &RecordA) -> OrderRecord {
    OrderRecord {
        intent: intent(&r.intent),
        outcome: r.outcome,
        settled_at: r.outcome.map(|_| BASE + i64::from(r.settled)),
        message: None,
        failures: i32::from(r.failures),
        ssh_keys_hash: None,
    }
}

pub fn record_of(r: &OrderRecord) -> RecordA {
    use flexmetal_operator::kinds::server::OrderOutcome::{NotSent, Refused};
    let paced = matches!(r.outcome, Some(Refused | NotSent));
    RecordA {
        intent: intent_of(&r.intent),
        outcome: r.outcome,
        settled: if paced {
            offset(r.settled_at.unwrap_or(BASE))
        } else {
            0
        },
        failures: u8::try_from(r.failures).unwrap(),
    }
}

fn status(s: &StatusA) -> BareMetalServerStatus {
    let condition = |kind: Type, on: bool, since: i16, reason: Reason| Condition {
        type_: kind.as_str().into(),
        status: if on { "True" } else { "False" }.into(),
        reason: reason.as_str().into(),
        message: String::new(),
        observed_generation: Some(1),
        last_transition_time: Time(Timestamp::from_second(BASE + i64::from(since)).unwrap()),
    };
    let conditions = s.ready.map_or_else(Vec::new, |r| {
        let reason = Reason::ALL[usize::from(r.reason)];
        vec![
            condition(Type::Ready, r.on, r.since, reason),
            condition(Type::Stalled, s.stalled, r.since, reason),
        ]
    });
    BareMetalServerStatus {
        observed_generation: Some(1),
        conditions,
        uuid: s.uuid.map(uuid),
        order: s.order.as_ref().map(record),
        ..Default::default()
    }
}

pub fn status_of(s: &BareMetalServerStatus) -> StatusA {
    let find = |kind: Type| s.conditions.iter().find(|c| c.type_ == kind.as_str());
    StatusA {
        order: s.order.as_ref().map(record_of),
        uuid: s.uuid.as_deref().map(machine_of),
        ready: find(Type::Ready).map(|c| ReadyA {
            on: c.status == "True",
            since: if s.order.is_some() {
                0
            } else {
                offset(c.last_transition_time.0.as_second())
            },
            reason: reason_index(&c.reason),
        }),
        stalled: find(Type::Stalled).is_some_and(|c| c.status == "True"),
    }
}

fn reason_index(word: &str) -> u8 {
    let found = Reason::ALL.iter().position(|r| r.as_str() == word);
    u8::try_from(found.unwrap()).unwrap()
}

pub fn reason_number(reason: Reason) -> u8 {
    reason_index(reason.as_str())
}

pub fn object(o: &Obj) -> BareMetalServer {
    let time = |tick| Time(Timestamp::from_second(wall(tick)).unwrap());
    let mut object = BareMetalServer::new(
        &name(o.who.slot),
        BareMetalServerSpec {
            account_ref: None,
            location: "here".into(),
            instance_type: "small".into(),
            hostname: o.renamed.then(|| "renamed".into()),
            os: OperatingSystem {
                slug: "some-os".into(),
            },
            ssh_keys: Vec::new(),
            tags: Vec::new(),
            contract_id: None,
            overflow: false,
            deletion_policy: if o.retain {
                DeletionPolicy::Retain
            } else {
                DeletionPolicy::Release
            },
            deletion_protection: false,
            suspend: o.suspend,
        },
    );
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
        let text = serde_json::to_string(&intent(note)).unwrap();
        annotations.insert(ORDER_ANNOTATION.to_owned(), text);
    }
    if let Some(machine) = o.begun {
        annotations.insert(RELEASE_ANNOTATION.to_owned(), uuid(machine));
    }
    if let Some(epoch) = o.acknowledged {
        let tag = mark(o.who).order_tag(BASE + i64::from(epoch));
        annotations.insert(ACKNOWLEDGE_ABSENT.to_owned(), tag);
    }
    meta.annotations = Some(annotations);
    object.status = o.status.as_ref().map(status);
    object
}

pub fn server(number: u8, m: &Machine) -> Server {
    let mut tags: Vec<String> = Vec::new();
    if m.cluster {
        tags.push(cluster().tag());
    }
    for (who, epoch) in m.marks.iter().flatten() {
        tags.push(mark(*who).order_tag(BASE + i64::from(*epoch)));
    }
    if m.retained {
        tags.push(RETAINED_TAG.into());
    }
    Server {
        id: ServerId::parse(&uuid(number)).unwrap(),
        name: name(m.owner.slot),
        status: match m.life {
            Life::Provisioning => ServerStatus::Provisioning,
            Life::Delivered => ServerStatus::Delivered,
            Life::Failed => ServerStatus::Failed,
            Life::Releasing => ServerStatus::Releasing,
            Life::Released => ServerStatus::Released,
        },
        status_message: String::new(),
        location_id: None,
        location: "here".into(),
        instance_type_id: None,
        instance_type: "small".into(),
        os_slug: "some-os".into(),
        addresses: if m.delivered {
            vec!["192.0.2.1".into()]
        } else {
            Vec::new()
        },
        tags,
        created_at: Some(wall(m.created)),
        delivered_at: m.delivered.then(|| wall(m.created)),
        released_at: None,
        contract_id: None,
    }
}

fn control_server() -> Server {
    let who = Who { slot: 0, life: 0 };
    let machine = Machine {
        marks: [None; 2],
        cluster: true,
        retained: false,
        life: Life::Delivered,
        delivered: true,
        created: 0,
        owner: who,
        stripped: false,
        by_policy: false,
    };
    server(CONTROL, &machine)
}

/// The order tag of the machine that everybody knows.
pub fn control_tag() -> String {
    format!("fmo-order:{}", "f".repeat(32))
}

/// Reads a tag that an effect names.
pub fn tag_of(tag: &str) -> TagA {
    match parse_order_tag(tag) {
        Some((mark, epoch)) => TagA::Order(who_of(&mark), offset(epoch)),
        None if tag == RETAINED_TAG => TagA::Retained,
        None => TagA::Cluster,
    }
}

/// A tag of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagA {
    Order(Who, i16),
    Cluster,
    Retained,
}

/// All that one pass sees. Also the key under which its decision is remembered: few passes of a run
/// differ, and deciding costs much more than looking it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    pub object: Obj,
    pub memory: u32,
    pub now: Tick,
    pub started: Tick,
    pub used_before: bool,
    pub blocked: bool,
    pub proof: Option<ProofA>,
    pub seen: [Option<Machine>; MOST_MACHINES],
    /// The other object that this process knows.
    pub neighbour: Option<Who>,
    pub has_control: bool,
}

pub fn facts(s: &Sight) -> Facts {
    use flexmetal_operator::controllers::server::decide::evidence::{Evidence, evidence};
    let now = moment(s.now, s.started);
    let sightings: Vec<Sighting> = (0u8..)
        .zip(&s.seen)
        .filter_map(|(number, m)| m.as_ref().map(|m| (number, m)))
        .map(|(number, m)| Sighting {
            server: Arc::new(server(number, m)),
            seen: now.mono,
        })
        .collect();
    let bearing = |mark: &Mark| -> Vec<Sighting> {
        let mark = mark.tag_prefix();
        sightings
            .iter()
            .filter(|x| x.server.tags.iter().any(|t| t.starts_with(&mark)))
            .cloned()
            .collect()
    };
    let proof = s.proof.map(|p| {
        let began = ticks(p.began - s.started);
        let mut servers: Vec<Arc<Server>> = sightings
            .iter()
            .map(|x| x.server.clone())
            .filter(|x| p.shown & (1 << machine_of(x.id.as_str())) != 0)
            .collect();
        if p.control {
            servers.push(Arc::new(control_server()));
        }
        Arc::new(Proof {
            began,
            ended: began,
            servers,
        })
    });
    let view = View {
        state: if s.blocked {
            State::Blocked(Reason::KeyRejected, "the key is refused".into())
        } else {
            State::Usable
        },
        times: times(),
        proof,
        known: if s.has_control {
            vec![KnownMachine {
                uuid: uuid(CONTROL),
                order_tag: control_tag(),
            }]
        } else {
            Vec::new()
        },
        catalogue: Some((now.mono, Arc::new(Catalogue::default()))),
        used_before: s.used_before,
        last_error: None,
    };
    let mut facts = Facts {
        now,
        cluster: cluster(),
        all_namespaces: true,
        kind_deleting: Some(false),
        object: Arc::new(object(&s.object)),
        account: AccountFacts::Found {
            view,
            not_allowed: None,
        },
        ssh_keys: Ok(Vec::new()),
        own: bearing(mark(s.object.who)),
        recorded: None,
        former: None,
        memory: (*MEMORIES.get(s.memory)).clone(),
    };
    let found = evidence(&facts);
    if let Some(attempt) = found.open_attempt() {
        facts.memory.search_for(attempt, now.mono);
    }
    facts.memory.former_seen(found.other_mark(), now.mono);
    if let Evidence::Own(attempt) = &found
        && let Some(uuid) = &attempt.uuid
    {
        facts.recorded = sightings
            .iter()
            .find(|x| x.server.id.as_str() == uuid)
            .cloned();
    }
    facts.former = found.other_mark().map(|m| Former {
        claimed: Some(s.neighbour.is_some_and(|w| mark(w) == m)),
        machines: bearing(m),
    });
    facts
}
