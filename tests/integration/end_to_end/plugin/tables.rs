//! What each command prints about one account with something of everything, and how it ends. `TRANSCRIPTS=write` writes
//! the file that is compared.

use super::super::{
    SOON, hosts::build_host, ssh_keys::build_deleting_key, tags::build_tag,
    whitelists::build_whitelist,
};
use super::{Plugin, PluginOutput, apply};
use crate::tasks::normalized_text::{describe_difference, normalize_text};
use lab::rig::{World, cluster, server};
use regex::Regex;
use serde_json::{Value, json};

const SNAPSHOT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/integration/end_to_end/plugin/tables.txt"
);

/// Each command, and its exit code.
const COMMANDS: [(i32, &[&str]); 42] = [
    (3, &["status"]),
    (3, &["status", "-o", "json"]),
    (3, &["status", "-o", "name"]),
    (0, &["status", "web"]),
    (0, &["status", "waiting"]),
    (3, &["status", "typo"]),
    (1, &["status", "nobody"]),
    (0, &["servers"]),
    (0, &["servers", "-o", "wide"]),
    (0, &["servers", "-o", "json"]),
    (0, &["servers", "-o", "yaml"]),
    (0, &["servers", "-o", "name"]),
    (0, &["hosts"]),
    (0, &["hosts", "-o", "json"]),
    (0, &["hosts", "log", "db"]),
    (0, &["ssh-keys"]),
    (0, &["tags"]),
    (0, &["tags", "-o", "json"]),
    (0, &["whitelist"]),
    (0, &["quota"]),
    (0, &["quota", "-o", "json"]),
    (0, &["capacity"]),
    (0, &["catalog"]),
    (0, &["catalog", "locations"]),
    (
        0,
        &[
            "catalog",
            "types",
            "--available",
            "--location",
            "EU: Rotterdam",
        ],
    ),
    (0, &["catalog", "systems"]),
    (0, &["catalog", "locations", "--live", "-o", "json"]),
    (0, &["catalog", "--deprecated-instance-types"]),
    (0, &["account", "check"]),
    (0, &["root-password", "web"]),
    (3, &["orphans", "CLUSTER"]),
    (3, &["orphans", "-o", "json", "CLUSTER"]),
    (0, &["import", "CLUSTER"]),
    (3, &["power", "reboot", "web", "--dry-run"]),
    (3, &["reinstall", "web", "--dry-run"]),
    (2, &["power", "reboot", "web"]),
    (2, &["reinstall", "web"]),
    (0, &["acknowledge", "web"]),
    (1, &["rescue", "web"]),
    (5, &["wait", "waiting", "--for", "ready", "--timeout", "1s"]),
    (0, &["wait", "web", "--for", "ready"]),
    (2, &["quota", "-o", "csv"]),
];

/// A world with an object of each kind that the commands show, one server that waits for stock, and one orphan.
async fn start_with_everything() -> World {
    let mut world = World::prepare(cluster(), "plugin", lab::rig::WorldOptions::default()).await;
    world
        .simulator
        .stock("US: Ashburn - VA", "bm9.std.32", Some(0))
        .await;
    world
        .simulator
        .appear(&json!({
            "name": "lost", "tags": [format!("fmo-cluster:{}", world.cluster_id)],
            "location": "JP: Tokyo", "instanceType": "bm7.std.8", "status": "delivered",
        }))
        .await;
    world
        .simulator
        .appear(&json!({
            "name": "foreign", "tags": ["by-hand"], "location": "JP: Tokyo",
            "instanceType": "bm8.std.32", "status": "delivered",
        }))
        .await;
    world.start_operator();
    world.create(&server("web")).await;
    let mut waiting = server("waiting");
    waiting["spec"]["location"] = json!("US: Ashburn - VA");
    waiting["spec"]["instanceType"] = json!("bm9.std.32");
    world.create(&waiting).await;
    let mut typo = server("typo");
    typo["spec"]["instanceType"] = json!("bm9.unknown");
    world.create(&typo).await;
    let whitelist = json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]});
    for (kind, object) in [
        ("DedicatedHost", build_host("db", 1001, &json!({}))),
        ("SshKey", build_deleting_key("ops", 'A')),
        ("ServerTag", build_tag("team-a", &json!({}))),
        ("IpWhitelist", build_whitelist("me", &whitelist)),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        world.things(kind).create(&object).await;
        world.things(kind).wait_ready(&name, SOON).await;
    }
    world.wait_ready("web", SOON).await;
    world
        .wait_for_condition("waiting", "Ready", "False", Some("NoStock"), SOON)
        .await;
    world
        .wait_for_condition("typo", "Stalled", "True", None, SOON)
        .await;
    let is_counted = |account: &Value| {
        let servers = &account["status"]["servers"];
        (servers["live"] == 2 && servers["unmanaged"] == 1).then_some(())
    };
    world
        .things("ProviderAccount")
        .wait_for("default", "its servers counted", SOON, is_counted)
        .await;
    world
}

/// The output with what differs between runs replaced.
fn normalize_output(world: &World, args: &[&str], output: &PluginOutput) -> String {
    let shown = args.join(" ").replace(" CLUSTER", "");
    let text = format!(
        "$ kubectl flexmetal {shown}\n{}{}exit {}\n",
        output.out, output.err, output.code
    );
    let text = text
        .replace(&world.namespace, "<namespace>")
        .replace(&world.cluster_id, "<cluster>")
        .replace(world.simulator.api(), "<base URL>");
    let rules = [
        (r"\b\d+(\.\d+)?(ms|s|m|h)\b( ago)?", "<age>"),
        (
            r#"(?i)("[a-z]*(age|seconds|hours|sequence)[a-z]*": )\d+"#,
            "$1<number>",
        ),
        (r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "<date>"),
        (r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", "<mac>"),
    ];
    let text = normalize_text(&text);
    rules.iter().fold(text, |text, (rule, word)| {
        let rule = Regex::new(rule).unwrap();
        rule.replace_all(&text, *word).into_owned()
    }) + "\n"
}

#[tokio::test]
async fn every_command_prints_what_it_did() {
    let world = start_with_everything().await;
    let plugin = Plugin::of(&world);
    let mut now = String::new();
    let mut wrong = Vec::new();
    for (code, args) in COMMANDS {
        let output = plugin.run(args).await;
        if output.code != code {
            wrong.push(format!("{args:?} ends with {}, not {code}", output.code));
        }
        assert!(
            !output.out.contains('\u{1b}') && !output.err.contains('\u{1b}'),
            "{args:?} has colours without a terminal"
        );
        let all = format!("{}{}", output.out, output.err);
        assert!(!all.contains(world.simulator.api_key()), "{args:?}: {all}");
        now += &normalize_output(&world, args, &output);
        now += "\n";
    }
    if std::env::var("TRANSCRIPTS").is_ok_and(|word| word == "write") {
        std::fs::write(SNAPSHOT, &now).unwrap();
    }
    let kept = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    wrong.extend(describe_difference("tables", &kept, &now));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What depends on seconds and on random figures has no snapshot.
    world.simulator.advance(600.0).await;
    for (args, expected) in [
        (
            &["explain", "web"][..],
            &["Order started", "Ordered server", "waits for nothing"][..],
        ),
        (
            &["explain", "waiting"],
            &["NoStock", "The operator waits for: NoStock"],
        ),
        (&["hardware", "web"], &["processor", "memory"]),
        (&["usage"], &["(no object)", "web"]),
        (
            &["usage", "--by", "namespace", "-o", "csv"],
            &["NAMESPACE,", "(no object),2,2,"],
        ),
    ] {
        let output = plugin.run_expecting(0, args).await;
        for text in expected {
            assert!(
                output.out.contains(text),
                "{args:?}: {text}\n{}",
                output.out
            );
        }
    }
}

#[tokio::test]
async fn doctor_and_report_name_what_is_missing() {
    let world = World::start(cluster(), "doctor").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "script"},
        "data": {"script": "canary-script"},
    });
    apply(&world, &secret.to_string()).await;
    let plugin = Plugin::of(&world);
    // The world has no Deployment, so the doctor has something to say.
    let doctor = plugin.run_expecting(3, &["doctor"]).await;
    assert!(doctor.out.contains("Deployment"), "{}", doctor.out);
    let file = world.folder().join("report.zip");
    let args = ["report", "--to", file.to_str().unwrap()];
    plugin.run_expecting(0, &args).await;
    let zip = std::fs::read(&file).unwrap();
    assert!(zip.starts_with(b"PK"));
}
