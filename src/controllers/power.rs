//! The ServerCommand for a change of `spec.power` of a server or a dedicated host: created, and read until its end.

use super::{
    context::Process,
    writes::{ApiServerError, bounded},
};
use crate::runtime::{clients::post_params, kind_api::KindApi};
use api::{
    ServerCommand,
    command::{PowerAction, ServerCommandSpec},
    power::{PowerRecord, is_command_of},
    target::{TargetKind, TargetRef},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// How many seconds a command of `spec.power` stays after its end. A recorded command is created in less time than
/// that.
const COMMAND_TTL: i32 = 7 * 86_400;

/// Creates the command, or finds an existing one. Returns whether the command with this name is this object's.
///
/// # Errors
/// The API server has not created it, or its answer is not known.
pub async fn create_command(
    process: &Process,
    kind: TargetKind,
    object: &impl Resource<DynamicType = ()>,
    name: &str,
    action: PowerAction,
) -> Result<bool, ApiServerError> {
    let meta = object.meta();
    let spec = ServerCommandSpec {
        target_ref: TargetRef {
            kind: Some(kind),
            name: meta.name.clone().unwrap_or_default(),
        },
        action,
        timeout: None,
        escalate_after: None,
        ttl_seconds_after_finished: Some(COMMAND_TTL),
    };
    let mut command = ServerCommand::new(name, spec);
    // `blockOwnerDeletion` requires permission on the owner's finalizers in some clusters.
    let owner = object
        .controller_owner_ref(&())
        .map(|owner| OwnerReference {
            block_owner_deletion: None,
            ..owner
        });
    command.metadata.owner_references = owner.map(|owner| vec![owner]);
    let api = ServerCommand::api(process.client.clone(), meta.namespace.as_deref());
    let failure = match bounded(api.create(&post_params(), &command)).await {
        Ok(_) => return Ok(true),
        Err(failure) if failure.code() == Some(409) => failure,
        Err(failure) => return Err(failure),
    };
    let found = bounded(api.get_opt(name)).await?.ok_or(failure)?;
    Ok(is_command_of(meta.uid.as_deref(), &found) && found.spec.action == action)
}

/// Reads the command whose end is awaited. The outer `None` means that it was not read.
pub async fn read_command(
    process: &Process,
    namespace: &str,
    power: Option<&PowerRecord>,
) -> Option<Option<ServerCommand>> {
    let command = power.and_then(PowerRecord::awaited)?;
    let api = ServerCommand::api(process.client.clone(), Some(namespace));
    bounded(api.get_opt(&command.name)).await.ok()
}
