//! What all kinds have in common.

use super::GROUP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube_core::{Resource, object::HasStatus};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// A kind of this project: all that code for every kind needs to know of it.
pub trait Kind:
    Resource<DynamicType = ()>
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

    /// The same to be written, with the generation that the status describes.
    fn conditions_mut(status: &mut Self::Status) -> (&mut Option<i64>, &mut Vec<Condition>);

    /// Fills what users read of the operator's records.
    fn show_records(_: &mut Self::Status) {}

    /// The request for a look that a status acknowledges.
    fn handled(status: &mut Self::Status) -> &mut Option<String>;

    /// Whether a status shows that what the object stands for is there. An account that does not answer changes nothing
    /// of it then.
    fn exists(status: &Self::Status) -> bool {
        Self::provider_id(status).is_some()
    }

    /// The provider's identifier of the machine in a status, for the log.
    fn provider_id(_: &Self::Status) -> Option<&str> {
        None
    }

    /// The number of the last order in a status, for the log.
    fn order_number(_: &Self::Status) -> Option<u32> {
        None
    }
}

/// The owner that controls what has these metadata; the API server takes one at most.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Whether an owner is of one of our kinds, by its API group.
pub fn is_ours(owner: &OwnerReference) -> bool {
    owner.api_version.split('/').next() == Some(GROUP)
}
