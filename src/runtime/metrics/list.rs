//! The list of all metrics: names, labels and help. Registry, collector and the reference page are made from it.

use prometheus_client::registry::Unit;

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only grows, from zero at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// Which processes have a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The leader and the standby processes.
    Every,
    /// Only the leader.
    Leader,
    /// Only the leader, and only with `--metrics-object-conditions`.
    OnRequest,
}

/// A metric as it is scraped.
#[derive(Clone, Copy, Debug)]
pub struct MetricInfo {
    /// Its name, with unit and suffix.
    pub name: &'static str,
    /// What it measures.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Which processes have it.
    pub scope: Scope,
    /// What it means, without the full stop.
    pub help: &'static str,
}

/// Buckets of reconciles and calls, in seconds: from what memory answers to what a slow provider takes.
const CALLS: MetricKind =
    MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 180.0]);
/// Buckets of deliveries, in seconds: from a minute to half a day.
const DELIVERIES: MetricKind = MetricKind::Histogram(&[
    60.0, 180.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0,
]);
const COUNTER: MetricKind = MetricKind::Counter;
const GAUGE: MetricKind = MetricKind::Gauge;

macro_rules! metrics {
    ($($metric:ident: $name:literal, $kind:ident, [$($label:literal),*], $scope:ident, $help:literal;)+) => {
        /// A metric of the operator.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric { $(#[doc = $help] $metric),+ }

        impl Metric {
            /// All of them, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$metric),+];

            /// Name, labels and help.
            pub const fn info(self) -> MetricInfo {
                match self {
                    $(Self::$metric => MetricInfo {
                        name: $name,
                        kind: $kind,
                        labels: &[$($label),*],
                        scope: Scope::$scope,
                        help: $help,
                    }),+
                }
            }
        }
    };
}

metrics! {
    BuildInfo: "flexmetal_build_info", GAUGE, ["version", "revision"], Every,
        "Always 1; the labels have version and revision of this operator";
    Leader: "leader_election_master_status", GAUGE, ["name"], Every,
        "1 if this process is the leader, 0 if it is a standby, by Lease";
    LeaseTransitions: "flexmetal_lease_transitions_total", COUNTER, [], Every,
        "How often this process became leader, or ceased to be";
    SeriesDropped: "flexmetal_series_dropped_total", COUNTER, ["metric"], Every,
        "Updates of series that are left out because the metric has too many already";

    Reconciles: "controller_runtime_reconcile_total", COUNTER, ["controller", "result"], Every,
        "Reconciles of objects of a kind by result: success (the object is gone), requeue_after, or error (retried with backoff)";
    ReconcileTime: "controller_runtime_reconcile_time_seconds", CALLS, ["controller"], Every,
        "Duration of the reconcile of an object";
    ActiveWorkers: "controller_runtime_active_workers", GAUGE, ["controller"], Every,
        "Reconciles in progress";
    QueueDepth: "workqueue_depth", GAUGE, ["name"], Every,
        "Objects of a kind that are due and wait for a reconcile";
    QueueTime: "workqueue_queue_duration_seconds", CALLS, ["name"], Every,
        "Time that an object waited in the queue after it was due";
    QueueRetries: "workqueue_retries_total", COUNTER, ["name"], Every,
        "Reconciles that failed and are retried with backoff";
    QueueOldest: "flexmetal_queue_oldest_seconds", GAUGE, ["name"], Every,
        "For how long the first object in the queue has waited";

    WatchLastEvent: "flexmetal_watch_last_event_timestamp_seconds", GAUGE, ["kind"], Every,
        "Unix time at which a watch last showed an event, a bookmark or its start";
    WatchFailures: "flexmetal_watch_failures_total", COUNTER, ["kind"], Every,
        "Lists and watches of the API server that failed or became stale";
    ApiServerCalls: "flexmetal_apiserver_calls_total", COUNTER, ["verb", "resource", "code"], Every,
        "Calls to the API server; code is the HTTP status, or none without an answer";
    ApiServerCallTime: "flexmetal_apiserver_call_duration_seconds", CALLS, ["verb"], Every,
        "Time until the API server began to answer a call";

    ProviderCalls: "flexmetal_provider_calls_total", COUNTER, ["account", "operation", "code", "outcome"], Every,
        "Calls to the hosting API; code is the class of the HTTP status, or none without an answer";
    ProviderCallTime: "flexmetal_provider_call_duration_seconds", CALLS, ["operation"], Every,
        "Time of a call to the hosting API";
    RateLimiterCalls: "flexmetal_rate_limiter_calls_per_second", GAUGE, ["account"], Leader,
        "Calls per second that the rate limiter allows at present";
    RateLimiterQueue: "flexmetal_rate_limiter_queue", GAUGE, ["account", "priority"], Leader,
        "Requests that wait for the rate limiter";
    RateLimiterOldest: "flexmetal_rate_limiter_oldest_seconds", GAUGE, ["account", "priority"], Leader,
        "For how long the request that waits longest has waited for the rate limiter";

    CredentialsAccepted: "flexmetal_account_credentials_accepted", GAUGE, ["account"], Leader,
        "1 if the hosting API accepts the key, 0 if it rejects it; absent before the first answer";
    RateLimited: "flexmetal_account_rate_limited", GAUGE, ["account"], Leader,
        "1 while the hosting API has asked for a pause (Retry-After)";
    Unreachable: "flexmetal_account_unreachable", GAUGE, ["account"], Leader,
        "1 while the hosting API does not answer, or answers with errors";
    ListAge: "flexmetal_account_list_age_seconds", GAUGE, ["account", "list"], Leader,
        "Time since a list of the account was last read";

    Objects: "flexmetal_objects", GAUGE, ["kind", "reason", "ready", "stalled"], Leader,
        "Objects by kind, reason and status of the condition Ready, and whether Stalled is True";
    ObjectCondition: "flexmetal_object_condition", GAUGE, ["kind", "namespace", "name", "type", "status", "reason"], OnRequest,
        "Always 1; one series for each condition of each object";
    Servers: "flexmetal_servers", GAUGE, ["account", "location", "instance_type", "status"], Leader,
        "Servers of this cluster at the provider, with the status that the provider gives";
    Orphans: "flexmetal_orphans", GAUGE, ["account"], Leader,
        "Live servers of this cluster that no object owns";
    OldestOrphan: "flexmetal_oldest_orphan_age_seconds", GAUGE, ["account"], Leader,
        "For how long the oldest orphan has been listed without an object; 0 without one";
    DuplicateServers: "flexmetal_duplicate_servers", GAUGE, ["account"], Leader,
        "Live servers of this cluster that share their object with another one";
    RetainedServers: "flexmetal_retained_servers", GAUGE, ["account"], Leader,
        "Live servers that deletionPolicy Retain kept";
    UnmanagedServers: "flexmetal_unmanaged_servers", GAUGE, ["account"], Leader,
        "Live servers in the account without a tag of any operator; absent before the first count";

    Orders: "flexmetal_orders_total", COUNTER, ["account", "outcome"], Every,
        "Orders by their answer: Created, Refused, NotSent or OutcomeUnknown, which stays in flexmetal_orders_open until the server is found or known not to exist";
    OrdersOpen: "flexmetal_orders_open", GAUGE, ["account"], Leader,
        "Orders that are recorded and have no outcome yet";
    OldestUnknownOrder: "flexmetal_oldest_unknown_order_age_seconds", GAUGE, ["account"], Leader,
        "Age of the oldest order that is no longer sent and whose outcome is unknown; 0 without one";
    ProvisioningTime: "flexmetal_provisioning_duration_seconds", DELIVERIES, ["location", "instance_type"], Every,
        "Time from the order of a server to its delivery";
    OldestProvisioning: "flexmetal_oldest_provisioning_age_seconds", GAUGE, ["account"], Leader,
        "Time since the order of the server that waits longest for its delivery; 0 without one";
    Releases: "flexmetal_releases_total", COUNTER, ["account", "result"], Every,
        "Requests to release a server by their answer: Accepted, Refused, NotSent or OutcomeUnknown";
    ReleasesWaiting: "flexmetal_releases_waiting", GAUGE, ["account", "reason"], Leader,
        "Deleted BareMetalServers that still exist, by what they wait for: the reason of Ready, or of Synced once Ready is Releasing";
    ReleaseLimitEngaged: "flexmetal_release_limit_engaged", GAUGE, ["account"], Leader,
        "1 while spec.releaseLimit makes releases wait";
    LimitUsed: "flexmetal_limit_used", GAUGE, ["account", "limit"], Leader,
        "What counts against a limit of spec.limits";
    LimitAllowed: "flexmetal_limit_allowed", GAUGE, ["account", "limit"], Leader,
        "What a limit of spec.limits allows";
    QuotaUsed: "flexmetal_quota_used", GAUGE, ["account", "quota"], Leader,
        "Servers that count against a quota of the provider: location, instance type and contract or onDemand";
    QuotaAllowed: "flexmetal_quota_allowed", GAUGE, ["account", "quota"], Leader,
        "Servers that a quota of the provider allows";
    RootPasswordTimeLeft: "flexmetal_root_password_time_left_seconds", GAUGE, ["account"], Leader,
        "Shortest time for which the provider still gives out a Windows password that is not stored yet; absent without one";
    WhitelistCoversOperator: "flexmetal_whitelist_covers_operator", GAUGE, ["account"], Leader,
        "1 if every IpWhitelist of the account has the condition EgressCovered True, else 0; absent without one";
    UsageHours: "flexmetal_usage_hours", GAUGE, ["account", "namespace", "contract", "month"], Leader,
        "Billed hours of the current or the previous month, with spec.usage: Enabled; an empty namespace: servers without an object";
    UsageEgress: "flexmetal_usage_egress_bytes", GAUGE, ["account", "namespace", "contract", "month"], Leader,
        "Bytes that left the servers in that month";

    ProcessCpu: "process_cpu_seconds_total", COUNTER, [], Every,
        "Processor time of this process";
    ProcessResidentMemory: "process_resident_memory_bytes", GAUGE, [], Every,
        "Resident memory of this process";
    ProcessVirtualMemory: "process_virtual_memory_bytes", GAUGE, [], Every,
        "Virtual memory of this process";
    ProcessOpenFds: "process_open_fds", GAUGE, [], Every,
        "Open file descriptors";
    ProcessMaxFds: "process_max_fds", GAUGE, [], Every,
        "Most open file descriptors";
    ProcessStart: "process_start_time_seconds", GAUGE, [], Every,
        "Unix time at which this process started";
}

impl Metric {
    /// Most series; others are counted as dropped. A histogram has a line for each bucket.
    pub(super) const fn series_limit(self) -> usize {
        match (self, self.info().kind) {
            (Self::ObjectCondition, _) => 10_000,
            (_, MetricKind::Histogram(_)) => 50,
            (_, MetricKind::Counter | MetricKind::Gauge) => 1_000,
        }
    }

    /// Most series of the accounts of one namespace, three quarters: what their hosting API answers fills no metric of others.
    pub(super) const fn series_limit_of_namespace(self) -> usize {
        self.series_limit() / 4 * 3
    }
}

impl MetricInfo {
    /// The name without the suffix of a counter and without the unit, and the unit: the registry adds both.
    pub(super) fn stem_and_unit(&self) -> (&'static str, Option<Unit>) {
        let stem = match self.kind {
            MetricKind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricKind::Gauge | MetricKind::Histogram(_) => self.name,
        };
        let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
        let mut found = units
            .into_iter()
            .filter_map(|(suffix, unit)| Some((stem.strip_suffix(suffix)?, Some(unit))));
        found.next().unwrap_or((stem, None))
    }
}
