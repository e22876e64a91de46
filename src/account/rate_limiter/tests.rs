//! The rate limiter without an account: tokens, priorities, queue positions, expiry.

use super::{
    Caller, Rate, RateLimiter,
    bucket::{LONGEST_PAUSE, SLOWEST},
    state::{GRANT_TTL, IN_FLIGHT, ORDERS},
};
use crate::account::{EnqueueTarget, Users, users::Subscribers};
use flexmetal_core::account::{key::AccountKey, priority::Priority, recorded::RecordedResources};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};

/// The objects that were enqueued.
#[derive(Default)]
struct Bell(Mutex<Vec<String>>);

impl Users for Bell {
    fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
        None
    }

    fn recorded_resources(&self, _: &AccountKey) -> Option<RecordedResources> {
        Some(RecordedResources::default())
    }

    fn enqueue(&self, target: &EnqueueTarget) {
        if let EnqueueTarget::Object(uid) = target {
            self.0.lock().unwrap().push(uid.clone());
        }
    }
}

struct Rig {
    rate_limiter: Arc<RateLimiter>,
    bell: Arc<Bell>,
    _task: JoinSet<()>,
}

impl Rig {
    fn new(rate: Rate) -> Self {
        let bell = Arc::new(Bell::default());
        let subscribers = Subscribers::default();
        subscribers.add(bell.clone());
        let rate_limiter = Arc::new(RateLimiter::new(rate, subscribers));
        let mut task = JoinSet::new();
        let granting = rate_limiter.clone();
        task.spawn(async move { granting.grant_permits().await });
        Self {
            rate_limiter,
            bell,
            _task: task,
        }
    }

    /// One call per second, and one at once.
    fn slow() -> Self {
        Self::new(Rate {
            per_second: 1.0,
            burst: 1.0,
        })
    }

    fn enqueued(&self) -> Vec<String> {
        std::mem::take(&mut self.bell.0.lock().unwrap())
    }

    fn tokens(&self) -> f64 {
        self.rate_limiter.state().bucket(Instant::now()).tokens()
    }

    fn per_second(&self) -> f64 {
        self.rate_limiter
            .state()
            .bucket(Instant::now())
            .per_second()
    }

    fn in_flight(&self) -> usize {
        self.rate_limiter.state().in_flight()
    }
}

fn caller(uid: impl Into<String>, namespace: &str) -> Caller {
    Caller {
        uid: uid.into(),
        namespace: namespace.into(),
    }
}

fn object(uid: impl Into<String>) -> Caller {
    caller(uid, "n")
}

#[tokio::test(start_paused = true)]
async fn a_burst_then_the_rate() {
    let rig = Rig::new(Rate::default());
    let start = Instant::now();
    for _ in 0..40 {
        rig.rate_limiter.wait(Priority::Poll).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..20 {
        rig.rate_limiter.wait(Priority::Poll).await;
    }
    let taken = start.elapsed();
    assert!(
        taken >= Duration::from_millis(999) && taken < Duration::from_millis(1100),
        "{taken:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn higher_priority_is_served_first() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for priority in [
        Priority::Catalogue,
        Priority::Poll,
        Priority::Order,
        Priority::Release,
    ] {
        let (rate_limiter, order) = (rig.rate_limiter.clone(), order.clone());
        tasks.spawn(async move {
            rate_limiter.wait(priority).await;
            order.lock().unwrap().push(priority);
        });
        yield_now().await;
    }
    tasks.join_all().await;
    assert_eq!(
        *order.lock().unwrap(),
        [
            Priority::Release,
            Priority::Order,
            Priority::Poll,
            Priority::Catalogue
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_position_blocks_no_one() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    {
        let mut first = std::pin::pin!(rig.rate_limiter.wait(Priority::Release));
        assert!(futures::poll!(first.as_mut()).is_pending());
        let mut second = std::pin::pin!(rig.rate_limiter.wait(Priority::OrphanScan));
        assert!(futures::poll!(second.as_mut()).is_pending());
    }
    timeout(
        Duration::from_secs(2),
        rig.rate_limiter.wait(Priority::Poll),
    )
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn unclaimed_call_grant_is_returned() {
    let rig = Rig::slow();
    {
        let mut first = std::pin::pin!(rig.rate_limiter.wait(Priority::Release));
        assert!(futures::poll!(first.as_mut()).is_pending());
        yield_now().await;
        assert!(rig.tokens() < 0.5, "granted, and not looked at");
    }
    assert!(rig.tokens() > 0.5);
}

#[tokio::test(start_paused = true)]
async fn rate_halves_on_refusal_and_recovers() {
    let rig = Rig::new(Rate::default());
    for _ in 0..30 {
        rig.rate_limiter.slow_down(None);
    }
    assert!((rig.per_second() - 10.0).abs() < 0.01);
    sleep(Duration::from_secs(50)).await;
    assert!((rig.per_second() - 15.0).abs() < 0.1);
    for _ in 0..20 {
        rig.rate_limiter.slow_down(None);
        sleep(Duration::from_secs(1)).await;
    }
    assert!(rig.per_second() >= SLOWEST);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_capped_at_five_minutes() {
    let rig = Rig::new(Rate::default());
    rig.rate_limiter.slow_down(Some(Duration::from_secs(7)));
    let start = Instant::now();
    rig.rate_limiter.wait(Priority::Release).await;
    assert!(start.elapsed() >= Duration::from_secs(7));
    rig.rate_limiter
        .slow_down(Some(Duration::from_secs(86_400)));
    let start = Instant::now();
    rig.rate_limiter.wait(Priority::Release).await;
    assert!(start.elapsed() >= LONGEST_PAUSE);
    assert!(start.elapsed() < LONGEST_PAUSE + Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn pause_queues_callers_and_grants_later() {
    let rig = Rig::new(Rate::default());
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Poll, 1, &object("granted"))
    );
    // Granted and not claimed when the pause starts: it waits like the others.
    rig.rate_limiter
        .state()
        .request_calls(Priority::Poll, 1, &object("early"));
    rig.rate_limiter.grant_waiting();
    assert_eq!(rig.enqueued(), ["early"]);
    rig.rate_limiter.slow_down(Some(Duration::from_secs(7)));
    for n in 0..20 {
        assert!(
            !rig.rate_limiter
                .request_calls(Priority::Release, 2, &object(format!("o{n}")))
        );
    }
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Poll, 1, &object("early"))
    );
    sleep(Duration::from_millis(6990)).await;
    assert!(rig.enqueued().is_empty());
    sleep(Duration::from_secs(8)).await;
    let enqueued = rig.enqueued();
    assert_eq!((enqueued.len(), enqueued[0].as_str()), (21, "o0"));
}

#[tokio::test(start_paused = true)]
async fn priorities_are_ordered_and_none_starves() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    for n in 0..70 {
        for (priority, name) in [
            (Priority::Catalogue, "c"),
            (Priority::Poll, "p"),
            (Priority::Release, "r"),
        ] {
            assert!(
                !rig.rate_limiter
                    .request_calls(priority, 1, &object(format!("{name}{n}")))
            );
        }
    }
    let mut went = Vec::new();
    for _ in 0..70 {
        sleep(Duration::from_secs(1)).await;
        for uid in rig.enqueued() {
            rig.rate_limiter.cancel_request(&uid);
            // Another caller may get the returned call; the order is what counts.
            went.push(uid);
        }
    }
    went.truncate(64);
    let position = |name: &str| went.iter().position(|uid| uid.starts_with(name));
    assert_eq!(
        (position("r"), position("p"), position("c")),
        (Some(0), Some(49), Some(50))
    );
    let releases = went.iter().filter(|uid| uid.starts_with('r')).count();
    assert_eq!(releases, 62, "{went:?}");
}

#[tokio::test(start_paused = true)]
async fn busy_namespace_does_not_delay_another() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    for n in 0..1000 {
        let many = caller(format!("many{n}"), "many");
        assert!(!rig.rate_limiter.request_calls(Priority::Order, 1, &many));
    }
    for n in 0..2 {
        let few = caller(format!("few{n}"), "few");
        assert!(!rig.rate_limiter.request_calls(Priority::Order, 1, &few));
    }
    sleep(Duration::from_millis(4500)).await;
    assert_eq!(rig.enqueued(), ["many0", "few0", "many1", "few1"]);
}

#[tokio::test(start_paused = true)]
async fn expired_grant_returns_its_calls() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Order, 1, &object("late"))
    );
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(rig.enqueued(), ["late"]);
    assert_eq!(rig.in_flight(), 1);
    sleep(GRANT_TTL - Duration::from_secs(1)).await;
    assert_eq!(rig.in_flight(), 1, "its term is not over");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.in_flight(), 0);
    assert!(rig.tokens() > 0.99);
    // The object asks late, like any other.
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Order, 1, &object("late"))
    );
}

#[tokio::test(start_paused = true)]
async fn returned_calls_do_not_exceed_the_burst() {
    let rig = Rig::new(Rate::default());
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Release, 5, &object("a"))
    );
    assert!((rig.tokens() - 35.0).abs() < 0.01);
    assert_eq!(rig.in_flight(), 1);
    rig.rate_limiter.end_permit(Priority::Release, 3);
    assert!((rig.tokens() - 38.0).abs() < 0.01);
    assert_eq!(rig.in_flight(), 0);
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Release, 5, &object("a"))
    );
    sleep(Duration::from_secs(10)).await;
    rig.rate_limiter.end_permit(Priority::Release, 5);
    assert!(rig.tokens() <= 40.0);
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_leaves_nothing_behind() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("queued"))
    );
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("next"))
    );
    rig.rate_limiter.cancel_request("queued");
    rig.rate_limiter.cancel_request("unknown");
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(rig.enqueued(), ["next"]);
    // The call of a cancelled grant goes to another object at once.
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("third"))
    );
    rig.rate_limiter.cancel_request("next");
    yield_now().await;
    assert_eq!(rig.enqueued(), ["third"]);
    assert_eq!(rig.in_flight(), 1);
    assert_eq!(rig.rate_limiter.cancel_all(), ["third"]);
    assert_eq!(rig.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn asking_twice_keeps_one_place() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    for uid in ["a", "b", "a", "b", "a"] {
        assert!(
            !rig.rate_limiter
                .request_calls(Priority::Poll, 1, &object(uid))
        );
    }
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(rig.enqueued(), ["a"]);
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Poll, 1, &object("a"))
    );
    rig.rate_limiter.end_permit(Priority::Poll, 0);
    // A request with another priority moves the object; its previous position is gone.
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Poll, 1, &object("c"))
    );
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("c"))
    );
    sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.enqueued(), ["c", "b"]);
}

#[tokio::test(start_paused = true)]
async fn another_request_first_returns_the_grant() {
    let rig = Rig::slow();
    rig.rate_limiter.wait(Priority::Poll).await;
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Poll, 1, &object("a"))
    );
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(rig.enqueued(), ["a"]);
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("a"))
    );
    assert_eq!(rig.in_flight(), 1);
    rig.rate_limiter.end_permit(Priority::Release, 0);
    assert_eq!(rig.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn orders_leave_capacity_for_releases() {
    let rig = Rig::new(Rate {
        per_second: 1000.0,
        burst: 1000.0,
    });
    for n in 0..ORDERS {
        assert!(
            rig.rate_limiter
                .request_calls(Priority::Order, 1, &object(format!("o{n}")))
        );
    }
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Order, 1, &object("order"))
    );
    for n in 0..IN_FLIGHT - ORDERS {
        assert!(
            rig.rate_limiter
                .request_calls(Priority::Release, 2, &object(format!("r{n}")))
        );
    }
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 2, &object("release"))
    );
    // The account's own polls go on.
    timeout(
        Duration::from_secs(1),
        rig.rate_limiter.wait(Priority::Catalogue),
    )
    .await
    .unwrap();
    sleep(Duration::from_secs(600)).await;
    assert!(rig.enqueued().is_empty(), "a permit in use has no term");
    rig.rate_limiter.end_permit(Priority::Release, 0);
    yield_now().await;
    assert_eq!(rig.enqueued(), ["release"]);
    rig.rate_limiter.end_permit(Priority::Release, 0);
    yield_now().await;
    assert!(
        rig.enqueued().is_empty(),
        "there is no room for another order"
    );
    rig.rate_limiter.end_permit(Priority::Order, 0);
    yield_now().await;
    assert_eq!(rig.enqueued(), ["order"]);
}

#[tokio::test(start_paused = true)]
async fn large_request_needs_only_a_full_bucket() {
    let rig = Rig::slow();
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Resolve, 3, &object("a"))
    );
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Resolve, 1, &object("b"))
    );
    sleep(Duration::from_millis(2900)).await;
    assert!(rig.enqueued().is_empty(), "they have to be earned");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.enqueued(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn overdue_grant_can_still_be_claimed() {
    let rig = Rig::slow();
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("first"))
    );
    assert!(
        !rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("late"))
    );
    sleep(Duration::from_secs(2)).await;
    rig.rate_limiter.grant_waiting();
    assert_eq!(rig.enqueued(), ["late"]);
    sleep(Duration::from_secs(60)).await;
    assert!(
        rig.rate_limiter
            .request_calls(Priority::Release, 1, &object("late"))
    );
}
