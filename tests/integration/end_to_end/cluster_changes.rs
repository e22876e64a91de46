//! Changes in the cluster: accounts that a namespace may not use, and a CRD that is changed or deleted.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    SOON, apply, build_api, build_secret, build_server, check_invariants,
    cluster_wide::SharedOperator, count_orders, wait_stalled,
};
use lab::rig::{World, condition, eventually, install_kinds, quick_timing, server};

const KIND: &str = "baremetalservers.flexmetal.dev";

/// A ClusterProviderAccount serves the namespaces that it allows. For other namespaces only orders are blocked.
pub(super) async fn check_disallowed_namespace(host: &SharedOperator) -> World {
    let world = host.start_guest_world("allowed").await;
    let key = build_secret("shared-key", "apiKey", world.simulator.api_key());
    apply(&world.client, Some(&host.world.namespace), &key).await;
    let account = |entries: Value| {
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
            "metadata": {"name": "shared"},
            "spec": {
                "baseURL": world.simulator.api(), "apiKeySecretRef": {"name": "shared-key"},
                "timing": quick_timing(), "allowedNamespaces": entries,
            },
        })
    };
    let elsewhere = json!([{"name": "others", "namespaces": ["elsewhere"]}]);
    apply(&world.client, None, &account(elsewhere.clone())).await;
    let spec = json!({"accountRef": {"kind": "ClusterProviderAccount", "name": "shared"}});
    world.create(&build_server("one", &spec)).await;
    let words = [world.namespace.as_str(), "spec.allowedNamespaces"];
    wait_stalled(&world, "one", "NotAllowed", &words).await;
    assert_eq!(count_orders(&world).await, 0);
    // Two entries for one namespace allow nothing, because it is ambiguous which one applies.
    let twice = json!([
        {"name": "others", "namespaces": ["elsewhere", world.namespace]}, {"name": "all", "namespaces": ["*"]},
    ]);
    apply(&world.client, None, &account(twice.clone())).await;
    eventually("the message names both entries", SOON, async || {
        let object = world.get("one").await?;
        let ready = condition(&object, "Ready")?;
        let names_both = ready["message"].as_str()?.contains(r#""others" and "all""#);
        (names_both && ready["reason"] == "NotAllowed").then_some(())
    })
    .await;
    wait_stalled(&world, "one", "NotAllowed", &words).await;
    assert_eq!(count_orders(&world).await, 0);
    apply(&world.client, None, &account(json!([twice[0]]))).await;
    world.wait_ready("one", SOON).await;

    // The namespace loses its access: its server stays, and can be released.
    apply(&world.client, None, &account(elsewhere)).await;
    let accounts = build_api(&world.client, None, &account(json!([])));
    eventually(
        "the account's controller has seen the change",
        SOON,
        async || {
            let account = accounts.get("shared").await.ok()?;
            let seen = account.data["status"]["observedGeneration"].as_i64();
            (seen == account.metadata.generation).then_some(())
        },
    )
    .await;
    world.create(&build_server("two", &spec)).await;
    wait_stalled(&world, "two", "NotAllowed", &words).await;
    world.wait_ready("one", SOON).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(count_orders(&world).await, 1);

    // The account has no users any more, so account and Secret can be deleted.
    accounts
        .delete("shared", &DeleteParams::default())
        .await
        .unwrap();
    let secrets = build_api(&world.client, Some(&host.world.namespace), &key);
    secrets
        .delete("shared-key", &DeleteParams::default())
        .await
        .unwrap();
    eventually("account and Secret are gone", SOON, async || {
        let account = accounts.get_opt("shared").await.ok()?;
        let secret = secrets.get_opt("shared-key").await.ok()?;
        (account.is_none() && secret.is_none()).then_some(())
    })
    .await;
    check_invariants(&world).await;
    world
}

/// An object that was stored under another schema and cannot be decoded.
pub(super) async fn check_undecodable_object(host: &SharedOperator) -> World {
    let world = host.start_guest_world("undecodable").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let loose = json!([
        // Some rules refer to the fields of `os`.
        {"op": "remove", "path": format!("{spec}/x-kubernetes-validations")},
        {
            "op": "replace",
            "path": format!("{spec}/properties/os"),
            "value": {"x-kubernetes-preserve-unknown-fields": true},
        },
    ]);
    let loose = Patch::Json::<()>(serde_json::from_value(loose).unwrap());
    definitions
        .patch(KIND, &PatchParams::default(), &loose)
        .await
        .unwrap();
    let broken = build_server("broken", &json!({"os": "a word where a structure belongs"}));
    let servers = world.servers();
    eventually("the loose schema is served", SOON, async || {
        let object = serde_json::from_value(broken.clone()).unwrap();
        servers.create(&Default::default(), &object).await.ok()
    })
    .await;
    world.create(&server("good")).await;
    install_kinds(&world.client).await;

    let words = ["spec.os", "Correct the field"];
    wait_stalled(&world, "broken", "InvalidSpec", &words).await;
    world.wait_ready("good", SOON).await;
    assert_eq!(count_orders(&world).await, 1);
    // After its repair it continues like any other object.
    let repaired = json!({"spec": {"os": {"slug": "debian-12"}}});
    eventually("the strict schema is served", SOON, async || {
        let patch = Patch::Merge(&repaired);
        servers
            .patch("broken", &PatchParams::default(), &patch)
            .await
            .ok()
    })
    .await;
    world.wait_ready("broken", SOON).await;
    check_invariants(&world).await;
    world
}

/// The CRD is deleted: objects go, and servers stay.
pub(super) async fn check_crd_deletion(host: &SharedOperator) {
    let world = host.start_guest_world("kindless").await;
    let names = ["one", "two", "three"];
    for name in names {
        world.create(&server(name)).await;
    }
    for name in names {
        world.wait_ready(name, SOON).await;
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    definitions
        .delete(KIND, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the kind is gone", SOON, async || {
        definitions
            .get_opt(KIND)
            .await
            .ok()?
            .is_none()
            .then_some(())
    })
    .await;
    let provider_servers = world.simulator.list_servers().await;
    assert_eq!(provider_servers.len(), names.len());
    for provider_server in provider_servers {
        assert_eq!(provider_server["status"], "delivered", "{provider_server}");
        assert!(super::is_retained(&provider_server), "{provider_server}");
    }
    let counts = world.simulator.counts().await;
    assert_eq!(counts.get("DELETE /v3/flexMetal/servers/{uuid}"), None);

    // The operator keeps running, and continues when the kind is back.
    install_kinds(&world.client).await;
    let servers = world.servers();
    eventually("the kind is served again", SOON, async || {
        servers.list(&ListParams::default()).await.ok()
    })
    .await;
    world.create(&server("later")).await;
    world.wait_ready("later", SOON).await;
    check_invariants(&world).await;
}
