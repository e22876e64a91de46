//! What a machine reported about itself: its hardware and its root password.

use std::fmt;

use serde_json::Value;

/// The hardware of a server as the program `lshw` lists it (2.10).
#[derive(Clone, PartialEq)]
pub struct HardwareListing {
    /// When the machine made it, in Unix seconds; the API's 0 is `None`.
    pub created_at: Option<i64>,
    /// The listing, an object whose fields are not described; absent before the
    /// machine has run once. Texts inside are cleaned like any other.
    pub listing: Option<Value>,
}

impl fmt::Debug for HardwareListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The listing is megabytes of text from somebody's machine.
        f.debug_struct("HardwareListing")
            .field("created_at", &self.created_at)
            .field("is_known", &self.listing.is_some())
            .finish_non_exhaustive()
    }
}
