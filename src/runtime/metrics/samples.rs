//! The gauges of a scrape, collected from the state of the process.

use super::list::Metric;
use std::collections::BTreeMap;

/// The values of a metric by the values of its labels.
pub type SamplesOfMetric = BTreeMap<Vec<String>, f64>;

/// The gauges of one scrape.
#[derive(Debug, Default)]
pub struct Samples {
    by_metric: BTreeMap<Metric, SamplesOfMetric>,
    /// How many samples of a metric the accounts of a namespace have.
    of_namespace: BTreeMap<(Metric, String), usize>,
    /// How many samples of each metric are left out.
    dropped: BTreeMap<Metric, u64>,
}

/// Collects the gauges at a scrape.
pub trait StateSource: Send + Sync {
    /// Adds the gauges of this source.
    fn collect(&self, samples: &mut Samples);
}

impl Samples {
    /// Sets a gauge.
    pub fn set(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.change(metric, labels, |_| value);
    }

    /// Adds to a gauge that starts at zero.
    pub fn add(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.change(metric, labels, |before| before.unwrap_or_default() + value);
    }

    /// Sets a gauge to the largest of its values.
    pub fn max(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.change(metric, labels, |before| {
            before.map_or(value, |before| before.max(value))
        });
    }

    /// Sets a gauge to the smallest of its values.
    pub fn min(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.change(metric, labels, |before| {
            before.map_or(value, |before| before.min(value))
        });
    }

    fn change(&mut self, metric: Metric, labels: &[&str], next: impl FnOnce(Option<f64>) -> f64) {
        debug_assert_eq!(labels.len(), metric.info().labels.len(), "{metric:?}");
        let labels: Vec<String> = labels.iter().map(|&label| cut(label)).collect();
        let of_metric = self.by_metric.entry(metric).or_default();
        if let Some(value) = of_metric.get_mut(&labels) {
            *value = next(Some(*value));
            return;
        }
        let mut fits = of_metric.len() < metric.series_limit();
        if let Some(namespace) = account_namespace(metric, &labels) {
            let count = self.of_namespace.entry((metric, namespace.to_owned()));
            let count = count.or_default();
            fits &= *count < metric.series_limit_of_namespace();
            *count += usize::from(fits);
        }
        match fits {
            true => drop(of_metric.insert(labels, next(None))),
            false => *self.dropped.entry(metric).or_default() += 1,
        }
    }

    /// All samples, by metric.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &SamplesOfMetric)> {
        self.by_metric
            .iter()
            .map(|(metric, samples)| (*metric, samples))
    }

    pub(super) fn dropped(&self) -> impl Iterator<Item = (Metric, u64)> {
        self.dropped.iter().map(|(metric, count)| (*metric, *count))
    }
}

/// The namespace of the account that a series is of. None: of no account, or of one of the cluster.
fn account_namespace(metric: Metric, labels: &[String]) -> Option<&str> {
    let first = *metric.info().labels.first()?;
    let account = labels.first().filter(|_| first == "account")?;
    Some(account.split_once('/')?.0)
}

/// The value of a label: some are texts of a hosting API, which may be anybody's.
pub(super) fn cut(label: &str) -> String {
    const MOST_BYTES: usize = 128;
    label[..label.floor_char_boundary(MOST_BYTES)].to_owned()
}

/// A count as the value of a gauge.
pub fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A yes or no as the value of a gauge.
pub fn flag(is_it: bool) -> f64 {
    f64::from(u8::from(is_it))
}
