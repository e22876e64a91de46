//! Reads manifests, and has the API server admit each of them without storing anything.

use super::effects::{ApplyResult, ObjectPlan};
use crate::{
    context::{PluginContext, api_error},
    exit::PluginError,
    objects::{self, Object, ObjectKind},
};
use api::GROUP;
use kube::{
    Api,
    api::{DynamicObject, GroupVersionKind, Patch, PatchParams},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
    process::Command,
};

/// Annotation of `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A manifest or an object of the plan.
pub struct PlanItem {
    /// Its plan, so far without effects.
    pub plan: ObjectPlan,
    /// The object as it would be stored; none if the API server refuses it, or if it is of another API group.
    pub object: Option<Object>,
    /// The manifest; null if there is none.
    pub body: Value,
}

impl PlanItem {
    /// An object without a manifest.
    pub fn from_object(object: Object) -> Self {
        let kind = object.kind().as_str().to_owned();
        let mut plan = ObjectPlan::new(kind, object.name(), ApplyResult::NotApplied);
        plan.namespace = object.namespace().map(str::to_owned);
        Self {
            plan,
            object: Some(object),
            body: Value::Null,
        }
    }

    /// The same, refused for this reason.
    fn refuse(mut self, why: String) -> Self {
        self.plan.apply = ApplyResult::Refused;
        self.plan.why = why;
        self
    }
}

/// Reads the files. `-` is standard input.
pub fn read_files(paths: &[String]) -> Result<Vec<PlanItem>, PluginError> {
    let mut manifests = Vec::new();
    for path in paths {
        let failed = |source: io::Error| PluginError::File {
            path: path.clone(),
            source,
        };
        let text = match path.as_str() {
            "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).map_err(failed)?;
                text
            }
            folder if Path::new(folder).is_dir() => {
                let files = list_files(folder).map_err(failed)?;
                if files.is_empty() {
                    let text = "has no .yaml, .yml or .json file; folders in it are not read";
                    return Err(PluginError::Usage(format!("{folder} {text}")));
                }
                manifests.extend(read_files(&files)?);
                continue;
            }
            path => fs::read_to_string(path).map_err(failed)?,
        };
        manifests.extend(parse_manifests(&text, path)?);
    }
    Ok(manifests)
}

/// The manifests of a folder, as kubectl takes them: not those of its folders.
fn list_files(folder: &str) -> io::Result<Vec<String>> {
    let is_manifest = |path: &String| {
        let extension = Path::new(path).extension().unwrap_or_default();
        ["yaml", "yml", "json"].iter().any(|it| extension == *it)
    };
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    let paths = entries
        .iter()
        .map(|entry| entry.path().display().to_string());
    let mut files: Vec<String> = paths.filter(is_manifest).collect();
    files.sort();
    Ok(files)
}

/// The manifests that `kubectl kustomize` builds.
pub fn build_kustomization(folder: &Path) -> Result<Vec<PlanItem>, PluginError> {
    let shown = folder.display().to_string();
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder)
        .output();
    let output = output.map_err(|error| {
        PluginError::Other(format!("cannot run kubectl kustomize {shown}: {error}"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(PluginError::Other(format!(
            "kubectl kustomize {shown} failed: {}",
            said.trim()
        )));
    }
    parse_manifests(&String::from_utf8_lossy(&output.stdout), &shown)
}

/// Reads YAML documents or JSON, with the items of lists. `origin` is for messages.
pub fn parse_manifests(text: &str, origin: &str) -> Result<Vec<PlanItem>, PluginError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| PluginError::Usage(format!("{origin} is not YAML: {error}")))?;
    let mut manifests = Vec::new();
    for document in documents {
        add_manifests(document, origin, &mut manifests)?;
    }
    Ok(manifests)
}

fn add_manifests(
    document: Value,
    origin: &str,
    manifests: &mut Vec<PlanItem>,
) -> Result<(), PluginError> {
    if document.is_null() {
        return Ok(());
    }
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let missing = |field: &str| {
        let number = manifests.len() + 1;
        PluginError::Usage(format!("manifest {number} of {origin} has no {field}"))
    };
    let kind = text("/kind").ok_or_else(|| missing("kind"))?.to_owned();
    if kind.ends_with("List")
        && let Some(items) = document.get("items").and_then(Value::as_array)
    {
        for item in items {
            add_manifests(item.clone(), origin, manifests)?;
        }
        return Ok(());
    }
    text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
    let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?;
    let mut plan = ObjectPlan::new(kind, name, ApplyResult::Refused);
    plan.namespace = text("/metadata/namespace").map(str::to_owned);
    manifests.push(PlanItem {
        plan,
        object: None,
        body: document,
    });
    Ok(())
}

/// Has the API server admit a manifest, as this field manager applies it.
pub async fn dry_run(
    context: &PluginContext,
    mut item: PlanItem,
    field_manager: &str,
) -> Result<PlanItem, PluginError> {
    let plan = &mut item.plan;
    let version = item.body["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let own_kind = ObjectKind::parse(&plan.kind).filter(|_| group == GROUP);
    let named = GroupVersionKind::gvk(group, version, &plan.kind);
    let (resource, capabilities) = match pinned_kind(&context.client, &named).await {
        Ok(found) => found,
        Err(error) if is_unknown_kind(&error) => {
            let text = format!("The cluster has no kind {}", plan.kind);
            return Ok(item.refuse(text));
        }
        Err(error) => return Err(api_error(format!("find kind {}", plan.kind), error)),
    };
    let namespace = plan.namespace.take();
    let namespace = namespace.unwrap_or_else(|| context.namespace.clone());
    let client = context.client.clone();
    let objects: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => {
            let objects = Api::namespaced_with(client, &namespace, &resource);
            plan.namespace = Some(namespace);
            objects
        }
    };
    let title = plan.title();
    let mut before = None;
    if own_kind.is_some() {
        let found = objects.get_opt(&plan.name).await;
        before = found.map_err(|error| api_error(format!("read {title}"), error))?;
    }
    let mut params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(field_manager)
    };
    // What `kubectl apply` applied last, it also removes.
    let last = before.as_ref().and_then(find_last_applied);
    let patch = match last {
        Some(last) => {
            let mut manifest = item.body.clone();
            let annotations = &mut manifest["metadata"]["annotations"];
            if annotations.is_null() {
                // Those of others stay.
                *annotations = Value::Object(serde_json::Map::new());
            }
            Patch::Merge(merge_patch(&last, &manifest))
        }
        None => {
            params.force = true;
            Patch::Apply(item.body.clone())
        }
    };
    let after = match objects.patch(&plan.name, &params, &patch).await {
        Ok(after) => after,
        Err(kube::Error::Api(status)) => return Ok(item.refuse(status.message)),
        Err(error) => {
            return Err(api_error(
                format!("apply {title} without storing it"),
                error,
            ));
        }
    };
    plan.apply = match &before {
        None => ApplyResult::Created,
        Some(before) if is_same(before, &after) => ApplyResult::Unchanged,
        Some(_) => ApplyResult::Configured,
    };
    if let Some(kind) = own_kind {
        let decoded = serde_json::to_value(&after);
        let decoded = decoded.and_then(|value| objects::decode(kind, value));
        item.object =
            Some(decoded.map_err(|error| {
                PluginError::Other(format!("{title} cannot be decoded: {error}"))
            })?);
    }
    Ok(item)
}

/// The manifest that `kubectl apply` applied last, without server-side apply.
fn find_last_applied(object: &DynamicObject) -> Option<Value> {
    let annotations = object.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(LAST_APPLIED)?).ok()
}

/// The merge patch of `kubectl apply`: the manifest, and null for each field that only the last one has.
fn merge_patch(last: &Value, manifest: &Value) -> Value {
    let (Value::Object(last), Value::Object(manifest)) = (last, manifest) else {
        return manifest.clone();
    };
    let removed = last.keys().filter(|field| !manifest.contains_key(*field));
    let removed = removed.map(|field| (field.clone(), Value::Null));
    let kept = manifest.iter().map(|(field, value)| {
        let before = last.get(field).unwrap_or(&Value::Null);
        (field.clone(), merge_patch(before, value))
    });
    Value::Object(removed.chain(kept).collect())
}

/// Whether the API server does not know a kind or its group.
fn is_unknown_kind(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

/// Whether two versions of an object differ only in what the API server keeps of their history.
fn is_same(before: &DynamicObject, after: &DynamicObject) -> bool {
    let strip = |object: &DynamicObject| {
        let mut object = object.clone();
        object.metadata.managed_fields = None;
        object.metadata.resource_version = None;
        object
    };
    strip(before) == strip(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_and_lists_are_split() {
        let text = "---\n# only a comment\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: key\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- apiVersion: flexmetal.dev/v1alpha1\n  kind: ServerTag\n  \
                    metadata: {name: blue, namespace: a}\n";
        let manifests = parse_manifests(text, "-").unwrap();
        let titles: Vec<String> = manifests.iter().map(|it| it.plan.title()).collect();
        assert_eq!(titles, ["Secret key", "ServerTag a/blue"]);
    }

    #[test]
    fn incomplete_manifest_names_its_place() {
        let refused = |text: &str| {
            let error = parse_manifests(text, "web.yaml").err().unwrap();
            error.to_string()
        };
        assert_eq!(
            refused("apiVersion: v1\nkind: Secret"),
            "manifest 1 of web.yaml has no metadata.name"
        );
        assert_eq!(
            refused("kind: Secret\nmetadata: {name: a}"),
            "manifest 1 of web.yaml has no apiVersion"
        );
        assert!(refused("a: [").starts_with("web.yaml is not YAML"));
    }

    #[test]
    fn removed_fields_are_null_in_the_patch() {
        let last = json!({
            "metadata": {"name": "web", "annotations": {LAST_APPLIED: "x"}},
            "spec": {"suspend": true, "tags": ["a", "b"], "os": {"slug": "x", "old": 1}},
        });
        let manifest = json!({
            "metadata": {"name": "web"}, "spec": {"tags": [], "os": {"slug": "y"}},
        });
        let expected = json!({
            "metadata": {"name": "web", "annotations": null},
            "spec": {"suspend": null, "tags": [], "os": {"slug": "y", "old": null}},
        });
        assert_eq!(merge_patch(&last, &manifest), expected);
    }

    #[test]
    fn history_alone_is_no_change() {
        let object = |version: &str, generation: i64| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
                "metadata": {"name": "blue", "resourceVersion": version, "generation": generation,
                    "managedFields": [{"manager": version}]},
                "spec": {},
            }))
            .unwrap()
        };
        assert!(is_same(&object("1", 1), &object("2", 1)));
        assert!(!is_same(&object("1", 1), &object("1", 2)));
    }
}
