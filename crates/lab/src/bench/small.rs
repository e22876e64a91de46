//! `lab bench-small`: many tags, stored keys and whitelist entries, from apply to Ready, idle, and until deleted.
//! Counts calls with the hosting API's ledger and writes with the API server's audit log.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    alongside, await_quiet, begin_stretch, lines,
    measured::Stretch,
    operator_build, print_progress, process, provider,
    servers::is_ready,
    since,
    world::{BenchWorld, IDLE_POLL, NAMESPACE, PACE},
};
use crate::results::{Figure, publish, table};

const AT_ONCE: usize = 32;
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// More than the largest batch takes at 20 calls a second.
const PHASE_TIMEOUT: Duration = Duration::from_secs(600);
/// Records on a page of a list.
const PAGE: u32 = 50;
/// Most writes of the operator to one object, from its creation to its end.
const WRITES: u32 = 4;
/// Most steps of a whitelist in its status at once.
const STEPS: u32 = 16;

#[derive(Args)]
pub(crate) struct SmallBenchArguments {
    /// How many tags
    #[arg(long, default_value_t = 500)]
    tags: u32,
    /// How many stored keys
    #[arg(long, default_value_t = 200)]
    keys: u32,
    /// How many entries of one whitelist
    #[arg(long, default_value_t = 200)]
    entries: u32,
    /// How long to observe the quiet, in idle poll intervals
    #[arg(long, default_value_t = 4)]
    intervals: u32,
    /// Where the results go, without `.md` and `.json`
    #[arg(long, default_value = "benchmarks/results/small")]
    out: PathBuf,
}

/// The objects of one kind that the run makes.
struct ObjectBatch {
    kind: &'static str,
    resource: &'static str,
    /// Name of the things in messages.
    what: &'static str,
    /// The path of the list that shows them.
    list: &'static str,
    objects: Vec<Value>,
    /// Number of things at the provider.
    things: u32,
}

/// The results of a batch.
struct BatchResult {
    made: Stretch,
    made_in: Duration,
    gone: Stretch,
    gone_in: Duration,
}

/// The report of one run: the content of the JSON file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SmallBenchReport {
    machine: String,
    load_before: String,
    date: String,
    operator: String,
    pace: f64,
    quiet_seconds: f64,
    figures: Vec<Figure>,
    details: BTreeMap<String, BTreeMap<String, u64>>,
    faults: Vec<String>,
}

/// Runs everything and writes the results.
pub(crate) async fn run(arguments: SmallBenchArguments) -> Result<(), Box<dyn Error>> {
    print_progress("Starting control plane, simulator and operator ...");
    let load_before = process::load();
    let mut world = BenchWorld::start(0).await?;
    let measured = measure(&mut world, &arguments, load_before).await;
    if measured.is_err() {
        let log = world.operator_log();
        print_progress(&format!("The operator last said:\n{log}"));
    }
    world.end().await?;
    let run = measured?;
    publish(&arguments.out, &run.markdown(), &run, &run.faults)
}

async fn measure(
    world: &mut BenchWorld,
    arguments: &SmallBenchArguments,
    load_before: String,
) -> Result<SmallBenchReport, Box<dyn Error>> {
    let batches = batches(arguments);
    // Objects made before the account is Ready would report that, with extra writes.
    let accounts = objects_of(world.client.clone(), "ProviderAccount");
    alongside(world, until(&accounts, |all| all.iter().all(is_ready))).await??;
    let mut made = Vec::new();
    for batch in &batches {
        let begin = begin_stretch(world).await?;
        let started = Instant::now();
        let client = world.client.clone();
        alongside(world, batch.make(client)).await??;
        let took = started.elapsed();
        print_progress(&format!(
            "{} {} Ready after {:.1} s.",
            batch.things,
            batch.what,
            took.as_secs_f64()
        ));
        made.push((since(world, &begin).await?, took));
    }
    await_quiet(world).await?;
    let quiet_time = Duration::from_secs_f64(IDLE_POLL * f64::from(arguments.intervals));
    print_progress(&format!(
        "Quiet; observing it for {:.0} s.",
        quiet_time.as_secs_f64()
    ));
    let begin = begin_stretch(world).await?;
    alongside(world, sleep(quiet_time)).await?;
    let quiet = since(world, &begin).await?;
    let mut outcomes = Vec::new();
    for (batch, (made, made_in)) in batches.iter().zip(made) {
        let begin = begin_stretch(world).await?;
        let started = Instant::now();
        let client = world.client.clone();
        alongside(world, batch.end(client)).await??;
        let gone_in = started.elapsed();
        print_progress(&format!(
            "{} {} gone after {:.1} s.",
            batch.things,
            batch.what,
            gone_in.as_secs_f64()
        ));
        let gone = since(world, &begin).await?;
        outcomes.push(BatchResult {
            made,
            made_in,
            gone,
            gone_in,
        });
    }
    let violations = world.provider.violations().await?;
    let faults = violations
        .iter()
        .map(|it| format!("invariant broken: {it}"));
    let mut run = SmallBenchReport {
        machine: process::describe_computer(),
        load_before,
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        operator: operator_build(),
        pace: PACE,
        quiet_seconds: quiet_time.as_secs_f64(),
        figures: Vec::new(),
        details: BTreeMap::new(),
        faults: faults.collect(),
    };
    for (batch, outcome) in batches.iter().zip(&outcomes) {
        run.add(batch, outcome, &quiet, arguments.intervals);
    }
    run.rest(&quiet);
    Ok(run)
}

fn batches(arguments: &SmallBenchArguments) -> Vec<ObjectBatch> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        })
    };
    let tags = (0..arguments.tags).map(|n| object("ServerTag", &format!("tag-{n:04}"), json!({})));
    let keys = (0..arguments.keys).map(|n| {
        let key = format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{n:06}zv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1 bench@example.com");
        let spec = json!({"publicKey": key, "deletionPolicy": "Delete"});
        object("SshKey", &format!("key-{n:04}"), spec)
    });
    let nets = (1..arguments.entries).map(|n| {
        json!({"name": format!("net-{n}"), "cidr": format!("192.0.{}.{}/32", 2 + n / 256, n % 256)})
    });
    let mut entries = vec![json!({"name": "me", "cidr": "127.0.0.0/8"})];
    entries.extend(nets);
    let list = json!({"apiKeyID": 1, "egressCIDRs": ["127.0.0.0/8"], "entries": entries});
    vec![
        ObjectBatch {
            kind: "ServerTag",
            resource: "servertags",
            what: "tags",
            list: "/v3/flexMetal/tags",
            objects: tags.collect(),
            things: arguments.tags,
        },
        ObjectBatch {
            kind: "SshKey",
            resource: "sshkeys",
            what: "keys",
            list: "/v3/sshKey",
            objects: keys.collect(),
            things: arguments.keys,
        },
        ObjectBatch {
            kind: "IpWhitelist",
            resource: "ipwhitelists",
            what: "entries of a whitelist",
            list: "/v3/account/apiKey/{apiKeyId}/whitelist",
            objects: vec![object("IpWhitelist", "list", list)],
            things: arguments.entries,
        },
    ]
}

impl ObjectBatch {
    /// Makes all objects, and waits until they are Ready.
    async fn make(&self, client: Client) -> Result<(), Box<dyn Error>> {
        let api = objects_of(client, self.kind);
        let parameters = PostParams::default();
        let made = stream::iter(&self.objects).map(|object| {
            let (api, parameters) = (&api, &parameters);
            async move {
                let object: DynamicObject = serde_json::from_value(object.clone())?;
                api.create(parameters, &object).await?;
                Ok::<_, Box<dyn Error>>(())
            }
        });
        made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        until(&api, |objects| {
            objects.len() == self.objects.len() && objects.iter().all(is_ready)
        })
        .await
    }

    /// Deletes all objects, and waits until they are gone.
    async fn end(&self, client: Client) -> Result<(), Box<dyn Error>> {
        let api = objects_of(client, self.kind);
        let (parameters, everything) = (DeleteParams::default(), ListParams::default());
        api.delete_collection(&parameters, &everything).await?;
        until(&api, <[_]>::is_empty).await
    }
}

/// The API of one of our kinds.
fn objects_of(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", kind);
    Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind))
}

/// Lists the objects until `is_so` is true.
async fn until(
    api: &Api<DynamicObject>,
    is_so: impl Fn(&[DynamicObject]) -> bool,
) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + PHASE_TIMEOUT;
    loop {
        let shown = api.list(&ListParams::default()).await?.items;
        if is_so(&shown) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let first = serde_json::to_string_pretty(&shown.first())?;
            return Err(format!("not in time, such as {first}").into());
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark, far below 2^52"
)]
impl SmallBenchReport {
    /// The figures of one batch.
    fn add(&mut self, batch: &ObjectBatch, outcome: &BatchResult, quiet: &Stretch, intervals: u32) {
        let (things, objects) = (f64::from(batch.things), batch.objects.len() as f64);
        let writes = outcome.made.writes.clone().and(outcome.gone.writes.clone());
        let reads = quiet.calls.iter();
        let reads = reads
            .filter(|call| call.template.as_deref() == Some(batch.list))
            .count();
        // One more page if the last one is full. A poll may be in progress at each end.
        let budget = f64::from((intervals + 1) * (batch.things / PAGE + 2));
        let BatchResult { made, gone, .. } = outcome;
        let steps = batch.things / u32::try_from(batch.objects.len()).unwrap_or(u32::MAX);
        let most = f64::from(WRITES + 2 * (steps / STEPS));
        let figures = [
            (
                "calls to make one",
                made.calls.len() as f64 / things,
                None,
                format!(
                    "ledger: all {} calls until all were Ready, in {:.1} s",
                    made.calls.len(),
                    outcome.made_in.as_secs_f64()
                ),
            ),
            (
                "calls to delete one",
                gone.calls.len() as f64 / things,
                None,
                format!(
                    "ledger: all {} calls until all were gone, in {:.1} s",
                    gone.calls.len(),
                    outcome.gone_in.as_secs_f64()
                ),
            ),
            (
                "writes an object, all its life",
                writes.total_for_resource(batch.resource) as f64 / objects,
                Some(most),
                format!(
                    "audit log: {} objects; goal: {WRITES}, and one for each {STEPS} steps of a plan",
                    batch.objects.len()
                ),
            ),
            (
                "refused writes an object",
                writes.refused() as f64 / objects,
                None,
                "audit log: conflicts and the like".to_owned(),
            ),
            (
                "pages read in the quiet",
                reads as f64,
                Some(budget),
                format!(
                    "ledger; goal: {} looks at {} records, {PAGE} a page",
                    intervals + 1,
                    batch.things
                ),
            ),
        ];
        for (name, value, goal, how) in figures {
            self.figures.push(Figure {
                name: format!("{} {}: {name}", batch.things, batch.what).into(),
                value,
                unit: "",
                goal,
                how,
            });
        }
        for (when, stretch) in [("making", made), ("deleting", gone)] {
            let (what, calls) = (batch.what, provider::by_kind(&stretch.calls));
            self.details
                .insert(format!("Calls while {when} {what}"), calls);
            self.details.insert(
                format!("Writes while {when} {what}"),
                lines(&stretch.writes),
            );
        }
    }

    /// The figures of the quiet.
    fn rest(&mut self, quiet: &Stretch) {
        let changes = quiet
            .calls
            .iter()
            .filter(|call| call.method != "GET")
            .count();
        for (name, value) in [
            ("Changes in the quiet", changes as f64),
            ("Writes in the quiet", quiet.writes.total() as f64),
        ] {
            self.figures.push(Figure {
                name: name.into(),
                value,
                unit: "",
                goal: Some(0.0),
                how: "ledger and audit log".to_owned(),
            });
        }
        self.details.insert(
            "Calls in the quiet".to_owned(),
            provider::by_kind(&quiet.calls),
        );
    }

    /// The same as a Markdown page.
    fn markdown(&self) -> String {
        let mut text = format!(
            "# Tags, stored keys and entries of a whitelist\n\n\
             Written by `make bench-small`; the JSON file of the same name has the numbers, too.\n\n\
             - Workload: all made, one kind after the other; a quiet time of {:.0} s with all of them; all deleted. A whitelist is \
             one object with all entries.\n\
             - Pace: every interval of the account is a {:.0}th of its default, and the simulator's clock runs {:.0} times as fast. \
             The quiet time stands for {:.0} minutes. The account allows 20 calls a second, as ever.\n\
             - Machine: {}. Control plane, simulator, operator and the benchmark share it. \
             Processes that were ready to run before the start, as a mean over five minutes: {}.\n\
             - Operator: {}. Date: {}.\n\n",
            self.quiet_seconds,
            self.pace,
            self.pace,
            self.quiet_seconds * self.pace / 60.0,
            self.machine,
            self.load_before,
            self.operator,
            self.date,
        );
        text.push_str(&table(&self.figures));
        for (title, lines) in &self.details {
            text.push_str(&format!("\n## {title}\n\n| What | Number |\n|---|---|\n"));
            for (what, number) in lines {
                text.push_str(&format!("| {what} | {number} |\n"));
            }
        }
        text.push_str("\n## Faults\n\n");
        if self.faults.is_empty() {
            text.push_str("None.\n");
        }
        for fault in &self.faults {
            text.push_str(&format!("- {fault}\n"));
        }
        text
    }
}
