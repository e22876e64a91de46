//! The control plane itself: the features that other tests rely on work.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Resource};

use lab::rig::{Cluster, cluster, eventually};

const SOON: Duration = Duration::from_secs(30);
/// Garbage collection discovers new kinds every 30 s, namespaces wait 5 s.
const CLEARED: Duration = Duration::from_secs(90);

#[tokio::test]
async fn api_server_is_ready_and_knows_its_version() {
    let client = cluster().client().await;
    let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
    assert_eq!(client.request_text(request).await.unwrap(), "ok");
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(
        (version.major.as_str(), version.minor.as_str()),
        ("1", "36")
    );
    assert!(
        version.git_version.starts_with("v1.36."),
        "Helm reads {}",
        version.git_version
    );
}

#[tokio::test]
async fn deleted_namespace_goes_away_with_its_content() {
    let client = cluster().client().await;
    let name = cluster().namespace("deleted").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
    maps.create(&PostParams::default(), &map("content", None))
        .await
        .unwrap();

    let namespaces: Api<Namespace> = Api::all(client);
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();

    eventually("the namespace is gone", CLEARED, async || {
        namespaces
            .get_opt(&name)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert!(maps.get_opt("content").await.unwrap().is_none());
}

#[tokio::test]
async fn owned_object_is_collected_after_its_owner() {
    let name = cluster().namespace("owned").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster().client().await, &name);
    let owner = maps
        .create(&PostParams::default(), &map("owner", None))
        .await
        .unwrap();
    let owned = map("owned", owner.controller_owner_ref(&()));
    maps.create(&PostParams::default(), &owned).await.unwrap();
    maps.create(&PostParams::default(), &map("free", None))
        .await
        .unwrap();

    maps.delete("owner", &DeleteParams::background())
        .await
        .unwrap();

    eventually("the owned object is gone", CLEARED, async || {
        maps.get_opt("owned").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(
        maps.get_opt("free").await.unwrap().is_some(),
        "only what is owned goes"
    );
}

#[tokio::test]
async fn token_is_limited_to_its_granted_rights() {
    let name = cluster().namespace("rights").await;
    cluster()
        .kubectl_ok(&["-n", &name, "create", "serviceaccount", "reader"])
        .await;
    let token = cluster()
        .kubectl_ok(&["-n", &name, "create", "token", "reader"])
        .await;
    let client = cluster().client_with_token(token.trim()).await;
    let pods: Api<Pod> = Api::namespaced(client, &name);

    let refused = pods.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = &refused else {
        panic!("not an answer of the API server: {refused}")
    };
    assert_eq!(status.code, 403, "{status}");
    assert!(
        status
            .message
            .contains(&format!("system:serviceaccount:{name}:reader")),
        "{status}"
    );

    let binding = [
        "-n",
        &name,
        "create",
        "rolebinding",
        "reader",
        "--clusterrole=view",
    ];
    let subject = format!("--serviceaccount={name}:reader");
    cluster()
        .kubectl_ok(&[&binding[..], &[&subject]].concat())
        .await;
    eventually("the right is there once granted", SOON, async || {
        pods.list(&ListParams::default()).await.ok()
    })
    .await;
}

#[tokio::test]
async fn audit_log_records_writes_and_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.log");
    let own = Cluster::own_with_audit_log(&log);
    own.kubectl_ok(&["-n", "default", "create", "configmap", "written"])
        .await;
    own.kubectl_ok(&["-n", "default", "get", "configmap", "written"])
        .await;

    let text = std::fs::read_to_string(&log).unwrap();
    let entries: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let written: Vec<_> = entries
        .iter()
        .filter(|entry| entry["objectRef"]["name"] == "written")
        .collect();
    assert_eq!(
        written.len(),
        1,
        "one write, and reads are not logged: {written:?}"
    );
    assert_eq!(written[0]["user"]["username"], "admin");
    assert_eq!(written[0]["verb"], "create");
    assert_eq!(written[0]["responseStatus"]["code"], 201);
}

fn map(name: &str, owner: Option<OwnerReference>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    }
}
