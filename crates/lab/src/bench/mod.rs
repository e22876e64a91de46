//! `lab bench`: many servers from order to release, and a quiet time between.
//!
//! Judged by what the hosting API and the API server saw, not by what the
//! operator reports.

mod audit;
mod figures;
mod floor;
pub(crate) mod process;
mod provider;
mod servers;
mod world;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use self::audit::Writes;
use self::figures::Run;
use self::process::Use;
use self::provider::Call;
use self::servers::{Reached, Servers};
pub(crate) use self::world::{INSTANCE_TYPE, LOCATION};
use self::world::{PACE, POLL_MOVING, POLL_STILL, SWEEP, World};
use crate::results::{Figure, publish};

const ORDER_WITHIN: Duration = Duration::from_secs(360);
const RELEASE_WITHIN: Duration = Duration::from_secs(300);
/// Quiet means that nothing is written for the first time span; it must set in
/// within the second.
const QUIET_AFTER: Duration = Duration::from_secs(15);
const QUIET_WITHIN: Duration = Duration::from_secs(120);
const SAMPLE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many servers
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=9999))]
    servers: u32,
    /// How long to observe the quiet, in real minutes; each stands for ten
    #[arg(long, default_value_t = 6.0)]
    quiet_minutes: f64,
    /// Where the results go, without `.md` and `.json`
    #[arg(long, default_value = "benchmarks/results/first")]
    out: PathBuf,
}

/// One stretch of the run, as both sides saw it.
#[derive(Debug, Default)]
struct Stretch {
    calls: Vec<Call>,
    writes: Writes,
    cpu: f64,
}

/// Where a stretch starts.
struct Mark {
    seq: u64,
    audited: usize,
    cpu: f64,
}

/// All stretches of a finished run.
struct Measured {
    ceiling: f64,
    ordering: Stretch,
    ready: Reached,
    still: Option<Use>,
    quiet: Stretch,
    quiet_time: Duration,
    releasing: Stretch,
    gone: Reached,
    last: Option<Use>,
}

/// Runs everything and writes the results.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let quiet = Duration::try_from_secs_f64(arguments.quiet_minutes * 60.0)?;
    say("Starting control plane, simulator and operator ...");
    let mut world = World::start(arguments.servers).await?;
    let client = world.client.clone();
    let measured = measure(&mut world, Servers::new(client, arguments.servers), quiet).await;
    let outcome = match measured {
        Ok(measured) => conclude(&world, &arguments, measured).await,
        Err(error) => {
            say(&format!(
                "The operator last said:\n{}",
                world.operator_log()
            ));
            Err(error)
        }
    };
    world.end().await?;
    let run = outcome?;
    publish(&arguments.out, &run.markdown(), &run, &run.faults)
}

async fn measure(
    world: &mut World,
    servers: Servers,
    quiet: Duration,
) -> Result<Measured, Box<dyn Error>> {
    let ceiling = world.write_ceiling().await?;
    say(&format!(
        "The API server accepts {ceiling:.0} writes/s here."
    ));

    let begin = mark(world).await?;
    let ready = alongside(world, servers.order(ORDER_WITHIN)).await??;
    let ordering = since(world, &begin).await?;
    say(&format!(
        "{} Ready after {:.1} s.",
        ready.done,
        ready.took.as_secs_f64()
    ));

    await_quiet(world).await?;
    let begin = mark(world).await?;
    say(&format!(
        "Quiet; observing it for {:.0} s.",
        quiet.as_secs_f64()
    ));
    alongside(world, sleep(quiet)).await?;
    let still = process::usage(world.operator());
    let quiet_seen = since(world, &begin).await?;

    let begin = mark(world).await?;
    let gone = alongside(world, servers.release(RELEASE_WITHIN)).await??;
    let releasing = since(world, &begin).await?;
    say(&format!(
        "{} gone after {:.1} s.",
        gone.done,
        gone.took.as_secs_f64()
    ));
    Ok(Measured {
        ceiling,
        ordering,
        ready,
        still,
        quiet: quiet_seen,
        quiet_time: quiet,
        releasing,
        gone,
        last: process::usage(world.operator()),
    })
}

/// Runs `step`, and fails at once when a part of the world ends.
async fn alongside<T>(
    world: &mut World,
    step: impl Future<Output = T>,
) -> Result<T, Box<dyn Error>> {
    tokio::select! {
        done = step => Ok(done),
        failure = world.first_failure() => Err(failure),
    }
}

async fn mark(world: &World) -> Result<Mark, Box<dyn Error>> {
    let calls = world.provider.calls(0).await?;
    Ok(Mark {
        seq: calls.last().map_or(0, |call| call.seq),
        audited: world.audited()?,
        cpu: process::usage(world.operator()).map_or(0.0, |usage| usage.cpu),
    })
}

async fn since(world: &World, begin: &Mark) -> Result<Stretch, Box<dyn Error>> {
    let now = process::usage(world.operator()).map_or(0.0, |usage| usage.cpu);
    Ok(Stretch {
        calls: world.provider.calls(begin.seq).await?,
        writes: world.writes(begin.audited, world.audited()?)?,
        cpu: now - begin.cpu,
    })
}

/// Waits until the operator has written nothing for a while.
async fn await_quiet(world: &mut World) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut last = (world.writes(0, usize::MAX)?, Instant::now());
    // If it never becomes quiet, the quiet time shows the writes.
    while last.1.elapsed() < QUIET_AFTER && Instant::now() < deadline {
        alongside(world, sleep(SAMPLE)).await?;
        let now = world.writes(0, usize::MAX)?;
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    Ok(())
}

async fn conclude(
    world: &World,
    arguments: &Arguments,
    measured: Measured,
) -> Result<Run, Box<dyn Error>> {
    let servers = arguments.servers;
    let mut faults: Vec<String> = world
        .provider
        .violations()
        .await?
        .iter()
        .map(|violation| format!("invariant broken: {violation}"))
        .collect();
    let lives = world.provider.lives().await?;
    let wanted = usize::try_from(servers)?;
    let left = lives.iter().filter(|life| life.released.is_none()).count();
    let (ready, gone) = (measured.ready, measured.gone);
    for (what, fault) in [
        (wanted - ready.done, "objects were not Ready in time"),
        (wanted - gone.done, "objects were not gone in time"),
        (
            lives.len().abs_diff(wanted),
            "more or fewer machines than wanted were ordered",
        ),
        (left, "machines were not released"),
    ] {
        if what > 0 {
            faults.push(format!("{what} {fault}"));
        }
    }
    let pages = floor::pages_in_motion(&floor::deliveries(&lives), POLL_MOVING * PACE)
        + floor::pages_in_motion(&floor::releases(&lives), POLL_MOVING * PACE);
    // One more, because nothing is ordered before one complete listing.
    let least = floor::CALLS_PER_LIFE * wanted + pages + 1;
    let figures = figures_of(&measured, wanted, least, pages, &lives);
    let details = BTreeMap::from([
        (
            "Calls while ordering",
            provider::by_kind(&measured.ordering.calls),
        ),
        (
            "Calls while releasing",
            provider::by_kind(&measured.releasing.calls),
        ),
        (
            "Calls in the quiet",
            provider::by_kind(&measured.quiet.calls),
        ),
        ("Writes while ordering", lines(&measured.ordering.writes)),
        ("Writes while releasing", lines(&measured.releasing.writes)),
        ("Writes in the quiet", lines(&measured.quiet.writes)),
    ]);
    Ok(Run {
        machine: process::machine(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        operator: operator_build(),
        servers,
        pace: PACE,
        quiet_seconds: measured.quiet_time.as_secs_f64(),
        figures,
        details,
        faults,
    })
}

fn lines(writes: &Writes) -> BTreeMap<String, u64> {
    let lines = writes.lines();
    lines
        .map(|(kind, number)| (kind.to_owned(), number))
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark, far below 2^52"
)]
fn figures_of(
    measured: &Measured,
    servers: usize,
    least: usize,
    pages: usize,
    lives: &[floor::Life],
) -> Vec<Figure> {
    let n = servers as f64;
    let calls = (measured.ordering.calls.len() + measured.releasing.calls.len()) as f64;
    let writes = measured
        .ordering
        .writes
        .clone()
        .and(measured.releasing.writes.clone());
    let own = writes.of("baremetalservers") as f64;
    let events = writes.of("events") as f64;
    let delivered = floor::until_delivered(lives, PACE);
    let written = own / measured.ceiling;
    let bound = delivered.max(written);
    let took = measured.ready.took.as_secs_f64();
    let quiet = measured.quiet_time.as_secs_f64();
    let allowed = floor::poll_budget(servers, quiet, POLL_STILL, SWEEP);
    let mib = |usage: Option<Use>, part: fn(Use) -> u64| {
        usage.map_or(f64::NAN, |usage| part(usage) as f64 / 1024.0)
    };
    let figure = |name, value, unit, goal, how| Figure {
        name,
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
                     every machine move at a look each {POLL_MOVING:.0} s + 1 listing before the first order",
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
            Some(2.0 + 1.0 / n),
            "audit log; goal: 2, plus one for the account in total".to_owned(),
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
            Some(16.0),
            "VmRSS of the operator at the end of the quiet time".to_owned(),
        ),
        figure(
            "Memory, peak",
            mib(measured.last, |usage| usage.peak),
            "MiB",
            Some(24.0),
            "VmHWM of the operator at the end; goal 1.5 times the steady one".to_owned(),
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
                "goal: the poll budget, a listing each {POLL_STILL:.0} s and a sweep each {SWEEP:.0} s in {quiet:.0} s"
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

fn operator_build() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!("version {}, {profile} build", env!("CARGO_PKG_VERSION"))
}

/// Reports progress to the user. Standard output may be closed already.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
