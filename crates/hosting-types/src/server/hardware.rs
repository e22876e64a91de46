//! The hardware listing that a server reports.

use std::fmt;

use serde_json::Value;

/// The hardware of a server as the program `lshw` lists it (2.10).
#[derive(Clone, PartialEq)]
pub struct HardwareListing {
    /// When the server made it, in Unix seconds; the API's 0 is `None`.
    pub created_at: Option<i64>,
    /// The listing, an object whose fields are not documented; absent before the server has run once. Its texts are
    /// cleaned.
    pub listing: Option<Value>,
}

impl fmt::Debug for HardwareListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The listing is megabytes of text from a user's server.
        f.debug_struct("HardwareListing")
            .field("created_at", &self.created_at)
            .field("is_known", &self.listing.is_some())
            .finish_non_exhaustive()
    }
}
