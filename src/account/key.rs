//! The name of an account object.

use crate::kinds::references::AccountKind;
use std::fmt;

/// Names one account object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountKey {
    /// Which of the two kinds.
    pub kind: AccountKind,
    /// Its namespace; None for the cluster kind.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if let Some(namespace) = &self.namespace {
            write!(f, " {namespace}/{}", self.name)
        } else {
            write!(f, " {}", self.name)
        }
    }
}
