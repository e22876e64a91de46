//! Committed capacity and the instance types of a location, both deprecated in favour of plans and quotas (sections
//! 2.4, 2.16, 4.3 and 4.7 of `docs/contributing/hosting-api.md`).

use super::catalogue::Location;

/// An instance type at one location (2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// The API's number.
    pub id: Option<i64>,
    /// The number of the location.
    pub location_id: Option<i64>,
    /// What an order gives as `instanceType`.
    pub name: String,
    /// Processors.
    pub sockets: Option<i64>,
    /// Cores.
    pub cores: Option<i64>,
    /// Memory; gigabytes, as far as is known (2.4-15).
    pub memory: Option<i64>,
    /// The kind of memory.
    pub memory_type: String,
    /// Disk space; gigabytes, as far as is known (2.4-15).
    pub storage: Option<i64>,
    /// The kind of disks.
    pub storage_type: String,
    /// The name of the generation.
    pub generation_name: String,
}

/// The commitments at one location (2.16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityCommit {
    /// The location.
    pub location: Location,
    /// One entry for each instance type.
    pub commits: Vec<Commit>,
}

/// The commitment to one instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The instance type.
    pub instance_type: InstanceType,
    /// How many servers are committed.
    pub capacity: Option<i64>,
    /// How many of them are in use.
    pub in_use: Option<i64>,
}
