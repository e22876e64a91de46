//! One server from order to Ready to released, as GitOps tools and people see it.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{
    SERVERS, SOON, account_says, held, judge, machine, machine_becomes, orders, told,
    watch_log::WatchLog,
};
use lab::rig::{Fault, Kstatus, World, WorldOptions, cluster, condition, health, server};

/// Long enough that nothing is delivered or released before a test moves the clock.
const FOREVER: f64 = 7200.0;

#[tokio::test]
async fn server_is_ordered_ready_and_released() {
    let mut world = World::prepare(cluster(), "life", WorldOptions::default()).await;
    let simulator = &world.simulator;
    simulator
        .settings(&json!({"deliverySeconds": [FOREVER, FOREVER], "releaseSeconds": FOREVER}))
        .await;
    // Slow enough that the state before the answer is seen.
    let slow = Fault::new(json!({"delay": {"ms": 700, "before": false}}));
    simulator.fault(slow.on("POST", SERVERS)).await;

    // What is there before the operator waits first.
    world.start_operator();
    account_says(&world, "default", "Ready", "True", "Available").await;
    let fresh = world.create(&server("one")).await;
    assert_eq!(fresh["status"]["observedGeneration"], -1, "{fresh}");
    assert_eq!(health(&fresh), Kstatus::InProgress);
    let log = WatchLog::of(world.servers(), &fresh);

    held(&world, "one", "Provisioning", &["created"]).await;
    let waiting = [
        "wait",
        "--for=condition=Ready",
        "bms/one",
        "--timeout=90s",
        "-n",
        &world.namespace,
    ];
    let waiting = cluster().kubectl(&waiting);
    let delivery = async {
        world.simulator.advance(FOREVER).await;
        world.wait_ready("one", SOON).await
    };
    let (waited, ready) = tokio::join!(waiting, delivery);
    assert!(waited.status.success(), "{waited:?}");
    assert_eq!(health(&ready), Kstatus::Current, "{ready:#}");
    let uuid = ready["status"]["uuid"].as_str().unwrap().to_owned();
    columns(&world, &ready).await;

    world.delete("one").await;
    let releasing = world
        .wait_for_condition("one", "Ready", "False", Some("Releasing"), SOON)
        .await;
    assert_eq!(health(&releasing), Kstatus::Terminating);
    machine_becomes(&world, &uuid, "releasing").await;
    // The condition says so; the provider's word for it is written where the release takes long.
    held(&world, "one", "Releasing", &["The release has begun"]).await;
    world.simulator.advance(FOREVER).await;
    world.wait_gone("one", SOON).await;

    assert_eq!(machine(&world, &uuid).await["status"], "released");
    assert_eq!(orders(&world).await, 1);
    assert_eq!(
        world.simulator.counts().await["DELETE /v3/flexMetal/servers/{uuid}"],
        1
    );
    judge(&world).await;
    watch_the(&log.versions());
    told(&world, "Released").await;
    events(&world, &uuid).await;
    let seq = ready["status"]["records"]["order"]["seq"].as_u64();
    log_lines(&mut world, &uuid, seq.expect("the number of its order"));
}

/// An ordinary life has these four events and no others, each with the machine that it is about.
const STEPS: [&str; 4] = ["Ordered", "Delivered", "ReleaseStarted", "Released"];

async fn events(world: &World, uuid: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let of_server = events.iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|r| r.kind.as_deref()) == Some("BareMetalServer")
    });
    let mut told: Vec<_> = of_server
        .map(|e| {
            (
                e.event_time.clone().map(|at| at.0),
                e.reason.clone(),
                e.note.clone(),
            )
        })
        .collect();
    told.sort();
    let reasons: Vec<&str> = told.iter().filter_map(|(_, r, _)| r.as_deref()).collect();
    assert_eq!(reasons, STEPS, "{told:?}");
    for (_, reason, note) in &told {
        let note = note.as_deref().unwrap_or_default();
        assert!(note.contains(uuid), "{reason:?}: {note}");
    }
}

/// Each step is one line of the log, with the fields to look for it.
fn log_lines(world: &mut World, uuid: &str, seq: u64) {
    let log = world.operator().log();
    for step in STEPS {
        let of_step = format!(" {step} kind=\"BareMetalServer\"");
        let lines: Vec<&str> = log.lines().filter(|l| l.contains(&of_step)).collect();
        let [line] = lines[..] else {
            panic!("{step}: {lines:?} in\n{log}");
        };
        let fields = [
            " INFO ".to_owned(),
            format!("namespace=\"{}\"", world.namespace),
            "name=\"one\"".to_owned(),
            format!("uuid=\"{uuid}\""),
            format!("order={seq}"),
        ];
        for field in fields {
            assert!(line.contains(&field), "{field} is not in {line}");
        }
    }
}

/// What `kubectl get` prints of a ready server.
async fn columns(world: &World, ready: &Value) {
    let printed = |wide: &'static str| async move {
        let get = ["get", "bms", "one", "-n", &world.namespace, "-o", wide];
        cluster().kubectl_ok(&get).await
    };
    let table = printed("wide").await;
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let shown = [
        "NAME", "READY", "REASON", "STATUS", "IP", "TYPE", "LOCATION", "OS", "SYNCED", "WANTED",
        "POWER", "EXPIRES", "CONTRACT", "UUID", "MESSAGE", "AGE",
    ];
    assert_eq!(head, shown, "{table}");
    let row = lines.next().unwrap();
    let address = ready["status"]["addresses"][0]["address"].as_str().unwrap();
    let uuid = ready["status"]["uuid"].as_str().unwrap();
    for cell in [
        "one",
        "True",
        "Delivered",
        "delivered",
        address,
        "bm7.std.8",
        "EU: Rotterdam",
        "ubuntu-2404-lts",
        uuid,
    ] {
        assert!(row.contains(cell), "{cell} is not in {table}");
    }
}

/// Every version of the object reads right, not only those that were waited for.
fn watch_the(versions: &[Value]) {
    let mut last = Kstatus::InProgress;
    let mut reasons: Vec<String> = Vec::new();
    for version in versions {
        let now = health(version);
        let follows = match last {
            Kstatus::InProgress => now != Kstatus::Failed,
            Kstatus::Current => matches!(now, Kstatus::Current | Kstatus::Terminating),
            Kstatus::Terminating => now == Kstatus::Terminating,
            Kstatus::Failed => false,
        };
        assert!(follows, "{now:?} after {last:?}: {version:#}");
        last = now;
        let reason = condition(version, "Ready").map(|found| super::text(&found["reason"]));
        reasons.extend(reason.filter(|reason| reasons.last() != Some(reason)));
    }
    assert_eq!(last, Kstatus::Terminating);
    // On a busy machine it may wait for its turn first.
    reasons.retain(|reason| reason != "Queued");
    let expected = ["Ordering", "Provisioning", "Delivered", "Releasing"];
    assert_eq!(reasons[..expected.len()], expected, "{reasons:?}");
    // Finalizer, open record, outcome, delivered, the deletion itself, the release record, releasing, end: one more is noise.
    assert!(
        versions.len() <= 10,
        "{} writes in one life",
        versions.len()
    );
}
