//! The addresses from which an API key may be used (sections 2.1 and 4.1 of
//! `docs/contributing/hosting-api.md`).

use super::{identity::WhitelistEntryId, request::InvalidRequest};
use ipnet::IpNet;
use serde::Serialize;
use std::net::IpAddr;

/// An entry as the API shows it (2.1). Its addresses are unchanged, since an entry with an invalid range must still be
/// shown and removable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhitelistEntry {
    /// The number of the entry.
    pub id: WhitelistEntryId,
    /// First address of a range.
    pub ip_start: Option<String>,
    /// Last address of a range.
    pub ip_end: Option<String>,
    /// The range in CIDR notation.
    pub ip_range: Option<String>,
    /// Free text.
    pub comments: Option<String>,
    /// Whether the entry counts; `None` if the answer does not say. A wrong guess could lock a user out.
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

/// An entry to add, or to replace another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhitelistRule {
    /// The addresses.
    pub range: AddressRange,
    /// Free text; none clears the previous one.
    pub comments: Option<String>,
    /// Whether the entry counts.
    pub active: bool,
}

/// All fields, `null` without a value (2.1-2 to 2.1-5): an omitted field may keep its value, and so leave a wider range
/// open.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleBody<'a> {
    ip_start: Option<IpAddr>,
    ip_end: Option<IpAddr>,
    ip_range: Option<String>,
    comments: Option<&'a str>,
    active: u8,
}

impl WhitelistRule {
    /// Checks the entry by the API's rules. Err: the field.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        if let AddressRange::Span(start, end) = self.range
            && (start.is_ipv4() != end.is_ipv4() || start > end)
        {
            return Err(InvalidRequest::AddressSpan);
        }
        Ok(())
    }

    /// The body of the request.
    pub fn body(&self) -> impl Serialize {
        let (ip_range, span) = match self.range {
            AddressRange::Net(net) => (Some(net.trunc().to_string()), None),
            AddressRange::Span(start, end) => (None, Some((start, end))),
        };
        RuleBody {
            ip_start: span.map(|(start, _)| start),
            ip_end: span.map(|(_, end)| end),
            ip_range,
            comments: self.comments.as_deref(),
            active: u8::from(self.active),
        }
    }
}
