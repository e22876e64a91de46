//! The settings that the controller makes of an account object.

use api::{
    ManagementPolicy, Reason,
    account::KnownServer,
    allowed::AllowedNamespaces,
    host_install::RequestForm,
    limits::Limits,
    policies::Policies,
    release_limit::{ReleaseLimit, ReleaseLimitStatus},
};
use flexmetal_core::account::{key::AccountKey, view::AccountTimes};

/// Settings in force for one account object.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSettings {
    /// Why nothing may change.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// Which namespaces may use the account; None for the kind that serves only its own.
    pub allowed: Option<Vec<AllowedNamespaces>>,
    /// Its intervals.
    pub times: AccountTimes,
    /// Its limits.
    pub limits: Limits,
    /// Default policies of its servers; None: the object was not read.
    pub defaults: Option<Policies>,
    /// How to request the installation of a host.
    pub install_form: RequestForm,
    /// Its release limit with the counted releases; None: it has none.
    pub release_limit: Option<(ReleaseLimit, ReleaseLimitStatus)>,
    /// Addresses from which the operator calls, as CIDRs; empty: not known.
    pub egress: Vec<String>,
    /// Whether to read what the servers have used.
    pub reads_usage: bool,
    /// The servers that identify the account.
    pub known: Vec<KnownServer>,
    /// The account ID of the current URL and key, once recorded.
    pub account_id: Option<String>,
}

impl AccountSettings {
    /// Settings of an object that must not change anything, for this reason.
    pub fn blocked(reason: Reason, message: String) -> Self {
        Self {
            block: Some((reason, message)),
            no_orders: None,
            allowed: None,
            times: AccountTimes::default(),
            limits: Limits::default(),
            defaults: None,
            install_form: RequestForm::default(),
            release_limit: None,
            egress: Vec::new(),
            reads_usage: false,
            known: Vec::new(),
            account_id: None,
        }
    }

    /// Settings of an object that its controller has not read yet.
    pub(crate) fn unread(key: &AccountKey) -> Self {
        let message = format!("{key} is not read yet");
        Self::blocked(Reason::Pending, message)
    }

    /// Settings of an object that is gone.
    pub(crate) fn gone(key: &AccountKey) -> Self {
        Self::blocked(Reason::AccountNotFound, format!("{key} is gone"))
    }

    /// Whether the account itself may be changed, apart from its objects.
    pub(crate) fn may_change_account(&self) -> bool {
        let is_allowed = |defaults: &Policies| {
            defaults.suspend != Some(true)
                && defaults.management_policy != Some(ManagementPolicy::ObserveOnly)
        };
        self.block.is_none()
            && self.account_id.is_some()
            && self.defaults.as_ref().is_some_and(is_allowed)
    }

    /// Namespaces whose further releases are blocked by the limit.
    fn blocked_namespaces(&self) -> impl Iterator<Item = &str> {
        let limit = self.release_limit.iter();
        let blocked = limit.flat_map(|(limit, status)| limit.blocked(status));
        blocked.map(|entry| &*entry.namespace)
    }

    /// Whether objects that use the account must be reconciled. `known` is left out: it changes with every server, and
    /// the objects that wait for a list are enqueued anyway.
    pub(crate) fn is_news_after(&self, previous: &Self) -> bool {
        self.block != previous.block
            || self.no_orders != previous.no_orders
            || self.allowed != previous.allowed
            || self.times != previous.times
            || self.limits != previous.limits
            || self.defaults != previous.defaults
            || self.blocked_namespaces().ne(previous.blocked_namespaces())
            || self.egress != previous.egress
            || self.account_id != previous.account_id
    }
}
