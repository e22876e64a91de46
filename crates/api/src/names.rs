//! Names in metadata and at the provider: finalizers, annotations, tags.

use super::bounds::bound_status;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

/// The most bytes of the name of a Kubernetes object.
pub const LONGEST_OBJECT_NAME: usize = 253;
/// Finalizer on a server from the start of its first order to its confirmed end.
pub const SERVER_FINALIZER: &str = "flexmetal.dev/server";
/// Finalizer on an object of the kinds with a tag, a whitelist or a stored key at the provider.
pub const OBJECT_FINALIZER: &str = "flexmetal.dev/object";
/// Finalizer on an account and on its key Secret until their last user is gone.
pub const ACCOUNT_FINALIZER: &str = "flexmetal.dev/account-in-use";
/// Type of a Secret with the API key of an account. Only such a Secret is sent to the provider.
pub const API_KEY_SECRET: &str = "flexmetal.dev/api-key";
/// Key of such a Secret with the API key.
pub const API_KEY_DATA_KEY: &str = "apiKey";
/// Key of such a Secret with the base URL that the API key may be sent to.
pub const BASE_URL_DATA_KEY: &str = "baseURL";
/// Type of a Secret with the token of a service account.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
/// Type of a Secret that the operator writes for a server. It writes no other Secrets.
pub const OUTPUT_SECRET: &str = "flexmetal.dev/output";
/// Finalizer on the outputs of a server: added at their creation, and removed before the server's own. Also on a server
/// that has outputs but no other finalizer of ours.
pub const OUTPUT_FINALIZER: &str = "flexmetal.dev/output";
/// Label on the outputs of a server.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value, and the field manager of every write of the operator.
pub const MANAGER: &str = "flexmetal-operator";
/// Annotation on an account with the name of the Secret that has the finalizer for it.
pub const SECRET_WITH_FINALIZER: &str = "flexmetal.dev/secret-with-finalizer";
/// Annotation on a tag object with the tag that it creates or renames (JSON, written by the operator).
pub const TAG_ANNOTATION: &str = "flexmetal.dev/tag";
/// Annotation on an SshKey with the key that may have been sent to the provider (JSON, written by the operator).
pub const STORED_KEY_ANNOTATION: &str = "flexmetal.dev/stored-key";
/// Annotation on a ServerCommand with the command that may have been sent (JSON, written by the operator).
pub const COMMAND_ANNOTATION: &str = "flexmetal.dev/command";
/// Annotation with which a user acknowledges entries of `status.pendingAcknowledgements`: tokens separated by commas.
/// The operator never changes it.
pub const ACKNOWLEDGE: &str = "flexmetal.dev/acknowledge";
/// Annotation with which a user or a tool requests a reconcile now. Its value is any new word, which status repeats
/// after the reconcile.
pub const RECONCILE_REQUEST: &str = "flexmetal.dev/reconcile-requested-at";
/// The same as Flux writes it, for users of its tools. Read if the other is absent.
pub const FLUX_REQUEST: &str = "reconcile.fluxcd.io/requestedAt";

/// Every annotation on our kinds that is read. Others are not kept.
pub const ANNOTATIONS: [&str; 7] = [
    SECRET_WITH_FINALIZER,
    TAG_ANNOTATION,
    STORED_KEY_ANNOTATION,
    COMMAND_ANNOTATION,
    ACKNOWLEDGE,
    RECONCILE_REQUEST,
    FLUX_REQUEST,
];

/// Prefix of every tag that is reserved for the operator.
pub const RESERVED_PREFIX: &str = "fmo-";
/// Prefix of the tag that every server of a cluster has, followed by 16 hex digits.
pub const CLUSTER_TAG: &str = "fmo-cluster:";
/// Prefix of the tag of an order, followed by 44 hex digits of the owner and 8 of the order's number.
pub const ORDER_TAG: &str = "fmo-order:";
/// The text in the name of a stored key before its object's owner hash, 24 hex digits.
pub const STORED_KEY_PREFIX: &str = "fmo-key:";
/// Tag of servers that `deletionPolicy: Retain` kept. Their order tag names the owner.
pub const RETAINED_TAG: &str = "fmo-retained";

/// Adds what the derive cannot express: bounds, and the status default with which a new object reads as "not yet seen".
/// Removes line breaks of texts, other defaults, and `nullable`: the API server then drops nulls before the rules run.
pub fn with_conventions(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        without_nullable(schema);
        join_lines(schema);
        if let Some(status) = schema.properties.as_mut().and_then(|p| p.get_mut("status")) {
            without_defaults(status);
            status.default = Some(JSON(serde_json::json!({"observedGeneration": -1})));
            bound_status(status);
        }
    }
    crd
}

/// A definition as it is written to a file. Limits of numbers are floats in the schema's types, so an integer would
/// become at least `0.0`. Never fails in practice.
pub fn manifest(crd: &CustomResourceDefinition) -> serde_json::Result<Value> {
    let mut manifest = serde_json::to_value(crd)?;
    whole_numbers(&mut manifest);
    Ok(manifest)
}

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            // As text: a cast would have to handle values that do not fit.
            let text = number.to_string();
            if let Some(whole) = text.strip_suffix(".0").and_then(|t| t.parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

fn without_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    parts_of(schema).for_each(without_nullable);
}

/// Doc comments have line breaks, which `kubectl explain` would show.
fn join_lines(schema: &mut JSONSchemaProps) {
    if let Some(text) = &mut schema.description {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    parts_of(schema).for_each(join_lines);
}

/// The API server would write defaults into fields that the operator left out.
fn without_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    parts_of(schema).for_each(without_defaults);
}

/// The schemas of fields, items and values.
pub(super) fn parts_of(schema: &mut JSONSchemaProps) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let fields = schema.properties.iter_mut().flat_map(|p| p.values_mut());
    let items = match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(&mut **items),
        _ => None,
    };
    let values = match &mut schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(&mut **values),
        _ => None,
    };
    fields.chain(items).chain(values)
}
