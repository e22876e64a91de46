//! SIGTERM while an order is on its way: the answer is awaited and recorded.

use std::time::Duration;

use serde_json::json;

use super::{
    call_trace::{Act, Place, Release, Side},
    judge,
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::{cluster, server};

/// The order's time-out here: the test holds the answer for part of it.
const ORDER_TIMEOUT: &str = "6s";
/// An operator that did not wait would have ended long before.
const STAYS: Duration = Duration::from_secs(2);

#[tokio::test]
async fn shutdown_awaits_and_records_order_answer() {
    let timing = json!({
        "absenceGracePeriod": "12s", "absenceCheckInterval": "300ms", "activePollInterval": "200ms",
        "idlePollInterval": "1s", "orphanScanInterval": "1s", "orderTimeout": ORDER_TIMEOUT,
    });
    let mut proxied = ProxiedWorld::start(cluster(), timing).await;
    let place = Place {
        side: Side::Hosting,
        sort: "POST servers".into(),
        nth: 1,
    };
    for (name, act) in [("before", Act::HoldRequest), ("after", Act::HoldAnswer)] {
        let mut watch = proxied.trace.start_with_trap(name, &place, act);
        proxied.world.create(&server(name)).await;
        let caught = watch.caught(AT_ITS_END).await.expect("the order is sent");
        proxied.world.operator().signal_terminate();
        // The only way to see that something waits is to wait a while.
        tokio::time::sleep(STAYS).await;
        assert_eq!(
            proxied.world.operator().ended(),
            None,
            "{act:?}: it did not wait"
        );

        caught.release(Release::Forward);

        let status = proxied.world.operator().wait().await;
        assert!(status.success(), "{act:?}: {status}");
        let object = proxied.world.get(name).await.expect("the object is there");
        assert_eq!(
            object["status"]["records"]["order"]["outcome"], "Created",
            "{act:?}: {object:#}"
        );
        assert!(object["status"]["uuid"].is_string(), "{act:?}: {object:#}");
        proxied.world.operator().restart();
        let object = proxied.world.wait_ready(name, AT_ITS_END).await;
        let findings = judge::after_order(&proxied.world, &object).await;
        assert!(findings.is_empty(), "{act:?}: {findings:#?}");
    }
}
