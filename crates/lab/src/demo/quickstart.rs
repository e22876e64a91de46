//! Applies `examples/quickstart` in the demo's cluster, waits for its objects, and shows them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::print_message;
use crate::{
    kubectl::{Kubectl, KubectlError},
    product::SimulatorAccess,
};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart");
/// Namespace of the manifests.
pub(crate) const NAMESPACE: &str = "demo";
/// Time limit for all objects together.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// Why the quickstart did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuickstartError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not YAML")]
    Parse {
        path: PathBuf,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    #[error("no Secret with a key in {MANIFESTS}")]
    NoKey,
    #[error(transparent)]
    Kubectl(#[from] KubectlError),
    #[error("cannot read an object of the manifests")]
    Get(#[source] kube::Error),
    #[error("not Ready within {} s: {objects}", READY_WITHIN.as_secs())]
    NotReady { objects: String },
}

/// The API key in the manifests. The simulator is started with it.
pub(crate) fn key() -> Result<String, QuickstartError> {
    let manifests = read_manifests()?;
    let key = manifests
        .iter()
        .find_map(|object| object["stringData"]["apiKey"].as_str());
    key.map(str::to_owned).ok_or(QuickstartError::NoKey)
}

/// The values that the manifests need from the user.
#[derive(Debug)]
pub(crate) struct Given {
    /// The port differs in every demo.
    pub(crate) simulator: SimulatorAccess,
    /// A public key, as in `id_ed25519.pub`.
    pub(crate) ssh_key: String,
}

/// Applies the manifests with the simulator's URL, the user's key, and the ConfigMap that they need.
/// Repeating it is harmless.
pub(crate) async fn apply(kubectl: &Kubectl, given: &Given) -> Result<(), QuickstartError> {
    let mut manifests = read_manifests()?;
    for object in &mut manifests {
        if object["stringData"]["baseURL"].is_string() {
            object["stringData"]["baseURL"] = json!(given.simulator.api);
        }
        if object["kind"] == "SshKey" {
            object["spec"]["publicKey"] = json!(given.ssh_key);
        }
    }
    manifests.push(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ssh-key", "namespace": NAMESPACE},
        "data": {"id_ed25519.pub": given.ssh_key},
    }));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": manifests });
    let command = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl.run_with_input(&command, &list.to_string()).await?;
    Ok(())
}

/// The objects of all files, in the order of `kubectl apply -f`.
fn read_manifests() -> Result<Vec<Value>, QuickstartError> {
    let unreadable = |path: PathBuf| move |source| QuickstartError::Read { path, source };
    let mut files = fs::read_dir(MANIFESTS)
        .and_then(|entries| {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<io::Result<Vec<_>>>()
        })
        .map_err(unreadable(MANIFESTS.into()))?;
    files.retain(|path| {
        let is_yaml = path.extension().is_some_and(|it| it == "yaml");
        is_yaml && !path.ends_with("kustomization.yaml")
    });
    files.sort();
    let mut objects = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(unreadable(path.clone()))?;
        let some: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|source| QuickstartError::Parse {
                path,
                source: Box::new(source),
            })?;
        objects.extend(some);
    }
    Ok(objects)
}

/// An object of the manifests to wait for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Awaited {
    kind: String,
    name: String,
}

/// The objects of our kinds in the manifests, except the account. None of them is Ready without it.
fn awaited() -> Result<Vec<Awaited>, QuickstartError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = |object: &&Value| {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        version.starts_with("flexmetal.dev/") && object["kind"] != "ProviderAccount"
    };
    let manifests = read_manifests()?;
    let awaited = manifests.iter().filter(ours).map(|object| Awaited {
        kind: text(&object["kind"]),
        name: text(&object["metadata"]["name"]),
    });
    Ok(awaited.collect())
}

/// Waits until every object is Ready, and prints changes meanwhile.
pub(crate) async fn wait_ready(
    client: Client,
    kubectl: &Kubectl,
    given: &Given,
) -> Result<(), QuickstartError> {
    let wanted = awaited()?;
    let deadline = Instant::now() + READY_WITHIN;
    let mut printed: BTreeMap<Awaited, String> = BTreeMap::new();
    loop {
        let mut waiting = Vec::new();
        for awaited in &wanted {
            let found = api(client.clone(), &awaited.kind)
                .get_opt(&awaited.name)
                .await
                .map_err(QuickstartError::Get)?;
            let Some(object) = found else {
                // The user deleted it earlier, and it is gone only now.
                apply(kubectl, given).await?;
                waiting.push(awaited.name.as_str());
                continue;
            };
            let ready = is_ready(&object);
            let now = situation(&object);
            if printed.get(awaited) != Some(&now) {
                let Awaited { kind, name } = awaited;
                print_message(&format!("  {kind:<15} {name:<10} {now}"));
                printed.insert(awaited.clone(), now);
            }
            if !ready {
                waiting.push(&awaited.name);
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(QuickstartError::NotReady {
                objects: waiting.join(", "),
            });
        }
        sleep(POLL).await;
    }
}

/// The API of one of our kinds in the demo's namespace.
fn api(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("flexmetal.dev", "v1alpha1", kind);
    Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind))
}

fn condition<'a>(server: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = server.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|each| each["type"] == kind)
}

/// Whether the object is Ready for the current spec and not being deleted.
fn is_ready(server: &DynamicObject) -> bool {
    server.metadata.deletion_timestamp.is_none()
        && server.data["status"]["observedGeneration"].as_i64() == server.metadata.generation
        && condition(server, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// One line for the user: the reason and the provider's status.
fn situation(server: &DynamicObject) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reason = condition(server, "Ready").map(|ready| text(&ready["reason"]));
    let word = text(&server.data["status"]["providerStatus"]);
    let reason = reason.unwrap_or_else(|| "not seen yet".to_owned());
    if word.is_empty() {
        reason
    } else {
        format!("{reason} ({word})")
    }
}

/// The conditions of all our objects, to show after a failed wait.
pub(crate) async fn conditions(kubectl: &Kubectl) -> String {
    let columns = r#"jsonpath={range .items[*]}{.metadata.name}{"\n"}{range .status.conditions[*]}{"  "}{.type}={.status} {.reason}: {.message}{"\n"}{end}{end}"#;
    let all = "flexmetal";
    let shown = kubectl
        .run(&["-n", NAMESPACE, "get", all, "-o", columns])
        .await;
    shown.unwrap_or_else(|error| error.to_string())
}
