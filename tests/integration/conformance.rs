//! `lab conformance` against the simulator: its report names the switches that the simulator has, and nothing that it
//! made remains.

mod clean_up;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use lab::rig::{Fault, Simulator, eventually, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

const SOON: Duration = Duration::from_secs(90);
const SERVERS: &str = "/v3/flexMetal/servers";
/// What the smallest instance type is called; orders that must be refused do not name it.
const SMALLEST: &str = "\"instanceType\":\"bm7.std.8\"";
/// Without a value, the drill orders the smallest instance type.
const CONFIRMED: &str = "--yes-this-costs-money";
/// Shortens the time limits: one hour to 6 s.
const SHORT_LIMITS: &str = "--minute-milliseconds=100";

/// Switches that a complete drill never probes. One that fails or is interrupted shows two of them.
const NEVER_OBSERVED_BY_COMPLETE_DRILL: [&str; 10] = [
    "exhausted",
    "releaseFailed",
    "releaseWhileWaiting",
    "whitelistActive",
    "installKey",
    "installKeyNeeded",
    "installKernelParams",
    "installBusy",
    "factoryParams",
    "resetLoggedIn",
];

/// A simulator with a short life of its servers, and a file with its key.
struct Provider {
    folder: TempDir,
    simulator: Simulator,
}

impl Provider {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let usual = [
            "--delivery-seconds=4",
            "--release-seconds=2",
            "--command-seconds=2",
            "--install-seconds=2",
        ];
        let is_given = |usual: &&&str| {
            let name = usual.split('=').next().unwrap();
            !flags.iter().any(|flag| flag.starts_with(name))
        };
        let usual = usual.iter().filter(is_given);
        let flags: Vec<String> = usual.chain(flags).map(|&flag| flag.to_owned()).collect();
        let simulator = Simulator::start(&flags, &folder.path().join("simulator.log"));
        let key = folder.path().join("key");
        std::fs::write(&key, simulator.api_key()).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        Self { folder, simulator }
    }

    fn start_drill(&self, flags: &[&str]) -> Child {
        Command::new(program("lab"))
            .args([
                "conformance",
                "--base-url",
                self.simulator.api(),
                "--key-file",
            ])
            .arg(self.folder.path().join("key"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    async fn run_drill(&self, flags: &[&str]) -> Drill {
        Drill::end(self.start_drill(flags)).await
    }

    /// Waits until a drill has ordered a server.
    async fn await_order(&self) -> Value {
        eventually("a server is ordered", SOON, async || {
            let live = self.simulator.list_live_servers().await;
            let is_own = |it: &Value| it["name"].as_str().unwrap().starts_with("conformance-");
            live.into_iter().find(is_own)
        })
        .await
    }

    /// Starts a drill, and signals it once it has ordered a server.
    async fn interrupt_drill(&self, signal: Signal, flags: &[&str]) -> Drill {
        let drill = self.start_drill(&[&[CONFIRMED], flags].concat());
        self.await_order().await;
        send_signal(&drill, signal);
        Drill::end(drill).await
    }

    /// Nothing of a drill is left: no server that costs money, no tag, no key.
    async fn assert_clean(&self) {
        let servers = self.simulator.list_live_servers().await;
        let left = |text: &Value| text.as_str().unwrap().starts_with("conformance-");
        assert!(!servers.iter().any(|it| left(&it["name"])), "{servers:?}");
        let tags = self.simulator.records("/v3/flexMetal/tags").await;
        assert!(!tags.iter().any(|it| left(&it["tag"])), "{tags:?}");
        let (_, keys) = self.simulator.call("GET", "/v3/sshKey", None).await;
        let keys = keys.as_array().unwrap();
        assert!(!keys.iter().any(|it| left(&it["name"])), "{keys:?}");
    }

    async fn count_servers(&self) -> usize {
        self.simulator.list_servers().await.len()
    }
}

fn send_signal(drill: &Child, signal: Signal) {
    let pid = i32::try_from(drill.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A drill that has ended.
struct Drill {
    code: i32,
    report: String,
    messages: String,
}

impl Drill {
    async fn end(child: Child) -> Self {
        let ended = tokio::time::timeout(SOON, child.wait_with_output());
        let Output {
            status,
            stdout,
            stderr,
        } = ended.await.expect("the drill ends").unwrap();
        Self {
            code: status.code().expect("an exit code"),
            report: String::from_utf8(stdout).unwrap(),
            messages: String::from_utf8(stderr).unwrap(),
        }
    }

    /// The rows of the table of switches: value and profile by name.
    fn rows(&self) -> BTreeMap<&str, [&str; 2]> {
        let lines = self.report.lines().filter(|line| line.starts_with("| "));
        let rows = lines.skip(1).map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            (cells[0].trim_start_matches("| "), [cells[1], cells[2]])
        });
        rows.collect()
    }
}

/// Plays a drill against a simulator in which each switch has its value with this number, or its first one, unless
/// `set` names another. The report must show these values, except of the switches in `unobserved`.
async fn assert_switches_are_reported(number: usize, set: &[(&str, &str)], unobserved: &[&str]) {
    let provider = Provider::start(&[]);
    let simulator = &provider.simulator;
    let all = simulator.list_switches().await;
    let change = all.iter().map(|switch| {
        let name = switch["name"].as_str().unwrap();
        let values = &switch["values"];
        let usual = values.get(number).unwrap_or(&values[0]).as_str().unwrap();
        let set = set.iter().find(|(given, _)| *given == name);
        (
            name.to_owned(),
            json!(set.map_or(usual, |(_, value)| value)),
        )
    });
    let change: serde_json::Map<String, Value> = change.collect();
    simulator.switches(&Value::Object(change)).await;
    // What another user has, since last month.
    let created = Timestamp::now() - (24 * 40).hours();
    let precious = json!({
        "name": "precious", "tags": ["precious"], "createdAt": created.as_second(),
    });
    let precious = simulator.appear(&precious).await;
    let precious = precious["uuid"].as_str().unwrap();
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let key = json!({"name": "precious", "publicKey": public});
    assert_eq!(
        simulator.call("POST", "/v3/sshKey", Some(&key)).await.0,
        200
    );

    let drill = provider.run_drill(&[CONFIRMED]).await;

    assert_eq!(drill.code, 0, "{}\n{}", drill.report, drill.messages);
    let (rows, mut wrong) = (drill.rows(), Vec::new());
    for switch in simulator.list_switches().await {
        let text = |field: &str| switch[field].as_str().unwrap().to_owned();
        let (name, value) = (text("name"), text("value"));
        let is_unobserved = NEVER_OBSERVED_BY_COMPLETE_DRILL
            .iter()
            .chain(unobserved)
            .any(|it| *it == name);
        let profile = match (value == text("document"), value == text("observed")) {
            _ if is_unobserved => "not observed",
            (true, true) => "document and observed",
            (true, false) => "document",
            (false, true) => "observed",
            (false, false) => "neither",
        };
        let value = if is_unobserved { "-" } else { &*value };
        let row = rows.get(&*name).copied();
        if row != Some([value, profile]) {
            wrong.push(format!("{name}: {row:?}, not {value} of {profile}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", drill.report);
    assert_eq!(rows.len(), all.len());
    provider.assert_clean().await;
    assert_eq!(provider.count_servers().await, 2, "one server was ordered");
    for call in simulator.ledger().await {
        let path = call["path"].as_str().unwrap();
        assert!(
            call["method"] == "GET" || !path.contains(precious),
            "{call}"
        );
    }
    let (_, kept) = simulator.call("GET", "/v3/sshKey", None).await;
    assert_eq!(kept[0]["name"], "precious");
    for address in [
        "192.0.2.",
        "198.51.",
        "203.0.113.",
        "2001:db8",
        simulator.api_key(),
    ] {
        assert!(!drill.report.contains(address), "{}", drill.report);
    }
}

#[tokio::test]
async fn drill_names_first_values_of_switches() {
    assert_switches_are_reported(0, &[], &["creatingFilter"]).await;
}

#[tokio::test]
async fn drill_names_second_values_of_switches() {
    // A list that demands filters shows only the drill's own server.
    assert_switches_are_reported(1, &[], &["listOrder"]).await;
}

#[tokio::test]
async fn drill_names_third_values_of_switches() {
    let set = [("stateView", "long"), ("listOrder", "newestFirst")];
    assert_switches_are_reported(2, &set, &[]).await;
}

#[tokio::test]
async fn unconfirmed_drill_sends_only_reads() {
    let provider = Provider::start(&[]);
    let drill = provider.run_drill(&[]).await;
    assert_eq!(drill.code, 2, "{}", drill.messages);
    let server = "bm7.std.8 at EU: Rotterdam";
    let quoted = format!("{CONFIRMED}='{server}'");
    assert!(drill.report.contains(&quoted), "{}", drill.report);
    let stock = provider
        .simulator
        .stock("EU: Rotterdam", "bm7.std.8", Some(0));
    stock.await;
    let drill = provider
        .run_drill(&[&format!("{CONFIRMED}={server}")])
        .await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    assert!(drill.messages.contains(server), "{}", drill.messages);
    let counts = provider.simulator.counts().await;
    assert!(!counts.is_empty());
    assert!(
        counts.keys().all(|call| call.starts_with("GET ")),
        "{counts:?}"
    );
}

#[tokio::test]
async fn drill_refuses_key_that_others_can_read() {
    let provider = Provider::start(&[]);
    let key = provider.folder.path().join("key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    let drill = provider.run_drill(&[]).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    assert!(drill.messages.contains("chmod 600"), "{}", drill.messages);
    assert!(provider.simulator.counts().await.is_empty());
}

#[tokio::test]
async fn drill_orders_what_was_confirmed() {
    let provider = Provider::start(&[]);
    let confirmed = "bm7.std.8 at JP: Tokyo";
    let flag = format!("--yes-this-costs-money={confirmed}");
    let drill = provider.start_drill(&[&flag]);
    let server = provider.await_order().await;
    send_signal(&drill, Signal::HUP);
    let drill = Drill::end(drill).await;
    assert_eq!(server["location"]["name"], "JP: Tokyo");
    assert!(drill.messages.contains(confirmed), "{}", drill.messages);
    provider.assert_clean().await;
}

#[tokio::test]
async fn drill_tells_refusal_from_missing_answer() {
    let unanswered = Fault::new("dropBefore").on("GET", SERVERS);
    // Two reads of the catalogue come first.
    let refused = Fault::new(json!({"refuse": {"status": 403, "message": "no"}}));
    let refused = refused.on("GET", "/v3/*").after(2);
    for (fault, text) in [
        (
            unanswered,
            "no answer shows whether the hosting API accepts the key: ",
        ),
        (refused, "the hosting API rejects the key with 403"),
    ] {
        let provider = Provider::start(&[]);
        provider.simulator.fault(fault).await;
        let drill = provider.run_drill(&[CONFIRMED]).await;
        assert_eq!(drill.code, 1, "{}", drill.messages);
        assert!(drill.report.contains(text), "{}", drill.report);
        assert_eq!(provider.count_servers().await, 0);
    }
}
