//! All lifecycles: for each kind the life of one object, from creation to deletion,
//! with at most one fault in each phase and the checks after each.

mod account;
mod adopted;
mod command;
mod host;
mod key;
mod password;
mod reinstalled;
mod replaced;
mod server;
mod small_kinds;
mod tag;
mod whitelist;

use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    call_trace::TracePosition,
    fault_point::{FaultPoint, inject},
    judge::{self, Findings},
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::World;

/// The lifecycles of all kinds.
pub(crate) const ALL: [&dyn Lifecycle; 11] = [
    &server::ServerLifecycle,
    &adopted::AdoptedLifecycle,
    &replaced::ReplacedLifecycle,
    &account::AccountLifecycle,
    &tag::TAG,
    &key::KEY,
    &whitelist::WHITELIST,
    &command::CommandLifecycle,
    &reinstalled::ReinstallLifecycle,
    &password::PasswordLifecycle,
    &host::HostLifecycle,
];

/// A recorded trace is complete after this time without an effect.
const QUIET: Duration = Duration::from_millis(1500);

/// The lifecycle of one kind's object.
/// A phase is an action of a user and the operator's reaction. All phases in order are the whole lifecycle.
pub(crate) trait Lifecycle: Sync {
    /// The kind.
    fn kind(&self) -> &'static str;

    /// The names of the phases.
    fn phases(&self) -> &'static [&'static str];

    /// The calls that a recorded trace must contain, each with its phase.
    fn expected(&self) -> &'static [(&'static str, &'static str)];

    /// Does the user's action at the start of a phase.
    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()>;

    /// Waits for the end of a phase; panics if it does not end. `before` is the value of the previous phase, or null.
    /// Returns a value for the next phase, and the faults found.
    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)>;

    /// Whether a fault belongs at `seen[index]`, which must occur at this position in every run.
    /// By default reads do not count, because they occur at their own pace.
    fn counts(&self, _phase: usize, seen: &[TracePosition], index: usize) -> bool {
        !seen[index].is_read()
    }
}

/// Waits until an order that another lifecycle tests is complete, and returns the Ready object.
async fn wait_until_ready(world: &World, name: &str) -> (Value, Findings) {
    let object = world.wait_ready(name, AT_ITS_END).await;
    (object, judge::check_at_any_time(world).await)
}

/// Waits for the end of a release. `before` is the object before the deletion.
async fn wait_until_released(world: &World, name: &str, before: &Value) -> (Value, Findings) {
    world.wait_gone(name, AT_ITS_END).await;
    (Value::Null, judge::check_after_release(world, before).await)
}

/// Runs one lifecycle with these faults, one per phase. Returns whether each position was reached.
/// Panics if a phase does not end or a check fails.
pub(crate) async fn run_lifecycle(
    life: &dyn Lifecycle,
    proxied: &mut ProxiedWorld,
    name: &str,
    faults: &[Option<FaultPoint>],
) -> Vec<bool> {
    let mut before = Value::Null;
    let mut reached = Vec::new();
    for (phase, point) in faults.iter().enumerate() {
        let watch = proxied.start_trace(name, point.as_ref());
        life.start(proxied, name, phase).await;
        reached.push(inject(proxied, point.as_ref(), watch).await);
        before = check_phase_end(life, proxied, name, phase, &before, point.as_ref()).await;
    }
    reached
}

/// The positions for faults by phase: the effects of a lifecycle without faults, in order of arrival.
/// Panics as [`run_lifecycle`] does.
pub(crate) async fn record_positions(
    life: &dyn Lifecycle,
    proxied: &mut ProxiedWorld,
    name: &str,
) -> Vec<Vec<TracePosition>> {
    let mut before = Value::Null;
    let mut places = Vec::new();
    for phase in 0..life.phases().len() {
        proxied.start_trace(name, None);
        life.start(proxied, name, phase).await;
        before = check_phase_end(life, proxied, name, phase, &before, None).await;
        let expected = life.expected().iter();
        let expected = expected.filter(|(of, _)| *of == life.phases()[phase]);
        let expected: Vec<&str> = expected.map(|(_, place)| *place).collect();
        let seen = collect_phase_calls(proxied, &expected).await;
        let counted = (0..seen.len()).filter(|index| life.counts(phase, &seen, *index));
        places.push(counted.map(|index| seen[index].clone()).collect());
    }
    places
}

/// Waits for the end of a phase, and fails if a check fails.
async fn check_phase_end(
    life: &dyn Lifecycle,
    proxied: &ProxiedWorld,
    name: &str,
    phase: usize,
    before: &Value,
    point: Option<&FaultPoint>,
) -> Value {
    let (after, findings) = life.end(proxied, name, phase, before).await;
    let point = point.map_or("without a fault".to_owned(), FaultPoint::to_string);
    let (kind, phase) = (life.kind(), life.phases()[phase]);
    assert!(
        findings.is_empty(),
        "{kind} {phase}: {point}: {findings:#?}"
    );
    after
}

/// All effects of a phase, including those after the awaited state, such as events.
/// On a slow computer expected effects may come after a quiet period.
async fn collect_phase_calls(proxied: &ProxiedWorld, expected: &[&str]) -> Vec<TracePosition> {
    // Reads go on after the last effect.
    let effects = |seen: &[TracePosition]| seen.iter().filter(|place| !place.is_read()).count();
    let misses = |seen: &[TracePosition]| {
        let places: Vec<String> = seen.iter().map(TracePosition::to_string).collect();
        expected.iter().any(|it| !places.iter().any(|p| p == it))
    };
    let mut seen = proxied.trace.seen();
    let start = Instant::now();
    let mut since = start;
    while since.elapsed() < QUIET || misses(&seen) && start.elapsed() < AT_ITS_END {
        sleep(Duration::from_millis(50)).await;
        let now = proxied.trace.seen();
        if effects(&now) != effects(&seen) {
            since = Instant::now();
        }
        seen = now;
    }
    seen
}
