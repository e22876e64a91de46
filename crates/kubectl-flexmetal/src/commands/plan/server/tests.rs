//! Predictions over one server object.

use super::{super::account, *};
use api::conditions::{Type, find_condition};
use flexmetal_core::{
    account::view::Catalogue, cluster_id::ClusterId, owner::Owner, server::facts::ServerKey,
};
use hosting_types::{
    Server,
    catalogue::{Availability, Location, OperatingSystem, Plan, PlanLocation},
};
use serde_json::{Value, json};

const NOW: i64 = 1_790_000_000;
const UUID: &str = "00000000-0000-4000-8000-000000000001";

fn cluster() -> ClusterId {
    ClusterId::from_namespace_uid("u")
}

fn order_tag() -> String {
    Owner::new(&cluster(), "a", "web", "ns-1").order_tag(1_789_000_000)
}

/// A new object with these fields of metadata, spec and status.
fn object(metadata: Value, spec: Value, status: Value) -> BareMetalServer {
    let mut object = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
        "metadata": {"name": "web", "namespace": "a", "uid": "uid-1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"location": "Here", "instanceType": "small", "os": {"slug": "some-os"}},
    });
    object["status"] = status;
    for (field, more) in [("metadata", metadata), ("spec", spec)] {
        for (key, value) in more.as_object().unwrap() {
            object[field][key] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

/// The finalizer and the status of an object that ordered the server.
fn with_server() -> (Value, Value) {
    let order = json!({"uid": "uid-1", "seq": 1_789_000_000_u32, "nonce": "a",
        "sendBy": "2026-09-10T00:00:00Z", "accountID": "id-1", "outcome": "Created", "server": UUID});
    let status = json!({"uuid": UUID, "accountRef": {"kind": "ProviderAccount", "name": "default"},
        "records": {"order": order}});
    (json!({"finalizers": [SERVER_FINALIZER]}), status)
}

fn server(tags: &[String]) -> Server {
    Server {
        tags: tags.to_vec(),
        ..account::tests::server(1, "a", "delivered", 1_789_000_000)
    }
}

fn catalogue(availability: Availability) -> Catalogue {
    let plan = Plan {
        name: "small".into(),
        cpu: None,
        memory: None,
        disks: Vec::new(),
        network_interfaces: Vec::new(),
        gpu: None,
        locations: vec![PlanLocation {
            name: "Here".into(),
            data_centre: String::new(),
            availability,
        }],
    };
    let location = Location {
        id: None,
        name: "Here".into(),
        short_name: String::new(),
        display_name: String::new(),
        country_id: None,
        country_name: String::new(),
        country_short_name: String::new(),
    };
    let system = OperatingSystem {
        id: None,
        name: String::new(),
        slug: "some-os".into(),
        group: None,
        is_odp: true,
        for_servers: true,
        active: true,
    };
    Catalogue {
        locations: vec![location],
        plans: vec![plan],
        systems: vec![system],
        quotas: Vec::new(),
    }
}

struct World {
    spec_of_account: Value,
    status_of_account: Value,
    availability: Availability,
    servers: Vec<Server>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            spec_of_account: json!({}),
            status_of_account: json!({"accountID": "id-1"}),
            availability: Availability::High,
            servers: Vec::new(),
        }
    }
}

/// What is sent, and the reason of the object's condition Ready.
fn predict(mut object: BareMetalServer, world: World) -> (Vec<PlannedEffect>, Option<String>) {
    let mut found = account::tests::found(world.spec_of_account, &world.status_of_account);
    let view = &mut found.account.as_mut().unwrap().view;
    view.servers = Some((Duration::ZERO, Arc::new(world.servers)));
    let catalogue = catalogue(world.availability);
    view.catalogue = Some((Duration::ZERO, Arc::new(catalogue)));
    let key = ServerKey {
        sent: UUID.into(),
        known_by: UUID.into(),
        object: None,
    };
    let installation = Installation {
        ssh_keys: vec![key],
        ..Installation::default()
    };
    let mut server = PlannedServer {
        namespace_uid: "ns-1".into(),
        found,
        others: Arc::new(KnownObjects {
            objects: vec![Object::from(object.clone())],
            are_all: true,
        }),
        order_owners: OrderOwners::default(),
        installation: Some(Ok(installation)),
        named_keys: Vec::new(),
        commands: RunningCommand::Nothing,
        power_command: None,
        memory: ServerMemory::default(),
        has_acted: false,
        order: None,
    };
    let effects = server.predict(&mut object);
    let conditions = object.status.map(|status| status.conditions);
    let ready = conditions.and_then(|it| find_condition(&it, Type::Ready).cloned());
    (effects, ready.map(|ready| ready.reason))
}

fn acts(effects: &[PlannedEffect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.act).collect()
}

#[test]
fn new_object_orders_at_once() {
    let (effects, _) = predict(object(json!({}), json!({}), json!({})), World::default());
    assert_eq!(acts(&effects), ["order"]);
    assert!(
        effects[0].is_billed && effects[0].after_seconds < 2,
        "{effects:?}"
    );
    assert!(effects[0].description.contains("small at Here"));
}

#[test]
fn order_that_waits_says_for_what() {
    let new = || object(json!({}), json!({}), json!({}));
    let without_stock = World {
        availability: Availability::Unavailable,
        ..World::default()
    };
    let reason = |reason: &str| (Vec::new(), Some(reason.to_owned()));
    assert_eq!(predict(new(), without_stock), reason("NoStock"));
    let full = World {
        spec_of_account: json!({"limits": {"maxServers": 0}}),
        ..World::default()
    };
    assert_eq!(predict(new(), full), reason("LimitReached"));
    let unknown = object(json!({}), json!({"instanceType": "large"}), json!({}));
    assert_eq!(predict(unknown, World::default()), reason("InvalidSpec"));
}

#[test]
fn existing_server_gets_the_tags_of_the_spec() {
    let (metadata, status) = with_server();
    let own = [cluster().tag(), order_tag()];
    let edited = object(
        metadata.clone(),
        json!({"tags": ["blue", "green"]}),
        status.clone(),
    );
    let world = |tags: &[String]| World {
        servers: vec![server(tags)],
        ..World::default()
    };
    let (effects, _) = predict(edited, world(&own));
    let changed: Vec<&str> = effects.iter().map(|it| it.description.as_str()).collect();
    assert_eq!(acts(&effects), ["addTag", "addTag"]);
    assert!(
        changed[0].contains("blue") && changed[1].contains("green"),
        "{changed:?}"
    );
    let unchanged = object(metadata, json!({}), status);
    let (effects, ready) = predict(unchanged, world(&own));
    assert_eq!((effects, ready.as_deref()), (Vec::new(), Some("Delivered")));
}

#[test]
fn deletion_releases_retains_or_waits() {
    let (mut metadata, status) = with_server();
    metadata["deletionTimestamp"] = json!("2026-09-20T00:00:00Z");
    let predict = |spec: Value| {
        let world = World {
            servers: vec![server(&[cluster().tag(), order_tag()])],
            ..World::default()
        };
        predict(object(metadata.clone(), spec, status.clone()), world)
    };
    let (effects, _) = predict(json!({}));
    assert_eq!(acts(&effects), ["release"]);
    assert!(effects[0].erases_disks);
    let (effects, _) = predict(json!({"deletionPolicy": "Retain"}));
    assert_eq!(acts(&effects), ["addTag"]);
    let (effects, ready) = predict(json!({"deletionProtection": true}));
    assert_eq!((effects, ready.as_deref()), (Vec::new(), Some("Protected")));
}

#[test]
fn named_server_is_adopted() {
    let named = object(json!({}), json!({"externalID": UUID}), json!({}));
    let world = World {
        servers: vec![server(&[])],
        ..World::default()
    };
    assert_eq!(acts(&predict(named, world).0), ["adopt"]);
}

#[test]
fn order_in_flight_is_awaited() {
    let send_by = Timestamp::from_second(NOW + 10).unwrap().to_string();
    let order = json!({"uid": "uid-1", "seq": 1_790_000_000_u32, "nonce": "a", "sendBy": send_by,
        "accountID": "id-1"});
    let open = object(
        json!({"finalizers": [SERVER_FINALIZER]}),
        json!({}),
        json!({"records": {"order": order}}),
    );
    let (effects, _) = predict(open, World::default());
    assert_eq!(effects, []);
}

#[test]
fn absence_checks_come_before_the_next_order() {
    let order = json!({"uid": "uid-1", "seq": 1_789_000_000_u32, "nonce": "a",
        "sendBy": "2026-09-10T00:00:00Z", "accountID": "id-1"});
    let open = object(
        json!({"finalizers": [SERVER_FINALIZER]}),
        json!({}),
        json!({"records": {"order": order}}),
    );
    let other = Owner::new(&cluster(), "a", "db", "ns-1").order_tag(1_789_000_000);
    let known = json!([{"uuid": UUID, "orderTag": other, "live": true}]);
    let mut server = server(&[cluster().tag(), other]);
    server.name = "db".into();
    let world = World {
        status_of_account: json!({"accountID": "id-1", "records": {"knownServers": known}}),
        servers: vec![server],
        ..World::default()
    };
    let (effects, _) = predict(open, world);
    assert_eq!(acts(&effects), ["order"]);
    assert!(effects[0].after_seconds >= 60, "{effects:?}");
}
