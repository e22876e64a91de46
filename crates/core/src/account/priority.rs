//! What a call is for.

/// What a call is for; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Ends costs.
    Release,
    /// Finds out what became of an order.
    Resolve,
    /// Orders.
    Order,
    /// Reads pending servers, and lists delivered ones.
    Poll,
    /// Changes what an account has beside machines: tags, stored keys, whitelists; and the tags of machines.
    Change,
    /// Looks for orphans.
    OrphanScan,
    /// Looks at what can be ordered.
    Catalogue,
}

impl Priority {
    /// All of them, the first first.
    pub const ALL: [Self; 7] = [
        Self::Release,
        Self::Resolve,
        Self::Order,
        Self::Poll,
        Self::Change,
        Self::OrphanScan,
        Self::Catalogue,
    ];
}
