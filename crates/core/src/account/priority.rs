//! The priority of a call.

/// What a call is for; earlier variants go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Releases servers, which ends their costs.
    Release,
    /// Finds out the outcome of an order.
    Resolve,
    /// Orders servers.
    Order,
    /// Reads pending servers, and lists delivered ones.
    Poll,
    /// Changes tags of servers, and what else an account has: tags, SSH keys, whitelists.
    Change,
    /// Searches for orphans.
    OrphanScan,
    /// Reads what can be ordered.
    Catalogue,
}

impl Priority {
    /// All of them, the highest first.
    pub const ALL: [Self; 7] = [
        Self::Release,
        Self::Resolve,
        Self::Order,
        Self::Poll,
        Self::Change,
        Self::OrphanScan,
        Self::Catalogue,
    ];

    /// The name, as a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Resolve => "resolve",
            Self::Order => "order",
            Self::Poll => "poll",
            Self::Change => "change",
            Self::OrphanScan => "orphanScan",
            Self::Catalogue => "catalog",
        }
    }
}
