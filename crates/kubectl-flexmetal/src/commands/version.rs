//! `version`: of the plugin, and of the operators in the cluster.

use crate::{
    context::PluginContext,
    exit::{Exit, PluginError},
    operator_deployment::{VERSION_LABEL, list_deployments},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Arguments of `version`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct VersionArgs {
    /// Do not ask the cluster
    #[arg(long)]
    client: bool,
}

/// Prints the versions.
pub async fn run(context: &PluginContext, args: VersionArgs) -> Result<Exit, PluginError> {
    let plugin = env!("CARGO_PKG_VERSION");
    let found = match args.client {
        true => Vec::new(),
        false => match list_deployments(context).await {
            Err(error) if error.exit() == Exit::NotAllowed => {
                context.printer.inform(&error.explain());
                Vec::new()
            }
            found => found?,
        },
    };
    let operators = found.iter().map(|deployment| {
        let namespace = deployment.namespace().unwrap_or_default();
        let version = deployment.labels().get(VERSION_LABEL);
        let version = version.map_or("unknown", String::as_str);
        (format!("{namespace}/{}", deployment.name_any()), version)
    });
    let operators: Vec<(String, &str)> = operators.collect();
    let printer = &context.printer;
    if !printer.is_table() {
        let operators = operators
            .iter()
            .map(|(deployment, version)| json!({"deployment": deployment, "version": version}));
        let operators: Value = operators.collect();
        printer.data(&json!({"plugin": plugin, "operators": operators}))?;
        return Ok(Exit::Fine);
    }
    let mut text = format!("plugin    {plugin}\n");
    for (deployment, version) in &operators {
        text += &format!("operator  {version} ({deployment})\n");
    }
    printer.text(&text)?;
    Ok(Exit::Fine)
}
