//! The addresses from which an API key may be used (sections 2.1 and 4.1 of
//! `docs/hosting-api.md`).

use super::identity::WhitelistEntryId;
use ipnet::IpNet;
use std::net::IpAddr;

/// An entry as the API shows it (2.1). The addresses are unchanged: an
/// entry that is not a valid range must still be shown and removable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhitelistEntry {
    /// Names the entry.
    pub id: WhitelistEntryId,
    /// First address of a range.
    pub ip_start: Option<String>,
    /// Last address of a range.
    pub ip_end: Option<String>,
    /// The range in CIDR notation.
    pub ip_range: Option<String>,
    /// Free text.
    pub comments: Option<String>,
    /// Whether the entry counts; `None` where the answer does not say. Guessing
    /// either way could lock somebody out.
    pub active: Option<bool>,
    /// When it was changed, in Unix seconds.
    pub updated_at: Option<i64>,
}

/// The addresses of an entry (2.1-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRange {
    /// `ipRange`. Bits outside of the mask are sent as zeros.
    Net(IpNet),
    /// `ipStart` and `ipEnd`, both of one family and in this order.
    Span(IpAddr, IpAddr),
}

/// An entry to add, or to replace another with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhitelistRule {
    /// The addresses.
    pub range: AddressRange,
    /// Free text; none clears the old one.
    pub comments: Option<String>,
    /// Whether the entry counts.
    pub active: bool,
}
