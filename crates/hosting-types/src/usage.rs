//! What servers have used (sections 2.15 and 4.7 of `docs/contributing/hosting-api.md`).

use super::server::Server;
use jiff::Timestamp;

/// What one server has used in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The server.
    pub server: Server,
    /// Start of the period.
    pub started_at: Option<Timestamp>,
    /// End of the period.
    pub ended_at: Option<Timestamp>,
    /// Hours, rounded up; what is billed (2.15-8).
    pub total_hours: Option<i64>,
    /// Minutes.
    pub total_minutes: Option<i64>,
    /// `bandwidthIn`, whose direction and unit are in doubt (2.15-6).
    pub bandwidth_in: Option<i64>,
    /// `bandwidthOut`, which not every answer has (2.15-10).
    pub bandwidth_out: Option<i64>,
    /// Bytes that left the server.
    pub total_egress_bytes: Option<i64>,
}
