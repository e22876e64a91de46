//! The plugin at a terminal: it asks, shows colours, and goes on only after a yes.

use super::super::SOON;
use super::{Plugin, changing_calls, tables::block_deletion};
use api::names::ACKNOWLEDGE;
use lab::rig::{World, cluster, eventually, server};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

/// The line that a shell runs as this command.
fn command_line(plugin: &Plugin, args: &[&str]) -> String {
    let command = plugin.command(args);
    let command = command.as_std();
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")))
        .collect();
    words.join(" ")
}

/// Starts a line at a pseudo-terminal.
fn start_line(plugin: &Plugin, line: &str) -> Child {
    // util-linux: gives the command a terminal and passes on its exit code.
    Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", line])
        .arg("/dev/null")
        .env("KUBECONFIG", &plugin.kubeconfig)
        .env("TERM", "xterm-256color")
        .current_dir(&plugin.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("script(1) can be started")
}

/// Runs a line at a pseudo-terminal, types the lines, and returns what the terminal showed and the exit code.
async fn run_line(plugin: &Plugin, line: &str, typed: &str) -> (String, i32) {
    let mut child = start_line(plugin, line);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(typed.as_bytes()).await.unwrap();
    let output = tokio::time::timeout(SOON, child.wait_with_output()).await;
    drop(stdin);
    let output = output.expect("the command ends").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code().unwrap_or(-1))
}

/// Runs a command at a terminal that it can ask at.
async fn run_at_terminal(plugin: &Plugin, args: &[&str], typed: &str) -> (String, i32) {
    run_line(plugin, &command_line(plugin, args), typed).await
}

/// Runs a command at a terminal, changes the account while it asks, and answers yes.
async fn change_account_at_question(
    plugin: &Plugin,
    args: &[&str],
    world: &World,
    change: &Value,
) -> (String, i32) {
    let mut child = start_line(plugin, &command_line(plugin, args));
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    let answer = async {
        while !String::from_utf8_lossy(&shown).contains("Continue?") {
            assert_ne!(stdout.read_buf(&mut shown).await.unwrap(), 0, "it ended");
        }
        world
            .things("ProviderAccount")
            .merge("default", change)
            .await;
        stdin.write_all(b"y\n").await.unwrap();
        stdout.read_to_end(&mut shown).await.unwrap();
        child.wait().await.unwrap()
    };
    let status = tokio::time::timeout(SOON, answer).await;
    let code = status.expect("the command ends").code().unwrap_or(-1);
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

/// The data that a command shows at a terminal as wide as any table.
pub(super) async fn show_at_terminal(plugin: &Plugin, args: &[&str]) -> String {
    let line = command_line(plugin, args);
    let line = format!("stty cols 1000; {line} 2>/dev/null");
    run_line(plugin, &line, "").await.0.replace('\r', "")
}

#[tokio::test]
async fn terminal_shows_colours_and_questions() {
    let world = World::start(cluster(), "plugin-terminal").await;
    world.create(&server("web")).await;
    let web = world.wait_ready("web", SOON).await;
    world.simulator.clear_ledger().await;
    let plugin = Plugin::of(&world);
    let (status, code) = run_at_terminal(&plugin, &["status"], "").await;
    assert_eq!(code, 0, "{status}");
    assert!(status.contains("\u{1b}["), "{status:?}");
    let (plain, _) = run_at_terminal(&plugin, &["status", "--no-color"], "").await;
    assert!(!plain.contains("\u{1b}[3"), "{plain:?}");
    let (asked, code) = run_at_terminal(&plugin, &["power", "reboot", "web"], "n\n").await;
    assert!(asked.contains("Continue?"), "{asked}");
    assert_ne!(code, 2, "{asked}");
    let (asked, _) = run_at_terminal(&plugin, &["reinstall", "web"], "another\n").await;
    assert!(asked.contains("disks"), "{asked}");
    assert!(changing_calls(&world).await.is_empty());
    let revision = &world.get("web").await.unwrap()["spec"]["install"];
    assert_eq!(*revision, web["spec"]["install"]);
    run_at_terminal(&plugin, &["power", "reboot", "web"], "y\n").await;
    eventually("the command is sent", SOON, async || {
        let calls = changing_calls(&world).await;
        calls
            .iter()
            .any(|call| call.ends_with("/commands"))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn acknowledgement_depends_on_what_was_shown() {
    let world = World::start(cluster(), "plugin-asked").await;
    block_deletion(&world, "leaving").await;
    let plugin = Plugin::of(&world);
    let acknowledge = ["acknowledge", "pacct/default"];
    let annotate = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});

    let others = annotate(ACKNOWLEDGE, json!("others"));
    let (text, code) = change_account_at_question(&plugin, &acknowledge, &world, &others).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("changed meanwhile"), "{text}");
    let account = world
        .things("ProviderAccount")
        .get("default")
        .await
        .unwrap();
    assert_eq!(account["metadata"]["annotations"][ACKNOWLEDGE], "others");

    let none = annotate(ACKNOWLEDGE, Value::Null);
    world
        .things("ProviderAccount")
        .merge("default", &none)
        .await;
    let note = annotate("example.com/note", json!("unrelated"));
    let (text, code) = change_account_at_question(&plugin, &acknowledge, &world, &note).await;
    assert_eq!(code, 0, "{text}");
    world.wait_gone("leaving", SOON).await;
}
