//! Waits for a state, with a deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep};

const POLL: Duration = Duration::from_millis(100);

/// Calls `probe` until it finds something, and returns that.
///
/// # Panics
/// With `what` if it finds nothing `within` the time.
pub async fn eventually<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "not within {} s: {what}",
            within.as_secs()
        );
        sleep(POLL).await;
    }
}
