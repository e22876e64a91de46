//! Two processes want to act in one namespace: one does, and the other takes over when it ends or is
//! lost, also while an order of the first is on its way.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    call_trace::{Act, Place, Release, Side},
    judge,
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::{Operator, Start, World, cluster, condition, eventually, server};

/// The promise: from the end or loss of one process until the next one acts.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(30);
/// A lease that was given back is taken at the next look.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(10);

/// What an object says that was there before the process began to lead.
const OLDER: &str = "this object is older than the operator's process";

/// How the first process is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// It is killed.
    Kill,
    /// It stands still for a while, and goes on when the next one acts.
    Pause,
    /// It does not reach the API server any more.
    Partition,
}

/// Nothing is judged to be absent in these tests: whoever takes over finds the order.
fn timing() -> Value {
    json!({
        "absenceGracePeriod": "5m", "absenceCheckInterval": "300ms", "activePollInterval": "200ms",
        "idlePollInterval": "1s", "orphanScanInterval": "1s", "orderTimeout": "100s",
    })
}

#[tokio::test]
async fn takeover_is_fast_and_orders_once() {
    tokio::join!(
        lost_on_the_way(Loss::Kill),
        lost_on_the_way(Loss::Pause),
        lost_on_the_way(Loss::Partition),
        handed_over(),
    );
}

/// The first process is lost while its order is on the way, which arrives late.
async fn lost_on_the_way(loss: Loss) {
    let mut proxied = ProxiedWorld::start(cluster(), timing()).await;
    let mut second = second(&proxied.world);
    assert_eq!(holder(&proxied.world).await.as_deref(), Some("first"));
    let place = Place {
        side: Side::Hosting,
        sort: "POST servers".into(),
        nth: 1,
    };
    let mut watch = proxied
        .trace
        .start_with_trap("one", &place, Act::HoldRequest);
    proxied.world.create(&server("one")).await;
    let caught = watch.caught(AT_ITS_END).await.expect("the order is sent");

    let lost = Instant::now();
    match loss {
        Loss::Kill => proxied.world.operator().kill9(),
        Loss::Pause => proxied.world.operator().pause(),
        Loss::Partition => proxied.cut_off_from_cluster(),
    }
    acts(&proxied.world, "second").await;
    let took = lost.elapsed();
    assert!(took < TAKES_OVER_WITHIN, "{loss:?}: it took {took:?}");

    // It is not taken for lost, and it arrives.
    let one = proxied.world.get("one").await.expect("it is there");
    assert_ne!(
        one["status"]["records"]["order"]["outcome"], "Absent",
        "{loss:?}: {one:#}"
    );
    caught.release(Release::Forward);
    let one = proxied.world.wait_ready("one", AT_ITS_END).await;
    let two = ordered_after_the_listing(&proxied.world).await;
    for object in [&one, &two] {
        let findings = judge::after_order(&proxied.world, object).await;
        assert!(findings.is_empty(), "{loss:?}: {findings:#?}");
    }

    if loss == Loss::Pause {
        // It wakes up with what it believed before, and stands by.
        proxied.world.operator().go_on();
        proxied.world.create(&server("three")).await;
        let three = proxied.world.wait_ready("three", AT_ITS_END).await;
        assert_eq!(holder(&proxied.world).await.as_deref(), Some("second"));
        // And takes over in its turn.
        let ended = Instant::now();
        assert!(second.terminate().await.success());
        acts(&proxied.world, "first").await;
        assert!(
            ended.elapsed() < HANDED_OVER_WITHIN,
            "{:?}",
            ended.elapsed()
        );
        proxied.world.delete("three").await;
        proxied.world.wait_gone("three", AT_ITS_END).await;
        let findings = judge::after_release(&proxied.world, &three).await;
        assert!(findings.is_empty(), "{loss:?}: {findings:#?}");
    }
}

/// Makes servers until one is newer than the listing that follows the gain, and waits for that one. An older one would wait
/// for a minute.
async fn ordered_after_the_listing(world: &World) -> Value {
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
        // Else it would be ordered in the middle of what follows.
        world.delete(&name).await;
        world.wait_gone(&name, AT_ITS_END).await;
        assert!(begun.elapsed() < AT_ITS_END, "the listing never comes");
    }
}

/// The first process ends as it should, and gives its lease back.
async fn handed_over() {
    let mut world = World::start(cluster(), "handed").await;
    world.create(&server("one")).await;
    world.wait_ready("one", AT_ITS_END).await;
    let _second = second(&world);
    let ended = Instant::now();
    assert!(world.operator().terminate().await.success());
    acts(&world, "second").await;
    assert!(
        ended.elapsed() < HANDED_OVER_WITHIN,
        "{:?}",
        ended.elapsed()
    );
    world.create(&server("two")).await;
    let two = world.wait_ready("two", AT_ITS_END).await;
    let findings = judge::after_order(&world, &two).await;
    assert!(findings.is_empty(), "{findings:#?}");
}

/// A second process for the namespace of a world, which reaches the API server by itself.
fn second(world: &World) -> Operator {
    let start = Start {
        kubeconfig: cluster().access().kubeconfig.clone(),
        pod: "second".to_owned(),
        ..world.start_of_operator().clone()
    };
    Operator::start(start, &world.folder().join("second.log"))
}

/// Waits until the process of this pod has the lease.
async fn acts(world: &World, pod: &str) {
    eventually(&format!("{pod} has the lease"), AT_ITS_END, async || {
        (holder(world).await.as_deref() == Some(pod)).then_some(())
    })
    .await;
}

/// The pod whose process has the lease of the world's namespace.
async fn holder(world: &World) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = "flexmetal-operator";
    let lease = leases.get_opt(name).await.expect("leases can be read")?;
    let holder = lease.spec?.holder_identity?;
    holder.split('/').next().map(str::to_owned)
}
