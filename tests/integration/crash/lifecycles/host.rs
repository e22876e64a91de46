//! A dedicated host: observed, installed by a higher revision, restarted, powered off, and left unchanged at the end.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::{TargetApi, TracePosition},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};

const OBSERVE: usize = 0;
const INSTALL: usize = 1;
const RESTART: usize = 2;
const SWITCH: usize = 3;
/// The kind that restarts it.
const COMMAND: &str = "ServerCommand";
/// The host of each world.
const HOST: &str = "/v3/host/1001";
/// The key for its installation, stored before the first lifecycle.
const KEY: &str = "of-hosts";
/// A status write about neither an installation nor the desired power state.
const WRITE: &str = "PATCH dedicatedhosts/status";
/// The event that a host is Ready.
const AVAILABLE: &str = "POST events (Available)";
const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z hosts";

pub(super) struct HostLifecycle;

impl Lifecycle for HostLifecycle {
    fn kind(&self) -> &'static str {
        "DedicatedHost"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Observe", "Install", "Restart", "Switch", "Delete"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "Observe",
                "cluster PATCH dedicatedhosts/status (installation seen) #1",
            ),
            ("Install", "cluster PATCH dedicatedhosts/status (noted) #1"),
            ("Install", "hosting POST host/{id}/os/install #1"),
            (
                "Install",
                "cluster PATCH dedicatedhosts/status (answered) #1",
            ),
            ("Install", "cluster PATCH dedicatedhosts/status (ended) #1"),
            ("Restart", "cluster PATCH servercommands #1"),
            ("Restart", "cluster PATCH servercommands/status #2"),
            ("Restart", "hosting PUT host/{id}/restart #1"),
            ("Restart", "cluster PATCH servercommands/status #3"),
            (
                "Switch",
                "cluster PATCH dedicatedhosts/status (wish noted) #1",
            ),
            ("Switch", "cluster POST servercommands #1"),
            ("Switch", "hosting PUT host/{id}/stop #1"),
        ]
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let things = proxied.world.things(self.kind());
            let word = match phase {
                OBSERVE => {
                    store_key(proxied).await;
                    things.create(&object(name)).await;
                    return;
                }
                INSTALL => json!({"install": {"revision": 1}}),
                RESTART => {
                    let commands = proxied.world.things(COMMAND);
                    commands.create(&restart(name)).await;
                    return;
                }
                SWITCH => json!({"power": "PoweredOff"}),
                _ => {
                    proxied.world.things(COMMAND).delete(name).await;
                    return things.delete(name).await;
                }
            };
            things.merge(name, &json!({ "spec": word })).await;
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let things = proxied.world.things(self.kind());
            let mut findings = Findings::new();
            let mut is_unknown = false;
            if phase > SWITCH {
                things.wait_gone(name, AT_ITS_END).await;
            } else if phase == RESTART {
                let commands = proxied.world.things(COMMAND);
                let over = commands.wait_for(name, "over", AT_ITS_END, check_ended_command);
                findings.extend(over.await);
            } else {
                let ended = |object: &Value| is_over(object, phase).then(|| object.clone());
                let what = self.phases()[phase];
                let object = things.wait_for(name, what, AT_ITS_END, ended).await;
                is_unknown = object["status"]["power"]["command"]["reason"] == "OutcomeUnknown";
                if phase == INSTALL {
                    findings.extend(check_installed_once(proxied, &object, before).await);
                }
            }
            findings.extend(judge::check_at_any_time(&proxied.world).await);
            findings.extend(check_sent_calls(proxied, phase));
            // The operator does not send a lost call again, and the command reports an unknown outcome.
            let runs = phase == SWITCH && get_provider_host(proxied).await["status"] != "stopped";
            if runs && !is_unknown {
                findings.push("it is told to be off, and runs".to_owned());
            }
            (json!({"had": count_installs(proxied).await}), findings)
        }
        .boxed_local()
    }

    /// Does not count the key, stored once, or status writes at the operator's own pace. The event of a switched host
    /// shows the provider's status: `running` repeats an earlier event, `stopped` is a new one.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        let place = &seen[index];
        let is_by_chance = phase == SWITCH && place.kind == AVAILABLE;
        !place.is_read() && !place.kind.ends_with(" sshKey") && place.kind != WRITE && !is_by_chance
    }
}

fn object(name: &str) -> Value {
    let system = json!({"slug": "debian-13"});
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
        "metadata": {"name": name},
        "spec": {
            "hostID": 1001, "power": "PoweredOn",
            "install": {"revision": 0}, "os": system, "sshKeyRef": {"name": KEY},
        },
    })
}

/// A restart of this lifecycle's host.
fn restart(name: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": COMMAND, "metadata": {"name": name},
        "spec": {"targetRef": {"kind": "DedicatedHost", "name": name}, "action": "Reboot"},
    })
}

/// The faults of a command's result, once it has ended.
fn check_ended_command(object: &Value) -> Option<Findings> {
    let is = |kind| lab::rig::condition(object, kind).filter(|c| c["status"] == "True");
    let is_free = object["metadata"]["finalizers"].is_null();
    let failed = is("Failed").filter(|failed| failed["reason"] != "OutcomeUnknown");
    let wrong = failed.map(|failed| format!("it failed: {failed}"));
    let is_over = is("Complete").is_some() || is("Failed").is_some();
    (is_over && is_free).then(|| wrong.into_iter().collect())
}

async fn store_key(proxied: &ProxiedWorld) {
    let quick = json!({"installSeconds": 1});
    proxied.world.simulator.settings(&quick).await;
    let keys = proxied.world.things("SshKey");
    if keys.get(KEY).await.is_none() {
        let key = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
            "metadata": {"name": KEY}, "spec": {"publicKey": PUBLIC_KEY},
        });
        keys.create(&key).await;
    }
    keys.wait_ready(KEY, AT_ITS_END).await;
}

/// Whether the phase has ended, successfully or not.
fn is_over(object: &Value, phase: usize) -> bool {
    let status = &object["status"];
    let records = &status["records"];
    let power = &records["power"];
    match phase {
        OBSERVE => {
            let ready = lab::rig::condition(object, "Ready");
            let is_recorded =
                !records["install"]["log"].is_null() && power["desired"] == "PoweredOn";
            is_recorded && ready.is_some_and(|ready| ready["status"] == "True")
        }
        INSTALL => {
            let last = &status["install"]["last"];
            last["revision"] == 1 && last["result"].is_string()
        }
        _ => {
            let state = &power["command"]["state"];
            let is_off = state == "Complete" && status["providerStatus"] == "stopped";
            power["desired"] == "PoweredOff" && (is_off || state == "Failed")
        }
    }
}

/// Checks the calls that a phase sends: its one call, at most once, and none in the last phase.
fn check_sent_calls(proxied: &ProxiedWorld, phase: usize) -> Findings {
    let sort = match phase {
        INSTALL => "POST host/{id}/os/install",
        RESTART => "PUT host/{id}/restart",
        SWITCH => "PUT host/{id}/stop",
        _ => "",
    };
    let seen = proxied.trace.seen();
    let changes = seen
        .iter()
        .filter(|place| place.api == TargetApi::Hosting && !place.is_read())
        .filter(|place| place.kind.contains("host/"));
    let (as_asked, others): (Vec<&TracePosition>, Vec<&TracePosition>) =
        changes.partition(|place| place.kind == sort);
    let mut findings: Findings = others.iter().map(|it| format!("{it} was sent")).collect();
    if as_asked.len() > 1 {
        findings.push(format!("{sort} was sent {} times", as_asked.len()));
    }
    findings
}

/// Checks that the reported result is true: the host was installed once, or the outcome is unknown.
async fn check_installed_once(proxied: &ProxiedWorld, object: &Value, before: &Value) -> Findings {
    let had = count_installs(proxied).await - before["had"].as_u64().unwrap_or_default();
    let end = &object["status"]["install"]["last"]["result"];
    let is_so = match end.as_str() {
        Some("Finished") => had == 1,
        Some("Unknown") => had <= 1,
        _ => false,
    };
    match is_so {
        true => Findings::new(),
        false => vec![format!(
            "it ended as {end}, and the host was installed {had} times"
        )],
    }
}

/// How many installations the host has had.
async fn count_installs(proxied: &ProxiedWorld) -> u64 {
    let log = format!("{HOST}/os/installLog");
    let lines = proxied.world.simulator.records(&log).await;
    let asked = lines
        .iter()
        .filter(|line| line["issueDescription"] == "Installation requested");
    asked.count() as u64
}

async fn get_provider_host(proxied: &ProxiedWorld) -> Value {
    let (status, answer) = proxied.world.simulator.call("GET", HOST, None).await;
    assert_eq!(status, 200, "{answer}");
    answer.get(0).cloned().unwrap_or(answer)
}
