//! What all kinds have in common.

use super::GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube_core::{CustomResourceExt, Resource, object::HasStatus};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// A kind of this project, for code that serves every kind.
pub trait Kind:
    Resource<DynamicType = ()>
    + CustomResourceExt
    + HasStatus<Status: Clone + Default + PartialEq + Serialize + Send + Sync>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The conditions in a status.
    fn conditions(status: &Self::Status) -> &[Condition];

    /// The same, to be written, and the generation that the status describes.
    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>);

    /// Fills the fields that show users the operator's records.
    fn show_records(_: &mut Self::Status) {}

    /// The reconcile request that a status acknowledges.
    fn handled(status: &mut Self::Status) -> &mut Option<String>;

    /// Whether a status shows that the provider's record of the object exists. It then stays so while the account does
    /// not answer.
    fn exists(status: &Self::Status) -> bool {
        Self::provider_id(status).is_some()
    }

    /// The provider's identifier in a status, for the log.
    fn provider_id(_: &Self::Status) -> Option<&str> {
        None
    }

    /// The number of the last order in a status, for the log.
    fn order_number(_: &Self::Status) -> Option<u32> {
        None
    }
}

/// The owner that controls an object with this metadata; the API server accepts one at most.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Whether an owner is of one of our kinds, by its API group.
pub fn is_ours(owner: &OwnerReference) -> bool {
    owner.api_version.split('/').next() == Some(GROUP)
}
