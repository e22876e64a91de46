//! Latencies of answers: median and upper percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Latencies by kind of request.
#[derive(Debug, Default)]
pub(super) struct Latencies(BTreeMap<&'static str, Vec<Duration>>);

/// One kind's latencies, in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Spread {
    pub(super) requests: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) longest: f64,
}

impl Latencies {
    pub(super) fn add(&mut self, kind: &'static str, took: Duration) {
        self.0.entry(kind).or_default().push(took);
    }

    pub(super) fn join(&mut self, other: Self) {
        for (kind, times) in other.0 {
            self.0.entry(kind).or_default().extend(times);
        }
    }

    /// Number of all answers.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// The spread of each kind.
    pub(super) fn spreads(self) -> BTreeMap<String, Spread> {
        let kinds = self.0.into_iter();
        kinds
            .filter_map(|(kind, times)| Some((kind.to_owned(), spread(times)?)))
            .collect()
    }
}

fn spread(mut times: Vec<Duration>) -> Option<Spread> {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(place).map(|time| time.as_secs_f64() * 1_000.0)
    };
    Some(Spread {
        requests: times.len(),
        p50: at(50)?,
        p99: at(99)?,
        longest: at(100)?,
    })
}
