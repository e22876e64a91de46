//! The CustomResourceDefinitions, by those of this plugin.

use super::CheckRow;
use crate::{
    context::{PluginContext, api_error},
    objects::{ObjectKind, VERSION},
};
use flexmetal_core::wording::listed;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use std::collections::BTreeSet;

const REMEDY: &str =
    "Install the CRDs and the operator of one version (helm upgrade), and the plugin of the same";

/// Whether all kinds are served, and with the schemas that this plugin knows.
pub async fn check_definitions(context: &PluginContext) -> Vec<CheckRow> {
    vec![check_served(context).await, check_schemas(context).await]
}

/// By the discovery, which everybody may read.
async fn check_served(context: &PluginContext) -> CheckRow {
    let version = format!("{}/{VERSION}", api::GROUP);
    let served = match context.client.list_api_group_resources(&version).await {
        Ok(list) => list.resources.into_iter().map(|it| it.kind).collect(),
        Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
        Err(error) => {
            let error = api_error(format!("list the resources of {version}"), error);
            return CheckRow::failed("kinds", &error, "\"get\" on the path /apis/*");
        }
    };
    let kinds = ObjectKind::ALL.map(ObjectKind::as_str).into_iter();
    let missing = listed(kinds.filter(|kind| !served.contains(*kind)));
    match missing.as_str() {
        "" => CheckRow::ok("kinds", format!("All are served as {version}")),
        missing => CheckRow::problem(
            "kinds",
            format!("Not served as {version}: {missing}"),
            REMEDY,
        ),
    }
}

async fn check_schemas(context: &PluginContext) -> CheckRow {
    let check = "schemas";
    let definitions = context.api_of_cluster::<CustomResourceDefinition>();
    let mut different = Vec::new();
    for definition in api::all_crds() {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        match definitions.get_opt(name).await {
            // The check before names it.
            Ok(None) => {}
            Ok(Some(found)) if find_schema(&found) == find_schema(&definition) => {}
            Ok(Some(_)) => different.push(definition.spec.names.kind.clone()),
            Err(error) => {
                let error = api_error(format!("read CustomResourceDefinition {name}"), error);
                return CheckRow::failed(check, &error, "\"get\" on customresourcedefinitions");
            }
        }
    }
    match listed(different.iter().map(String::as_str)).as_str() {
        "" => CheckRow::ok(check, "Those of this plugin"),
        kinds => CheckRow::problem(check, format!("Of another version: {kinds}"), REMEDY),
    }
}

/// The schema of the version, without what is empty: the API server drops that.
fn find_schema(definition: &CustomResourceDefinition) -> Option<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_another_schema_is_a_difference() {
        for definition in api::all_crds() {
            // As the API server returns it.
            let mut stored = api::names::manifest(&definition).unwrap();
            stored["spec"]["conversion"] = json!({"strategy": "None"});
            stored["status"] = json!({"storedVersions": [VERSION]});
            let find =
                |stored: &Value| find_schema(&serde_json::from_value(stored.clone()).unwrap());
            assert_eq!(find(&stored), find_schema(&definition));
            stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
                json!({});
            assert_ne!(find(&stored), find_schema(&definition));
            stored["spec"]["versions"][0]["name"] = json!("v2");
            assert_eq!(find(&stored), None);
        }
    }
}
