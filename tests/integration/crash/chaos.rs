//! Objects are created, changed and deleted, the process is killed, and a fifth of all calls to both APIs
//! is dropped, delayed or cut. When the faults end, the result is as if there were none.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use kube::api::ListParams;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{judge, proxied_world::ProxiedWorld};
use lab::rig::{World, cluster, condition, eventually, server};
use tiers::Tier;

const NUMBER: usize = 120;
const GRACE: Duration = Duration::from_secs(30);

fn name(number: usize) -> String {
    format!("server-{number:03}")
}

/// Does a random user or node action on one object.
async fn disturb_object(world: &mut World, chance: &mut StdRng) {
    let name = name(chance.random_range(0..NUMBER));
    let found = world.get(&name).await;
    let is_going = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    let act = chance.random_range(0..20);
    match (act, found) {
        (_, None) => {
            world.create(&server(&name)).await;
        }
        (0, _) => world.operator().restart(),
        (_, Some(object)) if is_going(&object) => {}
        (1..=7, _) => world.delete(&name).await,
        (8..=12, _) => {
            let policy = if act < 10 { "Retain" } else { "Release" };
            let change = json!({"spec": {"deletionPolicy": policy}});
            world.merge(&name, &change).await;
        }
        _ => {
            let tags = [format!("round:{}", chance.random_range(0..100))];
            world.merge(&name, &json!({"spec": {"tags": tags}})).await;
        }
    }
}

/// The UUIDs of the objects that are Ready, if all of these are.
async fn ready(world: &World) -> Option<Vec<String>> {
    let list = world.servers().list(&ListParams::default()).await.ok()?;
    let ready = list.iter().filter(|object| {
        let object = json!({"status": object.data["status"]});
        condition(&object, "Ready").is_some_and(|found| found["status"] == "True")
    });
    let uuid = |object: &kube::api::DynamicObject| {
        Some(object.data["status"]["uuid"].as_str()?.to_owned())
    };
    ready.map(uuid).collect()
}

#[tokio::test]
#[ignore = "ten minutes where all tests run, one where a slice of them runs"]
async fn random_faults_leave_one_server_each() {
    let tier = Tier::of_this_run();
    let minutes = if tier == Tier::All { 10 } else { 1 };
    let seed = rand::random::<u64>();
    println!("chaos: {minutes} of 10 minutes ({tier:?}), seed {seed}");
    let timing = json!({
        "absenceGracePeriod": format!("{}s", GRACE.as_secs()), "absenceCheckInterval": "3s",
        "activePollInterval": "500ms", "idlePollInterval": "2s", "orphanScanInterval": "10s", "orderTimeout": "3s",
    });
    let mut proxied = ProxiedWorld::start(cluster(), timing).await;
    let objects: Vec<Value> = (0..NUMBER).map(|number| server(&name(number))).collect();
    join_all(objects.iter().map(|object| proxied.world.create(object))).await;

    proxied.trace.random_faults.begin(seed);
    let mut chance = StdRng::seed_from_u64(seed);
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    while Instant::now() < end {
        disturb_object(&mut proxied.world, &mut chance).await;
        // An operator that lost its lease exits, and its node restarts it.
        if proxied.world.operator().ended().is_some() {
            proxied.world.operator().restart();
        }
        sleep(chance.random_range(Duration::ZERO..Duration::from_millis(800))).await;
    }
    proxied.trace.random_faults.end();
    if proxied.world.operator().ended().is_some() {
        proxied.world.operator().restart();
    }

    let world = &proxied.world;
    let over = Instant::now();
    eventually("every object has its server", 3 * GRACE, async || {
        for object in &objects {
            let name = object["metadata"]["name"].as_str().expect("it has a name");
            if world.get(name).await.is_none() {
                world.create(object).await;
            }
        }
        let ready: BTreeSet<String> = ready(world).await?.into_iter().collect();
        // And the server that identifies the account.
        (ready.len() == NUMBER + 1).then_some(())
    })
    .await;
    println!("settled {:.0?} after the last fault", over.elapsed());
    eventually("no server is left over", 3 * GRACE, async || {
        (world.simulator.list_live_servers().await.len() == NUMBER + 1).then_some(())
    })
    .await;
    let findings = judge::check_at_any_time(world).await;
    assert!(findings.is_empty(), "{findings:#?}");
}
