//! Each metric that is moved where things happen, the bound of series, and the form of a scrape.

use super::*;

/// A source with one gauge, and more series of another one than fit.
struct Full;

impl StateSource for Full {
    fn collect(&self, samples: &mut Samples) {
        samples.set(Metric::QueueDepth, &["ServerTag"], 3.0);
        for number in 0..Metric::Servers.series_limit() + 2 {
            let location = number.to_string();
            samples.add(
                Metric::Servers,
                &["default", &location, "t", "delivered"],
                1.0,
            );
        }
    }
}

fn scrape(metrics: &Metrics) -> Vec<String> {
    let text = metrics.scrape(ScrapeFormat::Prometheus).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Whether a line that begins like this has a value above zero.
fn is_above_zero(lines: &[String], begin: &str) -> bool {
    lines.iter().any(|line| {
        let value = line.starts_with(begin).then(|| line.rsplit_once(' '));
        value
            .flatten()
            .is_some_and(|(_, value)| value.parse::<f64>().unwrap() > 0.0)
    })
}

#[test]
fn every_event_moves_its_metric() {
    // The processor time of a process is counted in hundredths of a second.
    let busy = Metrics::new();
    let is_busy = |_| is_above_zero(&scrape(&busy), "process_cpu_seconds_total ");
    assert!((0..100_000).any(is_busy));
    let metrics = Metrics::new();
    metrics.collect_from(Arc::new(Full));
    let quarter = Duration::from_millis(250);
    metrics.record_reconcile("ServerTag", ReconcileResult::Error, quarter);
    metrics.record_queue_time("ServerTag", quarter);
    metrics.record_watch_event("ServerTag", 1_790_000_000);
    metrics.record_watch_failure("ServerTag");
    metrics.record_lease_transition();
    metrics.record_api_server_call("get", "secrets", "200", quarter);
    metrics.record_delivery("EU: Rotterdam", "bm7.std.8", Duration::from_secs(600));
    let observer = metrics.observe_account("shop/default".to_owned());
    metrics.record_order("shop/default", "OutcomeUnknown");
    metrics.record_release("shop/default", "Accepted");
    observer.observe(&ObservedCall {
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
        "workqueue_depth{name=\"ServerTag\"} 3.0",
        "flexmetal_watch_failures_total{kind=\"ServerTag\"} 1",
        "flexmetal_lease_transitions_total 1",
        "flexmetal_apiserver_calls_total{verb=\"get\",resource=\"secrets\",code=\"200\"} 1",
        "flexmetal_apiserver_call_duration_seconds_sum{verb=\"get\"} 0.25",
        "flexmetal_provider_calls_total{account=\"shop/default\",operation=\"GET flexMetal/tags\",code=\"5xx\",outcome=\"ServerError\"} 1",
        "flexmetal_provider_call_duration_seconds_sum{operation=\"GET flexMetal/tags\"} 0.25",
        "flexmetal_orders_total{account=\"shop/default\",outcome=\"OutcomeUnknown\"} 1",
        "flexmetal_orders_total{account=\"shop/default\",outcome=\"Created\"} 0",
        "flexmetal_releases_total{account=\"shop/default\",result=\"Accepted\"} 1",
        "flexmetal_provisioning_duration_seconds_sum{location=\"EU: Rotterdam\",instance_type=\"bm7.std.8\"} 600.0",
        "flexmetal_series_dropped_total{metric=\"flexmetal_servers\"} 2",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {lines:#?}"
        );
    }
    for begun in [
        "flexmetal_watch_last_event_timestamp_seconds{kind=\"ServerTag\"} ",
        "flexmetal_build_info{version=",
        "process_start_time_seconds ",
        "process_resident_memory_bytes ",
        "process_virtual_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
    ] {
        assert!(is_above_zero(&lines, begun), "{begun}: {lines:#?}");
    }
    let servers = lines
        .iter()
        .filter(|line| line.starts_with("flexmetal_servers{"));
    assert_eq!(servers.count(), Metric::Servers.series_limit());
}

#[test]
fn series_of_a_counter_are_bounded() {
    let metrics = Metrics::new();
    let limit = Metric::ApiServerCalls.series_limit();
    for number in 0..limit + 3 {
        metrics.record_api_server_call("get", &number.to_string(), "200", Duration::ZERO);
    }
    // A known series still counts.
    metrics.record_api_server_call("get", "0", "200", Duration::ZERO);
    let lines = scrape(&metrics);
    let calls = lines
        .iter()
        .filter(|line| line.starts_with("flexmetal_apiserver_calls_total{"));
    assert_eq!(calls.count(), limit);
    for expected in [
        "flexmetal_apiserver_calls_total{verb=\"get\",resource=\"0\",code=\"200\"} 2",
        "flexmetal_series_dropped_total{metric=\"flexmetal_apiserver_calls_total\"} 3",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}");
    }
}

#[test]
fn one_namespace_fills_no_metric() {
    let mut samples = Samples::default();
    let mut add = |account: &str, location: usize| {
        let location = location.to_string();
        let labels = [account, &location, "t", "delivered"];
        samples.add(Metric::Servers, &labels, 1.0);
    };
    let limit = Metric::Servers.series_limit_of_namespace();
    for number in 0..limit {
        add("hostile/a", number);
    }
    add("hostile/b", 0);
    add("hostile/a", 0);
    add("shop/default", 0);
    add("of-cluster", 0);
    let (_, servers) = samples.iter().next().unwrap();
    let has = |account: &str| servers.keys().any(|labels| labels[0] == account);
    assert!(has("shop/default") && has("of-cluster") && !has("hostile/b"));
    assert_eq!(servers.len(), limit + 2);
    assert_eq!(
        samples.dropped().collect::<Vec<_>>(),
        [(Metric::Servers, 1)]
    );
}

#[test]
fn counters_of_a_deleted_account_go() {
    let metrics = Metrics::new();
    for account in ["shop/default", "shop/other"] {
        drop(metrics.observe_account(account.to_owned()));
    }
    metrics.remove_account("shop/default");
    let lines = scrape(&metrics);
    let has = |account: &str| lines.iter().any(|line| line.contains(account));
    assert!(!has("account=\"shop/default\"") && has("account=\"shop/other\""));
}

#[test]
fn samples_combine_by_their_operation() {
    let mut samples = Samples::default();
    let labels = ["shop/default"];
    for value in [2.0, 5.0, 3.0] {
        samples.set(Metric::Orphans, &labels, value);
        samples.add(Metric::OrdersOpen, &labels, value);
        samples.max(Metric::OldestOrphan, &labels, value);
        samples.min(Metric::RootPasswordTimeLeft, &labels, value);
    }
    let values: Vec<(Metric, f64)> = samples
        .iter()
        .flat_map(|(metric, values)| values.values().map(move |value| (metric, *value)))
        .collect();
    assert_eq!(
        values,
        [
            (Metric::Orphans, 3.0),
            (Metric::OldestOrphan, 5.0),
            (Metric::OrdersOpen, 10.0),
            (Metric::RootPasswordTimeLeft, 2.0),
        ]
    );
}

#[test]
fn both_formats_have_help_type_and_unit() {
    let prometheus = ScrapeFormat::from_accept(Some("text/plain"));
    assert_eq!(prometheus, ScrapeFormat::Prometheus);
    let accept = Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    let openmetrics = ScrapeFormat::from_accept(accept);
    assert_eq!(openmetrics, ScrapeFormat::OpenMetrics);
    assert!(
        openmetrics
            .content_type()
            .starts_with("application/openmetrics-text")
    );
    let metrics = Metrics::new();
    metrics.record_queue_time("ServerTag", Duration::ZERO);
    let text = metrics.scrape(openmetrics).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    for expected in [
        "# UNIT workqueue_queue_duration_seconds seconds",
        "# TYPE workqueue_queue_duration_seconds histogram",
        "# UNIT process_resident_memory_bytes bytes",
        "# TYPE process_cpu_seconds counter",
        "# UNIT process_cpu_seconds seconds",
        "# HELP process_open_fds Open file descriptors.",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}: {text}"
        );
    }
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in Metric::ALL {
        let info = metric.info();
        let is_counter = info.kind == MetricKind::Counter;
        assert_eq!(info.name.ends_with("_total"), is_counter, "{}", info.name);
        assert!(
            !info.help.ends_with('.') && !info.help.is_empty(),
            "{}",
            info.name
        );
        let mut names = Metric::ALL.iter().map(|other| other.info().name);
        assert_eq!(names.by_ref().filter(|name| *name == info.name).count(), 1);
    }
}
