//! How many calls an account may make: a token bucket with lanes.
//!
//! A waiting call of a higher lane always goes first, so a release never
//! stands behind a thousand polls. The bucket runs on tokio's time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// What a call is for; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Ends costs.
    Release,
    /// Finds out what became of an order.
    Resolve,
    /// Orders.
    Order,
    /// Looks at machines in motion.
    Poll,
    /// Looks for orphans.
    Sweep,
    /// Looks at what can be ordered.
    Catalogue,
}

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Calls per second.
    pub per_second: f64,
    /// Calls at once after a rest.
    pub burst: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 40.0,
        }
    }
}

/// The slowest rate that refusals lead to: one call in two seconds.
const SLOWEST: f64 = 0.5;
/// How much the rate recovers each second, in calls per second.
const RECOVERY: f64 = 0.1;
/// The longest pause that the API may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Refusals that come together are one sign, not many.
const ONE_SIGN: Duration = Duration::from_secs(1);

/// The calls of one account.
pub(crate) struct Budget {
    bucket: Mutex<Bucket>,
}

struct Bucket {
    full: Rate,
    per_second: f64,
    tokens: f64,
    /// When tokens and rate were last brought up to date.
    at: Instant,
    closed_until: Option<Instant>,
    slowed_at: Option<Instant>,
    /// Who waits, in the order in which they go.
    queue: BTreeMap<(Lane, u64), Arc<Notify>>,
    next: u64,
}

enum Turn {
    Taken,
    First(Duration),
    Behind,
}

impl Budget {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            bucket: Mutex::new(Bucket {
                full: rate,
                per_second: rate.per_second,
                tokens: rate.burst,
                at: Instant::now(),
                closed_until: None,
                slowed_at: None,
                queue: BTreeMap::new(),
                next: 0,
            }),
        }
    }

    /// Waits for the permission to make one call. Dropped on the way, it gives the place up.
    pub(crate) async fn take(&self, lane: Lane) {
        let place = self.queue_up(lane);
        loop {
            match self.turn(place.key) {
                Turn::Taken => return,
                Turn::First(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = place.woken.notified() => {}
                    }
                }
                Turn::Behind => place.woken.notified().await,
            }
        }
    }

    /// The API asked for fewer calls: the rate is halved, and nothing goes out for as long as it
    /// asked, at most five minutes.
    pub(crate) fn slow_down(&self, retry_after: Option<Duration>) {
        let mut bucket = self.bucket();
        bucket.refill();
        let now = bucket.at;
        if bucket.slowed_at.is_none_or(|at| now - at >= ONE_SIGN) {
            bucket.slowed_at = Some(now);
            bucket.per_second = (bucket.per_second / 2.0).max(SLOWEST.min(bucket.full.per_second));
            bucket.tokens = bucket.tokens.min(0.0);
        }
        if let Some(pause) = retry_after {
            let until = now + pause.min(LONGEST_PAUSE);
            bucket.closed_until = Some(bucket.closed_until.map_or(until, |c| c.max(until)));
        }
    }

    fn queue_up(&self, lane: Lane) -> Place<'_> {
        let woken = Arc::new(Notify::new());
        let mut bucket = self.bucket();
        let key = (lane, bucket.next);
        bucket.next += 1;
        bucket.queue.insert(key, woken.clone());
        Place {
            budget: self,
            key,
            woken,
        }
    }

    fn turn(&self, key: (Lane, u64)) -> Turn {
        let mut bucket = self.bucket();
        if bucket.queue.keys().next() != Some(&key) {
            return Turn::Behind;
        }
        bucket.refill();
        if let Some(until) = bucket.closed_until {
            if until > bucket.at {
                return Turn::First(until - bucket.at);
            }
            bucket.closed_until = None;
        }
        if bucket.tokens < 1.0 {
            let missing = (1.0 - bucket.tokens) / bucket.per_second;
            // Never zero, which rounding could make of it: the loop would spin.
            let wait = Duration::from_secs_f64(missing).max(Duration::from_millis(1));
            return Turn::First(wait);
        }
        bucket.tokens -= 1.0;
        bucket.leave(key);
        Turn::Taken
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn refill(&mut self) {
        let now = Instant::now();
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + seconds * self.per_second).min(self.full.burst);
        self.per_second = (self.per_second + seconds * RECOVERY).min(self.full.per_second);
    }

    /// Takes a place out and tells whoever is first now.
    fn leave(&mut self, key: (Lane, u64)) {
        if self.queue.remove(&key).is_some()
            && let Some(first) = self.queue.values().next()
        {
            first.notify_one();
        }
    }
}

struct Place<'a> {
    budget: &'a Budget,
    key: (Lane, u64),
    woken: Arc<Notify>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.bucket().leave(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow() -> Budget {
        Budget::new(Rate {
            per_second: 1.0,
            burst: 1.0,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_the_rate() {
        let budget = Budget::new(Rate::default());
        let begin = Instant::now();
        for _ in 0..40 {
            budget.take(Lane::Poll).await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            budget.take(Lane::Poll).await;
        }
        let taken = begin.elapsed();
        assert!(
            taken >= Duration::from_millis(999) && taken < Duration::from_millis(1100),
            "{taken:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_higher_lane_that_waits_goes_first() {
        let budget = Arc::new(slow());
        budget.take(Lane::Poll).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for lane in [Lane::Catalogue, Lane::Poll, Lane::Order, Lane::Release] {
            let (budget, order) = (budget.clone(), order.clone());
            tasks.spawn(async move {
                budget.take(lane).await;
                order.lock().unwrap().push(lane);
            });
            tokio::task::yield_now().await;
        }
        tasks.join_all().await;
        assert_eq!(
            *order.lock().unwrap(),
            [Lane::Release, Lane::Order, Lane::Poll, Lane::Catalogue]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_given_up_blocks_nobody() {
        let budget = slow();
        budget.take(Lane::Poll).await;
        {
            let mut first = std::pin::pin!(budget.take(Lane::Release));
            assert!(futures::poll!(first.as_mut()).is_pending());
            let mut second = std::pin::pin!(budget.take(Lane::Sweep));
            assert!(futures::poll!(second.as_mut()).is_pending());
        }
        tokio::time::timeout(Duration::from_secs(2), budget.take(Lane::Poll))
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_halve_the_rate_once_a_second_and_it_recovers() {
        let budget = Budget::new(Rate::default());
        for _ in 0..30 {
            budget.slow_down(None);
        }
        assert!((budget.bucket().per_second - 10.0).abs() < 0.01);
        tokio::time::sleep(Duration::from_secs(50)).await;
        budget.bucket().refill();
        assert!((budget.bucket().per_second - 15.0).abs() < 0.1);
        for _ in 0..20 {
            budget.slow_down(None);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(budget.bucket().per_second >= SLOWEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_but_not_beyond_five_minutes() {
        let budget = Budget::new(Rate::default());
        budget.slow_down(Some(Duration::from_secs(7)));
        let begin = Instant::now();
        budget.take(Lane::Release).await;
        assert!(begin.elapsed() >= Duration::from_secs(7));
        budget.slow_down(Some(Duration::from_secs(86_400)));
        let begin = Instant::now();
        budget.take(Lane::Release).await;
        assert!(begin.elapsed() >= LONGEST_PAUSE);
        assert!(begin.elapsed() < LONGEST_PAUSE + Duration::from_secs(10));
    }
}
