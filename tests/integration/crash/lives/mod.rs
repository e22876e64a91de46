//! The table of lives: for each kind the life of one object, from creation to its end,
//! with at most one fault in each phase, and the judge after each.

mod account;
mod adopted;
mod command;
mod host;
mod key;
mod password;
mod reinstalled;
mod replaced;
mod server;
mod small;
mod tag;
mod whitelist;

use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    call_trace::Place,
    fault_point::{FaultPoint, inject},
    judge::{self, Findings},
    proxied_world::{AT_ITS_END, ProxiedWorld},
};
use lab::rig::World;

/// Every kind whose objects are tried.
pub(crate) const ALL: [&dyn Life; 11] = [
    &server::Server,
    &adopted::Adopted,
    &replaced::Replaced,
    &account::Account,
    &tag::TAG,
    &key::KEY,
    &whitelist::WHITELIST,
    &command::Command,
    &reinstalled::Reinstalled,
    &password::Password,
    &host::Host,
];

/// After this time without an effect a recorded trace counts as complete.
const QUIET: Duration = Duration::from_millis(1500);

/// How an object of one kind lives. A phase is something that a person does, and what the operator
/// makes of it; all of them in turn are the whole life.
pub(crate) trait Life: Sync {
    /// The kind.
    fn kind(&self) -> &'static str;

    /// The names of the phases.
    fn phases(&self) -> &'static [&'static str];

    /// What a recorded trace must hold at least, with its phase; otherwise the recording is wrong.
    fn expected(&self) -> &'static [(&'static str, &'static str)];

    /// Does what a person does at the start of a phase.
    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()>;

    /// Waits for the end of a phase. `before` is what the phase before has returned, null for the first.
    /// Returns what the next one needs to know, and what is wrong.
    ///
    /// # Panics
    /// If the phase does not end.
    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)>;

    /// Whether a fault belongs at `seen[index]`, which must come at this place in every run.
    ///
    /// Looks come at their own pace, so without more knowledge they do not count.
    fn counts(&self, _phase: usize, seen: &[Place], index: usize) -> bool {
        !seen[index].is_look()
    }
}

/// The end of an order that is tried elsewhere: the object, once it is Ready.
async fn is_ready(world: &World, name: &str) -> (Value, Findings) {
    let object = world.wait_ready(name, AT_ITS_END).await;
    (object, judge::after_anything(world).await)
}

/// The end of a deletion that releases: `before` is the object as it was.
async fn is_released(world: &World, name: &str, before: &Value) -> (Value, Findings) {
    world.wait_gone(name, AT_ITS_END).await;
    (Value::Null, judge::after_release(world, before).await)
}

/// Lives one life with these faults, one a phase; returns whether the place of each was reached.
///
/// # Panics
/// If it does not end, or the judge finds something.
pub(crate) async fn live(
    life: &dyn Life,
    proxied: &mut ProxiedWorld,
    name: &str,
    faults: &[Option<FaultPoint>],
) -> Vec<bool> {
    let mut before = Value::Null;
    let mut reached = Vec::new();
    for (phase, point) in faults.iter().enumerate() {
        let watch = proxied.arm(name, point.as_ref());
        life.start(proxied, name, phase).await;
        reached.push(inject(proxied, point.as_ref(), watch).await);
        before = judged(life, proxied, name, phase, &before, point.as_ref()).await;
    }
    reached
}

/// The places for faults by phase: the effects of a life without any, in order of arrival.
///
/// # Panics
/// As [`live`].
pub(crate) async fn record(
    life: &dyn Life,
    proxied: &mut ProxiedWorld,
    name: &str,
) -> Vec<Vec<Place>> {
    let mut before = Value::Null;
    let mut places = Vec::new();
    for phase in 0..life.phases().len() {
        proxied.arm(name, None);
        life.start(proxied, name, phase).await;
        before = judged(life, proxied, name, phase, &before, None).await;
        let expected = life.expected().iter();
        let expected = expected.filter(|(of, _)| *of == life.phases()[phase]);
        let expected: Vec<&str> = expected.map(|(_, place)| *place).collect();
        let seen = all_seen(proxied, &expected).await;
        let counted = (0..seen.len()).filter(|index| life.counts(phase, &seen, *index));
        places.push(counted.map(|index| seen[index].clone()).collect());
    }
    places
}

/// The end of a phase, with which the judge agrees.
async fn judged(
    life: &dyn Life,
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

/// All effects of a phase, those included that follow the awaited state, such as events. On a busy machine what is
/// expected of them may come after a time that is quiet.
async fn all_seen(proxied: &ProxiedWorld, expected: &[&str]) -> Vec<Place> {
    // Looks go on when all is done.
    let effects = |seen: &[Place]| seen.iter().filter(|place| !place.is_look()).count();
    let misses = |seen: &[Place]| {
        let places: Vec<String> = seen.iter().map(Place::to_string).collect();
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
