//! What the operator makes of a server that the API server has taken.

use std::sync::Arc;
use std::time::Duration;

use api::{
    BareMetalServer,
    names::{ORDER_ANNOTATION, SERVER_FINALIZER},
    order::OrderNote,
    records::ServerRecords,
    server::{BareMetalServerStatus, Intent, OrderOutcome, OrderRecord},
};
use flexmetal_core::{
    account::{
        terms::Terms,
        view::{Catalogue, Proof, Sighting, View},
    },
    account_facts::AccountFacts,
    mark::ClusterId,
    moment::Moment,
    power::KnownCommand,
    server::{
        decide::{Decision, decide},
        facts::{Facts, Installation},
        memory::Memory,
    },
    server_commands::UnderWay,
};
use hosting_types::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Wall time of the decision, and how long the process has run.
const WALL: i64 = 1_790_001_000;
const RUNNING: Duration = Duration::from_secs(1000);
const MACHINE: &str = "00000000-0000-4000-8000-000000000001";

/// Decides on the object in each stage of its life: new, with its machine, and on its way out.
pub(super) fn in_each_stage(object: &BareMetalServer) {
    let new = facts(object.clone());
    let with_machine = ordered(new.clone());
    let mut ending = with_machine.clone();
    let meta = &mut Arc::make_mut(&mut ending.object).metadata;
    meta.deletion_timestamp = Some(Time(at(WALL - 100)));
    for facts in [new, with_machine, ending] {
        let Decision { draft, .. } = decide(&facts);
        let status = draft.finish(at(WALL));
        serde_json::to_value(status).expect("a status is JSON");
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

/// A new object, on an account where nothing keeps it from being ordered.
fn facts(object: BareMetalServer) -> Facts {
    let began = RUNNING - Duration::from_secs(10);
    let proof = Proof {
        began,
        ended: began,
        servers: Vec::new(),
    };
    let view = View {
        proof: Some(Arc::new(proof)),
        catalogue: Some((began, Arc::new(Catalogue::default()))),
        servers: Some((began, Arc::default())),
        used_before: false,
        ..View::usable()
    };
    Facts {
        now: Moment {
            wall: WALL,
            mono: RUNNING,
        },
        wall_at_start: WALL - 1000,
        acting_since: Duration::ZERO,
        first_seen: Duration::from_secs(100),
        is_newcomer: true,
        cluster: ClusterId::parse("0123456789abcdef").expect("16 digits"),
        all_namespaces: true,
        kind_deleting: Some(false),
        object: Arc::new(object),
        account: AccountFacts::Found {
            view,
            terms: Terms::Own,
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
    }
}

/// The same with a machine that was ordered for it.
fn ordered(mut facts: Facts) -> Facts {
    let meta = facts.object.metadata.clone();
    let of = |text: Option<String>| text.expect("the API server gives it");
    let (namespace, name, uid) = (of(meta.namespace), of(meta.name), of(meta.uid));
    let mark = facts.cluster.object_mark(&namespace, &name, &uid);
    let intent = Intent {
        cluster: facts.cluster.as_str().to_owned(),
        uid,
        mark: mark.as_str().to_owned(),
        epoch: WALL - 500,
        attempt: "nonce".to_owned(),
        send_by: WALL - 470,
        hostname: name.clone(),
        account: None,
        unknown_before: 0,
    };
    let tags = vec![facts.cluster.tag(), intent.tag()];
    let note = serde_json::to_string(&OrderNote::open(intent.clone())).expect("a note is JSON");
    let object = Arc::make_mut(&mut facts.object);
    object.metadata.finalizers = Some(vec![SERVER_FINALIZER.to_owned()]);
    object.metadata.annotations = Some([(ORDER_ANNOTATION.to_owned(), note)].into());
    object.status = Some(BareMetalServerStatus {
        records: ServerRecords {
            order: Some(OrderRecord {
                outcome: Some(OrderOutcome::Created),
                outcome_at: Some(WALL - 490),
                ..OrderRecord::open(intent)
            }),
            ..ServerRecords::default()
        },
        uuid: Some(MACHINE.to_owned()),
        ..BareMetalServerStatus::default()
    });
    let server = Server {
        id: ServerId::parse(MACHINE).expect("a UUID"),
        name,
        status: ServerStatus::Delivered,
        status_message: String::new(),
        location_id: None,
        location: "EU: Rotterdam".to_owned(),
        instance_type_id: None,
        instance_type: "bm7.std.8".to_owned(),
        os_slug: "debian-13".to_owned(),
        addresses: vec!["192.0.2.1".to_owned()],
        tags,
        created_at: Some(WALL - 490),
        delivered_at: Some(WALL - 60),
        released_at: None,
        contract_id: None,
    };
    facts.own = vec![Sighting {
        server: Arc::new(server),
        seen: RUNNING - Duration::from_secs(10),
    }];
    facts
}
