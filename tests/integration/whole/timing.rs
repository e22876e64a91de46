//! The times of an account: what is written stays as it is, and status says what is in force.

use serde_json::{Value, json};

use super::{SOON, account_says, change_account};
use lab::rig::{World, WorldOptions, cluster, eventually};

/// The times in force, once they are these.
async fn in_force(world: &World, wanted: Value) -> Value {
    let accounts = world.accounts();
    eventually("status tells the times in force", SOON, async || {
        let account = accounts.get("default").await.ok()?;
        (account.data["status"]["timing"] == wanted).then_some(account.data)
    })
    .await
}

#[tokio::test]
async fn minimum_intervals_apply_unless_lifted() {
    let written = json!({"activePollInterval": "1s", "orphanScanInterval": "90m"});
    let plan = |short_intervals| WorldOptions {
        timing: written.clone(),
        short_intervals,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(cluster(), "minima", plan(false)).await;
    world.start_operator();
    let told = json!({
        "absenceGracePeriod": "10m", "absenceCheckInterval": "1m", "activePollInterval": "5s",
        "idlePollInterval": "5m", "orphanScanInterval": "1h30m", "orderTimeout": "3m",
    });
    let account = in_force(&world, told.clone()).await;
    assert_eq!(
        account["spec"]["timing"], written,
        "nothing is filled in, neither by the schema nor by the operator"
    );
    account_says(&world, "default", "Ready", "True", "Available").await;
    let longer =
        json!({"spec": {"timing": {"activePollInterval": "2m", "orphanScanInterval": null}}});
    change_account(&world, "default", &longer).await;
    let mut changed = told;
    changed["activePollInterval"] = json!("2m");
    changed["orphanScanInterval"] = json!("30m");
    in_force(&world, changed).await;

    let mut world = World::prepare(cluster(), "minima", plan(true)).await;
    world.start_operator();
    let account = in_force(
        &world,
        json!({
            "absenceGracePeriod": "10m", "absenceCheckInterval": "1m", "activePollInterval": "1s",
            "idlePollInterval": "5m", "orphanScanInterval": "1h30m", "orderTimeout": "3m",
        }),
    )
    .await;
    assert_eq!(account["spec"]["timing"], written);
}
