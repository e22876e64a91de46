//! The metrics of the operator: each is moved, only the leader has those of accounts and objects, and a scrape stays
//! small.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use flexmetal_operator::runtime::metrics::{Metric, MetricInfo, MetricKind, Scope};
use futures::future::join_all;
use regex::Regex;
use serde_json::{Value, json};

use super::{
    RETAINED_TAG, SERVERS, SOON, build_server, get_server_of, set_account_spec, start_with_proxy,
    text, whitelists::build_whitelist,
};
use crate::cluster_faults::rules::ProxyFault;
use lab::rig::{
    Cluster, Fault, Operator, Start, World, WorldOptions, cluster, eventually, quick_timing, server,
};

/// Most bytes of a scrape with 10 accounts and 1,000 servers.
const LARGEST_SCRAPE: usize = 300 * 1024;
/// What other tests move: unit tests the work queue and the bound of series, and the test of failed watches below.
const MOVED_ELSEWHERE: [Metric; 6] = [
    Metric::ActiveWorkers,
    Metric::QueueDepth,
    Metric::QueueOldest,
    Metric::QueueRetries,
    Metric::SeriesDropped,
    Metric::WatchFailures,
];

// Compiled once: a scrape has hundreds of lines.
static LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^([a-z_]+)(?:\{(.*)\})? ([^ ]+)$"#).unwrap());
static LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"([a-z_]+)="((?:[^"\\]|\\.)*)""#).unwrap());

/// A line of a scrape: name, labels and value.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Sample {
    fn parse(line: &str) -> Self {
        let found = LINE.captures(line).unwrap_or_else(|| panic!("{line}"));
        let labels = found.get(2).map_or("", |labels| labels.as_str());
        let labels = LABEL.captures_iter(labels);
        Self {
            name: found[1].to_owned(),
            labels: labels.map(|l| (l[1].to_owned(), l[2].to_owned())).collect(),
            value: found[3].parse().unwrap_or_else(|_| panic!("{line}")),
        }
    }

    /// The metric that this is a line of.
    fn metric(&self) -> Option<Metric> {
        let is_line_of = |info: &MetricInfo| match info.kind {
            MetricKind::Histogram(_) => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| self.name.strip_suffix(end) == Some(info.name)),
            MetricKind::Counter | MetricKind::Gauge => self.name == info.name,
        };
        let all = Metric::ALL.iter().copied();
        all.into_iter().find(|metric| is_line_of(&metric.info()))
    }

    fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

async fn scrape(operator: &Operator) -> Vec<Sample> {
    let text = eventually("metrics are served", SOON, async || operator.scrape().await).await;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(Sample::parse).collect()
}

/// The highest value of each metric so far.
#[derive(Default)]
struct Highest(BTreeMap<Metric, f64>);

impl Highest {
    /// Waits for a sample of this metric that is as `is_wanted` says.
    async fn wait(
        &mut self,
        world: &mut World,
        metric: Metric,
        is_wanted: impl Fn(&Sample) -> bool,
    ) {
        let highest = &mut self.0;
        let operator = world.operator();
        let what = format!("{} is as expected", metric.info().name);
        eventually(&what, SOON, async || {
            let samples = scrape(operator).await;
            let mut is_there = false;
            for sample in &samples {
                let of = sample
                    .metric()
                    .unwrap_or_else(|| panic!("{} is not listed", sample.name));
                check_labels(sample, &of.info());
                let value = highest.entry(of).or_insert(sample.value);
                *value = value.max(sample.value);
                is_there |= of == metric && is_wanted(sample);
            }
            is_there.then_some(())
        })
        .await;
    }
}

fn check_labels(sample: &Sample, info: &MetricInfo) {
    let mut expected: BTreeSet<&str> = info.labels.iter().copied().collect();
    if sample.name.ends_with("_bucket") {
        expected.insert("le");
    }
    let found: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
    assert_eq!(found, expected, "{}", sample.name);
}

fn is_above_zero(sample: &Sample) -> bool {
    sample.value > 0.0
}

/// An account in the world's namespace for an account of the simulator. `key`: the key in its Secret.
async fn add_account(world: &World, name: &str, key: &str) {
    world
        .simulator
        .add_account(name, &format!("key-of-{name}"))
        .await;
    world.write_secret(&format!("key-{name}"), key).await;
    let url = world.simulator.api();
    let secret = format!("key-{name}");
    world
        .write_account_as(name, &secret, url, &quick_timing())
        .await;
}

/// Servers that no object owns: of this cluster, of nobody, and a second one of an object.
async fn add_strange_servers(world: &World, twin_tags: &Value) {
    let cluster = format!("fmo-cluster:{}", world.cluster_id);
    let order_tag = format!("{}{}", super::ORDER_TAG, "f".repeat(52));
    for server in [
        json!({"name": "lost", "tags": [cluster, order_tag]}),
        json!({"name": "stranger"}),
        json!({"name": "twin", "tags": twin_tags}),
    ] {
        world.simulator.appear(&server).await;
    }
}

#[tokio::test]
async fn every_metric_is_moved() {
    let plan = WorldOptions {
        operator: vec!["--metrics-object-conditions".to_owned()],
        // Orphans are only known where all namespaces are watched.
        watch_namespace: false,
        ..WorldOptions::default()
    };
    let cluster = Cluster::own();
    let mut world = World::prepare(&cluster, "metrics", plan).await;
    // A server that others have used for 20 hours, for the usage; its password is not there.
    let then = jiff::Timestamp::now().as_second() - 20 * 3600;
    let windows = json!({"name": "near", "os": "windows-2022", "createdAt": then});
    let windows = text(&world.simulator.appear(&windows).await["uuid"]);
    let none = json!({"refuse": {"status": 404, "message": "there is none"}});
    let path = format!("{SERVERS}/{windows}/rootPassword");
    world
        .simulator
        .fault(Fault::new(none).on("GET", &path))
        .await;
    for (name, fault) in [
        (
            "limited",
            json!({"status": {"code": 429, "retryAfter": 60}}),
        ),
        ("down", json!({"status": {"code": 503}})),
    ] {
        add_account(&world, name, &format!("key-of-{name}")).await;
        world
            .simulator
            .fault(Fault::new(fault).for_account(name))
            .await;
    }
    add_account(&world, "refused", "another-key").await;
    world.start_operator();
    let spec = json!({
        "usage": "Enabled", "limits": {"maxServers": 50, "maxOrdersPerHour": 100},
        "releaseLimit": {"maxReleases": 1, "window": "1h"},
    });
    set_account_spec(&world, "default", &spec).await;
    let password = json!({
        "os": {"slug": "windows-2022"}, "sshKeys": [], "externalID": windows,
        "rootPassword": {"secretRef": {"name": "near-password"}},
    });
    world.create(&build_server("near", &password)).await;
    let entries = json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]});
    world
        .things("IpWhitelist")
        .create(&build_whitelist("list", &entries))
        .await;
    for name in ["web", "one", "two"] {
        world.create(&server(name)).await;
    }
    let retained = build_server("kept", &json!({"deletionPolicy": "Retain"}));
    world.create(&retained).await;
    for name in ["web", "one", "two", "kept"] {
        world.wait_ready(name, SOON).await;
    }
    let mut seen = Highest::default();
    let label = format!("{}/default", world.namespace);
    let of_default = |sample: &Sample| sample.label("account") == label;
    let is = |name: &'static str, value: &'static str| {
        move |sample: &Sample| sample.label(name) == value && sample.value > 0.0
    };

    seen.wait(&mut world, Metric::Orders, |s| {
        of_default(s) && s.label("outcome") == "Created" && s.value == 4.0
    })
    .await;
    seen.wait(&mut world, Metric::ProvisioningTime, |s| {
        s.name.ends_with("_count") && s.label("location") == "EU: Rotterdam" && s.value >= 4.0
    })
    .await;
    seen.wait(&mut world, Metric::Leader, is_above_zero).await;
    seen.wait(&mut world, Metric::UsageHours, |s| {
        s.label("month") == "current" && s.value >= 1.0
    })
    .await;
    seen.wait(&mut world, Metric::UsageEgress, is_above_zero)
        .await;
    seen.wait(&mut world, Metric::WhitelistCoversOperator, is_above_zero)
        .await;
    seen.wait(&mut world, Metric::RootPasswordTimeLeft, is_above_zero)
        .await;
    seen.wait(&mut world, Metric::ObjectCondition, is("name", "web"))
        .await;
    seen.wait(&mut world, Metric::QuotaAllowed, is_above_zero)
        .await;
    seen.wait(&mut world, Metric::QuotaUsed, is_above_zero)
        .await;
    seen.wait(
        &mut world,
        Metric::LimitUsed,
        is("limit", "maxOrdersPerHour"),
    )
    .await;
    let limited = format!("{}/limited", world.namespace);
    seen.wait(&mut world, Metric::RateLimited, |s| {
        s.label("account") == limited && s.value > 0.0
    })
    .await;
    seen.wait(&mut world, Metric::RateLimiterQueue, |s| {
        s.label("account") == limited && s.value > 0.0
    })
    .await;
    seen.wait(&mut world, Metric::RateLimiterOldest, is_above_zero)
        .await;
    let down = format!("{}/down", world.namespace);
    seen.wait(&mut world, Metric::Unreachable, |s| {
        s.label("account") == down && s.value > 0.0
    })
    .await;
    let refused = format!("{}/refused", world.namespace);
    seen.wait(&mut world, Metric::CredentialsAccepted, |s| {
        s.label("account") == refused && s.value == 0.0
    })
    .await;

    let own_tags = get_server_of(&world, &world.get("web").await.unwrap()).await["tags"].clone();
    add_strange_servers(&world, &own_tags).await;
    world.delete("kept").await;
    world.wait_gone("kept", SOON).await;
    for metric in [
        Metric::Orphans,
        Metric::OldestOrphan,
        Metric::DuplicateServers,
        Metric::RetainedServers,
        Metric::UnmanagedServers,
    ] {
        seen.wait(&mut world, metric, |s| of_default(s) && s.value > 0.0)
            .await;
    }
    // One release begins, and the limit makes the other wait.
    join_all(["one", "two"].map(|name| world.delete(name))).await;
    seen.wait(
        &mut world,
        Metric::ReleasesWaiting,
        is("reason", "ReleaseLimited"),
    )
    .await;
    seen.wait(&mut world, Metric::ReleaseLimitEngaged, is_above_zero)
        .await;
    seen.wait(&mut world, Metric::Releases, is("result", "Accepted"))
        .await;
    // An order that is lost on its way, and a delivery that takes long.
    let lost = Fault::new("dropBefore").on("POST", SERVERS).times(1);
    let lost_rule = world.simulator.fault(lost).await;
    world.create(&server("unheard")).await;
    world
        .simulator
        .wait_for_fault_hits(lost_rule, 1, SOON)
        .await;
    // Without lists the operator cannot settle the order, however late the next scrape is.
    let refused = json!({"refuse": {"status": 503, "message": "no"}});
    let lists = Fault::new(refused).on("GET", SERVERS);
    let lists = world.simulator.fault(lists).await;
    seen.wait(&mut world, Metric::Orders, is("outcome", "OutcomeUnknown"))
        .await;
    seen.wait(&mut world, Metric::OldestUnknownOrder, is_above_zero)
        .await;
    world.simulator.end_fault(lists).await;
    world.wait_ready("unheard", SOON).await;
    world
        .simulator
        .settings(&json!({"deliverySeconds": [3600, 3600]}))
        .await;
    world.create(&server("slow")).await;
    seen.wait(&mut world, Metric::OldestProvisioning, is_above_zero)
        .await;

    let moved = |metric: &Metric| seen.0.get(metric).is_some_and(|highest| *highest > 0.0);
    let expected = Metric::ALL
        .iter()
        .filter(|it| !MOVED_ELSEWHERE.contains(it));
    let unmoved: Vec<_> = expected.filter(|metric| !moved(metric)).collect();
    assert!(unmoved.is_empty(), "{unmoved:?} are not moved");
    check_no_identifier(&mut world).await;
}

/// No label has a UUID, a tag, a host name or a URL.
async fn check_no_identifier(world: &mut World) {
    let servers = world.simulator.list_servers().await;
    let text = world.operator().scrape().await.expect("metrics are served");
    // The names of objects are host names here, and allowed in the gauge of conditions.
    let lines = text
        .lines()
        .filter(|line| !line.starts_with(Metric::ObjectCondition.info().name));
    let text: String = lines.collect();
    for server in &servers {
        let uuid = super::text(&server["uuid"]);
        assert!(!text.contains(&uuid), "{uuid}");
        let name = format!("\"{}\"", super::text(&server["name"]));
        assert!(!text.contains(&name), "{name}");
    }
    for part in ["fmo-", "http:", RETAINED_TAG] {
        assert!(!text.contains(part), "{part}");
    }
}

#[tokio::test]
async fn failed_watch_is_counted_by_kind() {
    let (mut world, proxy) = start_with_proxy("watches", WorldOptions::default()).await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    proxy.fault(ProxyFault::Refuse(500), |call| call.watches());
    proxy.cut_watches();
    let is_server =
        |sample: &Sample| sample.label("kind") == "BareMetalServer" && sample.value > 0.0;
    let mut seen = Highest::default();
    seen.wait(&mut world, Metric::WatchFailures, is_server)
        .await;
    proxy.clear_faults();
}

#[tokio::test]
async fn standby_has_no_gauges_of_accounts() {
    let mut world = World::start(cluster(), "standby").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let start = Start {
        pod: "second".to_owned(),
        ..world.start_of_operator().clone()
    };
    let standby = Operator::start(start, &world.folder().join("second.log"));
    let is_of_leader = |sample: &Sample| {
        sample
            .metric()
            .is_some_and(|metric| metric.info().scope != Scope::Every)
    };
    let leader = |samples: &[Sample]| {
        let mut leaders = samples
            .iter()
            .filter(|s| s.metric() == Some(Metric::Leader));
        leaders.next().map(|sample| sample.value)
    };
    eventually("the standby watches", SOON, async || {
        let samples = scrape(&standby).await;
        let events = samples
            .iter()
            .filter(|s| s.metric() == Some(Metric::WatchLastEvent));
        (events.count() > 5).then_some(())
    })
    .await;
    let samples = scrape(&standby).await;
    assert_eq!(leader(&samples), Some(0.0));
    let shown: Vec<_> = samples
        .iter()
        .filter(|sample| is_of_leader(sample))
        .collect();
    assert!(
        shown.is_empty(),
        "{:?}",
        shown.iter().map(|s| &s.name).collect::<Vec<_>>()
    );
    let samples = scrape(world.operator()).await;
    assert_eq!(leader(&samples), Some(1.0));
    assert!(samples.iter().any(is_of_leader));
}

#[tokio::test]
async fn scrape_of_thousand_servers_is_small() {
    const ACCOUNTS: usize = 10;
    const EACH: usize = 100;
    let places = [
        "EU: Rotterdam",
        "US: Ashburn - VA",
        "JP: Tokyo",
        "HK: Hong Kong",
    ];
    let kinds = ["bm7.std.8", "bm8.std.32", "bm9.std.32", "bm9.hmm.32"];
    let states = ["delivered", "failed", "releasing"];
    let mut world = World::prepare(cluster(), "scrape", WorldOptions::default()).await;
    let cluster = format!("fmo-cluster:{}", world.cluster_id);
    for account in 0..ACCOUNTS {
        let name = format!("account-{account}");
        add_account(&world, &name, &format!("key-of-{name}")).await;
        let all = (0..EACH).map(|number| {
            json!({
                "name": format!("server-{number}"), "tags": [cluster],
                "location": places[number % places.len()], "instanceType": kinds[number / 7 % kinds.len()],
                "status": states[number % states.len()],
            })
        });
        for server in all {
            world.simulator.appear_of(&name, &server).await;
        }
    }
    world.start_operator();
    let samples = eventually("all servers are counted", SOON, async || {
        let samples = scrape(world.operator()).await;
        let servers = samples
            .iter()
            .filter(|s| s.metric() == Some(Metric::Servers));
        let count: f64 = servers.map(|sample| sample.value).sum();
        (count >= 1_000.0).then_some(samples)
    })
    .await;
    assert!(samples.len() < 2_500, "{} series", samples.len());
    let text = world.operator().scrape().await.expect("metrics are served");
    assert!(text.len() <= LARGEST_SCRAPE, "{} bytes", text.len());
    let dropped = samples
        .iter()
        .any(|s| s.metric() == Some(Metric::SeriesDropped));
    assert!(!dropped, "a series was left out");
}
