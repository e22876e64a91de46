//! Names in metadata and at the provider: finalizers, annotations, tags.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Finalizer on a server from the begin of its first order to the proven end.
pub const SERVER_FINALIZER: &str = "flexmetal.dev/server";
/// Finalizer on an account and on its key Secret until their last user is gone.
pub const ACCOUNT_FINALIZER: &str = "flexmetal.dev/account-in-use";
/// Annotation on an account with the name of the Secret that bears the finalizer for it.
pub const HELD_SECRET: &str = "flexmetal.dev/held-secret";
/// Annotation with the order intent (JSON, written by the operator).
pub const ORDER_ANNOTATION: &str = "flexmetal.dev/order";
/// Annotation with the machine whose release has begun (JSON, written by the operator).
pub const RELEASE_ANNOTATION: &str = "flexmetal.dev/release-begun";
/// Annotation by which a person states that an order of unknown outcome made no machine.
/// Its value is the order tag that the condition's message names.
pub const ACKNOWLEDGE_ABSENT: &str = "flexmetal.dev/acknowledge-absent";
/// Annotation that asks for an immediate pass; any new value counts.
pub const RECONCILE_REQUEST: &str = "flexmetal.dev/reconcile-requested-at";

/// Prefix of every tag that the operator keeps for itself.
pub const RESERVED_PREFIX: &str = "fmo-";
/// Tag prefix of the cluster mark, followed by 16 hex digits.
pub const CLUSTER_TAG: &str = "fmo-cluster:";
/// Tag prefix of the order mark, followed by 24 hex digits of object mark and 8 of epoch.
pub const ORDER_TAG: &str = "fmo-order:";
/// Tag of machines that were let go by policy Retain.
pub const RETAINED_TAG: &str = "fmo-retained";

/// Adds what every definition of ours carries and the derive cannot express:
/// a keep policy for Helm, and the status default by which a fresh object
/// reads as "not yet seen" instead of "done".
pub fn with_conventions(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.metadata
        .annotations
        .get_or_insert_default()
        .insert("helm.sh/resource-policy".into(), "keep".into());
    for version in &mut crd.spec.versions {
        let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        if let Some(status) = schema.properties.as_mut().and_then(|p| p.get_mut("status")) {
            status.default = Some(
                k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSON(
                    serde_json::json!({"observedGeneration": -1}),
                ),
            );
        }
    }
    crd
}
