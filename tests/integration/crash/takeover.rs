//! Two processes compete for one namespace: one leads, and the other takes over when it ends or is lost,
//! also during an order of the first.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    call_trace::{HeldCallOutcome, TargetApi, TracePosition, TrapAction},
    judge,
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::{Operator, Start, World, cluster, condition, eventually, server};

/// Maximum time from the end or loss of one process until the next one leads, as documented.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(30);
/// The next process takes over a released lease at its next read.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(10);

/// Start of the message for an object that is older than the leader's term.
const OLDER: &str = "The operator restarted";

/// How the first process is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessLoss {
    /// It is killed.
    Kill,
    /// It is paused, and continues when the next one leads.
    Pause,
    /// It loses its connection to the API server.
    Partition,
}

/// The grace period is too long to confirm an order absent, so the next leader must find the order.
fn timing() -> Value {
    json!({
        "absenceGracePeriod": "5m", "absenceCheckInterval": "300ms", "activePollInterval": "200ms",
        "idlePollInterval": "1s", "orphanScanInterval": "1s", "orderTimeout": "100s",
    })
}

#[tokio::test]
async fn takeover_is_fast_and_orders_once() {
    tokio::join!(
        check_takeover_during_order(ProcessLoss::Kill),
        check_takeover_during_order(ProcessLoss::Pause),
        check_takeover_during_order(ProcessLoss::Partition),
        check_graceful_takeover(),
    );
}

/// The first process is lost during its order, which arrives late.
async fn check_takeover_during_order(loss: ProcessLoss) {
    let mut proxied = ProxiedWorld::start(cluster(), timing()).await;
    let mut second = start_second_operator(&proxied.world);
    assert_eq!(
        get_lease_holder(&proxied.world).await.as_deref(),
        Some("first")
    );
    let place = TracePosition {
        api: TargetApi::Hosting,
        kind: "POST servers".into(),
        nth: 1,
    };
    let mut watch = proxied
        .trace
        .start_with_trap("one", &place, TrapAction::HoldRequest);
    proxied.world.create(&server("one")).await;
    let caught = watch
        .wait_for_call(AT_ITS_END)
        .await
        .expect("the order is sent");

    let lost = Instant::now();
    match loss {
        ProcessLoss::Kill => proxied.world.operator().kill9(),
        ProcessLoss::Pause => proxied.world.operator().pause(),
        ProcessLoss::Partition => proxied.disconnect_from_cluster(),
    }
    wait_until_leader(&proxied.world, "second").await;
    let took = lost.elapsed();
    assert!(took < TAKES_OVER_WITHIN, "{loss:?}: it took {took:?}");

    // The order does not count as absent, and it arrives.
    let one = proxied.world.get("one").await.expect("it is there");
    assert_ne!(
        one["status"]["records"]["order"]["outcome"], "Absent",
        "{loss:?}: {one:#}"
    );
    caught.release(HeldCallOutcome::Forward);
    let one = proxied.world.wait_ready("one", AT_ITS_END).await;
    let two = order_after_first_list(&proxied.world).await;
    for object in [&one, &two] {
        let findings = judge::check_after_order(&proxied.world, object).await;
        assert!(findings.is_empty(), "{loss:?}: {findings:#?}");
    }

    if loss == ProcessLoss::Pause {
        // It continues with its old state, and becomes standby.
        proxied.world.operator().go_on();
        proxied.world.create(&server("three")).await;
        let three = proxied.world.wait_ready("three", AT_ITS_END).await;
        assert_eq!(
            get_lease_holder(&proxied.world).await.as_deref(),
            Some("second")
        );
        // And it takes over again.
        let ended = Instant::now();
        assert!(second.terminate().await.success());
        wait_until_leader(&proxied.world, "first").await;
        assert!(
            ended.elapsed() < HANDED_OVER_WITHIN,
            "{:?}",
            ended.elapsed()
        );
        proxied.world.delete("three").await;
        proxied.world.wait_gone("three", AT_ITS_END).await;
        let findings = judge::check_after_release(&proxied.world, &three).await;
        assert!(findings.is_empty(), "{loss:?}: {findings:#?}");
    }
}

/// Creates servers until one is newer than the new leader's first list, and waits for that one.
/// An older one would wait for a minute.
async fn order_after_first_list(world: &World) -> Value {
    let servers = world.things("BareMetalServer");
    let begun = Instant::now();
    let mut number = 0;
    loop {
        number += 1;
        let name = format!("two-{number}");
        world.create(&server(&name)).await;
        let is_older = servers.wait_for(&name, "ordered or not", AT_ITS_END, |object| {
            let ready = condition(object, "Ready")?;
            let message = ready["message"].as_str()?;
            let is_older = message.starts_with(OLDER);
            (is_older || object["status"]["uuid"].is_string()).then_some(is_older)
        });
        if !is_older.await {
            return world.wait_ready(&name, AT_ITS_END).await;
        }
        // Otherwise it would be ordered during the next steps.
        world.delete(&name).await;
        world.wait_gone(&name, AT_ITS_END).await;
        assert!(begun.elapsed() < AT_ITS_END, "the listing never comes");
    }
}

/// The first process ends normally, and releases its lease.
async fn check_graceful_takeover() {
    let mut world = World::start(cluster(), "handed").await;
    world.create(&server("one")).await;
    world.wait_ready("one", AT_ITS_END).await;
    let _second = start_second_operator(&world);
    let ended = Instant::now();
    assert!(world.operator().terminate().await.success());
    wait_until_leader(&world, "second").await;
    assert!(
        ended.elapsed() < HANDED_OVER_WITHIN,
        "{:?}",
        ended.elapsed()
    );
    world.create(&server("two")).await;
    let two = world.wait_ready("two", AT_ITS_END).await;
    let findings = judge::check_after_order(&world, &two).await;
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Starts a second process for the namespace of a world, with its own connection to the API server.
fn start_second_operator(world: &World) -> Operator {
    let start = Start {
        kubeconfig: cluster().access().kubeconfig.clone(),
        pod: "second".to_owned(),
        ..world.start_of_operator().clone()
    };
    Operator::start(start, &world.folder().join("second.log"))
}

/// Waits until the process of this pod holds the lease.
async fn wait_until_leader(world: &World, pod: &str) {
    eventually(&format!("{pod} has the lease"), AT_ITS_END, async || {
        (get_lease_holder(world).await.as_deref() == Some(pod)).then_some(())
    })
    .await;
}

/// The pod whose process holds the lease of the world's namespace.
async fn get_lease_holder(world: &World) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = "flexmetal-operator";
    let lease = leases.get_opt(name).await.expect("leases can be read")?;
    let holder = lease.spec?.holder_identity?;
    holder.split('/').next().map(str::to_owned)
}
