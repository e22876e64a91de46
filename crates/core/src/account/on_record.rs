//! What the objects of an account have on record there: by that a new URL or key shows whether it leads to the
//! same account, and what must not be forgotten if it does not.

/// Machines and open orders that objects have on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnRecord {
    /// The machines.
    pub servers: Vec<RecordedServer>,
    /// The orders whose outcome is not known.
    pub open_orders: Vec<OpenOrder>,
}

/// An order whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOrder {
    /// The place in its tag, 28 hex digits.
    pub name_hash: String,
    /// The number in its tag.
    pub seq: u32,
    /// The account ID that it went to.
    pub account_id: String,
}

/// A machine that an object has on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedServer {
    /// The provider's identifier.
    pub uuid: String,
    /// The place in the order tag that the machine has, 28 hex digits.
    pub name_hash: String,
    /// Whether it was live when last seen.
    pub live: bool,
    /// The lineage of the account under which it was recorded; None where that was written down nowhere.
    pub account_id: Option<String>,
}

impl OnRecord {
    /// Adds what another kind has on record.
    pub fn add(&mut self, other: Self) {
        self.servers.extend(other.servers);
        self.open_orders.extend(other.open_orders);
    }
}
