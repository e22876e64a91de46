//! The servers and open orders that objects recorded at an account. A new URL or key must show one of them to keep the
//! account ID.

/// The servers and open orders that objects recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedResources {
    /// The servers.
    pub servers: Vec<RecordedServer>,
    /// The orders whose outcome is not known.
    pub open_orders: Vec<OpenOrder>,
}

/// An order whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOrder {
    /// Name hash in its order tag, 28 hex digits.
    pub name_hash: String,
    /// Number in its order tag.
    pub seq: u32,
    /// The account ID under which it was sent.
    pub account_id: String,
}

/// A server that an object recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedServer {
    /// UUID of the server.
    pub uuid: String,
    /// Name hash in its order tag, 28 hex digits.
    pub name_hash: String,
    /// Whether it was live when last seen.
    pub live: bool,
    /// The account ID under which it was recorded; None: not recorded.
    pub account_id: Option<String>,
}

impl RecordedResources {
    /// Adds the records of another kind.
    pub fn add(&mut self, other: Self) {
        self.servers.extend(other.servers);
        self.open_orders.extend(other.open_orders);
    }
}
