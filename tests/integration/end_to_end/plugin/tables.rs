//! What each command prints about one account with something of everything, as table, as JSON and at a terminal, and how
//! it ends. `TRANSCRIPTS=write` writes the file that is compared.

use super::super::{
    SOON, find_pending_token, hosts::build_host, ssh_keys::build_deleting_key, tags::build_tag,
    whitelists::build_whitelist,
};
use super::{Plugin, PluginOutput, terminal::show_at_terminal};
use crate::docs::tasks::normalized_text::{
    TextRule, apply_rules, compile_rules, describe_difference, normalize_text,
};
use lab::rig::{World, cluster, server};
use regex::Regex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::LazyLock};

const SNAPSHOT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/integration/end_to_end/plugin/tables.txt"
);

/// Each command, and its exit code.
const COMMANDS: &[(i32, &[&str])] = &[
    (3, &["status"]),
    (3, &["status", "-o", "json"]),
    (3, &["status", "-o", "name"]),
    (0, &["status", "web"]),
    (0, &["status", "waiting"]),
    (3, &["status", "leaving"]),
    (3, &["status", "typo"]),
    (0, &["status", "scmd/reboot"]),
    (1, &["status", "nobody"]),
    (0, &["servers"]),
    (0, &["servers", "-o", "wide"]),
    (0, &["servers", "-o", "json"]),
    (0, &["servers", "-o", "yaml"]),
    (0, &["servers", "-o", "name"]),
    (0, &["hosts"]),
    (0, &["hosts", "log", "db"]),
    (0, &["ssh-keys"]),
    (0, &["tags"]),
    (0, &["whitelist"]),
    (0, &["quota", "--type", "bm7.std.8"]),
    (0, &["capacity"]),
    (0, &["catalog"]),
    (0, &["catalog", "locations"]),
    (0, &["catalog", "locations", "--live"]),
    (0, &["catalog", "--available", "--location", ROTTERDAM]),
    (0, &["catalog", "--location", "Amsterdam"]),
    (0, &["catalog", "systems"]),
    (
        0,
        &[
            "catalog",
            "--deprecated-instance-types",
            "--location",
            ROTTERDAM,
        ],
    ),
    (0, &["account", "check"]),
    (0, &["root-password", "web"]),
    (3, &["orphans", "CLUSTER"]),
    (0, &["import", "CLUSTER"]),
    (0, &["plan", "web", "CLUSTER"]),
    (3, &["plan", "waiting", "CLUSTER"]),
    (3, &["plan", "-f", MANIFESTS, "CLUSTER"]),
    (2, &["plan", MANIFESTS, "CLUSTER"]),
    (2, &["plan", "-f", "./empty", "CLUSTER"]),
    (3, &["power", "reboot", "web", "--dry-run"]),
    (3, &["reinstall", "web", "--dry-run"]),
    (2, &["power", "reboot", "web"]),
    (2, &["reinstall", "web"]),
    (0, &["acknowledge", "web"]),
    (3, &["acknowledge", "pacct/default", "--dry-run"]),
    (1, &["rescue", "web"]),
    (3, &["rescue", "leaving", "--dry-run"]),
    (3, &["suspend", "web", "--dry-run"]),
    (0, &["resume", "web", "--dry-run"]),
    (5, &["wait", "waiting", "--for", "ready", "--timeout", "1s"]),
    (0, &["wait", "web", "--for", "ready"]),
    (2, &["quota", "-o", "csv"]),
];

/// Commands whose output varies with time, random figures or other tests: the exit code, and what the output contains.
/// Of these the snapshot has only the fields of their JSON.
const VARYING: &[(i32, &[&str], &[&str])] = &[
    (
        0,
        &["explain", "web"],
        &["Order started", "Ordered server", "waits for nothing"],
    ),
    (
        0,
        &["explain", "waiting"],
        &["NoStock", "The operator waits for: NoStock"],
    ),
    (
        3,
        &["explain", "typo"],
        &["The operator waits for you: InvalidSpec"],
    ),
    (0, &["usage"], &["(no object)", "web"]),
    (
        0,
        &["usage", "--by", "namespace"],
        &["(no object)", "SERVERS"],
    ),
    (0, &["usage", "--by", "contract"], &["(on demand)"]),
    (
        0,
        &["usage", "--by", "namespace", "-o", "csv"],
        &["NAMESPACE,", "(no object),3,3,"],
    ),
    (0, &["hardware", "web"], &["processor", "memory"]),
    (3, &["doctor"], &["operator", "Problem", "Deployment"]),
    (0, &["version"], &["plugin"]),
    (0, &["reconcile", "web"], &["reconcile requested"]),
    (
        0,
        &["completion", "bash"],
        &["_clap_complete_kubectl_flexmetal"],
    ),
];

const ROTTERDAM: &str = "EU: Rotterdam";
/// A file in the folder of the world.
const MANIFESTS: &str = "./manifests.yaml";

/// A world with an object of each kind that the commands show, one server that waits for stock, one whose deletion waits,
/// and one orphan.
async fn start_with_everything() -> World {
    let mut world = World::prepare(cluster(), "plugin", lab::rig::WorldOptions::default()).await;
    let quick = json!({"installSeconds": 1, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    world
        .simulator
        .stock("US: Ashburn - VA", "bm9.std.32", Some(0))
        .await;
    world
        .simulator
        .set_committed_quota("AE: Dubai", "bm7.std.8", "C-1", 3)
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
    let host = json!({
        "install": {"revision": 1}, "os": {"slug": "debian-13"}, "sshKeyRef": {"name": "ops"},
        "hostname": "db",
    });
    let command = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand", "metadata": {"name": "reboot"},
        "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
    });
    world.wait_ready("web", SOON).await;
    let whitelist = json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}]});
    for (kind, object) in [
        ("SshKey", build_deleting_key("ops", 'A')),
        ("DedicatedHost", build_host("db", 1001, &host)),
        ("ServerTag", build_tag("team-a", &json!({}))),
        ("IpWhitelist", build_whitelist("me", &whitelist)),
        ("ServerCommand", command),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        world.things(kind).create(&object).await;
        world.things(kind).wait_ready(&name, SOON).await;
    }
    install_host_again(&world).await;
    block_deletion(&world, "leaving").await;
    let mut edited = server("web");
    edited["spec"]["tags"] = json!(["blue"]);
    let edits = [
        edited,
        server("new"),
        build_host("another", 1002, &json!({})),
    ];
    let manifests: Vec<String> = edits.iter().map(ToString::to_string).collect();
    std::fs::write(world.folder().join(MANIFESTS), manifests.join("\n---\n")).unwrap();
    std::fs::create_dir(world.folder().join("empty")).unwrap();
    world
        .wait_for_condition("waiting", "Ready", "False", Some("NoStock"), SOON)
        .await;
    world
        .wait_for_condition("typo", "Stalled", "True", None, SOON)
        .await;
    let is_counted = |account: &Value| {
        let servers = &account["status"]["servers"];
        (servers["live"] == 3 && servers["unmanaged"] == 1).then_some(())
    };
    world
        .things("ProviderAccount")
        .wait_for("default", "its servers counted", SOON, is_counted)
        .await;
    world
}

/// Has host `db` installed, so that it has a log.
async fn install_host_again(world: &World) {
    let hosts = world.things("DedicatedHost");
    let again = json!({"spec": {"install": {"revision": 2}}});
    hosts.merge("db", &again).await;
    let is_installed = |object: &Value| {
        (object["status"]["install"]["last"]["result"] == "Finished").then_some(())
    };
    hosts.wait_for("db", "installed", SOON, is_installed).await;
    hosts.wait_ready("db", SOON).await;
}

/// Deletes two servers, of which the release limit of the account allows one. The other one waits for an
/// acknowledgement.
pub(super) async fn block_deletion(world: &World, name: &str) {
    let account = world.things("ProviderAccount");
    let limit = json!({"spec": {"releaseLimit": {"maxReleases": 1, "window": "1h"}}});
    account.merge("default", &limit).await;
    for name in ["first", name] {
        world.create(&server(name)).await;
        world.wait_ready(name, SOON).await;
    }
    world.delete("first").await;
    world.wait_gone("first", SOON).await;
    world.delete(name).await;
    account
        .wait_for("default", "an acknowledgement", SOON, |object| {
            find_pending_token(object, "LiftReleaseLimit")
        })
        .await;
}

/// What differs between runs in an output of the plugin, in addition to the rules of [`normalize_text`].
static OUTPUT_RULES: LazyLock<Vec<TextRule>> = LazyLock::new(|| {
    compile_rules([
        (r"\b(\d+(\.\d+)?(ms|s|m|h))+\b( ago)?", "<age>"),
        (
            r#"(?i)("[a-z]*(age|seconds|hours|sequence)[a-z]*": )\d+"#,
            "$1<number>",
        ),
        (r#"("resourceVersion": ")\d+"#, "$1<number>"),
        (r#"("token": ")[0-9a-f]{12}"#, "$1<token>"),
        (r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "<date>"),
        (r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", "<mac>"),
        // Traffic of `usage` grows between two calls: in a table after the hours, in CSV before its bytes.
        (r"(?m)(   \d+   )\d+(\.\d+)? [kMGTP]?B$", "$1<traffic>"),
        (r"(?m),\d+(\.\d+)? [kMGTP]?B,\d+$", ",<traffic>"),
    ])
});

/// A text with what differs between runs replaced.
fn normalize_output(world: &World, text: &str) -> String {
    let text = text
        .replace(&world.namespace, "<namespace>")
        .replace(&world.cluster_id, "<cluster>")
        .replace(world.simulator.api(), "<base URL>");
    apply_rules(&OUTPUT_RULES, normalize_text(&text)) + "\n"
}

/// The fields of JSON data with their types, as paths.
fn list_fields(value: &Value, path: &str, fields: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                list_fields(member, &format!("{path}.{name}"), fields);
            }
            return;
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                list_fields(item, &format!("{path}[]"), fields);
            }
            return;
        }
        Value::Object(_) => "{}",
        Value::Array(_) => "[]",
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    };
    fields.insert(format!("{path} {kind}"));
}

/// A command in all forms.
struct Transcript {
    output: PluginOutput,
    /// The fields of its JSON.
    fields: BTreeSet<String>,
    /// What a terminal shows.
    shown: String,
    /// What is wrong.
    wrong: Vec<String>,
}

/// Runs a command as table, at a terminal and as JSON, and checks what holds of all of them.
async fn run_in_all_forms(world: &World, code: i32, args: &[&str]) -> Transcript {
    let plugin = Plugin::of(world);
    let mut wrong = Vec::new();
    let mut expect = |is_right: bool, what: String| {
        if !is_right {
            wrong.push(format!("{args:?}: {what}"));
        }
    };
    let output = plugin.run(args).await;
    let (mut fields, mut shown) = (BTreeSet::new(), String::new());
    let all = format!("{}{}", output.out, output.err);
    expect(output.code == code, format!("exit {}: {all}", output.code));
    expect(!all.contains('\u{1b}'), format!("colours: {all}"));
    let key = world.simulator.api_key();
    expect(!all.contains(key), format!("the key: {all}"));
    if matches!(code, 1 | 2) {
        expect(output.out.is_empty(), format!("data: {}", output.out));
    } else {
        shown = show_at_terminal(&plugin, args).await;
        let escapes = Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
        let plain = normalize_output(world, &escapes.replace_all(&shown, ""));
        let data = normalize_output(world, &output.out);
        let difference = describe_difference("without colours", &data, &plain);
        expect(difference.is_none(), difference.unwrap_or_default());
    }
    // A wait that ends without success has no data.
    if !matches!(code, 1 | 2 | 5) && !args.contains(&"-o") && args[0] != "completion" {
        let json = plugin.run(&[args, &["-o", "json"]].concat()).await;
        expect(json.code == code, format!("exit {} as JSON", json.code));
        match serde_json::from_str(&json.out) {
            Ok(value) => list_fields(&value, "", &mut fields),
            Err(error) => expect(false, format!("{error}: {}", json.out)),
        }
    }
    Transcript {
        output,
        fields,
        shown,
        wrong,
    }
}

fn describe_fields(title: &str, fields: BTreeSet<String>) -> String {
    match fields.is_empty() {
        true => String::new(),
        false => {
            let fields = fields.into_iter().collect::<Vec<_>>().join("\n");
            format!("$ kubectl flexmetal {title} -o json, its fields\n{fields}\n\n")
        }
    }
}

#[tokio::test]
async fn every_command_prints_what_it_did() {
    let world = start_with_everything().await;
    let (mut now, mut wrong) = (String::new(), Vec::new());
    for (code, args) in COMMANDS {
        let run = run_in_all_forms(&world, *code, args).await;
        let title = args.join(" ").replace(" CLUSTER", "");
        let output = format!("{}{}", run.output.out, run.output.err);
        now += &format!("$ kubectl flexmetal {title}\n");
        now += &normalize_output(&world, &output);
        now += &format!("exit {code}\n\n");
        now += &describe_fields(&title, run.fields);
        if title == "status" {
            let shown = run.shown.replace("\u{1b}[0m", "ESC[0]");
            let shown = normalize_output(&world, &shown.replace('\u{1b}', "ESC"));
            now += &format!("$ kubectl flexmetal {title}, at a terminal\n{shown}\n");
        }
        wrong.extend(run.wrong);
    }
    // By then the server has reported its hardware.
    world.simulator.advance(600.0).await;
    for (code, args, expected) in VARYING {
        let run = run_in_all_forms(&world, *code, args).await;
        // Other tests may install operators, whose versions it lists.
        if args[0] != "version" {
            now += &describe_fields(&args.join(" "), run.fields);
        }
        wrong.extend(run.wrong);
        let missing = expected
            .iter()
            .find(|text| !run.output.out.contains(**text));
        let describe = |text| format!("{args:?} without {text:?}: {}", run.output.out);
        wrong.extend(missing.map(describe));
    }
    if std::env::var("TRANSCRIPTS").is_ok_and(|word| word == "write") {
        std::fs::write(SNAPSHOT, &now).unwrap();
    }
    let kept = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    wrong.extend(describe_difference("tables", &kept, &now));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
