//! What an account object and a namespace say at one moment.

use crate::account::terms::Terms;
use api::Policies;

/// What an account object says at this moment, and the namespace of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAccount {
    /// Its UID.
    pub uid: String,
    /// Its lineage.
    pub lineage: Option<String>,
    /// What its servers and hosts do where they do not say it themselves.
    pub defaults: Policies,
    /// Whether the labels of the namespace suspend its objects.
    pub is_namespace_suspended: bool,
    /// What it offers the namespace of the object.
    pub terms: Terms,
    /// The machine without an object whose release may be under way.
    pub releasing: Option<String>,
}
