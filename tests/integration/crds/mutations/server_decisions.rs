//! The operator's decisions on a server that the API server accepted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{
    BareMetalServer,
    names::SERVER_FINALIZER,
    records::ServerRecords,
    server::{BareMetalServerStatus, OrderOutcome, OrderRecord},
};
use flexmetal_core::{
    account::{
        terms::Terms,
        view::{AccountView, Catalogue, CompleteList, SeenServer},
    },
    cluster_id::ClusterId,
    moment::Moment,
    power::KnownCommand,
    resolved_account::ResolvedAccount,
    server::{
        decide::{ServerDecision, decide},
        facts::{Installation, ServerFacts},
        memory::ServerMemory,
        protocol_facts,
    },
    server_commands::RunningCommand,
};
use hosting_types::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Wall time of the decision, and how long the process has run.
const WALL: i64 = 1_790_001_000;
const RUNNING: Duration = Duration::from_secs(1000);
/// The number of the order: its Unix time, 500 s before the decision.
const ORDERED: u32 = 1_790_000_500;
const SERVER_UUID: &str = "00000000-0000-4000-8000-000000000001";

/// Decides on the object in each state: new, with its server, and being deleted.
pub(super) fn decide_in_each_stage(object: &BareMetalServer) {
    let new = facts(object.clone());
    let with_server = ordered(new.clone());
    let mut ending = with_server.clone();
    let meta = &mut Arc::make_mut(&mut ending.object).metadata;
    meta.deletion_timestamp = Some(Time(at(WALL - 100)));
    for facts in [new, with_server, ending] {
        let ServerDecision { desired, .. } = decide(&facts);
        let status = desired.finish(at(WALL));
        serde_json::to_value(status).expect("a status is JSON");
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

/// A new object with an account that allows its order.
fn facts(object: BareMetalServer) -> ServerFacts {
    let began = RUNNING - Duration::from_secs(10);
    let complete_list = CompleteList {
        began,
        ended: began,
        servers: Vec::new(),
    };
    let view = AccountView {
        complete_list: Some(Arc::new(complete_list)),
        catalogue: Some((began, Arc::new(Catalogue::default()))),
        servers: Some((began, Arc::default())),
        ..AccountView::usable()
    };
    let facts = ServerFacts {
        read_only: false,
        now: Moment {
            wall: WALL,
            mono: RUNNING,
        },
        wall_at_start: WALL - 1000,
        namespace_uid: Ok("namespace".into()),
        leader_since: Duration::ZERO,
        first_seen: Duration::from_secs(100),
        created_since_leading: true,
        cluster: ClusterId::parse("0123456789abcdef").expect("16 digits"),
        kind_deleting: Some(false),
        object: Arc::new(object),
        account: ResolvedAccount::Found {
            view,
            terms: Terms::Own,
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
        memory: ServerMemory::default(),
    };
    seen(facts)
}

/// Adds to the facts that the process saw the object earlier.
fn seen(mut facts: ServerFacts) -> ServerFacts {
    let order = facts.order().map(protocol_facts::to_protocol_order);
    let object = protocol_facts::to_protocol_object(&facts);
    let protocol = &mut facts.memory.protocol;
    *protocol = Default::default();
    protocol.observe_object(&object, order, true, facts.first_seen);
    facts
}

/// Adds to the facts a server that was ordered for the object.
fn ordered(mut facts: ServerFacts) -> ServerFacts {
    let meta = facts.object.metadata.clone();
    let of = |text: Option<String>| text.expect("the API server gives it");
    let (name, uid) = (of(meta.name), of(meta.uid));
    let order = OrderRecord {
        uid,
        seq: ORDERED,
        nonce: "nonce".to_owned(),
        send_by: WALL - 470,
        hostname: name.clone(),
        // The ID of a usable account.
        account_id: facts
            .view()
            .and_then(|view| view.account_id.clone())
            .expect("an ID"),
        outcome: Some(OrderOutcome::Created),
        server: Some(SERVER_UUID.to_owned()),
        outcome_at: Some(WALL - 490),
        answer_lost: false,
        lost: 0,
        cut: 0,
        message: None,
        failures: 0,
        acknowledgement: None,
        request_hash: None,
        location: None,
        instance_type: None,
        sent: BTreeMap::new(),
        key_uids: Vec::new(),
        secret_texts: false,
    };
    let order_tag = facts.order_tag(&order).expect("the namespace is known");
    let tags = vec![facts.cluster.tag(), order_tag];
    let object = Arc::make_mut(&mut facts.object);
    object.metadata.finalizers = Some(vec![SERVER_FINALIZER.to_owned()]);
    object.status = Some(BareMetalServerStatus {
        records: ServerRecords {
            order: Some(order),
            ..ServerRecords::default()
        },
        uuid: Some(SERVER_UUID.to_owned()),
        ..BareMetalServerStatus::default()
    });
    let server = Server {
        id: ServerId::parse(SERVER_UUID).expect("a UUID"),
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
    let seen_server = SeenServer {
        server: Arc::new(server),
        seen: RUNNING - Duration::from_secs(10),
    };
    facts.own = vec![seen_server.clone()];
    facts.recorded = Some(seen_server);
    seen(facts)
}
