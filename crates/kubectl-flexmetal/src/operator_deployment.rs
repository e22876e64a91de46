//! The operator's Deployments, as the chart makes them.

use crate::{
    context::{ListScope, PluginContext},
    exit::PluginError,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodSpec};
use kube::ResourceExt as _;

/// Labels of the operators' Deployments and pods. The simulator of the chart is none.
pub const OPERATORS: &str =
    "app.kubernetes.io/part-of=flexmetal-operator,app.kubernetes.io/component!=simulator";
/// Label with the operator's version.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The name of the operator's Lease, unless a flag names another.
pub const DEFAULT_LEASE: &str = "flexmetal-operator";

/// The operator's Deployments in its namespace.
pub async fn list_deployments(context: &PluginContext) -> Result<Vec<Deployment>, PluginError> {
    let scope = ListScope {
        namespace: Some(context.operator_namespace.clone()),
        selector: Some(OPERATORS.into()),
    };
    context.list(&scope).await
}

/// The pods of a Deployment.
pub fn pod_spec(deployment: &Deployment) -> Option<&PodSpec> {
    deployment.spec.as_ref()?.template.spec.as_ref()
}

/// The values of a flag, such as `--cluster-id`, in the order of the arguments.
pub fn flag_values<'a>(deployment: &'a Deployment, flag: &str) -> Vec<&'a str> {
    let containers = pod_spec(deployment).map_or(&[][..], |spec| &spec.containers);
    let arguments = containers.iter().flat_map(|it| it.args.iter().flatten());
    let mut arguments = arguments.map(String::as_str);
    let mut values = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(flag) {
            Some("") => values.extend(arguments.next()),
            Some(rest) => values.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    values
}

/// Namespace and name of the Lease that elects the leader of a Deployment.
pub fn lease_of(deployment: &Deployment) -> (String, String) {
    let value = |flag| flag_values(deployment, flag).last().copied();
    let namespace = value("--leader-election-namespace").map(str::to_owned);
    let name = value("--leader-election-name").unwrap_or(DEFAULT_LEASE);
    (
        namespace.unwrap_or_else(|| deployment.namespace().unwrap_or_default()),
        name.to_owned(),
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A Deployment `ops/flexmetal-operator` with these arguments.
    pub fn deployment(arguments: &[&str]) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ops", "name": "flexmetal-operator"},
            "spec": {"selector": {}, "template": {"spec": {
                "serviceAccountName": "operator",
                "containers": [{"name": "operator", "args": arguments}],
            }}},
        }))
        .unwrap()
    }

    #[test]
    fn values_of_flags_are_found_in_both_spellings() {
        let found = deployment(&["--a=1", "--ab=2", "--a", "3", "--b"]);
        assert_eq!(flag_values(&found, "--a"), ["1", "3"]);
        assert!(flag_values(&found, "--b").is_empty());
    }

    #[test]
    fn lease_is_the_one_that_the_flags_name() {
        let names = |arguments| lease_of(&deployment(arguments));
        let own = ("ops".to_owned(), "flexmetal-operator".to_owned());
        assert_eq!(names(&[]), own);
        let other = names(&["--leader-election-name=b", "--leader-election-namespace=x"]);
        assert_eq!(other, ("x".to_owned(), "b".to_owned()));
    }
}
