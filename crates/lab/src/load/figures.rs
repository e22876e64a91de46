//! The measurements of a run, as figures with their goals.

use super::{CONNECTIONS, ENTRIES, LoadArguments, LoadMeasurements};
use crate::results::Figure;

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark, far below 2^52"
)]
pub(super) fn figures(
    measured: &LoadMeasurements,
    arguments: &LoadArguments,
    slowest: Option<(&str, f64)>,
) -> Vec<Figure> {
    let rate = f64::from(arguments.rate);
    let servers = arguments.machines as f64;
    let (even, flat) = (measured.even.rate(), measured.flat.rate());
    let memory = &measured.memory;
    let each = |kib: u64, number: f64| kib as f64 / number;
    let processor = measured.flat_cpu / measured.flat.latencies.len() as f64;
    let figure = |name: &'static str, value, unit, goal, how| Figure {
        name: name.into(),
        value,
        unit,
        goal,
        how,
    };
    let mut figures = Vec::new();
    if let Some((name, mean)) = slowest {
        figures.push(figure(
            "Slowest page of a listing over 1 ms",
            mean / 1_000.0,
            "x",
            Some(1.0),
            format!("{mean:.0} µs: {name}; by criterion, see below"),
        ));
    }
    figures.extend([
        figure(
            "Rate asked for over rate answered",
            rate / even,
            "x",
            // 1 % for the answers after the last request.
            Some(1.01),
            format!("{even:.0} of {rate:.0} requests a second"),
        ),
        figure(
            "Goal over rate flat out",
            rate / flat,
            "x",
            Some(1.0),
            format!("{flat:.0} requests a second; the load itself may be the bound"),
        ),
        figure(
            "Processor time a request over the goal's",
            processor * rate,
            "x",
            Some(1.0),
            format!(
                "{:.0} µs of the simulator's core, kernel included, flat out: it can serve {:.0} a second",
                processor * 1e6,
                1.0 / processor
            ),
        ),
        figure(
            "Orders a second",
            measured.filled.rate(),
            "/s",
            None,
            format!("over {CONNECTIONS} connections, into an empty account"),
        ),
        figure(
            "Memory a server, ordered",
            each(memory.ordered.saturating_sub(memory.empty), servers),
            "KiB",
            None,
            "growth of VmRSS by the orders, the ledger cleared each thousand".to_owned(),
        ),
        figure(
            "Memory a server, delivered",
            each(memory.delivered.saturating_sub(memory.empty), servers),
            "KiB",
            None,
            "the same after all deliveries".to_owned(),
        ),
        figure(
            "Memory an entry of the ledger",
            each(memory.entries, ENTRIES as f64),
            "KiB",
            None,
            format!("growth of VmRSS by {ENTRIES} reads of single servers; 200,000 entries are kept"),
        ),
        figure(
            "Memory with all servers",
            memory.delivered as f64 / 1_024.0,
            "MiB",
            None,
            format!("VmRSS; without any server {:.1} MiB", memory.empty as f64 / 1_024.0),
        ),
    ]);
    figures
}
