//! The demo, as `make demo` and `make demo-down` run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use lab::rig::{eventually, program};

const SOON: Duration = Duration::from_secs(30);

/// A demo in its own folder. It ends when dropped, also when a test fails.
struct Demo {
    folder: PathBuf,
}

impl Demo {
    fn step(&self, step: &str) -> Output {
        Command::new(program("lab"))
            .args(["demo", step])
            .env("FLEXMETAL_DEMO_DIR", &self.folder)
            // A proxy that does not answer: the demo runs on localhost only.
            .envs(["HTTPS_PROXY", "HTTP_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
            .output()
            .expect("the laboratory can be started")
    }

    /// Runs a step that must succeed, and returns its output.
    fn step_ok(&self, step: &str) -> String {
        let output = self.step(step);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{step}: {said}\n{errors}");
        said
    }

    fn state(&self) -> Value {
        let text = std::fs::read(self.folder.join("demo.json")).expect("the demo is up");
        serde_json::from_slice(&text).expect("demo.json is JSON")
    }

    /// The keeper first, then the other processes by name.
    fn processes(&self) -> Vec<(String, i32)> {
        let state = self.state();
        let id = |value: &Value| i32::try_from(value.as_i64().unwrap()).unwrap();
        let mut all = vec![("keeper".to_owned(), id(&state["pid"]))];
        for part in state["parts"].as_array().unwrap() {
            all.push((part[0].as_str().unwrap().to_owned(), id(&part[1])));
        }
        all
    }
}

impl Demo {
    /// Runs the commands that the demo prints as its user would, in one shell, and checks their output.
    fn run_shown_commands(&self, said: &str) {
        let (_, shown) = said.split_once("Next steps").unwrap();
        let (steps, _) = shown.split_once("Finally:").unwrap();
        let lines = steps.lines().filter_map(|line| line.strip_prefix("  "));
        // The plugin ends with 3 if something needs attention or would change.
        let commands: Vec<String> = lines
            .map(
                |line| match line.split_once('#').map_or(line, |(line, _)| line) {
                    plugin if plugin.starts_with("kubectl flexmetal ") => {
                        format!("{plugin} || test $? = 3")
                    }
                    _ => line.to_owned(),
                },
            )
            .collect();
        assert!(commands.len() >= 16, "{commands:?}");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &commands.join("\n")])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}\n{errors}");
        for expected in ["InvalidSpec", "bm7.std.8", "NoStock"] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
        self.assert_no_future_times();
        // Each server was ordered once, despite the lost answers.
        let servers = self.list_servers();
        for name in ["misspelt", "lost-answer", "sold-out"] {
            let ordered = servers.iter().filter(|server| server["name"] == name);
            assert_eq!(ordered.count(), 1, "{name}: {servers:?}");
        }
        // Nothing remains that would change the output of the task pages.
        let output = Command::new("bash")
            .args(["-ec", r#". "$1"; kubectl get bms -o name"#, "bash"])
            .arg(self.folder.join("env"))
            .output()
            .unwrap();
        let left = String::from_utf8_lossy(&output.stdout);
        let left: Vec<&str> = left.lines().collect();
        let of_the_demo =
            ["database", "web"].map(|name| format!("baremetalserver.flexmetal.dev/{name}"));
        assert_eq!(left, of_the_demo);
    }

    /// The simulator's servers, from the address that the demo prints.
    fn list_servers(&self) -> Vec<Value> {
        let script = r#". "$1"; curl -sf "$SIMULATOR/_simulator/machines""#;
        let output = Command::new("bash")
            .args(["-ec", script, "bash"])
            .arg(self.folder.join("env"))
            .output()
            .unwrap();
        let servers: Value = serde_json::from_slice(&output.stdout).unwrap();
        let list = servers.as_array().or(servers["machines"].as_array());
        list.unwrap().clone()
    }

    fn assert_no_future_times(&self) {
        let now = u64::try_from(Timestamp::now().as_second()).unwrap();
        let mut seen = 0;
        for server in self.list_servers() {
            for time in ["createdAt", "deliveredAt"] {
                let Some(at) = server[time].as_u64().filter(|at| *at > 0) else {
                    continue;
                };
                assert!(at <= now, "{time} of {server}");
                seen += 1;
            }
        }
        assert!(seen >= 6, "{:?}", self.list_servers());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if self.folder.exists() {
            self.step("down");
        }
    }
}

#[tokio::test]
async fn demo_starts_recovers_and_cleans_up() {
    let parent = tempfile::tempdir().unwrap();
    let demo = Demo {
        folder: parent.path().join("demo"),
    };

    let said = demo.step_ok("up");
    let page = said.lines().find(|line| line.contains("/_simulator/"));
    let (page, ready) = (said.find(page.unwrap()), said.find("All objects are Ready"));
    assert!(page < ready, "the page comes first: {said}");
    assert_three_ready(&said, &demo.folder);
    let first = demo.processes();
    let parts = "keeper, control plane, simulator, operator, Prometheus";
    assert_eq!(first.len(), 7, "{parts}: {first:?}");

    demo.run_shown_commands(&said);

    let said = demo.step_ok("up");
    assert!(said.contains("used again"), "{said}");
    assert_three_ready(&said, &demo.folder);
    assert_eq!(demo.processes(), first, "no process was started again");

    // If one process dies, the keeper ends the others, and the next run detects it.
    let operator = first.iter().find(|each| each.0 == "flexmetal-operator");
    signal(operator.unwrap().1, Signal::KILL);
    eventually("the keeper is gone", SOON, async || {
        (!is_running(first[0].1)).then_some(())
    })
    .await;
    let said = demo.step_ok("up");
    assert!(
        said.contains("again") && said.contains("flexmetal-operator ended by itself"),
        "{said}"
    );
    assert_three_ready(&said, &demo.folder);
    let second = demo.processes();

    demo.step_ok("down");
    assert!(!demo.folder.exists(), "the folder is gone");
    for (name, id) in first.iter().chain(&second) {
        assert!(!is_running(*id), "{name} still runs as {id}");
    }
    assert!(demo.step_ok("down").contains("No demo"));
}

#[test]
fn demo_refuses_a_folder_with_other_files() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("precious"), "text").unwrap();
    for step in ["up", "down"] {
        let output = Command::new(program("lab"))
            .args(["demo", step, "--dir"])
            .arg(parent.path())
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("--dir"), "{message}");
    }
    assert!(parent.path().join("precious").exists());
}

/// Checks the demo's output, and kubectl's output when used as the demo describes.
fn assert_three_ready(said: &str, folder: &Path) {
    let kubectl = Command::new(folder.join("bin/kubectl"))
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .args(["--cache-dir", folder.join("cache").to_str().unwrap()])
        .args(["-n", "demo", "get", "bms", "--no-headers"])
        .output()
        .unwrap();
    let listed = String::from_utf8(kubectl.stdout).unwrap();
    for text in [said, &listed] {
        let ready = text.lines().filter(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            ["web", "database", "batch"].contains(columns.first().unwrap_or(&""))
                && columns.get(1) == Some(&"True")
        });
        assert_eq!(ready.count(), 3, "{text}");
    }
}

fn is_running(id: i32) -> bool {
    // In a container the init process may never reap zombies.
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let dead = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .starts_with('Z');
    !dead && Pid::from_raw(id).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn signal(id: i32, signal: Signal) {
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}
