//! The intervals of an account: the spec stays as written, and the status shows the values in use.

use serde_json::{Value, json};

use super::{SOON, change_account, wait_account_condition};
use lab::rig::{World, WorldOptions, cluster, eventually};

/// Waits until the intervals in use are these. Returns the account.
async fn wait_for_timing(world: &World, wanted: Value) -> Value {
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
    let expected = json!({
        "absenceGracePeriod": "10m", "absenceCheckInterval": "1m", "activePollInterval": "5s",
        "idlePollInterval": "5m", "orphanScanInterval": "1h30m", "orderTimeout": "3m",
    });
    let account = wait_for_timing(&world, expected.clone()).await;
    assert_eq!(
        account["spec"]["timing"], written,
        "nothing is filled in, neither by the schema nor by the operator"
    );
    wait_account_condition(&world, "default", "Ready", "True", "Available").await;
    let longer =
        json!({"spec": {"timing": {"activePollInterval": "2m", "orphanScanInterval": null}}});
    change_account(&world, "default", &longer).await;
    let mut changed = expected;
    changed["activePollInterval"] = json!("2m");
    changed["orphanScanInterval"] = json!("30m");
    wait_for_timing(&world, changed).await;

    let mut world = World::prepare(cluster(), "minima", plan(true)).await;
    world.start_operator();
    let account = wait_for_timing(
        &world,
        json!({
            "absenceGracePeriod": "10m", "absenceCheckInterval": "1m", "activePollInterval": "1s",
            "idlePollInterval": "5m", "orphanScanInterval": "1h30m", "orderTimeout": "3m",
        }),
    )
    .await;
    assert_eq!(account["spec"]["timing"], written);
}
