//! What can be ordered, in the status of an account: users see it without an API key.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most locations, systems, and locations of one availability.
pub const MOST_NAMES: usize = 256;
/// Most instance types.
pub const MOST_TYPES: usize = 512;
/// Most availabilities of an instance type.
pub const MOST_AVAILABILITIES: usize = 16;
/// Most quotas.
pub const MOST_QUOTAS: usize = 20;
/// Most bytes of a name.
pub const LONGEST_NAME: usize = 64;
/// Most bytes of the hardware of an instance type.
pub const LONGEST_HARDWARE: usize = 160;

/// What can be ordered, as the provider showed it at one moment. At most 24 KiB as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Catalog {
    /// Locations, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_NAMES), extend("x-kubernetes-list-type" = "atomic"))]
    pub locations: Vec<CatalogLocation>,
    /// Instance types, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_TYPES), extend("x-kubernetes-list-type" = "atomic"))]
    pub instance_types: Vec<CatalogInstanceType>,
    /// Operating systems of servers, sorted by slug.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_NAMES), extend("x-kubernetes-list-type" = "atomic"))]
    pub systems: Vec<CatalogSystem>,
    /// Quotas by location, instance type and contract, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_QUOTAS), extend("x-kubernetes-list-type" = "atomic"))]
    pub quotas: Vec<QuotaUse>,
    /// Number of locations, instance types, systems and quotas that are left out because the catalog is full, or
    /// because their name has more than 64 bytes or a character that cannot be shown. An instance type with more than
    /// 16 availabilities, or one of them at more than 256 locations, is left out as a whole.
    pub omitted: i32,
    /// Time at which the operator read the catalog, as of the last update: an answer that changes nothing is not
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
}

/// A location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogLocation {
    /// Name, as in `spec.location` of a BareMetalServer.
    #[schemars(length(max = LONGEST_NAME))]
    pub name: String,
    /// Short name of the country, such as `NL`. Unset if the provider does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_NAME))]
    pub country: Option<String>,
}

/// An instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogInstanceType {
    /// Name, as in `spec.instanceType` of a BareMetalServer.
    #[schemars(length(max = LONGEST_NAME))]
    pub name: String,
    /// Hardware in short: processors, cores, memory, disks, network interfaces, graphics card.
    #[schemars(length(max = LONGEST_HARDWARE))]
    pub hardware: String,
    /// Stock, by availability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_AVAILABILITIES), extend("x-kubernetes-list-type" = "atomic"))]
    pub stock: Vec<CatalogStock>,
}

/// Locations at which an instance type has the same availability.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogStock {
    /// The provider's word for the availability, such as `high`, `medium`, `low` or `unavailable`.
    #[schemars(length(max = LONGEST_NAME))]
    pub availability: String,
    /// Names of the locations.
    #[schemars(length(max = MOST_NAMES), inner(length(max = LONGEST_NAME)), extend("x-kubernetes-list-type" = "atomic"))]
    pub locations: Vec<String>,
}

/// An operating system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSystem {
    /// Slug, as in `spec.os.slug` of a BareMetalServer.
    #[schemars(length(max = LONGEST_NAME))]
    pub slug: String,
    /// Name of the system.
    #[schemars(length(max = LONGEST_NAME))]
    pub name: String,
}

/// One quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Location of the quota.
    #[schemars(length(max = LONGEST_NAME))]
    pub location: String,
    /// Instance type of the quota.
    #[schemars(length(max = LONGEST_NAME))]
    pub instance_type: String,
    /// Contract that pays. Unset for the on-demand pool.
    #[serde(
        default,
        rename = "contractID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = LONGEST_NAME))]
    pub contract_id: Option<String>,
    /// Number of servers that the provider allows. Unset if the provider does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<i32>,
    /// Number of servers that exist. Unset if the provider does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<i32>,
}
