//! The measurements of a finished run, as figures with their goals.

use std::time::Duration;

use super::{
    audit::Writes,
    floor,
    process::Use,
    provider::ProviderCall,
    servers::Reached,
    world::{ACTIVE_POLL, IDLE_POLL, ORPHAN_SCAN, PACE},
};
use crate::results::Figure;

/// Memory in MiB at 1,000 and at 10,000 servers.
type MemoryTargets = (f64, f64);
/// The goal for the operator's memory, and the limit that it must not exceed today.
const GOAL: MemoryTargets = (16.0, 48.0);
const BAR: MemoryTargets = (26.0, 120.0);

/// The memory for this number of servers, interpolated between both targets.
fn memory(servers: f64, (few, many): MemoryTargets) -> f64 {
    few + (many - few) * (servers - 1000.0) / 9000.0
}

/// One stretch of the run, as the hosting API and the API server saw it.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) calls: Vec<ProviderCall>,
    pub(crate) writes: Writes,
    pub(crate) cpu: f64,
}

/// All stretches of a finished run.
pub(crate) struct BenchMeasurements {
    pub(crate) load_before: String,
    pub(crate) ceiling: f64,
    pub(crate) ordering: Stretch,
    pub(crate) ready: Reached,
    /// When the last server was Ready, by the simulator's clock.
    pub(crate) ready_at: f64,
    pub(crate) still: Option<Use>,
    pub(crate) quiet: Stretch,
    pub(crate) quiet_time: Duration,
    pub(crate) releasing: Stretch,
    pub(crate) gone: Reached,
    pub(crate) last: Option<Use>,
}

/// The input of the figures.
pub(crate) struct Figures<'a> {
    pub(crate) measured: &'a BenchMeasurements,
    pub(crate) servers: usize,
    /// The fewest calls for the work.
    pub(crate) least: usize,
    /// The pages among those calls.
    pub(crate) pages: usize,
    pub(crate) lives: &'a [floor::Life],
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark, far below 2^52"
)]
impl Figures<'_> {
    /// All figures.
    pub(crate) fn all(&self) -> Vec<Figure> {
        let &Self {
            measured,
            servers,
            least,
            pages,
            lives,
        } = self;
        let n = servers as f64;
        let calls = (measured.ordering.calls.len() + measured.releasing.calls.len()) as f64;
        let writes = measured
            .ordering
            .writes
            .clone()
            .and(measured.releasing.writes.clone());
        let own = writes.total_for_resource("baremetalservers") as f64;
        let events = writes.total_for_resource("events") as f64;
        let delivered = floor::until_delivered(lives, PACE);
        let written = own / measured.ceiling;
        let deliveries = lives.iter().filter_map(|life| life.delivered);
        let last_delivery = deliveries.fold(f64::NEG_INFINITY, f64::max);
        let bound = delivered.max(written);
        let took = measured.ready.took.as_secs_f64();
        let quiet = measured.quiet_time.as_secs_f64();
        let allowed = floor::poll_budget(servers, quiet, IDLE_POLL, ORPHAN_SCAN);
        let mib = |usage: Option<Use>, part: fn(Use) -> u64| {
            usage.map_or(f64::NAN, |usage| part(usage) as f64 / 1024.0)
        };
        let figure = |name: &'static str, value, unit, goal, how| Figure {
            name: name.into(),
            value,
            unit,
            goal,
            how,
        };
        vec![
            figure(
                "Provider calls over the floor",
                calls / least as f64,
                "x",
                Some(1.10),
                format!(
                    "{calls} calls; floor {least} = {} a server (POST, one GET before the DELETE, DELETE) + {pages} pages to see \
                     every server change at a poll each {ACTIVE_POLL:.0} s + 1 listing before the first order",
                    floor::CALLS_PER_LIFE
                ),
            ),
            figure(
                "Provider calls a server",
                calls / n,
                "",
                None,
                "all calls but those of the quiet time".to_owned(),
            ),
            figure(
                "Kubernetes writes a server",
                own / n,
                "",
                Some(7.0),
                "audit log: the operator's accepted writes to the object and its status".to_owned(),
            ),
            figure(
                "Events a server",
                events / n,
                "",
                // The audit log does not say which object an event is about.
                Some(4.0 + 1.0 / n),
                "audit log; goal: 4 (Ordered, Delivered, ReleaseStarted, Released), plus one for the account in total"
                    .to_owned(),
            ),
            figure(
                "Refused writes a server",
                writes.refused() as f64 / n,
                "",
                None,
                "audit log: conflicts and the like".to_owned(),
            ),
            figure(
                "Time to all Ready over the bound",
                took / bound,
                "x",
                Some(1.25),
                format!(
                    "{took:.1} s; bound {bound:.1} s = the larger of: orders at the account's budget and each its own delivery \
                     {delivered:.1} s, writes at the measured {:.0} a second {written:.1} s",
                    measured.ceiling
                ),
            ),
            figure(
                "Last delivery to all Ready",
                (measured.ready_at - last_delivery) / PACE,
                "s",
                Some(ACTIVE_POLL / 3.0),
                format!("goal: a third of the look each {ACTIVE_POLL:.0} s"),
            ),
            figure(
                "Time to all gone",
                measured.gone.took.as_secs_f64(),
                "s",
                None,
                "from the deletion of all objects to the last one's end; a release takes 12 s here"
                    .to_owned(),
            ),
            figure(
                "Memory, steady",
                mib(measured.still, |usage| usage.resident),
                "MiB",
                Some(memory(n, GOAL)),
                format!(
                    "VmRSS of the operator at the end of the quiet time; bar {:.0} MiB",
                    memory(n, BAR)
                ),
            ),
            figure(
                "Memory, peak",
                mib(measured.last, |usage| usage.peak),
                "MiB",
                Some(1.5 * memory(n, GOAL)),
                "VmHWM of the operator at the end; goal 1.5 times the steady one".to_owned(),
            ),
            figure(
                "Processor time an order",
                1000.0 * measured.ordering.cpu / n,
                "ms",
                None,
                "from the object to Ready, all of the operator's work meanwhile".to_owned(),
            ),
            figure(
                "Processor time, ordering",
                measured.ordering.cpu,
                "s",
                None,
                "user and system".to_owned(),
            ),
            figure(
                "Processor time, releasing",
                measured.releasing.cpu,
                "s",
                None,
                "user and system".to_owned(),
            ),
            figure(
                "Processor time, quiet",
                measured.quiet.cpu,
                "s",
                None,
                format!("user and system, in {quiet:.0} s"),
            ),
            figure(
                "Calls in the quiet",
                measured.quiet.calls.len() as f64,
                "",
                Some(allowed),
                format!(
                    "goal: the poll budget, a listing each {IDLE_POLL:.0} s and an orphan scan each {ORPHAN_SCAN:.0} s in {quiet:.0} s"
                ),
            ),
            figure(
                "Writes in the quiet",
                measured.quiet.writes.total() as f64,
                "",
                Some(0.0),
                "audit log".to_owned(),
            ),
        ]
    }
}
