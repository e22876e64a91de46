//! `lab bench`: many servers from order to release, with a quiet time in between.
//! Measured at the hosting API and the API server, not by the operator's own reports.

mod audit;
mod figures;
mod floor;
mod measured;
pub(crate) mod process;
mod provider;
mod scrapes;
mod servers;
pub(crate) mod small;
mod world;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use self::audit::Writes;
use self::figures::BenchReport;
use self::floor::phase_timeout;
use self::measured::{BenchMeasurements, Figures, Stretch};
use self::servers::Servers;
use self::world::{ACTIVE_POLL, BenchWorld, PACE};
pub(crate) use self::world::{INSTANCE_TYPE, LOCATION};
use crate::results::publish;

/// Quiet means no writes for `QUIET_AFTER`. It must begin within `QUIET_WITHIN`.
const QUIET_AFTER: Duration = Duration::from_secs(15);
const QUIET_WITHIN: Duration = Duration::from_secs(120);
const SAMPLE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct BenchArguments {
    /// How many servers
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    servers: u32,
    /// How long to observe the quiet, in real minutes; each is ten simulated minutes
    #[arg(long, default_value_t = 6.0)]
    quiet_minutes: f64,
    /// Where the results go, without `.md` and `.json`; default: a page for each number of servers
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The counters at the start of a stretch.
struct StretchStart {
    seq: u64,
    writes: Writes,
    cpu: f64,
}

/// Runs everything and writes the results.
pub(crate) async fn run(arguments: BenchArguments) -> Result<(), Box<dyn Error>> {
    let quiet = Duration::try_from_secs_f64(arguments.quiet_minutes * 60.0)?;
    print_progress("Starting control plane, simulator and operator ...");
    let mut world = BenchWorld::start(arguments.servers).await?;
    let client = world.client.clone();
    let measured = measure(&mut world, Servers::new(client, arguments.servers), quiet).await;
    let outcome = match measured {
        Ok(measured) => conclude(&world, &arguments, measured).await,
        Err(error) => {
            print_progress(&format!(
                "The operator last said:\n{}",
                world.operator_log()
            ));
            Err(error)
        }
    };
    world.end().await?;
    let run = outcome?;
    let page = format!("benchmarks/results/servers-{}", arguments.servers);
    let out = arguments.out.unwrap_or_else(|| page.into());
    publish(&out, &run.markdown(), &run, &run.faults)
}

async fn measure(
    world: &mut BenchWorld,
    servers: Servers,
    quiet: Duration,
) -> Result<BenchMeasurements, Box<dyn Error>> {
    let load_before = process::load();
    let number = servers.number;
    let ceiling = world.write_ceiling().await?;
    print_progress(&format!(
        "The API server accepts {ceiling:.0} writes/s here."
    ));

    // Objects created before the operator is leader wait for orders of an earlier process.
    await_quiet(world).await?;
    let begin = begin_stretch(world).await?;
    let ready = alongside(world, servers.order(phase_timeout(number, 1))).await??;
    let ready_at = world.provider.now().await?;
    let ordering = since(world, &begin).await?;
    print_progress(&format!(
        "{} Ready after {:.1} s.",
        ready.done,
        ready.took.as_secs_f64()
    ));

    await_quiet(world).await?;
    let begin = begin_stretch(world).await?;
    print_progress(&format!(
        "Quiet; observing it for {:.0} s.",
        quiet.as_secs_f64()
    ));
    alongside(world, sleep(quiet)).await?;
    let still = process::usage(world.operator());
    let quiet_seen = since(world, &begin).await?;

    let begin = begin_stretch(world).await?;
    let gone = alongside(world, servers.release(phase_timeout(number, 2))).await??;
    let releasing = since(world, &begin).await?;
    print_progress(&format!(
        "{} gone after {:.1} s.",
        gone.done,
        gone.took.as_secs_f64()
    ));
    Ok(BenchMeasurements {
        load_before,
        ceiling,
        ordering,
        ready,
        ready_at,
        still,
        quiet: quiet_seen,
        quiet_time: quiet,
        releasing,
        gone,
        last: process::usage(world.operator()),
    })
}

/// Runs `step`, and fails at once if a part of the world ends.
async fn alongside<T>(
    world: &mut BenchWorld,
    step: impl Future<Output = T>,
) -> Result<T, Box<dyn Error>> {
    tokio::select! {
        done = step => Ok(done),
        failure = world.first_failure() => Err(failure),
    }
}

async fn begin_stretch(world: &mut BenchWorld) -> Result<StretchStart, Box<dyn Error>> {
    let calls = world.provider.calls(0).await?;
    Ok(StretchStart {
        seq: calls.last().map_or(0, |call| call.seq),
        writes: world.writes()?.clone(),
        cpu: process::usage(world.operator()).map_or(0.0, |usage| usage.cpu),
    })
}

async fn since(world: &mut BenchWorld, begin: &StretchStart) -> Result<Stretch, Box<dyn Error>> {
    let now = process::usage(world.operator()).map_or(0.0, |usage| usage.cpu);
    Ok(Stretch {
        calls: world.provider.calls(begin.seq).await?,
        writes: world.writes()?.since(&begin.writes),
        cpu: now - begin.cpu,
    })
}

/// Waits until the operator has written nothing for `QUIET_AFTER`.
async fn await_quiet(world: &mut BenchWorld) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut last = (world.writes()?.clone(), Instant::now());
    // If it never becomes quiet, the quiet time shows the writes.
    while last.1.elapsed() < QUIET_AFTER && Instant::now() < deadline {
        alongside(world, sleep(SAMPLE)).await?;
        let now = world.writes()?;
        if *now != last.0 {
            last = (now.clone(), Instant::now());
        }
    }
    Ok(())
}

async fn conclude(
    world: &BenchWorld,
    arguments: &BenchArguments,
    measured: BenchMeasurements,
) -> Result<BenchReport, Box<dyn Error>> {
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
            "more or fewer servers than wanted were ordered",
        ),
        (left, "servers were not released"),
    ] {
        if what > 0 {
            faults.push(format!("{what} {fault}"));
        }
    }
    let pages = floor::count_changing_pages(&floor::deliveries(&lives), ACTIVE_POLL * PACE)
        + floor::count_changing_pages(&floor::releases(&lives), ACTIVE_POLL * PACE);
    // One more, because one complete list precedes the first order.
    let least = floor::CALLS_PER_LIFE * wanted + pages + 1;
    let figures = Figures {
        measured: &measured,
        servers: wanted,
        least,
        pages,
        lives: &lives,
    }
    .all();
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
    Ok(BenchReport {
        machine: process::describe_computer(),
        load_before: measured.load_before,
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

fn operator_build() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!("version {}, {profile} build", env!("CARGO_PKG_VERSION"))
}

/// Prints progress. Standard output may already be closed.
fn print_progress(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
