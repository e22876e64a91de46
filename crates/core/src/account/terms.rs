//! What an account object offers a namespace.

use crate::account::key::AccountKey;
use api::{
    allowed::{AllowedNamespaces, NamespaceMatch},
    limits::Limits,
    selector::Labels,
};
use std::sync::Arc;

/// What an account object offers a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terms {
    /// The account is one of the namespace: its own limits are the only ones.
    Own,
    /// It serves the namespace within the limits of this entry.
    Entry(Arc<AllowedNamespaces>),
    /// Whether it serves the namespace is not known yet. Says why.
    Unknown(String),
    /// It does not serve the namespace. That stops what is new, never what ends. Says why, and what helps.
    Refused(String),
}

impl Terms {
    /// What the entries of an account object say of a namespace with these labels. None for `entries`: the object was
    /// not read, or has none; None for `labels`: they are not known.
    pub fn for_namespace(
        key: &AccountKey,
        entries: Option<&[AllowedNamespaces]>,
        namespace: &str,
        labels: Option<&Labels>,
    ) -> Self {
        if key.namespace.is_some() {
            return Self::Own;
        }
        let Some(entries) = entries else {
            return Self::Unknown(format!("{key} is not read yet; continues as soon as it is"));
        };
        match AllowedNamespaces::match_namespace(entries, namespace, labels) {
            NamespaceMatch::Entry(entry) => Self::Entry(Arc::new(entry.clone())),
            NamespaceMatch::Unknown => Self::Unknown(format!(
                "The labels of namespace {namespace} are not known yet; {key} selects namespaces by labels. If this lasts, grant the operator's ServiceAccount list and watch on namespaces"
            )),
            NamespaceMatch::NoEntry => Self::Refused(format!(
                "{key} does not allow namespace {namespace}. Ask an administrator of the account to add it to spec.allowedNamespaces, with limits"
            )),
            NamespaceMatch::TwoEntries(first, second) => Self::Refused(format!(
                "{key} matches namespace {namespace} twice. Remove it from one of the entries {:?} and {:?} of spec.allowedNamespaces",
                first.name, second.name,
            )),
        }
    }

    /// Why everything through the account is stopped for the namespace; None: it is not.
    pub fn stopped(&self) -> Option<String> {
        let Self::Entry(entry) = self else {
            return None;
        };
        entry.suspend.then(|| {
            format!(
                "Suspended by entry {:?} of the account's spec.allowedNamespaces; nothing is ordered, changed or released. Ask an administrator of the account to set its suspend to false",
                entry.name
            )
        })
    }

    /// Whether the account serves the namespace.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Own | Self::Entry(_))
    }

    /// The name of the entry that holds, and its limits.
    pub fn entry(&self) -> Option<(&str, &Limits)> {
        match self {
            Self::Entry(entry) => Some((&entry.name, &entry.limits)),
            Self::Own | Self::Unknown(_) | Self::Refused(_) => None,
        }
    }

    /// Whether a server may take on a machine that bears no mark.
    pub fn may_adopt(&self) -> bool {
        match self {
            Self::Own => true,
            Self::Entry(entry) => entry.allow_adoption == Some(true),
            Self::Unknown(_) | Self::Refused(_) => false,
        }
    }

    /// Whether a host of the account may be taken: shown, switched and installed.
    pub fn may_use_host(&self, id: i64) -> bool {
        match self {
            Self::Own => true,
            Self::Entry(entry) => entry.host_ids.contains(&id),
            Self::Unknown(_) | Self::Refused(_) => false,
        }
    }
}
