//! What happens between two events that the operator sees, and listings that come again and again.

use serde_json::{Value, json};

use super::{
    SOON, hits, judge, looks, machine_becomes, machine_of, orders,
    ssh_keys::{deleting_key, server_with},
    with_proxy,
};
use crate::floor::{proxy::Proxy, rules::Fault};
use lab::rig::{World, WorldOptions, eventually, quick_timing, server};

const LONG: f64 = 3600.0;

/// The operator hears of no server any more, until [`hears_again`].
async fn hears_nothing(proxy: &Proxy) {
    let hit = proxy.hits();
    proxy.fault(Fault::Hold, |call| call.watches());
    proxy.cut_watches();
    hits(proxy, hit + 1).await;
}

/// It goes on with a listing: of what came and went meanwhile it sees the end.
fn hears_again(proxy: &Proxy) {
    proxy.clear_faults();
    proxy.make_relist();
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

async fn strip_finalizers(world: &World, name: &str) {
    world
        .merge(name, &json!({"metadata": {"finalizers": null}}))
        .await;
}

/// One name, several objects, and the operator sees only the first and the last of them.
#[tokio::test]
async fn last_recreated_object_has_one_server() {
    let (world, proxy) = with_proxy("unseen", WorldOptions::default()).await;
    for name in ["turn", "torn"] {
        world.create(&server(name)).await;
    }
    let turn = world.wait_ready("turn", SOON).await;
    let torn = world.wait_ready("torn", SOON).await;
    // Its release has begun when the operator goes deaf, and ends meanwhile.
    world
        .simulator
        .settings(&json!({"releaseSeconds": LONG}))
        .await;
    world.delete("turn").await;
    machine_becomes(
        &world,
        turn["status"]["uuid"].as_str().unwrap(),
        "releasing",
    )
    .await;
    hears_nothing(&proxy).await;
    world.simulator.advance(LONG).await;
    world.wait_gone("turn", SOON).await;
    let turned = world.create(&server("turn")).await;
    // Somebody takes the finalizer off and deletes it: a person's doing, which releases nothing.
    strip_finalizers(&world, "torn").await;
    world.delete("torn").await;
    world.wait_gone("torn", SOON).await;
    world.create(&server("torn")).await;
    // Of these the operator sees the third only.
    for _ in 0..2 {
        world.create(&server("quick")).await;
        world.delete("quick").await;
        world.wait_gone("quick", SOON).await;
    }
    world.create(&server("quick")).await;
    looks(&world, 2).await;
    assert_eq!(orders(&world).await, 2, "nobody told of them yet");

    hears_again(&proxy);
    let now = world.wait_ready("turn", SOON).await;
    assert_eq!(uid(&now), uid(&turned));
    world.wait_ready("quick", SOON).await;
    let again = world.wait_ready("torn", SOON).await;
    looks(&world, 4).await;
    assert_eq!(machine_of(&world, &turn).await["status"], "released");
    // Without its object nobody may say that it goes: the next one of its name has it.
    assert_ne!(uid(&again), uid(&torn));
    assert_eq!(again["status"]["uuid"], torn["status"]["uuid"]);
    assert_eq!(machine_of(&world, &torn).await["status"], "delivered");
    assert_eq!(orders(&world).await, 4);
    judge(&world).await;
}

/// Listings in a row, as after an API server that was restarted again and again: they are no reason to ask the
/// provider for anything, nor to write.
#[tokio::test]
async fn repeated_relists_cost_no_provider_calls() {
    const SERVERS: usize = 12;
    // The operator lists ever more rarely.
    const LISTINGS: usize = 4;
    let mut timing = quick_timing();
    timing["idlePollInterval"] = json!("1h");
    timing["orphanScanInterval"] = json!("24h");
    let plan = WorldOptions {
        timing,
        ..WorldOptions::default()
    };
    let (world, proxy) = with_proxy("relists", plan).await;
    let names: Vec<String> = (0..SERVERS).map(|n| format!("web-{n}")).collect();
    for name in &names {
        world.create(&server(name)).await;
    }
    for name in &names {
        world.wait_ready(name, SOON).await;
        let kind = ("Synced", "True");
        world
            .wait_for_condition(name, kind.0, kind.1, None, SOON)
            .await;
    }
    let mut at_rest = Vec::new();
    for name in &names {
        at_rest.push(world.get(name).await.unwrap());
    }
    world.simulator.clear_ledger().await;
    proxy.fault(Fault::Pass, |call| call.lists());
    for _ in 0..LISTINGS {
        let hit = proxy.hits();
        proxy.make_relist();
        hits(&proxy, hit + 1).await;
    }
    // Whoever came last is served when all of them were.
    world.create(&server("last")).await;
    let last = world.wait_ready("last", SOON).await;
    let ledger = world.simulator.ledger().await;
    let own = last["status"]["uuid"].as_str().unwrap();
    let of_others = ledger.iter().filter(|call| {
        let path = call["path"].as_str().unwrap_or_default();
        !path.contains(own)
    });
    // A listing, the catalogue, and the order of the last one.
    let calls = of_others.count();
    assert!(calls < 2 * SERVERS, "{calls} calls: {ledger:#?}");
    for (name, before) in names.iter().zip(at_rest) {
        let same = async || {
            let now = world.get(name).await?;
            (now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])
                .then_some(())
        };
        eventually("it was not written", SOON, same).await;
    }
    assert_eq!(orders(&world).await, 1);
    judge(&world).await;
}

/// Replaces the key object `ops`, and the operator does not hear of it. Gives the new one.
async fn replace_unseen(world: &World, proxy: &Proxy, letter: char) -> Value {
    let keys = world.things("SshKey");
    let hit = proxy.hits();
    proxy.fault(Fault::Hold, |call| {
        call.path.ends_with("/sshkeys") && call.query.contains("watch=true")
    });
    proxy.cut_watches();
    hits(proxy, hit + 1).await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    keys.merge("ops", &finalizers).await;
    keys.delete("ops").await;
    keys.wait_gone("ops", SOON).await;
    keys.create(&deleting_key("ops", letter)).await
}

/// The operator still sees the key object that was there before, with the key that somebody wants to lock out.
#[tokio::test]
async fn key_replaced_unseen_is_not_installed() {
    let (world, proxy) = with_proxy("rekeyed", WorldOptions::default()).await;
    let quick = json!({"installSeconds": 2});
    world.simulator.settings(&quick).await;
    let keys = world.things("SshKey");
    keys.create(&deleting_key("ops", 'A')).await;
    keys.wait_ready("ops", SOON).await;
    let replaced = replace_unseen(&world, &proxy, 'B').await;
    let mut web = server_with("web", &["ops"]);
    web["spec"]["install"] = json!({"revision": 1});
    world.create(&web).await;
    let tried = |object: &Value| {
        let outcome = &object["status"]["records"]["order"]["outcome"];
        outcome.is_string().then_some(())
    };
    world.wait_for("web", "a try", SOON, tried).await;
    assert_eq!(orders(&world).await, 0, "the key is another one");

    hears_again(&proxy);
    let ready = world.wait_ready("web", SOON).await;
    let order = &ready["status"]["records"]["order"];
    assert_eq!(order["keyUIDs"], json!([uid(&replaced)]), "{order:#}");
    assert_eq!(orders(&world).await, 1);

    // The same before a machine is installed again.
    replace_unseen(&world, &proxy, 'C').await;
    let spec = json!({"spec": {"install": {"revision": 2}}});
    world.merge("web", &spec).await;
    world
        .wait_for_condition("web", "Synced", "False", Some("ChecksFailed"), SOON)
        .await;
    assert_eq!(reinstallations(&world).await, 0, "the key is another one");
    hears_again(&proxy);
    let finished = |object: &Value| {
        let last = &object["status"]["install"]["last"];
        (last["revision"] == 2 && last["result"] == "Finished").then_some(())
    };
    world.wait_for("web", "finished", SOON, finished).await;
    assert_eq!(reinstallations(&world).await, 1);
    judge(&world).await;
}

async fn reinstallations(world: &World) -> usize {
    let ledger = world.simulator.ledger().await;
    ledger
        .iter()
        .filter(|call| call["method"] == "PATCH")
        .count()
}
