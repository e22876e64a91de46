//! The cluster's identity, which is in the tags of its servers.

use crate::{
    account_client::is_forbidden,
    context::{PluginContext, api_error},
    exit::PluginError,
    operator_deployment::{flag_values, list_deployments},
    server_owners::ServerOwners,
};
use api::names::CLUSTER_TAG;
use flexmetal_core::cluster_id::ClusterId;
use hosting_types::Server;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use std::collections::BTreeSet;

/// The namespace whose UID gives the identity.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The identity, if the user knows it.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterIdArgs {
    /// The operator's --cluster-id; default: read from its Deployment, or from namespace kube-system
    #[arg(long, value_name = "ID", value_parser = ClusterId::parse)]
    cluster_id: Option<ClusterId>,
}

/// The identity in the tags of servers that objects of this cluster have, or else what [`find_cluster_id`] finds.
pub async fn find_by_servers(
    context: &PluginContext,
    args: &ClusterIdArgs,
    servers: &[Server],
    owners: &ServerOwners,
) -> Result<Option<ClusterId>, PluginError> {
    let owned = servers
        .iter()
        .filter(|it| owners.find_recorded(&it.id).is_some());
    let tags = owned.flat_map(|server| &server.tags);
    let ids = tags.filter_map(|tag| tag.strip_prefix(CLUSTER_TAG));
    let ids: Vec<&str> = ids.collect::<BTreeSet<_>>().into_iter().collect();
    match (&args.cluster_id, ids.as_slice()) {
        (None, [id]) => Ok(ClusterId::parse(id).ok()),
        _ => find_cluster_id(context, args).await,
    }
}

/// The identity by the flag, the operator's Deployment or the namespace `kube-system`. None: the caller may read
/// neither.
pub async fn find_cluster_id(
    context: &PluginContext,
    args: &ClusterIdArgs,
) -> Result<Option<ClusterId>, PluginError> {
    if let Some(id) = &args.cluster_id {
        return Ok(Some(id.clone()));
    }
    let deployments = match list_deployments(context).await {
        Ok(deployments) => deployments,
        // The flag of an operator that is not seen would name another identity.
        Err(error) if is_forbidden(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if let Some(id) = find_flag(&deployments)? {
        return Ok(Some(id));
    }
    let namespaces = context.api_of_cluster::<Namespace>();
    let read = namespaces.get(SYSTEM_NAMESPACE).await;
    let act = format!("read namespace {SYSTEM_NAMESPACE}");
    let namespace = match read.map_err(|error| api_error(act, error)) {
        Ok(namespace) => namespace,
        Err(error) if is_forbidden(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if deployments.is_empty() {
        context.printer.warn(&format!(
            "No operator was found in namespace {}; if it has --cluster-id, add the flag here, too",
            context.operator_namespace
        ));
    }
    let uid = namespace.metadata.uid.unwrap_or_default();
    Ok(Some(ClusterId::from_namespace_uid(&uid)))
}

/// The error of a command that cannot go on without the identity.
pub fn unknown_cluster_id(context: &PluginContext) -> PluginError {
    PluginError::NotAllowed(format!(
        "the cluster's identity is not known: needs \"list\" on deployments in namespace {} and \"get\" on namespace {SYSTEM_NAMESPACE}, or --cluster-id",
        context.operator_namespace
    ))
}

/// The identity by the flags of the operators. None: no operator has the flag.
fn find_flag(deployments: &[Deployment]) -> Result<Option<ClusterId>, PluginError> {
    let ids = deployments
        .iter()
        .map(|it| flag_values(it, "--cluster-id").last().copied());
    let ids: BTreeSet<Option<&str>> = ids.collect();
    match ids.into_iter().collect::<Vec<_>>()[..] {
        [] | [None] => Ok(None),
        [Some(id)] => ClusterId::parse(id).map(Some).map_err(|error| {
            PluginError::Other(format!(
                "--cluster-id of the operator's Deployment: {error}"
            ))
        }),
        _ => Err(PluginError::Usage(
            "the operators have different identities of the cluster; add --cluster-id".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator_deployment::tests::deployment;

    #[test]
    fn operators_with_the_same_flag_name_the_cluster() {
        const ONE: &str = "--cluster-id=0123456789abcdef";
        let found =
            |all: &[Deployment]| find_flag(all).map(|id| id.map(|id| id.as_str().to_owned()));
        assert_eq!(found(&[deployment(&[])]).unwrap(), None);
        let same = [deployment(&[ONE]), deployment(&[ONE])];
        assert_eq!(found(&same).unwrap().as_deref(), Some("0123456789abcdef"));
        let different = [deployment(&[ONE]), deployment(&[])];
        assert!(matches!(found(&different), Err(PluginError::Usage(_))));
        let broken = [deployment(&["--cluster-id=x"])];
        assert!(matches!(found(&broken), Err(PluginError::Other(_))));
    }
}
