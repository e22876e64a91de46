//! What a user with the chart's roles can do, and what the plugin says is missing.

use super::super::SOON;
use super::{Plugin, changing_calls};
use crate::chart::{of_kind, render::rendered};
use lab::rig::{World, cluster, server};
use serde_json::{Value, json};

/// A user of the world's namespace with a role of the chart, such as `view`.
async fn user_with_role(world: &World, role: &str) -> Plugin {
    let (_, objects) = rendered().into_iter().next().expect("the chart renders");
    let chart_role = of_kind(&objects, "ClusterRole")
        .find(|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name.ends_with(&format!("-{role}"))
        })
        .expect("the chart has the role");
    let own_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": role}, "rules": chart_role["rules"],
    });
    super::apply(world, &own_role.to_string()).await;
    let kubectl = async |args: &[&str]| {
        let namespaced = [&["--namespace", &world.namespace][..], args].concat();
        cluster().kubectl_ok(&namespaced).await
    };
    kubectl(&["create", "serviceaccount", role]).await;
    let account = format!("--serviceaccount={}:{role}", world.namespace);
    let of_role = format!("--role={role}");
    kubectl(&["create", "rolebinding", role, &of_role, &account]).await;
    let token = kubectl(&["create", "token", role]).await;
    let kubeconfig = cluster().kubeconfig_with_token(token.trim());
    let path = world.folder().join(format!("{role}.kubeconfig"));
    std::fs::write(&path, serde_saphyr::to_string(&kubeconfig).unwrap()).unwrap();
    Plugin::with_kubeconfig(world, &path)
}

#[tokio::test]
async fn viewer_reads_status_but_no_key() {
    let world = World::start(cluster(), "plugin-rights").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let viewer = user_with_role(&world, "view").await;
    for args in [
        &["status"][..],
        &["status", "web"],
        &["explain", "web"],
        &["catalog"],
        &["wait", "web", "--for", "ready"],
    ] {
        viewer.run_expecting(0, args).await;
    }
    for args in [
        &["servers"][..],
        &["tags"],
        &["quota"],
        &["hardware", "web"],
        &["account", "check"],
        &["power", "reboot", "web", "--yes"],
        &["suspend", "web", "--yes"],
    ] {
        let refused = viewer.run_expecting(4, args).await;
        assert_eq!(refused.out, "", "{args:?}");
        let names_right = ["secrets", "servercommands", "baremetalservers"]
            .iter()
            .any(|resource| refused.err.contains(resource));
        assert!(names_right, "{args:?}: {}", refused.err);
    }
    let orders = changing_calls(&world).await;
    assert!(
        !orders.iter().any(|call| call.ends_with("/commands")),
        "{orders:?}"
    );
}

#[tokio::test]
async fn server_role_suffices_for_changes() {
    let world = World::start(cluster(), "plugin-editor").await;
    world.create(&server("web")).await;
    world.wait_ready("web", SOON).await;
    let user = user_with_role(&world, "servers").await;
    for args in [
        &["power", "reboot", "web", "--yes", "--wait"][..],
        &["suspend", "web", "--yes"],
        &["resume", "web", "--yes"],
        &["reconcile", "web"],
    ] {
        user.run_expecting(0, args).await;
    }
    let object: Value = world.get("web").await.unwrap();
    assert_ne!(object["spec"]["suspend"], json!(true));
}
