//! The metrics of the process. Counters and histograms are moved where things happen; gauges of state are read at each
//! scrape from one source.

use super::clock;
use hosting::{CallObserver, ObservedCall};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, prometheus_text, text as openmetrics,
    },
    metrics::{
        counter::Counter, family::Family, gauge::{ConstGauge, Gauge}, histogram::Histogram, info::Info,
    },
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Buckets of reconciles and calls, in seconds: from what memory answers to what a slow provider takes.
const SECONDS: [f64; 10] = [0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 180.0];

/// Labels of a kind's controller, as controller-runtime has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    result: &'static str,
}

/// Labels of a kind's work queue, as controller-runtime has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderCallLabels {
    account: String,
    operation: String,
    code: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

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

/// The state that gauges show.
#[derive(Clone, Debug, Default)]
pub struct ProcessState {
    /// Whether this process is the leader.
    pub is_leader: bool,
    /// Objects that are due and wait, by kind, and for how long the first of them.
    pub queued: Vec<(&'static str, usize, Duration)>,
    /// The name of the Lease.
    pub lease: String,
}

/// Reads the state at a scrape.
pub trait StateSource: Send + Sync {
    /// The state now.
    fn state(&self) -> ProcessState;
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
    families: Families,
    state: Arc<StateCollector>,
}

struct Families {
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_seconds: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    queue_seconds: Family<QueueLabels, Histogram, fn() -> Histogram>,
    retries: Family<QueueLabels, Counter>,
    watch_events: Family<KindLabels, Gauge>,
    watch_failures: Family<KindLabels, Counter>,
    lease_transitions: Counter,
    provider_calls: Family<ProviderCallLabels, Counter>,
    provider_call_seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics that start at zero.
    pub fn new() -> Self {
        let families = Families {
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            queue_seconds: Family::new_with_constructor(seconds),
            retries: Family::default(),
            watch_events: Family::default(),
            watch_failures: Family::default(),
            lease_transitions: Counter::default(),
            provider_calls: Family::default(),
            provider_call_seconds: Family::new_with_constructor(seconds),
        };
        let state = Arc::new(StateCollector::default());
        let mut registry = Registry::default();
        families.register(&mut registry);
        registry.register_collector(Box::new(state.clone()));
        Self {
            inner: Arc::new(MetricsInner {
                registry,
                families,
                state,
            }),
        }
    }

    /// Sets where gauges read the state. The first source counts.
    pub fn read_state_from(&self, source: Arc<dyn StateSource>) {
        let _ = self.inner.state.source.set(source);
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// A metric cannot be written.
    pub fn scrape(&self, format: ScrapeFormat) -> Result<String, fmt::Error> {
        let mut text = String::new();
        match format {
            ScrapeFormat::OpenMetrics => openmetrics::encode(&mut text, &self.inner.registry)?,
            ScrapeFormat::Prometheus => prometheus_text::encode(&mut text, &self.inner.registry)?,
        }
        Ok(text)
    }

    /// A work item of a kind has ended.
    pub fn record_reconcile(&self, kind: &'static str, result: ReconcileResult, took: Duration) {
        let families = &self.inner.families;
        let labels = ReconcileLabels {
            controller: kind,
            result: result.as_str(),
        };
        families.reconciles.get_or_create(&labels).inc();
        let labels = ControllerLabels { controller: kind };
        let seconds = families.reconcile_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
        if result == ReconcileResult::Error {
            let labels = QueueLabels { name: kind };
            families.retries.get_or_create(&labels).inc();
        }
    }

    /// A work item of a kind has started after this time in the queue.
    pub fn record_queue_time(&self, kind: &'static str, waited: Duration) {
        let labels = QueueLabels { name: kind };
        let seconds = self.inner.families.queue_seconds.get_or_create(&labels);
        seconds.observe(waited.as_secs_f64());
    }

    /// A watch of a kind has shown an event, a bookmark or its start.
    pub fn record_watch_event(&self, kind: &'static str) {
        let labels = KindLabels { kind };
        let last = self.inner.families.watch_events.get_or_create(&labels);
        last.set(clock::now().wall);
    }

    /// A watch of a kind failed or became stale.
    pub fn record_watch_failure(&self, kind: &'static str) {
        let labels = KindLabels { kind };
        self.inner.families.watch_failures.get_or_create(&labels).inc();
    }

    /// This process became leader, or is leader no more.
    pub fn record_lease_transition(&self) {
        self.inner.families.lease_transitions.inc();
    }

    /// The observer of an account's calls. `account`: namespace and name of the account object.
    pub fn observe_account(&self, account: String) -> Arc<dyn CallObserver> {
        Arc::new(AccountObserver {
            metrics: self.clone(),
            account,
        })
    }
}

impl Families {
    fn register(&self, registry: &mut Registry) {
        let build = Info::new(BuildLabels {
            version: env!("CARGO_PKG_VERSION"),
        });
        registry.register("flexmetal_build", "Version of this operator", build);
        registry.register(
            "controller_runtime_reconcile",
            "Work items by controller and result",
            self.reconciles.clone(),
        );
        registry.register_with_unit(
            "controller_runtime_reconcile_time",
            "Time of a work item, by controller",
            Unit::Seconds,
            self.reconcile_seconds.clone(),
        );
        registry.register_with_unit(
            "workqueue_queue_duration",
            "Time that an object waited in the queue after it was due",
            Unit::Seconds,
            self.queue_seconds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Work items that failed and are retried with backoff",
            self.retries.clone(),
        );
        registry.register_with_unit(
            "flexmetal_watch_last_event_timestamp",
            "When a watch last showed an event, a bookmark or its start, by kind",
            Unit::Seconds,
            self.watch_events.clone(),
        );
        registry.register(
            "flexmetal_watch_failures",
            "Watches of the API server that failed or became stale, by kind",
            self.watch_failures.clone(),
        );
        registry.register(
            "flexmetal_lease_transitions",
            "How often this process became leader, or ceased to be",
            self.lease_transitions.clone(),
        );
        registry.register(
            "flexmetal_provider_calls",
            "Calls to the hosting API by account, operation, class of the status, and outcome",
            self.provider_calls.clone(),
        );
        registry.register_with_unit(
            "flexmetal_provider_call_duration",
            "Time of a call to the hosting API, by operation",
            Unit::Seconds,
            self.provider_call_seconds.clone(),
        );
    }
}

struct AccountObserver {
    metrics: Metrics,
    account: String,
}

impl CallObserver for AccountObserver {
    fn observe(&self, call: &ObservedCall) {
        let families = &self.metrics.inner.families;
        let labels = ProviderCallLabels {
            account: self.account.clone(),
            operation: call.operation.clone(),
            code: class_of(call.status),
            outcome: call.outcome,
        };
        families.provider_calls.get_or_create(&labels).inc();
        let labels = OperationLabels {
            operation: call.operation.clone(),
        };
        let seconds = families.provider_call_seconds.get_or_create(&labels);
        seconds.observe(call.elapsed.as_secs_f64());
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

/// Writes the gauges of the state.
#[derive(Default)]
struct StateCollector {
    source: OnceLock<Arc<dyn StateSource>>,
}

impl fmt::Debug for StateCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateCollector").finish_non_exhaustive()
    }
}

impl Collector for StateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let state = self.source.get().map(|source| source.state()).unwrap_or_default();
        let leader = ConstGauge::new(u32::from(state.is_leader));
        let help = "1 if this process is the leader, by Lease";
        let name = "leader_election_master_status";
        let mut family = encoder.encode_descriptor(name, help, None, leader.metric_type())?;
        leader.encode(family.encode_family(&LeaseLabels { name: state.lease })?)?;
        let help = "Objects that are due and wait for a reconcile, by kind";
        let zero = ConstGauge::new(0_u64);
        let mut family = encoder.encode_descriptor("workqueue_depth", help, None, zero.metric_type())?;
        for (name, depth, _) in &state.queued {
            let depth = ConstGauge::new(u64::try_from(*depth).unwrap_or(u64::MAX));
            depth.encode(family.encode_family(&QueueLabels { name })?)?;
        }
        let help = "For how long the first object in the queue has waited, by kind";
        let unit = Some(&Unit::Seconds);
        let mut family =
            encoder.encode_descriptor("flexmetal_queue_oldest", help, unit, zero.metric_type())?;
        for (name, _, waited) in &state.queued {
            let waited = ConstGauge::new(waited.as_secs_f64());
            waited.encode(family.encode_family(&QueueLabels { name })?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Busy;

    impl StateSource for Busy {
        fn state(&self) -> ProcessState {
            ProcessState {
                is_leader: true,
                lease: "system/operator".to_owned(),
                queued: vec![("ServerTag", 3, Duration::from_millis(2500))],
            }
        }
    }

    fn scrape(metrics: &Metrics) -> Vec<String> {
        let text = metrics.scrape(ScrapeFormat::Prometheus).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_event_moves_its_metric() {
        let metrics = Metrics::new();
        metrics.read_state_from(Arc::new(Busy));
        let quarter = Duration::from_millis(250);
        metrics.record_reconcile("ServerTag", ReconcileResult::Error, quarter);
        metrics.record_queue_time("ServerTag", quarter);
        metrics.record_watch_event("ServerTag");
        metrics.record_watch_failure("ServerTag");
        metrics.record_lease_transition();
        metrics.observe_account("shop/default".to_owned()).observe(&ObservedCall {
            operation: "GET flexMetal/tags".to_owned(),
            status: Some(503),
            outcome: "ServerError",
            elapsed: quarter,
        });
        let lines = scrape(&metrics);
        for expected in [
            "controller_runtime_reconcile_total{controller=\"ServerTag\",result=\"error\"} 1",
            "controller_runtime_reconcile_time_seconds_sum{controller=\"ServerTag\"} 0.25",
            "workqueue_queue_duration_seconds_count{name=\"ServerTag\"} 1",
            "workqueue_retries_total{name=\"ServerTag\"} 1",
            "flexmetal_watch_failures_total{kind=\"ServerTag\"} 1",
            "flexmetal_lease_transitions_total 1",
            "flexmetal_provider_calls_total{account=\"shop/default\",operation=\"GET flexMetal/tags\",code=\"5xx\",outcome=\"ServerError\"} 1",
            "flexmetal_provider_call_duration_seconds_sum{operation=\"GET flexMetal/tags\"} 0.25",
            "leader_election_master_status{name=\"system/operator\"} 1",
            "workqueue_depth{name=\"ServerTag\"} 3",
            "flexmetal_queue_oldest_seconds{name=\"ServerTag\"} 2.5",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
        }
        let seen = "flexmetal_watch_last_event_timestamp_seconds{kind=\"ServerTag\"} ";
        assert!(lines.iter().any(|line| line.starts_with(seen)), "{lines:#?}");
    }

    #[test]
    fn both_formats_have_their_content_type() {
        let prometheus = ScrapeFormat::from_accept(Some("text/plain"));
        assert_eq!(prometheus, ScrapeFormat::Prometheus);
        let accept = Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        let openmetrics = ScrapeFormat::from_accept(accept);
        assert_eq!(openmetrics, ScrapeFormat::OpenMetrics);
        let text = Metrics::new().scrape(openmetrics).unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(openmetrics.content_type().starts_with("application/openmetrics-text"));
    }
}
