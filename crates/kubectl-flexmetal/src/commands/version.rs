//! `version`: of the plugin, and of the operators in the cluster.

use crate::{
    context::{Context, Scope},
    exit::{Exit, PluginError},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use serde::Serialize;

/// Arguments of `version`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct VersionArgs {
    /// Do not ask the cluster
    #[arg(long)]
    client: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    plugin: &'static str,
    operators: Vec<OperatorVersion>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperatorVersion {
    deployment: String,
    version: String,
}

/// Prints the versions.
pub async fn run(context: &Context, args: VersionArgs) -> Result<Exit, PluginError> {
    let mut versions = Versions {
        plugin: env!("CARGO_PKG_VERSION"),
        operators: Vec::new(),
    };
    if !args.client {
        let scope = Scope {
            namespace: Some(context.operator_namespace.clone()),
            selector: Some("app.kubernetes.io/name=flexmetal-operator".into()),
        };
        let found = context.list::<Deployment>(&scope).await?;
        versions.operators = found.iter().map(version_of).collect();
    }
    if !context.printer.is_for_people() {
        context.printer.data(&versions)?;
        return Ok(Exit::Fine);
    }
    let mut text = format!("plugin    {}\n", versions.plugin);
    for operator in &versions.operators {
        text += &format!("operator  {} ({})\n", operator.version, operator.deployment);
    }
    if !args.client && versions.operators.is_empty() {
        context.printer.note(&format!(
            "No operator in namespace {}; see --operator-namespace",
            context.operator_namespace
        ));
    }
    context.printer.text(&text)?;
    Ok(Exit::Fine)
}

fn version_of(deployment: &Deployment) -> OperatorVersion {
    let version = deployment.labels().get("app.kubernetes.io/version");
    OperatorVersion {
        deployment: format!(
            "{}/{}",
            deployment.namespace().unwrap_or_default(),
            deployment.name_any()
        ),
        version: version.cloned().unwrap_or_else(|| "unknown".into()),
    }
}
