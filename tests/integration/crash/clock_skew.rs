//! The operator's clock is ahead of the API server's. Deadlines that release a server use the API server's clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimePrinter};
use serde_json::json;
use tokio::time::sleep;

use super::proxied_world::{AT_ITS_END, ProxiedWorld};
use lab::rig::{cluster, condition, eventually, server};

/// The API server's clock, as a proxy reports it.
#[derive(Default)]
pub(crate) struct ApiServerClock {
    seconds_behind: AtomicU64,
    was_read: AtomicBool,
}

impl ApiServerClock {
    /// Sets how far the clock is behind.
    fn set_behind(&self, by: Duration) {
        self.was_read.store(false, Ordering::SeqCst);
        self.seconds_behind.store(by.as_secs(), Ordering::SeqCst);
    }

    /// Whether the clock was read since.
    fn was_read(&self) -> bool {
        self.was_read.load(Ordering::SeqCst)
    }

    /// The reported time. Records that it was read.
    pub(crate) fn date(&self) -> HeaderValue {
        self.was_read.store(true, Ordering::SeqCst);
        let behind = Duration::from_secs(self.seconds_behind.load(Ordering::SeqCst));
        let shown = Timestamp::now() - behind;
        let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&shown);
        text.expect("it is a date").parse().expect("it is a header")
    }
}

const HOUR: Duration = Duration::from_secs(3600);

async fn count_releases(proxied: &ProxiedWorld) -> u64 {
    let counts = proxied.world.simulator.counts().await;
    let deletes = counts.get("DELETE /v3/flexMetal/servers/{uuid}");
    deletes.copied().unwrap_or(0)
}

async fn start() -> ProxiedWorld {
    let timing = json!({"activePollInterval": "500ms", "idlePollInterval": "2s"});
    ProxiedWorld::start(cluster(), timing).await
}

#[tokio::test]
async fn delayed_release_uses_api_server_clock() {
    // Much longer than the restarted process needs to try: it measures itself how long it has seen the deletion.
    let delay = Duration::from_secs(45);
    let soon = Duration::from_secs(20);
    let mut proxied = start().await;
    let object = server("web");
    proxied.world.create(&object).await;
    proxied.world.wait_ready("web", AT_ITS_END).await;
    let wait = json!({"spec": {"releaseDelay": format!("{}s", delay.as_secs())}});
    proxied.world.merge("web", &wait).await;

    // A process that has not seen the deletion for that long itself compares clocks.
    proxied.world.operator().kill9();
    proxied.world.delete("web").await;
    sleep(delay + Duration::from_secs(1)).await;
    proxied.trace.clock.set_behind(HOUR);
    proxied.world.operator().restart();
    eventually("a release is tried", soon, async || {
        proxied.trace.clock.was_read().then_some(())
    })
    .await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(count_releases(&proxied).await, 0);
    // The condition reports the normal wait.
    let object = proxied.world.get("web").await.expect("it is there");
    let blocked = condition(&object, "Ready").expect("it says why it is still there");
    assert_eq!(blocked["reason"], "ReleaseDelayed", "{object:#}");
    eventually("it is released", AT_ITS_END, async || {
        (count_releases(&proxied).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn release_limit_uses_api_server_clock() {
    let proxied = start().await;
    let account = proxied.world.things("ProviderAccount");
    let limit = json!({"spec": {"releaseLimit": {"maxReleases": 3, "window": "2h"}}});
    account.merge("default", &limit).await;
    proxied.world.create(&server("web")).await;
    proxied.world.wait_ready("web", AT_ITS_END).await;
    proxied.trace.clock.set_behind(HOUR);
    proxied.world.delete("web").await;
    proxied.world.wait_gone("web", AT_ITS_END).await;
    let account = account.get("default").await.expect("it is there");
    let counted = &account["status"]["releaseLimit"]["namespaces"][0]["releases"][0]["startedAt"];
    let counted: Timestamp = counted
        .as_str()
        .expect("it is counted")
        .parse()
        .expect("a time");
    let behind = Timestamp::now().duration_since(counted);
    assert!(behind > SignedDuration::from_mins(55), "{account:#}");
}

#[tokio::test]
async fn expiry_uses_api_server_clock() {
    let mut proxied = start().await;
    proxied.trace.clock.set_behind(HOUR);
    let mut object = server("web");
    let ends = Timestamp::now() + SignedDuration::from_secs(30);
    object["spec"]["expiresAt"] = json!(format!("{ends:.0}"));
    proxied.world.create(&object).await;
    eventually("its end is tried", AT_ITS_END, async || {
        proxied.trace.clock.was_read().then_some(())
    })
    .await;
    sleep(Duration::from_secs(3)).await;
    let object = proxied.world.get("web").await.expect("it is there");
    assert!(
        object["metadata"]["deletionTimestamp"].is_null(),
        "{object:#}"
    );

    proxied.trace.clock.set_behind(Duration::ZERO);
    // Otherwise it would wait as long as the clock that it read requires.
    proxied.world.operator().restart();
    proxied.world.wait_gone("web", AT_ITS_END).await;
}
