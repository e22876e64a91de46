//! What the objects of an account have on record there: by that a new URL or key shows whether it leads to the
//! same account, and what must not be forgotten if it does not.

/// Machines and open orders that objects have on record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnRecord {
    /// The machines.
    pub machines: Vec<RecordedMachine>,
    /// The mark of each object whose order is not settled: 24 hex digits.
    pub open: Vec<String>,
}

/// A machine that an object has on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedMachine {
    /// The provider's identifier.
    pub uuid: String,
    /// The mark of the object, which the machine bears: 24 hex digits.
    pub mark: String,
    /// Whether it was live when last seen.
    pub live: bool,
    /// The lineage of the account under which it was recorded; None where that was written down nowhere.
    pub lineage: Option<String>,
}

impl OnRecord {
    /// Adds what another kind has on record.
    pub fn add(&mut self, other: Self) {
        self.machines.extend(other.machines);
        self.open.extend(other.open);
    }
}
