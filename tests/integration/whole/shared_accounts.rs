//! Who pays: objects that name no account, and many accounts of many namespaces beside each other.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SOON, apply, cluster_wide::Host, judge, said, secret, text, with};
use lab::rig::{Things, condition, eventually, quick_timing, server};

/// The annotation of an account that stands in.
const MARK: &str = "flexmetal.dev/is-default-account";

/// An account of the cluster, at an account of the provider with the same name.
async fn shared_account(host: &Host, name: &str, namespaces: &[&str], mark: Option<&str>) {
    let world = &host.world;
    let key = format!("key-of-{name}");
    let of_key = secret(name, "apiKey", &key);
    apply(&world.client, Some(&world.namespace), &of_key).await;
    let annotations = mark.map(|mark| json!({ MARK: mark })).unwrap_or_default();
    let account = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "baseURL": world.simulator.api(), "apiKeySecretRef": {"name": name}, "timing": quick_timing(),
            "allowedNamespaces": [{"name": "teams", "names": namespaces}],
        },
    });
    let exists = world
        .cluster_things("ClusterProviderAccount")
        .get(name)
        .await;
    if exists.is_none() {
        world.simulator.add_account(name, &key).await;
    }
    apply(&world.client, None, &account).await;
}

/// The account that an object is bound to.
fn bound(object: &Value) -> String {
    let account = &object["status"]["account"];
    format!("{} {}", text(&account["kind"]), text(&account["name"]))
}

async fn waits(things: &Things, name: &str, reason: &str, words: &[&str]) {
    let object = things
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    said(name, &object, words);
}

/// Names of an account's machines that were ever ordered.
async fn ordered(host: &Host, account: &str) -> Vec<String> {
    let machines = host.world.simulator.machines_of(account).await;
    let mut names: Vec<_> = machines.iter().map(|m| text(&m["name"])).collect();
    names.sort();
    names
}

/// A namespace without a default of its own uses the one of the cluster, and what was bound once stays where it is,
/// whatever appears, is marked or is deleted later.
#[tokio::test]
async fn default_account() {
    let host = Host::start(0).await;
    let (world, cluster) = (&host.world, &host.cluster);
    let namespace = async |prefix| cluster.namespace(prefix).await;
    let (one, two, three, four) = (
        namespace("one").await,
        namespace("two").await,
        namespace("three").await,
        namespace("four").await,
    );
    let servers = |namespace: &str| world.things_in(namespace, "BareMetalServer");
    let accounts = world.cluster_things("ClusterProviderAccount");
    let of_shared = "ClusterProviderAccount shared";

    // Nobody stands in: a tenant cannot make an account of its own the default of others, nor name that of another.
    let of_tenant = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount",
        "metadata": {"name": "team", "annotations": {MARK: "true"}},
        "spec": {"baseURL": world.simulator.api(), "apiKeySecretRef": {"name": "none"}},
    });
    apply(&world.client, Some(&three), &of_tenant).await;
    servers(&one).create(&server("web")).await;
    waits(&servers(&one), "web", "AccountNotFound", &["create it"]).await;
    servers(&four).create(&server("lone")).await;
    let others = with("theirs", &json!({"accountRef": {"name": "team"}}));
    servers(&four).create(&others).await;
    waits(&servers(&four), "theirs", "AccountNotFound", &["team"]).await;

    // An account that is marked wakes whoever waits. One object of each kind is bound to it.
    let all = [&*one, &*two, &*three, &*world.namespace];
    shared_account(&host, "shared", &all, Some("true")).await;
    let web = servers(&one).wait_ready("web", SOON).await;
    assert_eq!(bound(&web), of_shared);
    let tag = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag", "metadata": {"name": "team"}, "spec": {},
    });
    let tags = world.things_in(&one, "ServerTag");
    tags.create(&tag).await;
    assert_eq!(bound(&tags.wait_ready("team", SOON).await), of_shared);
    let key = super::ssh_keys::public_key('D');
    let key = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey", "metadata": {"name": "laptop"},
        "spec": {"publicKey": key},
    });
    let keys = world.things_in(&one, "SshKey");
    keys.create(&key).await;
    assert_eq!(bound(&keys.wait_ready("laptop", SOON).await), of_shared);
    waits(&servers(&four), "lone", "AccountNotFound", &["create it"]).await;

    // One of the namespace's own moves nothing that was bound, and is used by what comes then.
    let own = world.simulator.api();
    world.simulator.add_account("own", "key-of-own").await;
    let own_key = secret("own", "apiKey", "key-of-own");
    apply(&world.client, Some(&one), &own_key).await;
    let default = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ProviderAccount", "metadata": {"name": "default"},
        "spec": {"baseURL": own, "apiKeySecretRef": {"name": "own"}, "timing": quick_timing()},
    });
    apply(&world.client, Some(&one), &default).await;
    servers(&one).create(&server("later")).await;
    servers(&one).wait_ready("later", SOON).await;
    assert_eq!(ordered(&host, "own").await, ["later"]);
    assert_eq!(ordered(&host, "shared").await, ["web"]);

    // A second one is one too many where both serve, and none where it does not.
    shared_account(&host, "second", &[&two], Some("true")).await;
    servers(&two).create(&server("torn")).await;
    let names = ["ClusterProviderAccount second", of_shared];
    waits(&servers(&two), "torn", "SeveralDefaults", &names).await;
    servers(&three).create(&server("sure")).await;
    let sure = servers(&three).wait_ready("sure", SOON).await;
    assert_eq!(bound(&sure), of_shared);
    assert_eq!(ordered(&host, "second").await, [""; 0]);
    // The word moves: who waits follows it, who is bound stays.
    shared_account(&host, "shared", &all, None).await;
    let torn = servers(&two).wait_ready("torn", SOON).await;
    assert_eq!(bound(&torn), "ClusterProviderAccount second");
    for (namespace, name) in [(&one, "web"), (&three, "sure")] {
        let stays = servers(namespace).wait_ready(name, SOON).await;
        assert_eq!(bound(&stays), of_shared, "{name}");
    }
    assert_eq!(ordered(&host, "shared").await, ["sure", "web"]);

    // Deleted, it waits, and says who uses it, of every kind.
    let told = async |words: &[&str]| {
        eventually("who uses it is told", SOON, async || {
            let account = accounts.get("shared").await?;
            let ready = condition(&account, "Ready")?;
            let message = text(&ready["message"]);
            let is_told = words.iter().all(|word| message.contains(word));
            (ready["reason"] == "InUse" && is_told).then_some(account)
        })
        .await
    };
    accounts.delete("shared").await;
    let secrets = &world.secrets();
    secrets.delete("shared", &Default::default()).await.unwrap();
    let (web, sure) = (format!("{one}/web"), format!("{three}/sure"));
    let (team, laptop) = (
        format!("ServerTag {one}/team"),
        format!("SshKey {one}/laptop"),
    );
    let account = told(&["BareMetalServer", &web, &sure, &team, &laptop]).await;
    let users = json!([
        {"kind": "BareMetalServer", "count": 2}, {"kind": "ServerTag", "count": 1}, {"kind": "SshKey", "count": 1},
    ]);
    assert_eq!(account["status"]["users"], users);
    let capacity = &account["status"]["capacity"];
    assert!(capacity["quotas"][0]["location"].is_string(), "{account:#}");
    assert!(account["status"]["calls"]["perMinute"].is_i64());
    servers(&one).delete("web").await;
    servers(&three).delete("sure").await;
    keys.delete("laptop").await;
    keys.wait_gone("laptop", SOON).await;
    told(&["used by 1 object (", &team]).await;
    assert!(secrets.get_opt("shared").await.unwrap().is_some());
    tags.delete("team").await;
    accounts.wait_gone("shared", SOON).await;
    assert!(secrets.get_opt("shared").await.unwrap().is_none());
    judge(world).await;
}

/// Namespaces, and accounts in each of them.
const MANY: usize = 10;

/// The account of this number in a namespace: one is its default, one has a name that no other namespace has.
fn name_of(namespace: usize, number: usize) -> String {
    match number {
        0 => "default".to_owned(),
        9 => format!("only-{namespace}"),
        _ => format!("account-{number}"),
    }
}

/// Ten namespaces with ten accounts each, most of which have the same names: each machine is ordered once, with the key
/// that its namespace has under that name.
#[tokio::test]
async fn ten_by_ten() {
    let host = Host::start(0).await;
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
        apply(&world.client, of, &secret(&name, "apiKey", &key)).await;
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
        things.create(&with(&format!("web-{number}"), &spec)).await;
    }
    // What another namespace has under a name is nothing here.
    let strangers = world.things_in(&namespaces[0], "BareMetalServer");
    let spec = json!({"accountRef": {"name": name_of(1, 9)}});
    strangers.create(&with("stranger", &spec)).await;

    for (namespace, number) in each() {
        let things = world.things_in(&namespaces[namespace], "BareMetalServer");
        let ready = things.wait_ready(&format!("web-{number}"), 3 * SOON).await;
        let there = at_provider(namespace, number);
        let machines = world.simulator.machines_of(&there).await;
        let uuids: Vec<_> = machines.iter().map(|m| &m["uuid"]).collect();
        assert_eq!(uuids, [&ready["status"]["uuid"]], "{there}");
        let ledger = world.simulator.ledger_of(&there).await;
        let orders = ledger.iter().filter(|call| call["method"] == "POST");
        assert_eq!(orders.count(), 1, "{there}");
    }
    waits(&strangers, "stranger", "AccountNotFound", &["only-1"]).await;
    // Each account knows its own user and no other.
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
    judge(world).await;
}
