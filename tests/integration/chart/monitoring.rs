//! Metrics in the chart: alerts, dashboards, monitors, and the configuration of kube-state-metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::Reason;
use flexmetal_operator::runtime::metrics::{Metric, MetricInfo, MetricKind};
use regex::Regex;
use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, MONITORING_API, documents, helm_4, installed, said},
    of_kind,
    render::strings,
};
use crate::{
    crds::{definitions, root},
    docs::anchors,
};

const ALERTS: &str = "deploy/chart/files/alerts.yaml";
const DASHBOARDS: &str = "deploy/chart/files/dashboards";
/// The labels that Prometheus adds to all series of a pod.
const TARGET_LABELS: [&str; 4] = ["namespace", "job", "pod", "instance"];
/// The words of PromQL that look like a metric or a function.
const OPERATORS: [&str; 4] = ["and", "or", "unless", "offset"];
/// The link of an alert whose page depends on the reason.
const ANCHOR_OF_REASON: &str = "{{ $labels.reason | toLower }}";

fn read_text(path: &str) -> String {
    fs::read_to_string(checkout(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read_yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(checkout(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The alerts of the file, by name.
fn alerts() -> BTreeMap<String, Value> {
    let file = read_yaml(&checkout(ALERTS));
    let rules = list(&file["groups"]).flat_map(|group| list(&group["rules"]));
    let alerts: BTreeMap<String, Value> = rules
        .map(|rule| (text(&rule["alert"]).to_owned(), rule.clone()))
        .collect();
    assert_eq!(alerts.len(), 14, "docs/operations.md says 14");
    alerts
}

/// All queries of alerts and dashboards, with where they are.
fn queries() -> Vec<(String, String)> {
    let alerts = alerts().into_iter();
    let mut queries: Vec<(String, String)> = alerts
        .map(|(name, rule)| (name, text(&rule["expr"]).to_owned()))
        .collect();
    for file in files(DASHBOARDS) {
        let source = fs::read_to_string(&file).unwrap();
        let dashboard: Value = serde_json::from_str(&source).unwrap();
        let title = text(&dashboard["title"]);
        let before = queries.len();
        for panel in list(&dashboard["panels"]) {
            for target in list(&panel["targets"]) {
                let place = format!("{title}: {}", text(&panel["title"]));
                queries.push((place, without_variables(text(&target["expr"]))));
            }
        }
        let found = queries.len() - before;
        assert_eq!(found, source.matches("\"expr\":").count(), "{title}");
        let variables = list(&dashboard["templating"]["list"]);
        for variable in variables.filter(|variable| variable["type"] == "query") {
            let place = format!("{title}: ${}", text(&variable["name"]));
            queries.push((place, without_variables(text(&variable["definition"]))));
        }
    }
    assert!(queries.len() > 100, "{} queries", queries.len());
    queries
}

/// A query of a dashboard as Grafana sends it. The query of a variable becomes one of Prometheus.
fn without_variables(query: &str) -> String {
    let label_values = Regex::new(r"^label_values\((.+), (\w+)\)$").unwrap();
    let mut query = label_values
        .replace(query, "count by ($2) ($1)")
        .into_owned();
    for (variable, value) in [
        ("$__rate_interval", "5m"),
        ("$__range", "6h"),
        ("$namespace", ".*"),
        ("$job", ".*"),
        ("$account", ".*"),
    ] {
        query = query.replace(variable, value);
    }
    assert!(!query.contains('$'), "an unknown variable in {query}");
    query
}

/// Runs a command of promtool for rules. The program is the one that `make test` names in the environment, or else the
/// one of the tools script.
fn promtool(command: &str, files: &[PathBuf]) {
    let program = std::env::var_os("PROMTOOL").map_or_else(
        || installed("prometheus").with_file_name("promtool"),
        PathBuf::from,
    );
    let output = Command::new(program)
        .args([command, "rules"])
        .args(files)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn alert_and_dashboard_queries_are_valid() {
    promtool("check", &[checkout(ALERTS)]);
    let queries = queries();
    let rules = queries.iter().enumerate();
    let rules: Vec<Value> = rules
        .map(|(number, (_, query))| json!({"record": format!("query_{number}"), "expr": query}))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yaml");
    // JSON is YAML, too.
    let groups = json!({"groups": [{"name": "queries", "rules": rules}]});
    fs::write(&file, groups.to_string()).unwrap();
    promtool("check", &[file]);
}

/// The names in a query.
#[derive(Debug, Default)]
struct QueryNames {
    /// Each metric with the labels of its selector.
    metrics: Vec<(String, BTreeSet<String>)>,
    /// The labels of `by` and `on`.
    grouping: BTreeSet<String>,
}

impl QueryNames {
    fn parse(query: &str) -> Self {
        let values = Regex::new(r#""[^"]*"|\[[^\]]*\]"#).unwrap();
        let grouping = Regex::new(r"\b(?:by|on)\s*\(([^)]*)\)").unwrap();
        let name = Regex::new(r"([a-zA-Z_]\w*)\s*(\(|\{[^}]*\})?").unwrap();
        let label = Regex::new(r"([a-zA-Z_]\w*)\s*(?:=|!)").unwrap();
        let mut names = Self::default();
        let query = values.replace_all(query, "");
        for found in grouping.captures_iter(&query) {
            let labels = found[1].split(',').map(|label| label.trim().to_owned());
            names.grouping.extend(labels);
        }
        let query = grouping.replace_all(&query, " ");
        for found in name.captures_iter(&query) {
            let selector = found.get(2).map_or("", |selector| selector.as_str());
            if selector != "(" && !OPERATORS.contains(&&found[1]) {
                let labels = label.captures_iter(selector).map(|it| it[1].to_owned());
                names.metrics.push((found[1].to_owned(), labels.collect()));
            }
        }
        names
    }
}

/// The metric with this series.
fn find_metric(series: &str) -> Option<MetricInfo> {
    let has_series = |info: &MetricInfo| match info.kind {
        MetricKind::Histogram(_) => ["_bucket", "_sum", "_count"]
            .into_iter()
            .any(|end| series.strip_suffix(end) == Some(info.name)),
        MetricKind::Counter | MetricKind::Gauge => series == info.name,
    };
    let mut all = Metric::ALL.iter().map(|metric| metric.info());
    all.find(has_series)
}

#[test]
fn queries_use_only_listed_metrics_and_labels() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (place, query) in queries() {
        let names = QueryNames::parse(&query);
        assert!(!names.metrics.is_empty(), "{place}: {query}");
        for (series, labels) in &names.metrics {
            let Some(info) = find_metric(series) else {
                wrong.push(format!("{place}: {series}"));
                continue;
            };
            used.insert(info.name);
            for label in labels.union(&names.grouping) {
                let is_known = info.labels.contains(&label.as_str())
                    || TARGET_LABELS.contains(&label.as_str())
                    || label == "le" && series.ends_with("_bucket");
                if !is_known {
                    wrong.push(format!("{place}: {label} of {series}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(used.len() > 40, "{used:?}");
}

#[test]
fn names_in_a_query_are_found() {
    let query = "sum by (a, le) (rate(x_bucket{b=~\"c\", d!=\"e\"}[5m])) > 0 or on (f)\nmax(y) unless z{} == time()";
    let names = QueryNames::parse(query);
    let metrics: Vec<(&str, Vec<&str>)> = names
        .metrics
        .iter()
        .map(|(name, labels)| (name.as_str(), labels.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        metrics,
        [("x_bucket", vec!["b", "d"]), ("y", vec![]), ("z", vec![])]
    );
    assert!(
        names.grouping.iter().eq(["a", "f", "le"]),
        "{:?}",
        names.grouping
    );
}

#[test]
fn alert_fixtures_pass_and_cover_every_alert() {
    let fixtures = files("tests/fixtures/alerts");
    promtool("test", &fixtures);
    let [mut fires, mut silent, mut restarts] = [(); 3].map(|()| BTreeSet::new());
    for fixture in &fixtures {
        for test in list(&read_yaml(fixture)["tests"]) {
            let checks = || list(&test["alert_rule_test"]);
            let has_series = |is_wanted: fn(&str) -> bool| {
                list(&test["input_series"]).any(|series| is_wanted(text(&series["values"])))
            };
            // The series of one pod end, and after a gap those of another one begin.
            let is_restart =
                has_series(|it| it.ends_with("stale")) && has_series(|it| it.starts_with("_x"));
            for alert in checks().map(|check| text(&check["alertname"]).to_owned()) {
                let is_fired = checks()
                    .filter(|check| check["alertname"] == alert.as_str())
                    .any(|check| list(&check["exp_alerts"]).next().is_some());
                if is_fired {
                    fires.insert(alert);
                } else {
                    if is_restart {
                        restarts.insert(alert.clone());
                    }
                    silent.insert(alert);
                }
            }
        }
    }
    let alerts: BTreeSet<String> = alerts().into_keys().collect();
    assert_eq!(fires, alerts, "alerts that a test expects");
    assert_eq!(silent, alerts, "alerts that a test expects not to fire");
    assert_eq!(restarts, alerts, "alerts that do not fire at a restart");
}

#[test]
fn runbook_anchors_are_troubleshooting_headings() {
    let anchors = anchors(&read_text("docs/troubleshooting.md"));
    for (alert, rule) in alerts() {
        let url = text(&rule["annotations"]["runbook_url"]);
        let anchor = url.strip_prefix("RUNBOOK_BASE_URL/troubleshooting.md#");
        let anchor = anchor.unwrap_or_else(|| panic!("{alert}: {url}"));
        let of_alert: Vec<String> = match anchor {
            ANCHOR_OF_REASON => {
                let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
                reasons.map(str::to_lowercase).collect()
            }
            anchor => vec![anchor.to_owned()],
        };
        let missing: Vec<&String> = of_alert.iter().filter(|a| !anchors.contains(*a)).collect();
        assert!(missing.is_empty(), "{alert}: no heading {missing:?}");
    }
}

/// Renders the chart with these values, in a cluster with or without the Prometheus Operator. The error is Helm's
/// output.
fn render(values: &[&str], has_prometheus_operator: bool) -> Result<Vec<Value>, String> {
    let chart = checkout("deploy/chart");
    let mut arguments = vec!["template", "trial", chart.to_str().unwrap(), IMAGE];
    arguments.extend(["--namespace=metal", "--kube-version=1.36.0"]);
    if has_prometheus_operator {
        arguments.push(MONITORING_API);
    }
    for value in values {
        arguments.extend(["--set", *value]);
    }
    let output = helm_4().run(&arguments);
    if output.status.success() {
        Ok(documents(&String::from_utf8(output.stdout).unwrap()))
    } else {
        Err(said(&output))
    }
}

/// The objects of the Prometheus Operator: the name of each below `monitoring`, and its kind.
const MONITORING: [(&str, &str); 3] = [
    ("serviceMonitor", "ServiceMonitor"),
    ("podMonitor", "PodMonitor"),
    ("prometheusRule", "PrometheusRule"),
];

#[test]
fn render_mode_decides_without_prometheus_operator() {
    for (name, kind) in MONITORING {
        let enabled = format!("monitoring.{name}.enabled=true");
        let render = |mode: &str| {
            let mode = format!("monitoring.renderMode={mode}");
            render(&[&enabled, &mode], false)
        };
        let count = |objects: Vec<Value>| of_kind(&objects, kind).count();
        assert_eq!(render("always").map(count), Ok(1), "{kind}");
        assert_eq!(render("skip").map(count), Ok(0), "{kind}");
        let words = render("fail").unwrap_err();
        let expected =
            format!("monitoring.{name}.enabled is true, but the cluster has no API monitoring");
        assert!(words.contains(&expected), "{words}");
    }
}

#[test]
fn contradictory_monitoring_values_are_refused() {
    for (values, expected) in [
        (
            [
                "monitoring.serviceMonitor.enabled=true",
                "monitoring.podMonitor.enabled=true",
            ],
            "scrapes each pod twice",
        ),
        (
            [
                "monitoring.prometheusRule.enabled=true",
                "metrics.enabled=false",
            ],
            "metrics.enabled is false",
        ),
        (
            [
                "monitoring.prometheusRule.enabled=true",
                "monitoring.prometheusRule.disabledAlerts={FlexmetalNone}",
            ],
            "disabledAlerts has FlexmetalNone, which is none of FlexmetalNoLeader",
        ),
    ] {
        let words = render(&values, true).unwrap_err();
        assert!(words.contains(expected), "{values:?}: {words}");
    }
}

#[test]
fn monitors_find_the_metrics_port() {
    for (name, kind, endpoints) in [
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
    ] {
        let enabled = format!("monitoring.{name}.enabled=true");
        let objects = render(&[&enabled], true).unwrap();
        let find = |kind| of_kind(&objects, kind).next().unwrap();
        let [monitor, service, deployment] = [kind, "Service", "Deployment"].map(find);
        let endpoint = &monitor["spec"][endpoints][0];
        let expected = json!({
            "port": "metrics", "path": "/metrics", "honorLabels": true,
            "interval": "30s", "scrapeTimeout": "10s",
        });
        assert_eq!(*endpoint, expected, "{kind}");

        let pod = &deployment["spec"]["template"];
        let selected = match kind {
            "ServiceMonitor" => &service["metadata"]["labels"],
            _ => &pod["metadata"]["labels"],
        };
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        assert_selects(selector, selected);
        assert_selects(&service["spec"]["selector"], &pod["metadata"]["labels"]);
        let job = text(&monitor["spec"]["jobLabel"]);
        assert_eq!(selected[job], "trial", "{kind}");

        let port = &service["spec"]["ports"][0];
        assert_eq!(port["name"], "metrics");
        assert_eq!(port["targetPort"], "metrics");
        let container = &pod["spec"]["containers"][0];
        let mut ports = list(&container["ports"]);
        let port = ports.find(|port| port["name"] == "metrics").unwrap();
        let listen = format!("--metrics-listen=0.0.0.0:{}", port["containerPort"]);
        let arguments = strings(&container["args"]);
        assert!(arguments.contains(&listen), "{arguments:?}");
    }
}

/// Fails unless an object with these labels is selected.
fn assert_selects(selector: &Value, labels: &Value) {
    let selector = selector.as_object().unwrap();
    assert!(selector.len() > 2, "{selector:?}");
    for (key, value) in selector {
        assert_eq!(labels[key.as_str()], *value, "{key} in {labels}");
    }
}

#[test]
fn rendered_alerts_and_dashboards_match_their_files() {
    let helm = helm_4();
    let values = checkout("deploy/chart/ci/monitoring-values.yaml");
    let objects = helm.template(&values, "metal-system");
    let values = read_yaml(&values);
    let base = text(&values["monitoring"]["runbookBaseURL"]).trim_end_matches('/');
    let disabled = strings(&values["monitoring"]["prometheusRule"]["disabledAlerts"]);
    assert!(!disabled.is_empty());
    let alerts = read_text(ALERTS).replace("RUNBOOK_BASE_URL", base);
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    let alerts = list(&alerts["groups"][0]["rules"]);
    let is_enabled = |rule: &&Value| !disabled.contains(&text(&rule["alert"]).to_owned());
    let expected: Vec<&Value> = alerts.filter(is_enabled).collect();
    let rule = of_kind(&objects, "PrometheusRule").next().unwrap();
    let rendered: Vec<&Value> = list(&rule["spec"]["groups"][0]["rules"]).collect();
    assert_eq!(rendered, expected);

    let mut maps = of_kind(&objects, "ConfigMap");
    let dashboards = maps.next().unwrap()["data"].as_object().unwrap();
    let files = files(DASHBOARDS);
    assert_eq!(dashboards.len(), files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(dashboards[name], fs::read_to_string(&file).unwrap());
    }
    let deployment = of_kind(&objects, "Deployment").next().unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments = strings(&container["args"]);
    for expected in [
        "--metrics-listen=0.0.0.0:9090",
        "--metrics-object-conditions",
    ] {
        assert!(arguments.contains(&expected.to_owned()), "{arguments:?}");
    }
}

/// The schema of a kind, with what kube-state-metrics reads of the metadata.
fn schema_with_metadata(crd: &Value) -> Value {
    let mut schema = root(crd).clone();
    let time = json!({"type": "string", "format": "date-time"});
    schema["properties"]["metadata"] = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "namespace": {"type": "string"},
        "generation": {"type": "integer"}, "creationTimestamp": time, "deletionTimestamp": time,
    }});
    schema
}

/// The schema at a path below this one. Without a path: this one.
fn find_schema<'a>(schema: &'a Value, path: &Value) -> Option<&'a Value> {
    let steps = path.as_array().map_or(&[][..], Vec::as_slice);
    steps.iter().try_fold(schema, |schema, step| {
        let step = step.as_str()?;
        let selector = step.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match selector {
            // The item of a list with this value of a key.
            Some(selector) => {
                let (key, _) = selector.split_once('=')?;
                let item = schema.get("items")?;
                item["properties"].get(key).map(|_| item)
            }
            None => schema["properties"].get(step),
        }
    })
}

fn is_time(schema: &Value) -> bool {
    schema["format"] == "date-time"
}

/// Checks a metric of kube-state-metrics against the schema of its kind. The error says what is wrong.
fn check_state_metric(metric: &Value, schema: &Value) -> Result<(), String> {
    let kind = text(&metric["each"]["type"]);
    let field = format!("{}{}", kind[..1].to_lowercase(), &kind[1..]);
    let each = &metric["each"][field];
    let at = |schema, path: &Value| find_schema(schema, path).ok_or(format!("no {path}"));
    let labels = |labels: &Value| labels.as_object().cloned().unwrap_or_default();
    for (label, path) in labels(&metric["labelsFromPath"]) {
        if at(schema, &path)?["type"] != "string" {
            return Err(format!("label {label} is no text"));
        }
    }
    let found = at(schema, &each["path"])?;
    let element = found.get("items").unwrap_or(found);
    for (label, path) in labels(&each["labelsFromPath"]) {
        let value = at(element, &path)?;
        if value["type"] != "string" || is_time(value) {
            return Err(format!("label {label} is no text"));
        }
    }
    // Otherwise two items have the same series.
    for key in list(&found["x-kubernetes-list-map-keys"]) {
        let mut paths = labels(&each["labelsFromPath"]).into_iter();
        if !paths.any(|(_, path)| path == json!([key])) {
            return Err(format!("no label for the key {key}"));
        }
    }
    let value = at(element, &each["valueFrom"])?;
    let words: BTreeSet<&str> = list(&value["enum"]).map(text).collect();
    let is_right = match kind {
        "Gauge" => {
            let is_number = value["type"] == "integer" || value["type"] == "boolean";
            is_number || is_time(value) || words.iter().eq(&["False", "True", "Unknown"])
        }
        "StateSet" => {
            let listed: BTreeSet<&str> = list(&each["list"]).map(text).collect();
            words == listed
        }
        "Info" => text(&metric["name"]).ends_with("info"),
        _ => false,
    };
    if is_right {
        Ok(())
    } else {
        Err(format!("{kind} of {value}"))
    }
}

#[test]
fn state_metrics_paths_are_in_the_schemas() {
    let config = read_yaml(&checkout("deploy/kube-state-metrics.yaml"));
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    let mut kinds = BTreeMap::new();
    for crd in definitions() {
        kinds.insert(text(&crd["spec"]["names"]["kind"]).to_owned(), crd);
    }
    for resource in list(&config["spec"]["resources"]) {
        let gvk = &resource["groupVersionKind"];
        let kind = text(&gvk["kind"]);
        let crd = kinds.remove(kind).unwrap_or_else(|| panic!("{kind} again"));
        assert_eq!(gvk["group"], crd["spec"]["group"]);
        assert_eq!(gvk["version"], crd["spec"]["versions"][0]["name"]);
        let prefix = format!("kube_flexmetal_{}", kind.to_lowercase());
        assert_eq!(resource["metricNamePrefix"], prefix);
        let schema = schema_with_metadata(&crd);
        let labels = &resource["labelsFromPath"];
        assert_eq!(labels["name"], json!(["metadata", "name"]), "{kind}");
        let has_namespace = labels["namespace"] == json!(["metadata", "namespace"]);
        assert_eq!(
            has_namespace,
            crd["spec"]["scope"] == "Namespaced",
            "{kind}"
        );
        for metric in list(&resource["metrics"]) {
            let name = format!("{prefix}_{}", text(&metric["name"]));
            if let Err(error) = check_state_metric(metric, &schema) {
                wrong.push(format!("{name}: {error}"));
            }
            assert!(names.insert(name.clone()), "{name} again");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(kinds.is_empty(), "no metrics of {:?}", kinds.keys());
    assert!(names.len() > 100, "{} metrics", names.len());
}
