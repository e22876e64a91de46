//! Every object stays below 64 KiB, including spec and status, with the largest spec and any answer of the hosting API.

use std::time::Duration;

use api::bounds::{LARGEST_OBJECT, stored_size};
use futures::{StreamExt as _, stream};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{
    apply, build_secret,
    credentials::certificate,
    hostile::{FIRST_HOST, HOSTS, HostileApi},
    hosts::build_host,
    ssh_keys::{build_ssh_key, public_key},
    tags::build_tag,
};
use lab::rig::{Cluster, Things, World, WorldOptions};
use largest::text;

#[path = "../../fixtures/largest.rs"]
mod largest;

/// A debug build is slow with this much data.
const LONG: Duration = Duration::from_secs(300);

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// An account spec whose CA bundle ends with a real certificate.
fn with_certificate(mut spec: Value) -> Value {
    let pem = certificate().cert.pem();
    let bundle = spec["caBundle"].as_str().expect("a bundle").to_owned();
    spec["caBundle"] = format!("{}\n{pem}", &bundle[pem.len() + 1..]).into();
    spec
}

/// The longest base URL for an account with this name.
fn url_of(hostile: &HostileApi, name: &str) -> String {
    let url = hostile.url(&format!("largest-{name}-"));
    format!("{url}{}", text(1024 - url.len()))
}

/// Creates objects of all kinds that use the account.
async fn make_objects(world: &World, account: &str) {
    let uuid = "00000000-0000-4000-8000-000000000007";
    let spec = largest::server(account, uuid);
    let servers = world.things("BareMetalServer");
    servers
        .create(&object("BareMetalServer", "largest", &spec))
        .await;
    let reference = json!({"kind": "ProviderAccount", "name": account});
    let known = format!("{:0>64}", 7);
    let spec = json!({"accountRef": reference, "tag": known});
    world
        .things("ServerTag")
        .create(&build_tag("largest", &spec))
        .await;
    let key = public_key('A');
    let key = format!("{key} {}", text(4096 - key.len() - 1));
    let spec = json!({"accountRef": reference, "publicKey": key});
    world
        .things("SshKey")
        .create(&build_ssh_key("largest", &spec))
        .await;
    let spec = largest::whitelist(account, 9_007_199_254_740_991);
    let whitelists = world.things("IpWhitelist");
    whitelists
        .create(&object("IpWhitelist", "largest", &spec))
        .await;
    let hosts = &world.things("DedicatedHost");
    let made = stream::iter(0..HOSTS).for_each_concurrent(8, |number| async move {
        let number = u64::try_from(FIRST_HOST + number).expect("a small number");
        let spec = largest::host(account, number);
        hosts
            .create(&build_host(&format!("h{number}"), number, &spec))
            .await;
    });
    made.await;
}

/// Checks the sizes of all objects of a kind. Returns the number of objects.
async fn check_sizes(kind: &str, things: &Things) -> usize {
    let all = things.api().list(&ListParams::default()).await;
    let all = all.expect("they can be listed");
    let sizes = all.iter().map(|object| {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let both = stored_size(&json!({"spec": spec, "status": status}));
        (both, stored_size(spec), stored_size(status))
    });
    let (most, spec, status) = sizes.max().expect("there is one");
    assert!(
        most < LARGEST_OBJECT,
        "{kind}: {spec} bytes of spec, {status} of status"
    );
    all.items.len()
}

#[tokio::test]
async fn objects_stay_small_with_hostile_answers() {
    // In its own cluster, because only an operator for all namespaces searches for orphans.
    let own = Cluster::own();
    let plan = WorldOptions {
        watch_namespace: false,
        ..WorldOptions::default()
    };
    let mut world = World::prepare(&own, "sizes", plan).await;
    let hostile = HostileApi::start(&world.cluster_id).await;
    let namespace = Some(world.namespace.clone());
    for (kind, name) in [
        ("ProviderAccount", "one"),
        ("ClusterProviderAccount", "many"),
    ] {
        let key = build_secret(name, "apiKey", &format!("key-of-{name}"));
        apply(&world.client, namespace.as_deref(), &key).await;
        let url = url_of(&hostile, name);
        world.allow_base_url(&url);
        let (spec, namespace) = match kind {
            "ProviderAccount" => (
                largest::account_with_bundle(&url, name),
                namespace.as_deref(),
            ),
            _ => (largest::cluster_account(&url, name), None),
        };
        let account = object(kind, name, &with_certificate(spec));
        apply(&world.client, namespace, &account).await;
    }
    make_objects(&world, "one").await;
    world.start_operator();

    let is_long = |text: &Value| text.as_str().is_some_and(|text| text.ends_with('…'));
    let hosts = world.things("DedicatedHost");
    for number in FIRST_HOST..FIRST_HOST + HOSTS {
        let name = format!("h{number}");
        let shown = hosts.wait_for(&name, "shown", LONG, |host| {
            let status = &host["status"];
            let addresses = status["addresses"].as_array()?.len();
            (is_long(&status["name"]) && addresses == 64).then(|| status.clone())
        });
        let shown = shown.await;
        assert_eq!(shown["addressesOmitted"], 6, "{shown:#}");
        assert_eq!(shown["hardware"]["disksOmitted"], 8, "{shown:#}");
    }
    let servers = world.things("BareMetalServer");
    let shown = servers.wait_for("largest", "shown", LONG, |server| {
        is_long(&server["status"]["location"]).then(|| server["status"].clone())
    });
    let shown = shown.await;
    assert_eq!(shown["addresses"].as_array().map(Vec::len), Some(32));
    assert_eq!(shown["addressesOmitted"], 32);
    for kind in ["ProviderAccount", "ClusterProviderAccount"] {
        let (accounts, name) = match kind {
            "ProviderAccount" => (world.things(kind), "one"),
            _ => (world.cluster_things(kind), "many"),
        };
        let shown = accounts.wait_for(name, "counts its servers", LONG, |account| {
            let status = &account["status"];
            let orphans = status["orphans"].as_array()?.len();
            (orphans == 20 && status["catalog"].is_object()).then(|| status.clone())
        });
        let shown = shown.await;
        assert!(is_long(&shown["orphans"][0]["hostname"]), "{shown:#}");
        let catalog = &shown["catalog"];
        assert!(catalog["omitted"].as_i64() > Some(0), "{shown:#}");
        // The largest spec of a ClusterProviderAccount leaves little space for the catalog.
        let lists: &[&str] = match kind {
            "ProviderAccount" => &["locations", "systems", "quotas", "instanceTypes"],
            _ => &["locations", "systems"],
        };
        for list in lists {
            assert!(catalog[list].is_array(), "{list}: {shown:#}");
        }
    }
    world.things("ServerTag").wait_ready("largest", LONG).await;
    world.things("SshKey").wait_ready("largest", LONG).await;
    let whitelists = world.things("IpWhitelist");
    let shown = whitelists.wait_for("largest", "planned", LONG, |list| {
        let status = &list["status"];
        (status["plan"].is_array()).then(|| status.clone())
    });
    assert_eq!(shown.await["entriesOmitted"], 80);

    for kind in [
        "ProviderAccount",
        "BareMetalServer",
        "ServerTag",
        "SshKey",
        "IpWhitelist",
    ] {
        check_sizes(kind, &world.things(kind)).await;
    }
    assert_eq!(check_sizes("DedicatedHost", &hosts).await, HOSTS);
    let kind = "ClusterProviderAccount";
    check_sizes(kind, &world.cluster_things(kind)).await;
    assert!(world.operator().ended().is_none(), "it runs");
}
