//! The series of a metric that is moved where things happen, with a bound.

use super::{
    list::{Metric, MetricKind},
    samples::cut,
};
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::{Metric as Registered, Registry},
};

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Names and values of labels.
type SeriesLabels = Vec<(&'static str, String)>;

/// The series of one metric.
pub(super) struct Series {
    names: &'static [&'static str],
    limit: usize,
    /// The labels of all series.
    labels: Mutex<HashSet<SeriesLabels>>,
    values: SeriesValues,
}

enum SeriesValues {
    Counters(Family<SeriesLabels, Counter>),
    Gauges(Family<SeriesLabels, Gauge>),
    Histograms(Family<SeriesLabels, Histogram, NewHistogram>),
}

/// Makes the histograms of a metric.
#[derive(Clone)]
struct NewHistogram(&'static [f64]);

impl MetricConstructor<Histogram> for NewHistogram {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl Series {
    pub(super) fn new(metric: Metric) -> Self {
        let info = metric.info();
        Self {
            names: info.labels,
            limit: metric.series_limit(),
            labels: Mutex::default(),
            values: match info.kind {
                MetricKind::Counter => SeriesValues::Counters(Family::default()),
                MetricKind::Gauge => SeriesValues::Gauges(Family::default()),
                MetricKind::Histogram(buckets) => {
                    SeriesValues::Histograms(Family::new_with_constructor(NewHistogram(buckets)))
                }
            },
        }
    }

    pub(super) fn register(&self, metric: Metric, registry: &mut Registry) {
        match &self.values {
            SeriesValues::Counters(family) => register(registry, metric, family.clone()),
            SeriesValues::Gauges(family) => register(registry, metric, family.clone()),
            SeriesValues::Histograms(family) => register(registry, metric, family.clone()),
        }
    }

    /// Adds to a counter. False: there are too many series.
    pub(super) fn add(&self, values: &[&str], count: u64) -> bool {
        let SeriesValues::Counters(family) = &self.values else {
            return true;
        };
        self.change(family, values, |counter| {
            counter.inc_by(count);
        })
    }

    /// Sets a gauge. False: there are too many series.
    pub(super) fn set(&self, values: &[&str], value: i64) -> bool {
        let SeriesValues::Gauges(family) = &self.values else {
            return true;
        };
        self.change(family, values, |gauge| {
            gauge.set(value);
        })
    }

    /// Counts a value in a histogram. False: there are too many series.
    pub(super) fn observe(&self, values: &[&str], value: f64) -> bool {
        let SeriesValues::Histograms(family) = &self.values else {
            return true;
        };
        self.change(family, values, |histogram| histogram.observe(value))
    }

    fn change<M, C: MetricConstructor<M>>(
        &self,
        family: &Family<SeriesLabels, M, C>,
        values: &[&str],
        change: impl FnOnce(&M),
    ) -> bool {
        debug_assert_eq!(values.len(), self.names.len(), "{:?}", self.names);
        let values = values.iter().map(|&value| cut(value));
        let labels: SeriesLabels = self.names.iter().copied().zip(values).collect();
        if let Some(series) = family.get(&labels) {
            change(&series);
            return true;
        }
        let mut all = self.labels();
        if all.len() >= self.limit && !all.contains(&labels) {
            return false;
        }
        change(&family.get_or_create(&labels));
        all.insert(labels);
        true
    }

    /// Removes the series of an account.
    pub(super) fn remove_account(&self, account: &str) {
        let mut all = self.labels();
        let of_account = |labels: &SeriesLabels| labels.first() == Some(&("account", cut(account)));
        for labels in all.extract_if(of_account) {
            match &self.values {
                SeriesValues::Counters(family) => family.remove(&labels),
                SeriesValues::Gauges(family) => family.remove(&labels),
                SeriesValues::Histograms(family) => family.remove(&labels),
            };
        }
    }

    fn labels(&self) -> MutexGuard<'_, HashSet<SeriesLabels>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn register(registry: &mut Registry, metric: Metric, family: impl Registered) {
    let info = metric.info();
    match info.stem_and_unit() {
        (stem, None) => registry.register(stem, info.help, family),
        (stem, Some(unit)) => registry.register_with_unit(stem, info.help, unit, family),
    }
}
