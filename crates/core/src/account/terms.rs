//! The terms on which an account serves a namespace.

use crate::account::key::AccountKey;
use api::{
    allowed::{AllowedNamespaces, NamespaceMatch},
    limits::Limits,
    selector::Labels,
};
use std::sync::Arc;

/// The terms on which an account serves a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terms {
    /// The account is in the namespace: only its own limits apply.
    Own,
    /// It serves the namespace within the limits of this entry.
    Entry(Arc<AllowedNamespaces>),
    /// It is not known yet whether it serves the namespace. Has the reason.
    Unknown(String),
    /// It does not serve the namespace: this stops orders and changes, never releases. Has the reason and the remedy.
    Refused(String),
}

impl Terms {
    /// Matches the entries of an account with a namespace. `entries`: None if the object is not read or has none;
    /// `labels`: None if not known.
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

    /// Why the entry suspends the namespace; None: it does not.
    pub fn suspension(&self) -> Option<String> {
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

    /// Name and limits of the matching entry.
    pub fn entry(&self) -> Option<(&str, &Limits)> {
        match self {
            Self::Entry(entry) => Some((&entry.name, &entry.limits)),
            Self::Own | Self::Unknown(_) | Self::Refused(_) => None,
        }
    }

    /// Whether an object may adopt a server without our tags.
    pub fn may_adopt(&self) -> bool {
        match self {
            Self::Own => true,
            Self::Entry(entry) => entry.allow_adoption == Some(true),
            Self::Unknown(_) | Self::Refused(_) => false,
        }
    }

    /// Whether a host of the account may be used: shown, switched and installed.
    pub fn may_use_host(&self, id: i64) -> bool {
        match self {
            Self::Own => true,
            Self::Entry(entry) => entry.host_ids.contains(&id),
            Self::Unknown(_) | Self::Refused(_) => false,
        }
    }
}
