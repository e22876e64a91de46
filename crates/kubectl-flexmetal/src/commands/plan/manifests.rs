//! Reads manifests, and has the API server admit each of them without storing anything.

use crate::{
    context::{Context, api_error},
    exit::PluginError,
    objects::{self, Object, ObjectKind},
};
use api::GROUP;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read as _},
    path::Path,
    process::Command,
};

use super::effects::Admission;

/// One manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// All of it.
    pub body: Value,
}

impl Manifest {
    /// Such as `Secret team-a/key`.
    fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    fn is_ours(&self) -> bool {
        self.api_version.split('/').next() == Some(GROUP)
    }
}

/// The answer of the API server to a manifest.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The manifest.
    pub manifest: Manifest,
    /// What applying would do.
    pub admission: Admission,
    /// The object as it would be stored; none if the API server refuses it, or if it is of another API group.
    pub object: Option<Object>,
    /// Why the API server refuses it.
    pub refusal: Option<String>,
}

/// Reads the files. `-` is standard input.
pub fn read_files(paths: &[String]) -> Result<Vec<Manifest>, PluginError> {
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
            path => fs::read_to_string(path).map_err(failed)?,
        };
        manifests.extend(parse_manifests(&text, path)?);
    }
    Ok(manifests)
}

/// The manifests that `kubectl kustomize` builds.
pub fn build_kustomization(folder: &Path) -> Result<Vec<Manifest>, PluginError> {
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
pub fn parse_manifests(text: &str, origin: &str) -> Result<Vec<Manifest>, PluginError> {
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
    manifests: &mut Vec<Manifest>,
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
    let manifest = Manifest {
        api_version: text("/apiVersion")
            .ok_or_else(|| missing("apiVersion"))?
            .to_owned(),
        namespace: text("/metadata/namespace").map(str::to_owned),
        name: text("/metadata/name")
            .ok_or_else(|| missing("metadata.name"))?
            .to_owned(),
        kind,
        body: document,
    };
    manifests.push(manifest);
    Ok(())
}

/// Has the API server admit a manifest, as this field manager applies it.
pub async fn dry_run(
    context: &Context,
    manifest: Manifest,
    field_manager: &str,
) -> Result<DryRun, PluginError> {
    let own_kind = ObjectKind::parse(&manifest.kind).filter(|_| manifest.is_ours());
    let refused = |manifest: Manifest, refusal: String| DryRun {
        manifest,
        admission: Admission::Refused,
        object: None,
        refusal: Some(refusal),
    };
    let (group, version) = manifest
        .api_version
        .rsplit_once('/')
        .unwrap_or(("", &manifest.api_version));
    let named = GroupVersionKind::gvk(group, version, &manifest.kind);
    let (resource, is_of_cluster) = match own_kind {
        Some(kind) => (
            ApiResource::from_gvk_with_plural(&named, &kind.plural()),
            kind.is_of_cluster(),
        ),
        None => match pinned_kind(&context.client, &named).await {
            Ok((resource, capabilities)) => (resource, capabilities.scope == Scope::Cluster),
            Err(error) if is_unknown_kind(&error) => {
                let text = format!("the cluster has no kind {}", manifest.kind);
                return Ok(refused(manifest, text));
            }
            Err(error) => return Err(api_error(format!("find kind {}", manifest.kind), error)),
        },
    };
    let mut manifest = manifest;
    if is_of_cluster {
        manifest.namespace = None;
    } else if manifest.namespace.is_none() {
        manifest.namespace = Some(context.namespace.clone());
    }
    let client = context.client.clone();
    let objects: Api<DynamicObject> = match &manifest.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let before = match own_kind {
        Some(_) => {
            let found = objects.get_opt(&manifest.name).await;
            found.map_err(|error| api_error(format!("read {}", manifest.title()), error))?
        }
        None => None,
    };
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(field_manager).force()
    };
    let patch = Patch::Apply(&manifest.body);
    let after = match objects.patch(&manifest.name, &params, &patch).await {
        Ok(after) => after,
        Err(kube::Error::Api(status)) => return Ok(refused(manifest, status.message.clone())),
        Err(error) => {
            let act = format!("apply {} without storing it", manifest.title());
            return Err(api_error(act, error));
        }
    };
    let admission = match &before {
        None => Admission::Created,
        Some(before) if is_same(before, &after) => Admission::Unchanged,
        Some(_) => Admission::Configured,
    };
    let object = own_kind
        .map(|kind| {
            let value = serde_json::to_value(&after);
            value.and_then(|value| objects::decode(kind, value))
        })
        .transpose()
        .map_err(|error| {
            PluginError::Other(format!("{} cannot be decoded: {error}", manifest.title()))
        })?;
    Ok(DryRun {
        manifest,
        admission,
        object,
        refusal: None,
    })
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
        let titles: Vec<String> = manifests.iter().map(Manifest::title).collect();
        assert_eq!(titles, ["Secret key", "ServerTag a/blue"]);
        assert_eq!(
            [manifests[0].is_ours(), manifests[1].is_ours()],
            [false, true]
        );
    }

    #[test]
    fn incomplete_manifest_names_its_place() {
        let refused = |text: &str| match parse_manifests(text, "web.yaml").unwrap_err() {
            PluginError::Usage(text) => text,
            error => panic!("{error:?}"),
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
