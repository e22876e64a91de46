//! The CustomResourceDefinitions, by those of this plugin.

use super::CheckRow;
use crate::context::{Context, api_error};
use flexmetal_core::wording::listed;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use std::collections::BTreeSet;

const SERVED: &str = "kinds";
const SCHEMAS: &str = "schemas";
const REMEDY: &str =
    "Install the CRDs and the operator of one version (helm upgrade), and the plugin of the same";

/// The version that this plugin knows.
const VERSION: &str = "v1alpha1";

/// Whether all kinds are served, and with the schemas that this plugin knows.
pub async fn check_definitions(context: &Context) -> Vec<CheckRow> {
    let wanted = api::all_crds();
    vec![
        check_served(context, &wanted).await,
        check_schemas(context, &wanted).await,
    ]
}

/// By the discovery, which everybody may read.
async fn check_served(context: &Context, wanted: &[CustomResourceDefinition]) -> CheckRow {
    let version = format!("{}/{VERSION}", api::GROUP);
    let served = match context.client.list_api_group_resources(&version).await {
        Ok(list) => list.resources.into_iter().map(|it| it.name).collect(),
        Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
        Err(error) => {
            let error = api_error(format!("list the resources of {version}"), error);
            return CheckRow::failed(SERVED, &error, "\"get\" on the path /apis/*");
        }
    };
    judge_served(&served, wanted)
}

fn judge_served(served: &BTreeSet<String>, wanted: &[CustomResourceDefinition]) -> CheckRow {
    let missing = wanted.iter().map(|it| &it.spec.names);
    let missing = missing.filter(|names| !served.contains(&names.plural));
    let missing: Vec<&str> = missing.map(|names| names.kind.as_str()).collect();
    match missing.is_empty() {
        true => CheckRow::ok(
            SERVED,
            format!("All are served as {}/{VERSION}", api::GROUP),
        ),
        false => CheckRow::problem(
            SERVED,
            format!(
                "Not served as {}/{VERSION}: {}",
                api::GROUP,
                listed(missing)
            ),
            REMEDY,
        ),
    }
}

async fn check_schemas(context: &Context, wanted: &[CustomResourceDefinition]) -> CheckRow {
    let definitions = context.api_of_cluster::<CustomResourceDefinition>();
    let mut different = Vec::new();
    for definition in wanted {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let found = match definitions.get_opt(name).await {
            // The check before names it.
            Ok(None) => continue,
            Ok(Some(found)) => found,
            Err(error) => {
                let error = api_error(format!("read CustomResourceDefinition {name}"), error);
                return CheckRow::failed(SCHEMAS, &error, "\"get\" on customresourcedefinitions");
            }
        };
        if let Some(difference) = find_difference(definition, &found) {
            different.push(format!("{}: {difference}", definition.spec.names.kind));
        }
    }
    match different.is_empty() {
        true => CheckRow::ok(SCHEMAS, "Those of this plugin"),
        false => CheckRow::problem(
            SCHEMAS,
            format!("Of another version: {}", different.join("; ")),
            REMEDY,
        ),
    }
}

/// Whether the cluster's definition has the schema of this plugin. None: the caller may not read it, or it is missing.
pub async fn has_same_schema(context: &Context, wanted: &CustomResourceDefinition) -> Option<bool> {
    let definitions = context.api_of_cluster::<CustomResourceDefinition>();
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    match definitions.get_opt(name).await {
        Ok(found) => Some(find_difference(wanted, &found?).is_none()),
        Err(_) => None,
    }
}

/// How the schema of the cluster differs from the plugin's.
fn find_difference(
    wanted: &CustomResourceDefinition,
    found: &CustomResourceDefinition,
) -> Option<String> {
    let (wanted, found) = (schema_of(wanted), schema_of(found));
    let Some(found) = found else {
        return Some(format!("has no version {VERSION}"));
    };
    let wanted = wanted?;
    if wanted == found {
        return None;
    }
    let fields = |schema: &Value| {
        let mut fields = BTreeSet::new();
        add_fields(schema, "", &mut fields);
        fields
    };
    let (wanted, found) = (fields(&wanted), fields(&found));
    let missing = wanted.difference(&found).map(String::as_str);
    let missing = listed(missing);
    let more = listed(found.difference(&wanted).map(String::as_str));
    Some(match (missing.is_empty(), more.is_empty()) {
        (true, true) => "the rules or the descriptions differ".to_owned(),
        (false, true) => format!("the cluster lacks {missing}"),
        (true, false) => format!("the plugin does not know {more}"),
        (false, false) => format!("the cluster lacks {missing} and has {more}"),
    })
}

/// The schema of the version, without what is empty: the API server drops that.
fn schema_of(definition: &CustomResourceDefinition) -> Option<Value> {
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|version| version.name == VERSION && version.served)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok().map(without_empty)
}

fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, it)| (name, without_empty(it)));
            fields.filter(|(_, it)| !is_empty(it)).collect()
        }
        other => other,
    }
}

fn add_fields(schema: &Value, path: &str, fields: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        add_fields(field, &path, fields);
        add_fields(&field["items"], &path, fields);
        fields.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A definition as the API server returns it.
    fn stored(definition: &CustomResourceDefinition) -> CustomResourceDefinition {
        let mut manifest = api::names::manifest(definition).unwrap();
        manifest["spec"]["conversion"] = json!({"strategy": "None"});
        manifest["status"] = json!({"storedVersions": ["v1alpha1"]});
        serde_json::from_value(manifest).unwrap()
    }

    fn without_field(
        definition: &CustomResourceDefinition,
        field: &str,
    ) -> CustomResourceDefinition {
        let mut value = serde_json::to_value(definition).unwrap();
        let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = schema["properties"]["spec"]["properties"].as_object_mut();
        assert!(spec.unwrap().remove(field).is_some());
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn own_definitions_have_no_difference() {
        for definition in api::all_crds() {
            assert_eq!(find_difference(&definition, &stored(&definition)), None);
        }
    }

    #[test]
    fn other_version_is_described_by_its_fields() {
        let definition = api::all_crds().remove(2);
        let older = without_field(&definition, "overflow");
        let difference = |wanted, found| find_difference(wanted, found).unwrap();
        let text = difference(&definition, &older);
        assert_eq!(text, "the cluster lacks spec.overflow");
        let text = difference(&older, &definition);
        assert_eq!(text, "the plugin does not know spec.overflow");
        let mut other = definition.clone();
        other.spec.versions[0].name = "v2".into();
        assert_eq!(difference(&definition, &other), "has no version v1alpha1");
    }

    #[test]
    fn kinds_that_are_not_served_are_named() {
        let wanted = api::all_crds();
        let all = wanted.iter().map(|it| it.spec.names.plural.clone());
        let mut served: BTreeSet<String> = all.collect();
        assert_eq!(judge_served(&served, &wanted).remedy, None);
        served.remove("sshkeys");
        let row = judge_served(&served, &wanted);
        assert!(row.message.ends_with(": SshKey"), "{}", row.message);
    }
}
