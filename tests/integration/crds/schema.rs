//! The schemas in `crds/`, walked.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Every definition in `crds/`.
pub(crate) fn crds() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
        .iter()
        .map(|file| serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

/// The schema of the one version of a definition.
pub(super) fn root(crd: &Value) -> &Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    &versions[0]["schema"]["openAPIV3Schema"]
}

/// Calls `visit` for the schema and everything below it, with paths such as
/// `spec.tags[]`.
pub(super) fn walk(schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    below(schema, "", visit);
}

fn below(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        below(property, &path, visit);
    }
    if let Some(items) = schema.get("items") {
        below(items, &format!("{path}[]"), visit);
    }
    assert!(
        schema.get("additionalProperties").is_none(),
        "{path}: teach this walk about maps"
    );
}

/// The names of all fields, without their paths.
pub(super) fn field_names(crd: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    walk(root(crd), &mut |path, _| {
        let last = path.rsplit('.').next().unwrap().trim_end_matches("[]");
        if !last.is_empty() {
            names.insert(last.to_owned());
        }
    });
    names
}

#[test]
fn every_field_has_a_description() {
    let mut fields = 0;
    for crd in crds() {
        walk(root(&crd), &mut |path, schema| {
            // An item is described by the list that it is in.
            if path.ends_with("[]") {
                return;
            }
            fields += 1;
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(
                text.len() > 3,
                "{} of {} has no description",
                path,
                crd["metadata"]["name"]
            );
        });
    }
    assert!(fields > 80, "only {fields} fields were seen");
}

#[test]
fn every_field_of_a_spec_tells_its_default_or_is_required() {
    for crd in crds() {
        let spec = &root(&crd)["properties"]["spec"];
        let required: Vec<&str> = spec["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, field) in spec["properties"].as_object().unwrap() {
            let text = field["description"].as_str().unwrap();
            let told = text.contains("efault") || field["properties"].is_object();
            assert!(told || required.contains(&name.as_str()), "{name}: {text}");
        }
    }
}

#[test]
fn schemas_hold_nothing_that_the_api_server_frowns_upon() {
    for crd in crds() {
        walk(root(&crd), &mut |path, schema| {
            let format = schema["format"].as_str().unwrap_or_default();
            assert!(
                ["", "int32", "int64", "date-time"].contains(&format),
                "{path}: {format}"
            );
            assert!(
                schema.get("nullable").is_none(),
                "{path}: null would count as set"
            );
            assert!(
                schema["type"].is_string(),
                "{path} has no type: not structural"
            );
        });
        assert!(
            serde_json::to_vec(&crd).unwrap().len() < 200 * 1024,
            "too large to apply"
        );
    }
}
