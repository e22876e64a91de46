//! Repeats what may succeed later.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often [`retry`] tries.
const ATTEMPTS: u32 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Waits for a state, with pauses that grow from 0.2 s to 5 s. None: not within the time.
pub(super) async fn poll<T, E>(
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await? {
            return Ok(Some(found));
        }
        if start.elapsed() > within {
            return Ok(None);
        }
        sleep((start.elapsed() / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
    }
}

/// Tries five times, with pauses that double from 0.2 s. Returns the first success or the last failure.
pub(super) async fn retry<T, E>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    let mut pause = SHORTEST_PAUSE;
    for _ in 1..ATTEMPTS {
        if let Ok(done) = attempt().await {
            return Ok(done);
        }
        sleep(pause).await;
        pause *= 2;
    }
    attempt().await
}
