//! The metrics of the process. Counters and histograms are moved where things happen; gauges of state are collected at
//! each scrape from one source.

mod list;
#[cfg(target_os = "linux")]
mod process;
mod samples;
mod series;
#[cfg(test)]
mod tests;

pub use list::{Metric, MetricInfo, MetricKind, Scope};
pub use samples::{Samples, StateSource, count, flag};

use hosting::{CallObserver, ObservedCall};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric as _, MetricEncoder, prometheus_text, text as openmetrics,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use series::Series;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// The commit that this program was built from, if the build says it.
const REVISION: &str = match option_env!("FLEXMETAL_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Outcomes of orders. Each account has a series for each, so that the first increase is seen.
pub const ORDER_OUTCOMES: [&str; 4] = ["Created", "Refused", "NotSent", "OutcomeUnknown"];
/// Results of releases.
pub const RELEASE_RESULTS: [&str; 4] = ["Accepted", "Refused", "NotSent", "OutcomeUnknown"];

/// How a work item ended, in controller-runtime's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Done for good: the object is gone.
    Success,
    /// Done, and due again after a time.
    RequeueAfter,
    /// Failed, and due again after a backoff.
    Error,
}

impl ReconcileResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

/// The form of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrapeFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl ScrapeFormat {
    /// The form that an `Accept` header asks for.
    pub fn from_accept(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// The metrics of the process. Clones are the same.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<MetricsInner>,
}

struct MetricsInner {
    registry: Registry,
    series: BTreeMap<Metric, Series>,
    state: Arc<StateCollector>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics that start at zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let mut series = BTreeMap::new();
        for metric in MOVED {
            let of_metric = Series::new(metric);
            of_metric.register(metric, &mut registry);
            series.insert(metric, of_metric);
        }
        let state = Arc::new(StateCollector::default());
        registry.register_collector(Box::new(state.clone()));
        let metrics = Self {
            inner: Arc::new(MetricsInner {
                registry,
                series,
                state,
            }),
        };
        metrics.add(Metric::LeaseTransitions, &[], 0);
        metrics
    }

    /// Sets where gauges are collected. The first source counts.
    pub fn collect_from(&self, source: Arc<dyn StateSource>) {
        let _ = self.inner.state.source.set(source);
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// A metric cannot be written.
    pub fn scrape(&self, format: ScrapeFormat) -> Result<String, fmt::Error> {
        for (metric, count) in self.inner.state.collect() {
            self.add(Metric::SeriesDropped, &[metric.info().name], count);
        }
        let mut text = String::new();
        match format {
            ScrapeFormat::OpenMetrics => openmetrics::encode(&mut text, &self.inner.registry)?,
            ScrapeFormat::Prometheus => prometheus_text::encode(&mut text, &self.inner.registry)?,
        }
        Ok(text)
    }

    /// A work item of a kind has ended.
    pub fn record_reconcile(&self, kind: &str, result: ReconcileResult, took: Duration) {
        self.add(Metric::Reconciles, &[kind, result.as_str()], 1);
        self.observe(Metric::ReconcileTime, &[kind], took);
        if result == ReconcileResult::Error {
            self.add(Metric::QueueRetries, &[kind], 1);
        }
    }

    /// A work item of a kind has started after this time in the queue.
    pub fn record_queue_time(&self, kind: &str, waited: Duration) {
        self.observe(Metric::QueueTime, &[kind], waited);
    }

    /// The watches of a kind have all shown an event, a bookmark or their start since this moment, in Unix seconds.
    pub fn record_watch_event(&self, kind: &str, since: i64) {
        self.change(Metric::WatchLastEvent, |series| series.set(&[kind], since));
    }

    /// A list or watch of a kind failed or became stale.
    pub fn record_watch_failure(&self, kind: &str) {
        self.add(Metric::WatchFailures, &[kind], 1);
    }

    /// This process became leader, or is leader no more.
    pub fn record_lease_transition(&self) {
        self.add(Metric::LeaseTransitions, &[], 1);
    }

    /// The API server has begun to answer a call, or did not. `code`: HTTP status, or `none`.
    pub fn record_api_server_call(&self, verb: &str, resource: &str, code: &str, took: Duration) {
        self.add(Metric::ApiServerCalls, &[verb, resource, code], 1);
        self.observe(Metric::ApiServerCallTime, &[verb], took);
    }

    /// An order of an account has ended, with one of [`ORDER_OUTCOMES`].
    pub fn record_order(&self, account: &str, outcome: &str) {
        self.add(Metric::Orders, &[account, outcome], 1);
    }

    /// A release was requested, with one of [`RELEASE_RESULTS`].
    pub fn record_release(&self, account: &str, result: &str) {
        self.add(Metric::Releases, &[account, result], 1);
    }

    /// A server was delivered this long after its order.
    pub fn record_delivery(&self, location: &str, instance_type: &str, took: Duration) {
        self.observe(Metric::ProvisioningTime, &[location, instance_type], took);
    }

    /// The observer of an account's calls. `account`: namespace and name of the account object. Its counters of orders
    /// and releases start here.
    pub fn observe_account(&self, account: String) -> Arc<dyn CallObserver> {
        for outcome in ORDER_OUTCOMES {
            self.add(Metric::Orders, &[&account, outcome], 0);
        }
        for result in RELEASE_RESULTS {
            self.add(Metric::Releases, &[&account, result], 0);
        }
        Arc::new(AccountObserver {
            metrics: self.clone(),
            account,
        })
    }

    /// Removes the counters of an account object that is gone.
    pub fn remove_account(&self, account: &str) {
        for series in self.inner.series.values() {
            series.remove_account(account);
        }
    }

    fn add(&self, metric: Metric, labels: &[&str], count: u64) {
        self.change(metric, |series| series.add(labels, count));
    }

    fn observe(&self, metric: Metric, labels: &[&str], took: Duration) {
        self.change(metric, |series| series.observe(labels, took.as_secs_f64()));
    }

    /// `change` returns whether the series fits.
    fn change(&self, metric: Metric, change: impl FnOnce(&Series) -> bool) {
        let series = &self.inner.series;
        let fits = series.get(&metric).is_none_or(change);
        if !fits && let Some(dropped) = series.get(&Metric::SeriesDropped) {
            dropped.add(&[metric.info().name], 1);
        }
    }
}

/// The metrics that are moved where things happen. All others are collected at a scrape.
const MOVED: [Metric; 15] = [
    Metric::LeaseTransitions,
    Metric::SeriesDropped,
    Metric::Reconciles,
    Metric::ReconcileTime,
    Metric::QueueTime,
    Metric::QueueRetries,
    Metric::WatchLastEvent,
    Metric::WatchFailures,
    Metric::ApiServerCalls,
    Metric::ApiServerCallTime,
    Metric::ProviderCalls,
    Metric::ProviderCallTime,
    Metric::Orders,
    Metric::ProvisioningTime,
    Metric::Releases,
];

struct AccountObserver {
    metrics: Metrics,
    account: String,
}

impl CallObserver for AccountObserver {
    fn observe(&self, call: &ObservedCall) {
        let operation = &call.operation;
        let labels = [
            &*self.account,
            operation,
            class_of(call.status),
            call.outcome,
        ];
        self.metrics.add(Metric::ProviderCalls, &labels, 1);
        let metrics = &self.metrics;
        metrics.observe(Metric::ProviderCallTime, &[operation], call.elapsed);
    }
}

/// The class of a status; `none` without an answer.
fn class_of(status: Option<u16>) -> &'static str {
    match status {
        None => "none",
        Some(200..=299) => "2xx",
        Some(300..=399) => "3xx",
        Some(400..=499) => "4xx",
        Some(500..=599) => "5xx",
        Some(_) => "other",
    }
}

/// Writes the gauges of the last collection.
#[derive(Default)]
struct StateCollector {
    source: OnceLock<Arc<dyn StateSource>>,
    samples: Mutex<Samples>,
}

impl fmt::Debug for StateCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateCollector").finish_non_exhaustive()
    }
}

impl StateCollector {
    /// Collects all gauges. Returns how many samples of each metric are left out.
    fn collect(&self) -> Vec<(Metric, u64)> {
        let mut samples = Samples::default();
        let version = env!("CARGO_PKG_VERSION");
        samples.set(Metric::BuildInfo, &[version, REVISION], 1.0);
        #[cfg(target_os = "linux")]
        process::collect(&mut samples);
        if let Some(source) = self.source.get() {
            source.collect(&mut samples);
        }
        let dropped = samples.dropped().collect();
        *self.samples() = samples;
        dropped
    }

    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for StateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (metric, values) in self.samples().iter() {
            let info = metric.info();
            let (stem, unit) = info.stem_and_unit();
            let kind = match info.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge | MetricKind::Histogram(_) => MetricType::Gauge,
            };
            let help = format!("{}.", info.help);
            let mut family = encoder.encode_descriptor(stem, &help, unit.as_ref(), kind)?;
            match (info.labels, values.first_key_value()) {
                ([], Some((_, value))) => encode_value(family, info.kind, *value)?,
                (names, _) => {
                    for (labels, value) in values {
                        let labels: Vec<_> = names.iter().copied().zip(labels).collect();
                        encode_value(family.encode_family(&labels)?, info.kind, *value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode_value(encoder: MetricEncoder, kind: MetricKind, value: f64) -> Result<(), fmt::Error> {
    match kind {
        MetricKind::Counter => ConstCounter::new(value).encode(encoder),
        MetricKind::Gauge | MetricKind::Histogram(_) => ConstGauge::new(value).encode(encoder),
    }
}
