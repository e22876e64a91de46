//! Waits for a state, with a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The shortest and the longest pause between two probes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// Calls `probe` until it finds something, and returns that.
///
/// # Panics
/// With `what` if it finds nothing `within` the time.
pub async fn eventually<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(
            start.elapsed() < within,
            "not within {} s: {what}",
            within.as_secs()
        );
        sleep_until_next_probe(start).await;
    }
}

/// Pauses for a tenth of the time since the start: two cores run many tests that wait.
pub(super) async fn sleep_until_next_probe(start: Instant) {
    let (shortest, longest) = PAUSE;
    sleep((start.elapsed() / 10).clamp(shortest, longest)).await;
}
