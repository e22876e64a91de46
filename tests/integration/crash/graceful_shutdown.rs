//! SIGTERM during an order: the operator waits for the answer and records it.

use std::time::Duration;

use serde_json::json;

use super::{
    call_trace::{HeldCallOutcome, TargetApi, TracePosition, TrapAction},
    judge,
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::{cluster, quick_timing, server};

/// The timeout of an order. The test delays the answer for part of it.
const ORDER_TIMEOUT: &str = "6s";
/// An operator that does not wait would end sooner.
const STAYS: Duration = Duration::from_secs(2);

#[tokio::test]
async fn shutdown_awaits_and_records_order_answer() {
    let mut timing = quick_timing();
    timing["orderTimeout"] = json!(ORDER_TIMEOUT);
    let mut proxied = ProxiedWorld::start(cluster(), timing).await;
    let place = TracePosition {
        api: TargetApi::Hosting,
        kind: "POST servers".into(),
        nth: 1,
    };
    for (name, act) in [
        ("before", TrapAction::HoldRequest),
        ("after", TrapAction::HoldAnswer),
    ] {
        let mut watch = proxied.trace.start_with_trap(name, &place, act);
        proxied.world.create(&server(name)).await;
        let caught = watch
            .wait_for_call(AT_ITS_END)
            .await
            .expect("the order is sent");
        proxied.world.operator().signal_terminate();
        // Only waiting shows that the operator waits.
        tokio::time::sleep(STAYS).await;
        assert_eq!(
            proxied.world.operator().ended(),
            None,
            "{act:?}: it did not wait"
        );

        caught.release(HeldCallOutcome::Forward);

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
        let findings = judge::check_after_order(&proxied.world, &object).await;
        assert!(findings.is_empty(), "{act:?}: {findings:#?}");
    }
}
