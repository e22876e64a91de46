//! What goes wrong around the objects: accounts that they may not use, a kind that is changed or deleted.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{SOON, api_of, apply, cluster_wide::Host, judge, orders, secret, stuck, with};
use lab::rig::{World, condition, eventually, install_kinds, quick_timing, server};

const KIND: &str = "baremetalservers.flexmetal.dev";

/// A cluster account serves the namespaces that it allows, and stops orders only.
pub(super) async fn namespace_not_allowed(host: &Host) -> World {
    let world = host.guest("allowed").await;
    let key = secret("shared-key", "apiKey", world.simulator.api_key());
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
    world.create(&with("one", &spec)).await;
    let words = [world.namespace.as_str(), "spec.allowedNamespaces"];
    stuck(&world, "one", "NotAllowed", &words).await;
    assert_eq!(orders(&world).await, 0);
    // Two entries that speak of one namespace allow nothing: which one holds cannot be told.
    let twice = json!([
        {"name": "others", "namespaces": ["elsewhere", world.namespace]}, {"name": "all", "namespaces": ["*"]},
    ]);
    apply(&world.client, None, &account(twice.clone())).await;
    eventually("the message names both entries", SOON, async || {
        let object = world.get("one").await?;
        let ready = condition(&object, "Ready")?;
        let told = ready["message"].as_str()?.contains(r#""others" and "all""#);
        (told && ready["reason"] == "NotAllowed").then_some(())
    })
    .await;
    stuck(&world, "one", "NotAllowed", &words).await;
    assert_eq!(orders(&world).await, 0);
    apply(&world.client, None, &account(json!([twice[0]]))).await;
    world.wait_ready("one", SOON).await;

    // The namespace loses its right: what it has stays, and can be given back.
    apply(&world.client, None, &account(elsewhere)).await;
    let accounts = api_of(&world.client, None, &account(json!([])));
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
    world.create(&with("two", &spec)).await;
    stuck(&world, "two", "NotAllowed", &words).await;
    world.wait_ready("one", SOON).await;
    world.delete("one").await;
    world.wait_gone("one", SOON).await;
    world.delete("two").await;
    world.wait_gone("two", SOON).await;
    assert_eq!(orders(&world).await, 1);

    // Nobody uses it any more, so account and Secret can go.
    accounts
        .delete("shared", &DeleteParams::default())
        .await
        .unwrap();
    let secrets = api_of(&world.client, Some(&host.world.namespace), &key);
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
    judge(&world).await;
    world
}

/// An object that was stored under another schema and cannot be decoded.
pub(super) async fn undecodable(host: &Host) -> World {
    let world = host.guest("undecodable").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let loose = json!([
        // Some of them speak of what is in it.
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
    let broken = with("broken", &json!({"os": "a word where a structure belongs"}));
    let servers = world.servers();
    eventually("the loose schema is served", SOON, async || {
        let object = serde_json::from_value(broken.clone()).unwrap();
        servers.create(&Default::default(), &object).await.ok()
    })
    .await;
    world.create(&server("good")).await;
    install_kinds(&world.client).await;

    let words = ["spec.os", "Correct the field"];
    stuck(&world, "broken", "InvalidSpec", &words).await;
    world.wait_ready("good", SOON).await;
    assert_eq!(orders(&world).await, 1);
    // Repaired, it goes on like any other.
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
    judge(&world).await;
    world
}

/// The kind itself is deleted: objects go, machines stay.
pub(super) async fn end_of_the_kind(host: &Host) {
    let world = host.guest("kindless").await;
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
    let machines = world.simulator.list_servers().await;
    assert_eq!(machines.len(), names.len());
    for machine in machines {
        assert_eq!(machine["status"], "delivered", "{machine}");
        assert!(super::is_retained(&machine), "{machine}");
    }
    let counts = world.simulator.counts().await;
    assert_eq!(counts.get("DELETE /v3/flexMetal/servers/{uuid}"), None);

    // The operator outlives it, and goes on when the kind is back.
    install_kinds(&world.client).await;
    let servers = world.servers();
    eventually("the kind is served again", SOON, async || {
        servers.list(&ListParams::default()).await.ok()
    })
    .await;
    world.create(&server("later")).await;
    world.wait_ready("later", SOON).await;
    judge(&world).await;
}
