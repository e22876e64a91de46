//! How many servers may be ordered, and how many are (sections 2.14 and 4.7 of
//! `docs/contributing/hosting-api.md`).

/// The quotas of one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationQuota {
    /// The location's number (2.14-1).
    pub location_id: Option<i64>,
    /// The location's name.
    pub location: String,
    /// One entry for each instance type and pool.
    pub usages: Vec<QuotaUsage>,
}

/// The state of one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The instance type's number (2.14-3).
    pub instance_type_id: Option<i64>,
    /// The instance type's name.
    pub instance_type: String,
    /// The pool, in the API's word; `onDemand` is a known one.
    pub quota_type: String,
    /// The contract, for a committed pool.
    pub contract_id: Option<String>,
    /// How many servers are allowed.
    pub quota: Option<i64>,
    /// How many are in use.
    pub usage: Option<i64>,
}
