//! The name of an account object.

use api::references::{AccountKind, PinnedAccount};
use std::fmt;

/// Names one account object. Made by [`AccountKey::from_reference`] and [`AccountKey::named`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountKey {
    /// Its kind.
    pub kind: AccountKind,
    /// Its namespace; None for the cluster kind.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl AccountKey {
    /// The account that an object of this namespace refers to.
    pub fn from_reference(reference: &PinnedAccount, namespace: &str) -> Self {
        Self::named(reference.kind, Some(namespace), &reference.name)
    }

    /// The key of an account object. The cluster kind ignores the namespace.
    pub fn named(kind: AccountKind, namespace: Option<&str>, name: &str) -> Self {
        let namespace = match kind {
            AccountKind::ProviderAccount => Some(namespace.unwrap_or_default().to_owned()),
            AccountKind::ClusterProviderAccount => None,
        };
        Self {
            kind,
            namespace,
            name: name.to_owned(),
        }
    }
}

impl AccountKey {
    /// Namespace and name, or the name of a cluster-scoped account, as labels of metrics have it.
    pub fn label(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_namespaced_kind_keeps_the_namespace() {
        let reference = |kind| PinnedAccount {
            kind,
            name: "a".into(),
        };
        let own = AccountKey::from_reference(&reference(AccountKind::ProviderAccount), "n");
        assert_eq!(own.to_string(), "ProviderAccount n/a");
        let shared =
            AccountKey::from_reference(&reference(AccountKind::ClusterProviderAccount), "n");
        assert_eq!(shared.to_string(), "ClusterProviderAccount a");
        assert_eq!(
            shared,
            AccountKey::named(AccountKind::ClusterProviderAccount, None, "a")
        );
    }
}
