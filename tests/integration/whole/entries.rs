//! Teams on an account of the cluster: each gets what its entry allows and no more, and who is not served is nobody
//! to it, whatever its objects say of themselves.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{SOON, api_of, apply, cluster_wide::Host, judge, orders, secret, stuck, text, with};
use lab::rig::{World, eventually, quick_timing};

/// Writes an account of the cluster with these entries, named after the namespace of the world whose simulator is
/// behind it.
async fn account(host: &Host, world: &World, entries: &Value) -> Value {
    timed_account(host, world, entries, &quick_timing()).await
}

/// The same, with times of its own.
pub(super) async fn timed_account(
    host: &Host,
    world: &World,
    entries: &Value,
    timing: &Value,
) -> Value {
    let name = &world.namespace;
    let key = secret(name, "apiKey", world.simulator.api_key());
    apply(&world.client, Some(&host.world.namespace), &key).await;
    let account = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": name},
        "spec": {
            "baseURL": world.simulator.api(), "apiKeySecretRef": {"name": name},
            "timing": timing, "allowedNamespaces": entries,
        },
    });
    apply(&world.client, None, &account).await
}

/// A spec that names an account of the cluster, with more.
fn spec(account: &World, more: Value) -> Value {
    let mut spec = more;
    spec["accountRef"] = json!({"kind": "ClusterProviderAccount", "name": account.namespace});
    spec
}

/// Sets a label of the namespace of a world.
pub(super) async fn label(world: &World, key: &str, value: &Value) {
    let namespaces = json!({"apiVersion": "v1", "kind": "Namespace"});
    let change = json!({"metadata": {"labels": {key: value}}});
    api_of(&world.client, None, &namespaces)
        .patch(
            &world.namespace,
            &PatchParams::default(),
            &Patch::Merge(change),
        )
        .await
        .unwrap();
}

/// Through an account of the cluster a machine that was there is taken on only where the entry says so.
pub(super) async fn adoption(host: &Host) -> World {
    let world = host.guest("taken").await;
    let entries = |adoption: bool| {
        json!([{
            "name": "team", "namespaces": [world.namespace], "allowAdoption": adoption,
        }])
    };
    account(host, &world, &entries(false)).await;
    let there = json!({"name": "there", "tags": ["web"]});
    let there = text(&world.simulator.appear(&there).await["uuid"]);
    let wish = json!({"externalID": there, "hostname": "there"});
    world.create(&with("there", &spec(&world, wish))).await;
    let words = ["spec.externalID", "set allowAdoption"];
    stuck(&world, "there", "NotAllowed", &words).await;
    assert_eq!(orders(&world).await, 0);
    account(host, &world, &entries(true)).await;
    let object = world.wait_ready("there", SOON).await;
    assert_eq!(object["status"]["uuid"], *there);
    assert_eq!(orders(&world).await, 0);
    judge(&world).await;
    world
}

/// The limits of an entry hold for its namespaces together, and labels say which those are.
pub(super) async fn limits(host: &Host) -> (World, World) {
    let (one, other) = tokio::join!(host.guest("entry"), host.guest("entry"));
    let team = one.namespace.clone();
    let entries = |most: i32, suspend: bool| {
        json!([{
            "name": "team", "suspend": suspend, "namespaces": [one.namespace], "namespaceSelector": {"matchLabels": {"team": team}},
            "limits": {
                "maxServers": most, "instanceTypes": ["bm7.std.8"], "locations": ["EU: Rotterdam"],
                "allowOverflow": false, "deletionPolicies": ["Release"],
            },
        }])
    };
    account(host, &one, &entries(1, false)).await;
    // Each wish that the entry does not list is refused before anything is ordered.
    for (name, wish, words) in [
        (
            "kind",
            json!({"instanceType": "bm8.std.32"}),
            ["spec.instanceType", "bm7.std.8"],
        ),
        (
            "place",
            json!({"location": "US: Miami"}),
            ["spec.location", "EU: Rotterdam"],
        ),
        (
            "overflow",
            json!({"contractID": "C-1", "overflow": true}),
            ["spec.overflow", "false"],
        ),
        (
            "retained",
            json!({"deletionPolicy": "Retain"}),
            ["spec.deletionPolicy", "Release"],
        ),
    ] {
        one.create(&with(name, &spec(&one, wish))).await;
        stuck(&one, name, "NotAllowed", &words).await;
        one.delete(name).await;
        one.wait_gone(name, SOON).await;
    }
    assert_eq!(orders(&one).await, 0);

    // The namespace of the other world is none of the team's until it bears its label.
    other.create(&with("first", &spec(&one, json!({})))).await;
    stuck(&other, "first", "NotAllowed", &["spec.allowedNamespaces"]).await;
    label(&other, "team", &json!(team)).await;
    let first = other.wait_ready("first", SOON).await;
    one.create(&with("second", &spec(&one, json!({})))).await;
    stuck(
        &one,
        "second",
        "LimitReached",
        &["limits.maxServers", "\"team\"", "is 1"],
    )
    .await;
    assert_eq!(orders(&one).await, 1);

    // A policy that is changed later is not carried out, and the machine is not lost.
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    other.merge("first", &retain).await;
    other.delete("first").await;
    stuck(&other, "first", "NotAllowed", &["spec.deletionPolicy"]).await;
    let uuid = text(&first["status"]["uuid"]);
    let kept = super::machine(&one, &uuid).await;
    assert!(
        kept["status"] == "delivered" && !super::is_retained(&kept),
        "{kept}"
    );
    // Not even where the namespace is not the team's any more: what is there is released all the same.
    label(&other, "team", &Value::Null).await;
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    other.merge("first", &release).await;
    other.wait_gone("first", SOON).await;
    assert_eq!(super::machine(&one, &uuid).await["status"], "released");
    let second = one.wait_ready("second", SOON).await;
    assert_eq!(orders(&one).await, 2);

    // An entry that is suspended stops everything, releases too.
    account(host, &one, &entries(1, true)).await;
    one.delete("second").await;
    let words = ["entry \"team\" of the account's spec.allowedNamespaces"];
    super::blocked(&one, "second", "Suspended", &words).await;
    let uuid = text(&second["status"]["uuid"]);
    assert_eq!(super::machine(&one, &uuid).await["status"], "delivered");
    account(host, &one, &entries(1, false)).await;
    one.wait_gone("second", SOON).await;
    judge(&one).await;
    (one, other)
}

/// An object of a namespace that is not served causes no call and is no user, whatever it says of itself.
pub(super) async fn outsiders(host: &Host) -> (World, World) {
    let (world, outside) = tokio::join!(host.guest("insiders"), host.guest("outsiders"));
    let entries = json!([{"name": "team", "namespaces": [world.namespace]}]);
    account(host, &world, &entries).await;
    let accounts = api_of(
        &world.client,
        None,
        &json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount"}),
    );
    eventually("the account is ready", SOON, async || {
        let account = accounts.get(&world.namespace).await.ok()?;
        let account = serde_json::to_value(account).ok()?;
        let ready = lab::rig::condition(&account, "Ready")?;
        (ready["status"] == "True").then_some(())
    })
    .await;

    // What shows orders of every kind: a finalizer alone, and the status of another object, as after a restore. A status of
    // its own it cannot write.
    let object = |name: &str| {
        let mut object = with(name, &spec(&world, json!({})));
        object["metadata"]["finalizers"] = json!(["flexmetal.dev/server"]);
        object
    };
    let account_id = async || {
        let account = accounts.get(&world.namespace).await.ok()?;
        account.data["status"]["accountID"]
            .as_str()
            .map(str::to_owned)
    };
    let account_id = eventually("the account has an ID", SOON, account_id).await;
    // The scans of both accounts with this key list its tags once a day, from its first server on.
    world
        .create(&with("before", &spec(&world, json!({}))))
        .await;
    world.wait_ready("before", SOON).await;
    eventually("both scans have listed the tags", SOON, async || {
        let ledger = world.simulator.ledger().await;
        let is_first_page = |call: &&Value| {
            call["path"] == "/v3/flexMetal/tags"
                && text(&call["rangedData"]).starts_with("start=0,")
        };
        (ledger.iter().filter(is_first_page).count() >= 2).then_some(())
    })
    .await;
    world.simulator.clear_ledger().await;
    outside.create(&object("stranger")).await;
    outside.create(&object("own")).await;
    let order = json!({
        "uid": "00000000-0000-4000-8000-000000000000", "seq": 1, "nonce": "a", "hostname": "stranger",
        "sendBy": "2026-01-01T00:00:00Z", "accountID": account_id,
    });
    let status = Patch::Merge(json!({"status": {"records": {"order": order}}}));
    let restored = outside
        .servers()
        .patch_status("stranger", &PatchParams::default(), &status)
        .await;
    restored.expect("a status can be restored");
    let words = [outside.namespace.as_str(), "spec.allowedNamespaces"];
    for name in ["stranger", "own"] {
        stuck(&outside, name, "NotAllowed", &words).await;
    }
    for kind in ["ServerTag", "SshKey"] {
        let things = outside.things(kind);
        let object = match kind {
            "ServerTag" => super::tags::tag("forged", &spec(&world, json!({}))),
            _ => {
                let mut key = super::ssh_keys::deleting_key("forged", 'A');
                key["spec"] = spec(&world, key["spec"].take());
                key
            }
        };
        things.create(&object).await;
        things
            .wait_for_condition("forged", "Ready", "False", Some("NotAllowed"), SOON)
            .await;
    }
    // The ones who are served go on; when their order is through, all that waited for a call has had its turn.
    world
        .create(&with("inside", &spec(&world, json!({}))))
        .await;
    world.wait_ready("inside", SOON).await;
    let ledger = world.simulator.ledger().await;
    let of_others = ledger.iter().filter(|call| {
        let path = text(&call["path"]);
        // The order of the one inside is looked for by its tag, where its answer takes too long.
        let is_inside = path.contains("fmo-order");
        !is_inside && (path.contains("/tags") || path.contains("/sshKey"))
    });
    assert_eq!(of_others.collect::<Vec<_>>(), Vec::<&Value>::new());

    // Nor do they keep the account from its end.
    for name in ["before", "inside"] {
        world.delete(name).await;
        world.wait_gone(name, SOON).await;
    }
    accounts
        .delete(&world.namespace, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the account is gone", SOON, async || {
        let found = accounts.get_opt(&world.namespace).await.ok()?;
        found.is_none().then_some(())
    })
    .await;
    // Without an account nobody can tell whether they have a machine. On an object that is being deleted nothing is
    // put back.
    for name in ["stranger", "own"] {
        outside.delete(name).await;
        let free = json!({"metadata": {"finalizers": null}});
        outside.merge(name, &free).await;
        outside.wait_gone(name, SOON).await;
    }
    judge(&world).await;
    (world, outside)
}
