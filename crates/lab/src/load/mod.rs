//! `lab load`: the simulator's speed, and its memory per server. It runs on one core and the load on another.
//! A missed goal is shown on the page. Only a wrong answer fails the run.

mod connection;
mod cores;
mod drive;
mod figures;
mod latency;
mod loaded_simulator;
mod mix;
mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use self::connection::{LoadCall, LoadConnection};
use self::cores::Cores;
use self::drive::{Driven, LoadPattern, drive};
use self::figures::figures;
use self::latency::Latencies;
use self::loaded_simulator::LoadedSimulator;
use self::mix::{FLEET, Fleet, SERVERS};
use self::report::{LoadReport, alone, slowest_page};
use crate::{bench::process, results::publish};

const CONNECTIONS: usize = 16;
/// Requests that measure the memory of a ledger entry.
const ENTRIES: usize = 50_000;
/// Number of requests for each list.
const REPEATS: usize = 500;
/// Longer than any delivery takes, in virtual seconds.
const DELIVERED: u64 = 901;
/// Virtual seconds per real second during the mix, so that servers are delivered and released.
const SPEED: u64 = 100;

#[derive(Args)]
pub(crate) struct LoadArguments {
    /// How many servers the account has
    #[arg(long, default_value_t = 10_000)]
    machines: usize,
    /// Requests per second that must be possible
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How long the mix runs at that rate, and then flat out
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=120))]
    seconds: u32,
    /// Folder of criterion's figures of the same simulator
    #[arg(long, default_value = "target/criterion/simulator")]
    criterion: PathBuf,
    /// Where the results go, without `.md` and `.json`
    #[arg(long, default_value = "benchmarks/results/simulator")]
    out: PathBuf,
}

/// Memory at the steps of the run, in KiB.
struct MemorySteps {
    empty: u64,
    ordered: u64,
    delivered: u64,
    entries: u64,
}

struct LoadMeasurements {
    memory: MemorySteps,
    filled: Driven,
    quiet: Latencies,
    even: Driven,
    flat: Driven,
    /// Processor seconds of the simulator during `flat`.
    flat_cpu: f64,
    faults: Vec<String>,
}

/// Runs everything and writes the results.
pub(crate) async fn run(arguments: LoadArguments) -> Result<(), Box<dyn Error>> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // Before this process is bound to one of the cores.
    let computer = process::describe_computer();
    let cores = Cores::find();
    let subject = LoadedSimulator::start(cores).await?;
    let measured = measure(&subject, &arguments).await;
    subject.end().await;
    let measured = measured?;
    let alone = alone(&arguments.criterion)?;
    let profile = match cfg!(debug_assertions) {
        true => "debug",
        false => "release",
    };
    let run = LoadReport {
        figures: figures(&measured, &arguments, slowest_page(&alone)),
        machine: computer,
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        simulator: format!("version {}, {profile} build", env!("CARGO_PKG_VERSION")),
        cores: cores.map_or("not bound, all share all".to_owned(), |cores| {
            cores.to_string()
        }),
        load_before: load.split(' ').next().unwrap_or("unknown").to_owned(),
        machines: arguments.machines,
        connections: CONNECTIONS,
        rate: arguments.rate,
        seconds: arguments.seconds,
        alone,
        latencies: BTreeMap::from([
            ("one request at a time", measured.quiet.spreads()),
            (
                "the mix at the rate of the goal",
                measured.even.latencies.spreads(),
            ),
            ("the mix flat out", measured.flat.latencies.spreads()),
        ]),
        faults: measured.faults,
    };
    publish(&arguments.out, &run.markdown(), &run, &run.faults)
}

async fn measure(
    subject: &LoadedSimulator,
    arguments: &LoadArguments,
) -> Result<LoadMeasurements, Box<dyn Error>> {
    let fleet = Arc::new(Fleet::new());
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(LoadConnection::open(subject.host(), subject.key()).await?);
    }

    // Clears the ledger in between, so that its memory does not count for the servers.
    let empty = subject.usage()?.resident;
    let mut filled = Driven::default();
    while fleet.len() < arguments.machines {
        let some = LoadPattern::Count((arguments.machines - fleet.len()).min(1_000));
        let (driven, back) = drive(connections, &fleet, some, Fleet::order).await?;
        connections = back;
        filled.took += driven.took;
        filled.latencies.join(driven.latencies);
        subject.clear_ledger().await?;
    }
    let ordered = subject.usage()?.resident;
    subject.clock(DELIVERED, 0).await?;
    let delivered = subject.usage()?.resident;
    print_progress(&format!(
        "{} servers, {:.0} orders a second.",
        fleet.len(),
        filled.rate()
    ));

    let quiet = listings(&mut connections, arguments.machines).await?;
    subject.clear_ledger().await?;
    let before = subject.usage()?.resident;
    let entries = LoadPattern::Count(ENTRIES);
    let (_, connections) = drive(connections, &fleet, entries, Fleet::one).await?;
    let entries = subject.usage()?.resident.saturating_sub(before);

    subject.clock(0, SPEED).await?;
    let lasting = Duration::from_secs(u64::from(arguments.seconds));
    let rate = arguments.rate;
    let even = LoadPattern::Even { rate, lasting };
    let (even, connections) = drive(connections, &fleet, even, Fleet::next).await?;
    print_progress(&format!("{:.0} of {rate} requests a second.", even.rate()));
    let before = subject.usage()?.cpu;
    let (flat, _) = drive(connections, &fleet, LoadPattern::Flat(lasting), Fleet::next).await?;
    let flat_cpu = subject.usage()?.cpu - before;
    print_progress(&format!("{:.0} requests a second flat out.", flat.rate()));

    let mut faults = Vec::new();
    subject.clock(DELIVERED, 0).await?;
    let paying = subject.paying().await?;
    if paying != u64::try_from(fleet.len()).ok() {
        let paying = paying.map_or("nobody knows how many".to_owned(), |all| all.to_string());
        faults.push(format!(
            "{paying} servers are billed, {} were ordered and not released",
            fleet.len()
        ));
    }
    Ok(LoadMeasurements {
        memory: MemorySteps {
            empty,
            ordered,
            delivered,
            entries,
        },
        filled,
        quiet,
        even,
        flat,
        flat_cpu,
        faults,
    })
}

/// Latencies of each kind of page, with one request at a time.
async fn listings(
    connections: &mut [LoadConnection],
    servers: usize,
) -> Result<Latencies, Box<dyn Error>> {
    let (middle, last) = (servers / 2, servers.saturating_sub(50));
    let by = |filter: &str| format!("{SERVERS}?{filter}");
    let both = by(&format!("tag={FLEET}&status=delivered"));
    let calls = [
        LoadCall::page("first page", SERVERS, 0),
        LoadCall::page("middle page", SERVERS, middle),
        LoadCall::page("last page", SERVERS, last),
        LoadCall::page("last page by tag", by(&format!("tag={FLEET}")), last),
        LoadCall::page("last page by status", by("status=delivered"), last),
        LoadCall::page("last page by tag and status", both, last),
        LoadCall::page("servers by mark", by("tag=mark-77"), 0),
        LoadCall::page("last page of tags", "/v3/flexMetal/tags", last),
        LoadCall::get("plans", "/v3/flexMetal/plans"),
        LoadCall::get("quota usage", "/v3/flexMetal/quota/usage"),
    ];
    let mut latencies = Latencies::default();
    let connection = connections.first_mut().ok_or("no connection")?;
    for call in &calls {
        for _ in 0..REPEATS {
            let (_, took) = connection.call(call).await?;
            latencies.add(call.kind, took);
        }
    }
    Ok(latencies)
}

/// Prints progress. Standard output may already be closed.
fn print_progress(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
