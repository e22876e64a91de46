//! What the controller of an account object has made of it.

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

/// What is in force for one account object.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSettings {
    /// Why nothing may change.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// Which namespaces may use it; None for the kind that serves its own.
    pub allowed: Option<Vec<AllowedNamespaces>>,
    /// Its times.
    pub times: AccountTimes,
    /// Its limits.
    pub limits: Limits,
    /// What its servers do where they do not say it themselves; None: the object was not read.
    pub defaults: Option<Policies>,
    /// How the installation of a host is asked for.
    pub install_form: RequestForm,
    /// What its release limit is, and what that has counted; None: it has none.
    pub release_limit: Option<(ReleaseLimit, ReleaseLimitStatus)>,
    /// The addresses from which the operator calls, as CIDRs; none: they are not known.
    pub egress: Vec<String>,
    /// The machines that it is known by.
    pub known: Vec<KnownServer>,
    /// Whether it may have retained machines: it had some when it was last counted, by its status, or was not read yet.
    pub may_have_retained: bool,
    /// The lineage to which the present URL and key lead, once that is on record.
    pub account_id: Option<String>,
}

impl AccountSettings {
    /// An object of which nothing is known but the reason why nothing may change.
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
            known: Vec::new(),
            // One that cannot be read stalls nobody else.
            may_have_retained: false,
            account_id: None,
            // Nobody knows, and a wait costs less than a second machine.
        }
    }

    /// An object that its controller has not looked at yet.
    pub(crate) fn unread(key: &AccountKey) -> Self {
        let message = format!("{key} is not read yet");
        Self {
            may_have_retained: true,
            ..Self::blocked(Reason::Pending, message)
        }
    }

    /// An object that is gone.
    pub(crate) fn gone(key: &AccountKey) -> Self {
        Self::blocked(Reason::AccountNotFound, format!("{key} is gone"))
    }

    /// Whether the account may be changed for its own sake, and not for an object.
    pub(crate) fn may_change_account(&self) -> bool {
        let is_let = |defaults: &Policies| {
            defaults.suspend != Some(true)
                && defaults.management_policy != Some(ManagementPolicy::ObserveOnly)
        };
        self.block.is_none()
            && self.account_id.is_some()
            && self.defaults.as_ref().is_some_and(is_let)
    }

    /// The namespaces whose further releases are held.
    fn blocked_namespaces(&self) -> impl Iterator<Item = &str> {
        let limit = self.release_limit.iter();
        let blocked = limit.flat_map(|(limit, status)| limit.blocked(status));
        blocked.map(|of| &*of.namespace)
    }

    /// Whether those who use the account have to look again. The machines that it is known by change with every machine;
    /// who waits for a listing that they are in looks again by itself.
    pub(crate) fn is_news_after(&self, former: &Self) -> bool {
        self.block != former.block
            || self.no_orders != former.no_orders
            || self.allowed != former.allowed
            || self.times != former.times
            || self.limits != former.limits
            || self.defaults != former.defaults
            || self.blocked_namespaces().ne(former.blocked_namespaces())
            || self.egress != former.egress
            || self.account_id != former.account_id
    }
}
