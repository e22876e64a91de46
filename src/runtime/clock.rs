//! The only place that reads the clocks. The monotonic clock is tokio's, so that a test with paused time can move it.
//! Wall time is the system's: it outlives the process, and a user may set it.

use flexmetal_core::moment::Moment;
use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

static START: OnceLock<(std::time::Instant, i64)> = OnceLock::new();

/// Fixes the start of the process, from which monotonic time counts. `main` calls it first. Later calls do nothing;
/// without any, the first [`now`] is the start.
pub fn start() {
    started();
}

#[allow(clippy::disallowed_methods)] // This is the one place.
fn started() -> (std::time::Instant, i64) {
    *START.get_or_init(|| (std::time::Instant::now(), wall()))
}

#[allow(clippy::disallowed_methods)] // This is the one place.
fn wall() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// The wall clock at the start of the process.
pub fn wall_at_start() -> i64 {
    started().1
}

/// The wall clock without forward jumps since the start of the process: for what must not happen too early.
pub fn steady_wall() -> i64 {
    let (_, at_start) = started();
    let Moment { wall, mono } = now();
    let ran = i64::try_from(mono.as_secs()).unwrap_or(i64::MAX);
    wall.min(at_start.saturating_add(ran))
}

/// The present moment by both clocks.
#[allow(clippy::disallowed_methods)] // This is the one place.
pub fn now() -> Moment {
    let (start, _) = started();
    Moment {
        wall: wall(),
        mono: Instant::now().saturating_duration_since(Instant::from_std(start)),
    }
}

/// Sleeps until a monotonic moment; returns at once when it is past.
pub async fn sleep_until(mono: Duration) {
    tokio::time::sleep(mono.saturating_sub(now().mono)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn moves_with_paused_time_and_never_back() {
        // A paused runtime may have started a little before the process first read its clock.
        tokio::time::advance(Duration::from_secs(60)).await;
        let before = now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        let after = now();
        assert_eq!(after.mono - before.mono, Duration::from_secs(3600));
        sleep_until(before.mono).await;
        assert_eq!(now().mono, after.mono, "a past moment costs no time");
        sleep_until(after.mono + Duration::from_secs(5)).await;
        assert!(now().mono >= after.mono + Duration::from_secs(5));
    }
}
