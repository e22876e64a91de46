//! Telling the controllers that something is new.

use super::AccountKey;

/// Who should look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The object of this mark: a machine of it changed, or a listing that it wanted is there.
    Mark(String),
    /// Every object of this account: whether calls may be made, the first listing or the catalogue changed.
    Account(AccountKey),
}
