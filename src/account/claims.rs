//! What the account asks of those who know the objects of the cluster.

use super::AccountKey;
use std::collections::HashSet;

/// Which machines are claimed, and who uses an account. Answered from a watch's store.
pub trait Claims: Send + Sync {
    /// The object marks of all servers of the cluster, the terminating ones included.
    ///
    /// None: not all namespaces are watched, or the first listing is not in yet. Nothing is judged then.
    fn marks(&self) -> Option<HashSet<String>>;

    /// How many servers name the account, the terminating ones included. An object that does not
    /// decode may use any account and counts for each that it could name.
    ///
    /// None: the first listing is not in yet. An account must not be let go for want of a listing.
    fn users(&self, account: &AccountKey) -> Option<usize>;
}
