//! The paths of `deploy/kube-state-metrics.yaml`, held against real objects.

use super::{
    checkout,
    install::{HelmRelease, SOON},
    monitoring::{list, read_yaml},
    pod::EVERY_KIND,
};
use lab::rig::{Simulator, eventually};
use serde_json::{Value, json};

/// A path of the configuration, and below it that of an item or a label.
struct MetricPath {
    kind: String,
    outer: Vec<String>,
    inner: Vec<String>,
}

/// The paths that no object had so far.
struct UnseenPaths(Vec<MetricPath>);

impl UnseenPaths {
    /// All paths of the configuration.
    fn all() -> Self {
        let config = read_yaml(&checkout("deploy/kube-state-metrics.yaml"));
        let mut paths = Vec::new();
        for resource in list(&config["spec"]["resources"]) {
            let kind = resource["groupVersionKind"]["kind"].as_str().unwrap();
            // The API server writes the metadata of every kind.
            let mut add = |outer: &Value, inner: &Value| {
                if outer[0] == "metadata" || outer.is_null() && inner[0] == "metadata" {
                    return;
                }
                paths.push(MetricPath {
                    kind: kind.to_owned(),
                    outer: steps(outer),
                    inner: steps(inner),
                });
            };
            add_labels(resource, |path| add(path, &Value::Null));
            for metric in list(&resource["metrics"]) {
                add_labels(metric, |path| add(path, &Value::Null));
                let kinds = ["gauge", "stateSet", "info"];
                let each = kinds.iter().map(|kind| &metric["each"][kind]);
                let each = each.into_iter().find(|each| each.is_object()).unwrap();
                add(&each["path"], &each["valueFrom"]);
                add_labels(each, |path| add(&each["path"], path));
            }
        }
        Self(paths)
    }

    /// Forgets the paths that this object has.
    fn observe(&mut self, object: &Value) {
        let kind = object["kind"].as_str().unwrap();
        // Both kinds of account have one type of spec and status.
        let is_account = kind.ends_with("ProviderAccount");
        self.0.retain(|path| {
            let is_alike = is_account && path.kind.ends_with("ProviderAccount");
            !(is_alike || path.kind == kind) || !path.is_in(object)
        });
    }

    /// The rest, as text.
    fn names(&self) -> Vec<String> {
        let name = |path: &MetricPath| {
            let steps = path.outer.iter().chain(&path.inner);
            let steps: Vec<_> = steps.map(String::as_str).collect();
            format!("{}: {}", path.kind, steps.join("."))
        };
        let mut names: Vec<_> = self.0.iter().map(name).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl HelmRelease<'_> {
    /// Deletes the objects of the kinds of `EVERY_KIND`. Until that ends, real objects have each path of the
    /// configuration: a command that failed, a server released elsewhere, and a release that waits for the limit.
    pub(super) async fn check_state_metrics(&self, simulator: &Simulator) {
        let on_work = async |arguments: &[&str]| {
            let arguments = [&["-n", &self.work], arguments].concat();
            self.cluster.kubectl_ok(&arguments).await
        };
        simulator
            .settings(&json!({"commandFailureRate": 1.0}))
            .await;
        let failing = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {"name": "failing", "namespace": self.work},
            "spec": {"targetRef": {"name": "own"}, "action": "Reboot"}});
        self.apply(&failing).await;
        on_work(&[
            "wait",
            "--for=condition=Failed",
            "scmd/failing",
            "--timeout=60s",
        ])
        .await;
        simulator
            .settings(&json!({"commandFailureRate": 0.0}))
            .await;
        let uuid = on_work(&["get", "bms", "shared", "-o", "jsonpath={.status.uuid}"]).await;
        simulator.alter(&uuid, &json!({"status": "released"})).await;

        let mut unseen = UnseenPaths::all();
        let mut observe = async || {
            let kinds = format!("{EVERY_KIND},scmd,pacct,cpacct");
            let text = on_work(&["get", &kinds, "-o", "json"]).await;
            let found: Value = serde_json::from_str(&text).unwrap();
            for object in found["items"].as_array().unwrap() {
                unseen.observe(object);
            }
            unseen.names()
        };
        let released = "BareMetalServer: status.releasedAt".to_owned();
        eventually("the release elsewhere shows", SOON, async || {
            let is_shown = !observe().await.contains(&released);
            is_shown.then_some(())
        })
        .await;
        on_work(&["delete", EVERY_KIND, "--all", "--wait=false"]).await;
        eventually("all paths of kube-state-metrics", SOON, async || {
            observe().await.is_empty().then_some(())
        })
        .await;
        on_work(&["delete", "scmd/failing"]).await;
        let more = r#"--patch={"spec":{"releaseLimit":{"maxReleases":10}}}"#;
        on_work(&["patch", "pacct", "default", "--type=merge", more]).await;
    }
}

impl MetricPath {
    fn is_in(&self, object: &Value) -> bool {
        let Some(found) = follow(object, &self.outer) else {
            return false;
        };
        match found.as_array() {
            Some(items) => items.iter().any(|item| follow(item, &self.inner).is_some()),
            None => follow(found, &self.inner).is_some(),
        }
    }
}

fn steps(path: &Value) -> Vec<String> {
    list(path)
        .map(|step| step.as_str().unwrap().to_owned())
        .collect()
}

fn add_labels(part: &Value, add: impl FnMut(&Value)) {
    let labels = part["labelsFromPath"].as_object();
    labels
        .into_iter()
        .flat_map(|labels| labels.values())
        .for_each(add);
}

/// The value at a path, as kube-state-metrics finds it: `[key=value]` is the item of a list with this value.
fn follow<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    let found = path.iter().try_fold(value, |value, step| {
        let selector = step.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match selector.and_then(|selector| selector.split_once('=')) {
            Some((key, wanted)) => list(value).find(|item| item[key] == wanted),
            None => value.get(step),
        }
    });
    found.filter(|value| !value.is_null())
}
