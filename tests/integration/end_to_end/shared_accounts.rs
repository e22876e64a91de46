//! Which account a reference means, and many accounts in many namespaces at once.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, apply, build_secret, build_server, check_invariants, check_ready_message,
    cluster_wide::SharedOperator, text,
};
use lab::rig::{Things, condition, eventually, quick_timing, server};

/// Creates the ClusterProviderAccount `default` for the provider's account of the same name.
async fn shared_account(host: &SharedOperator, namespaces: &[&str]) {
    let world = &host.world;
    let (name, key) = ("default", "key-of-default");
    let of_key = build_secret(name, "apiKey", key);
    apply(&world.client, Some(&world.namespace), &of_key).await;
    let account = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount", "metadata": {"name": name},
        "spec": {
            "baseURL": world.simulator.api(), "apiKeySecretRef": {"name": name}, "timing": quick_timing(),
            "allowedNamespaces": [{"name": "teams", "namespaces": namespaces}],
        },
    });
    world.simulator.add_account(name, key).await;
    apply(&world.client, None, &account).await;
}

/// The account that an object is bound to.
fn bound(object: &Value) -> String {
    let account = &object["status"]["accountRef"];
    format!("{} {}", text(&account["kind"]), text(&account["name"]))
}

async fn wait_for_reason(things: &Things, name: &str, reason: &str, words: &[&str]) {
    let object = things
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    check_ready_message(name, &object, words);
}

/// The names of all servers that were ever ordered in an account.
async fn list_ordered_names(host: &SharedOperator, account: &str) -> Vec<String> {
    let servers = host.world.simulator.list_servers_of_account(account).await;
    let mut names: Vec<_> = servers.iter().map(|m| text(&m["name"])).collect();
    names.sort();
    names
}

/// An empty reference means the ProviderAccount `default`. A reference with only the kind ClusterProviderAccount means
/// the ClusterProviderAccount `default`. Neither replaces the other.
#[tokio::test]
async fn reference_without_name_means_default_of_its_kind() {
    let host = SharedOperator::start(0).await;
    let (world, cluster) = (&host.world, &host.cluster);
    let namespace = async |prefix| cluster.namespace(prefix).await;
    let (one, two) = (namespace("one").await, namespace("two").await);
    let servers = |namespace: &str| world.things_in(namespace, "BareMetalServer");
    let accounts = world.cluster_things("ClusterProviderAccount");
    let shared = json!({"kind": "ClusterProviderAccount"});
    let of_shared = "ClusterProviderAccount default";
    let web = build_server("web", &json!({"accountRef": shared}));

    servers(&one).create(&web).await;
    wait_for_reason(
        &servers(&one),
        "web",
        "AccountNotFound",
        &["ClusterProviderAccount default"],
    )
    .await;
    shared_account(&host, &[&one, &two]).await;
    assert_eq!(
        bound(&servers(&one).wait_ready("web", SOON).await),
        of_shared
    );
    let tag = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag", "metadata": {"name": "team"},
        "spec": {"accountRef": shared},
    });
    let tags = world.things_in(&one, "ServerTag");
    tags.create(&tag).await;
    assert_eq!(bound(&tags.wait_ready("team", SOON).await), of_shared);
    let key = super::ssh_keys::public_key('D');
    let key = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey", "metadata": {"name": "laptop"},
        "spec": {"publicKey": key, "accountRef": shared},
    });
    let keys = world.things_in(&one, "SshKey");
    keys.create(&key).await;
    assert_eq!(bound(&keys.wait_ready("laptop", SOON).await), of_shared);

    // An object without a reference waits for its namespace's account, although the cluster has a default.
    servers(&one).create(&server("own")).await;
    let words = ["ProviderAccount default", "Create it"];
    wait_for_reason(&servers(&one), "own", "AccountNotFound", &words).await;
    world.simulator.add_account("own", "key-of-own").await;
    let own_key = build_secret("own", "apiKey", "key-of-own");
    apply(&world.client, Some(&one), &own_key).await;
    let default = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount", "metadata": {"name": "default"},
        "spec": {"baseURL": world.simulator.api(), "apiKeySecretRef": {"name": "own"}, "timing": quick_timing()},
    });
    apply(&world.client, Some(&one), &default).await;
    let own = servers(&one).wait_ready("own", SOON).await;
    assert_eq!(bound(&own), "ProviderAccount default");
    servers(&two)
        .create(&build_server("sure", &json!({"accountRef": shared})))
        .await;
    servers(&two).wait_ready("sure", SOON).await;
    assert_eq!(
        bound(&servers(&one).wait_ready("web", SOON).await),
        of_shared
    );
    assert_eq!(list_ordered_names(&host, "own").await, ["own"]);
    assert_eq!(list_ordered_names(&host, "default").await, ["sure", "web"]);

    // The deleted account waits, and reports its users of every kind.
    let wait_in_use = async |words: &[&str]| {
        eventually("who uses it is told", SOON, async || {
            let account = accounts.get("default").await?;
            let ready = condition(&account, "Ready")?;
            let message = text(&ready["message"]);
            let is_reported = words.iter().all(|word| message.contains(word));
            (ready["reason"] == "InUse" && is_reported).then_some(account)
        })
        .await
    };
    accounts.delete("default").await;
    let secrets = &world.secrets();
    secrets
        .delete("default", &Default::default())
        .await
        .unwrap();
    let (web, sure) = (format!("{one}/web"), format!("{two}/sure"));
    let (team, laptop) = (
        format!("ServerTag {one}/team"),
        format!("SshKey {one}/laptop"),
    );
    let account = wait_in_use(&["BareMetalServer", &web, &sure, &team, &laptop]).await;
    let users = json!([
        {"kind": "BareMetalServer", "count": 2}, {"kind": "ServerTag", "count": 1}, {"kind": "SshKey", "count": 1},
    ]);
    assert_eq!(account["status"]["users"], users);
    let catalog = &account["status"]["catalog"];
    assert!(catalog["asOf"].is_string(), "{account:#}");
    for (list, field) in [
        ("locations", "country"),
        ("instanceTypes", "hardware"),
        ("systems", "slug"),
        ("quotas", "location"),
    ] {
        assert!(catalog[list][0][field].is_string(), "{account:#}");
    }
    assert!(account["status"]["calls"]["perMinute"].is_i64());
    servers(&one).delete("web").await;
    servers(&two).delete("sure").await;
    keys.delete("laptop").await;
    keys.wait_gone("laptop", SOON).await;
    wait_in_use(&["used by 1 object (", &team]).await;
    assert!(secrets.get_opt("default").await.unwrap().is_some());
    tags.delete("team").await;
    accounts.wait_gone("default", SOON).await;
    assert!(secrets.get_opt("default").await.unwrap().is_none());
    check_invariants(world).await;
}

/// The number of namespaces, and of accounts in each.
const MANY: usize = 6;

/// The name of an account: one is its namespace's default, and one has a name that no other namespace uses.
fn name_of(namespace: usize, number: usize) -> String {
    match number {
        0 => "default".to_owned(),
        _ if number == MANY - 1 => format!("only-{namespace}"),
        _ => format!("account-{number}"),
    }
}

/// Namespaces with accounts of mostly the same names.
/// Each server is ordered once, with the key of its own namespace's account.
#[tokio::test]
async fn accounts_of_one_name_stay_apart() {
    let host = SharedOperator::start(0).await;
    let world = &host.world;
    let timing = json!({
        "absenceGracePeriod": "30s", "absenceCheckInterval": "1s", "activePollInterval": "1s",
        "idlePollInterval": "30s", "orphanScanInterval": "1m", "orderTimeout": "15s",
    });
    let namespaces = join_all((0..MANY).map(|_| host.cluster.namespace("tenant"))).await;
    let at_provider = |namespace: usize, number: usize| format!("a-{namespace}-{number}");
    let each = || (0..MANY).flat_map(|namespace| (0..MANY).map(move |number| (namespace, number)));
    for (namespace, number) in each() {
        let (name, there) = (name_of(namespace, number), at_provider(namespace, number));
        let key = format!("key-of-{there}");
        world.simulator.add_account(&there, &key).await;
        let of = Some(&*namespaces[namespace]);
        apply(&world.client, of, &build_secret(&name, "apiKey", &key)).await;
        let account = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount", "metadata": {"name": name},
            "spec": {"baseURL": world.simulator.api(), "apiKeySecretRef": {"name": name}, "timing": timing},
        });
        apply(&world.client, of, &account).await;
    }
    for (namespace, number) in each() {
        let spec = match number {
            0 => json!({}),
            _ => json!({"accountRef": {"name": name_of(namespace, number)}}),
        };
        let things = world.things_in(&namespaces[namespace], "BareMetalServer");
        things
            .create(&build_server(&format!("web-{number}"), &spec))
            .await;
    }
    // A name in another namespace has no effect here.
    let outsiders = world.things_in(&namespaces[0], "BareMetalServer");
    let spec = json!({"accountRef": {"name": name_of(1, MANY - 1)}});
    outsiders.create(&build_server("stranger", &spec)).await;

    for (namespace, number) in each() {
        let things = world.things_in(&namespaces[namespace], "BareMetalServer");
        let ready = things.wait_ready(&format!("web-{number}"), 3 * SOON).await;
        let there = at_provider(namespace, number);
        let servers = world.simulator.list_servers_of_account(&there).await;
        let uuids: Vec<_> = servers.iter().map(|m| &m["uuid"]).collect();
        assert_eq!(uuids, [&ready["status"]["uuid"]], "{there}");
        let ledger = world.simulator.ledger_of(&there).await;
        let orders = ledger.iter().filter(|call| call["method"] == "POST");
        assert_eq!(orders.count(), 1, "{there}");
    }
    wait_for_reason(&outsiders, "stranger", "AccountNotFound", &["only-1"]).await;
    // Each account counts its own user and no other.
    for (namespace, number) in each() {
        let name = name_of(namespace, number);
        let accounts = world.things_in(&namespaces[namespace], "ProviderAccount");
        let users = eventually(&format!("{name} is counted"), SOON, async || {
            let status = accounts.get(&name).await?["status"].clone();
            (status["servers"]["live"] == 1).then(|| status["users"].clone())
        })
        .await;
        assert_eq!(users, json!([{"kind": "BareMetalServer", "count": 1}]));
    }
    check_invariants(world).await;
}
