//! `plan` says what the operator then sends for whitelists, dedicated hosts and commands.

use super::super::{
    SOON, hosts::build_host, ssh_keys::build_deleting_key, whitelists::build_whitelist,
};
use super::{Plugin, plan::check_plan};
use lab::rig::{World, WorldOptions, cluster, server};
use serde_json::{Value, json};

/// A whitelist with an entry for the operator and these.
fn whitelist(name: &str, others: &[(&str, &str)]) -> Value {
    let me = [("me", "127.0.0.0/8")];
    let entries = me.iter().chain(others);
    let entries = entries.map(|(name, cidr)| json!({"name": name, "cidr": cidr}));
    build_whitelist(name, &json!({"entries": entries.collect::<Vec<_>>()}))
}

/// A host at this revision of its installation, with this power.
fn host(revision: i64, power: &str) -> Value {
    let spec = json!({
        "install": {"revision": revision}, "os": {"slug": "debian-13"},
        "sshKeyRef": {"name": "ops"}, "power": power,
    });
    build_host("db", 1001, &spec)
}

fn command(name: &str, kind: &str, target: &str, action: &str) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
        "metadata": {"name": name},
        "spec": {"targetRef": {"kind": kind, "name": target}, "action": action},
    })
}

#[tokio::test]
async fn plan_covers_whitelists_hosts_and_commands() {
    let mut world = World::prepare(cluster(), "plan-kinds", WorldOptions::default()).await;
    let quick = json!({"installSeconds": 1, "commandSeconds": 1});
    world.simulator.settings(&quick).await;
    world.start_operator();
    world
        .things("ProviderAccount")
        .wait_for_condition("default", "Ready", "True", None, SOON)
        .await;
    let plugin = Plugin::of(&world);
    let two = [("one", "192.0.2.1/32"), ("two", "192.0.2.2/32")];
    let changed = [("one", "192.0.2.10/32"), ("three", "192.0.2.3/32")];
    let uncovered = json!({"entries": [{"name": "one", "cidr": "192.0.2.1/32"}]});
    for (what, manifests) in [
        (
            "the first of each kind",
            vec![
                whitelist("me", &two),
                build_deleting_key("ops", 'A'),
                server("web"),
                build_host("other", 1002, &json!({})),
            ],
        ),
        ("a host as it is", vec![host(1, "PoweredOn")]),
        (
            "changed, added and removed entries, and an installation",
            vec![whitelist("me", &changed), host(2, "PoweredOn")],
        ),
        (
            "a command for each kind",
            vec![
                command("reboot", "BareMetalServer", "web", "Reboot"),
                command("restart", "DedicatedHost", "other", "Reboot"),
                host(2, "PoweredOff"),
            ],
        ),
        (
            "commands that ended, and nothing new",
            vec![
                command("reboot", "BareMetalServer", "web", "Reboot"),
                whitelist("me", &changed),
                host(2, "PoweredOff"),
            ],
        ),
        (
            "what another object owns, and a shutdown of a host",
            vec![
                whitelist("second", &two),
                build_host("rival", 1001, &json!({"power": "PoweredOn"})),
                command("shutdown", "DedicatedHost", "other", "Shutdown"),
            ],
        ),
        (
            "entries that would lock the operator out",
            vec![build_whitelist("me", &uncovered)],
        ),
        (
            "fewer entries, and a host that is switched on",
            vec![whitelist("me", &[]), host(2, "PoweredOn")],
        ),
    ] {
        check_plan(&world, &plugin, &manifests, what).await;
    }
}
