//! Namespaces and a ClusterProviderAccount: each gets what its entry allows and no more.
//! Objects in other namespaces have no effect on the account, whatever their status claims.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_api, build_secret, build_server, check_invariants,
    cluster_wide::SharedOperator, count_orders, text, wait_stalled,
};
use lab::rig::{World, eventually, quick_timing};

/// Writes a ClusterProviderAccount with these entries, for the simulator of `world` and named after its namespace.
async fn create_cluster_account(host: &SharedOperator, world: &World, entries: &Value) -> Value {
    create_timed_account(host, world, entries, &quick_timing()).await
}

/// Like [`create_cluster_account`], with other intervals.
pub(super) async fn create_timed_account(
    host: &SharedOperator,
    world: &World,
    entries: &Value,
    timing: &Value,
) -> Value {
    let name = &world.namespace;
    let key = build_secret(name, "apiKey", world.simulator.api_key());
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

/// A spec with a reference to a ClusterProviderAccount and more fields.
fn build_spec(account: &World, more: Value) -> Value {
    let mut spec = more;
    spec["accountRef"] = json!({"kind": "ClusterProviderAccount", "name": account.namespace});
    spec
}

/// Sets a label of the namespace of a world.
pub(super) async fn set_namespace_label(world: &World, key: &str, value: &Value) {
    let namespaces = json!({"apiVersion": "v1", "kind": "Namespace"});
    let change = json!({"metadata": {"labels": {key: value}}});
    build_api(&world.client, None, &namespaces)
        .patch(
            &world.namespace,
            &PatchParams::default(),
            &Patch::Merge(change),
        )
        .await
        .unwrap();
}

/// With a ClusterProviderAccount, an object adopts a server only if its entry allows it.
pub(super) async fn check_entry_adoption(host: &SharedOperator) -> World {
    let world = host.start_guest_world("taken").await;
    let entries = |adoption: bool| {
        json!([{
            "name": "team", "namespaces": [world.namespace], "allowAdoption": adoption,
        }])
    };
    create_cluster_account(host, &world, &entries(false)).await;
    let there = json!({"name": "there", "tags": ["web"]});
    let there = text(&world.simulator.appear(&there).await["uuid"]);
    let spec = json!({"externalID": there, "hostname": "there"});
    world
        .create(&build_server("there", &build_spec(&world, spec)))
        .await;
    let words = ["spec.externalID", "set allowAdoption"];
    wait_stalled(&world, "there", "NotAllowed", &words).await;
    assert_eq!(count_orders(&world).await, 0);
    create_cluster_account(host, &world, &entries(true)).await;
    let object = world.wait_ready("there", SOON).await;
    assert_eq!(object["status"]["uuid"], *there);
    assert_eq!(count_orders(&world).await, 0);
    check_invariants(&world).await;
    world
}

/// The limits of an entry count all its namespaces together, and labels select them.
pub(super) async fn check_entry_limits(host: &SharedOperator) -> (World, World) {
    let (one, other) = tokio::join!(
        host.start_guest_world("entry"),
        host.start_guest_world("entry")
    );
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
    create_cluster_account(host, &one, &entries(1, false)).await;
    // The operator refuses each value that the entry does not list, before it orders anything.
    for (name, spec, words) in [
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
        one.create(&build_server(name, &build_spec(&one, spec)))
            .await;
        wait_stalled(&one, name, "NotAllowed", &words).await;
        one.delete(name).await;
        one.wait_gone(name, SOON).await;
    }
    assert_eq!(count_orders(&one).await, 0);

    // The other world's namespace does not match the entry until it has the label.
    other
        .create(&build_server("first", &build_spec(&one, json!({}))))
        .await;
    wait_stalled(&other, "first", "NotAllowed", &["spec.allowedNamespaces"]).await;
    set_namespace_label(&other, "team", &json!(team)).await;
    let first = other.wait_ready("first", SOON).await;
    one.create(&build_server("second", &build_spec(&one, json!({}))))
        .await;
    wait_stalled(
        &one,
        "second",
        "LimitReached",
        &["limits.maxServers", "\"team\"", "is 1"],
    )
    .await;
    assert_eq!(count_orders(&one).await, 1);

    // The operator does not apply a policy that is not allowed, and does not lose the server.
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    other.merge("first", &retain).await;
    other.delete("first").await;
    wait_stalled(&other, "first", "NotAllowed", &["spec.deletionPolicy"]).await;
    let uuid = text(&first["status"]["uuid"]);
    let kept = super::get_server(&one, &uuid).await;
    assert!(
        kept["status"] == "delivered" && !super::is_retained(&kept),
        "{kept}"
    );
    // After the namespace lost its label, the operator still releases the server.
    set_namespace_label(&other, "team", &Value::Null).await;
    let release = json!({"spec": {"deletionPolicy": "Release"}});
    other.merge("first", &release).await;
    other.wait_gone("first", SOON).await;
    assert_eq!(super::get_server(&one, &uuid).await["status"], "released");
    let second = one.wait_ready("second", SOON).await;
    assert_eq!(count_orders(&one).await, 2);

    // A suspended entry blocks everything, releases too.
    create_cluster_account(host, &one, &entries(1, true)).await;
    one.delete("second").await;
    let words = ["entry \"team\" of the account's spec.allowedNamespaces"];
    super::wait_deletion_blocked(&one, "second", "Suspended", &words).await;
    let uuid = text(&second["status"]["uuid"]);
    assert_eq!(super::get_server(&one, &uuid).await["status"], "delivered");
    create_cluster_account(host, &one, &entries(1, false)).await;
    one.wait_gone("second", SOON).await;
    check_invariants(&one).await;
    (one, other)
}

/// An object in a namespace that is not allowed causes no call and does not count as user of the account.
pub(super) async fn check_unserved_namespaces(host: &SharedOperator) -> (World, World) {
    let (world, outside) = tokio::join!(
        host.start_guest_world("insiders"),
        host.start_guest_world("outsiders")
    );
    let entries = json!([{"name": "team", "namespaces": [world.namespace]}]);
    create_cluster_account(host, &world, &entries).await;
    let accounts = build_api(
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

    // Objects that claim an order: one by a finalizer only, and one by a restored status of another object.
    // Users cannot write a status.
    let object = |name: &str| {
        let mut object = build_server(name, &build_spec(&world, json!({})));
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
    // Both accounts with this key have an orphan scan. It lists the tags once a day, starting with the first server.
    world
        .create(&build_server("before", &build_spec(&world, json!({}))))
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
        wait_stalled(&outside, name, "NotAllowed", &words).await;
    }
    for kind in ["ServerTag", "SshKey"] {
        let things = outside.things(kind);
        let object = match kind {
            "ServerTag" => super::tags::build_tag("forged", &build_spec(&world, json!({}))),
            _ => {
                let mut key = super::ssh_keys::build_deleting_key("forged", 'A');
                key["spec"] = build_spec(&world, key["spec"].take());
                key
            }
        };
        things.create(&object).await;
        things
            .wait_for_condition("forged", "Ready", "False", Some("NotAllowed"), SOON)
            .await;
    }
    // Allowed objects continue. When their order is complete, all calls that were queued before it are done.
    world
        .create(&build_server("inside", &build_spec(&world, json!({}))))
        .await;
    world.wait_ready("inside", SOON).await;
    let ledger = world.simulator.ledger().await;
    let of_others = ledger.iter().filter(|call| {
        let path = text(&call["path"]);
        // The operator searches the allowed object's order by its tag if the answer is slow.
        let is_inside = path.contains("fmo-order");
        !is_inside && (path.contains("/tags") || path.contains("/sshKey"))
    });
    assert_eq!(of_others.collect::<Vec<_>>(), Vec::<&Value>::new());

    // The other objects do not block the deletion of the account.
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
    // Without an account, the operator does not know whether these objects have a server.
    // It adds no finalizer to an object that is being deleted.
    for name in ["stranger", "own"] {
        outside.delete(name).await;
        let free = json!({"metadata": {"finalizers": null}});
        outside.merge(name, &free).await;
        outside.wait_gone(name, SOON).await;
    }
    check_invariants(&world).await;
    (world, outside)
}
