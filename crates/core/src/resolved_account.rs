//! The account that an object references, as a fact of every kind that uses one.

use super::explanation::Explanation;
use crate::account::{
    terms::Terms,
    view::{AccountState, AccountView},
};
use api::{Policies, Reason, limits::Limits, references::PinnedAccount};

/// The account of an object.
#[derive(Clone)]
// Each lives for one reconcile; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum ResolvedAccount {
    /// The account does not exist. Says which.
    Missing(String),
    /// This operator does not serve the account. Says which.
    NotServed(String),
    /// The account does not serve the namespace, or that is not known yet, and nothing of the object is recorded there.
    /// The operator asks nothing of it.
    Closed {
        /// Why.
        explanation: Explanation,
        /// The account at this moment.
        view: AccountView,
    },
    /// The account exists.
    Found {
        /// The account at this moment.
        view: AccountView,
        /// What it offers this namespace. If it does not serve the namespace, nothing new begins, but deletions
        /// continue.
        terms: Terms,
    },
}

/// What an account is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An order.
    Order,
    /// Any other change that the object wants.
    Change,
    /// To read, and to end what exists.
    End,
}

impl ResolvedAccount {
    /// The account at this moment, on these terms.
    pub fn found(mut view: AccountView, terms: Terms) -> Self {
        suspend_view(&mut view, terms.suspension());
        Self::Found { view, terms }
    }

    /// The referenced account does not exist.
    pub fn missing(reference: &PinnedAccount) -> Self {
        Self::Missing(format!("{} {}", reference.kind.as_str(), reference.name))
    }

    /// Applies what the live account object says.
    pub fn set_live(&mut self, live: LiveAccount) {
        if let Self::Found { view, terms } = self {
            *terms = live.terms;
            view.defaults = Some(live.defaults);
            view.limits = live.limits;
            view.uid = live.uid;
            view.account_id = live.account_id;
            suspend_view(view, live.stopped);
        }
    }

    /// The account at this moment, if it exists.
    pub fn view(&self) -> Option<&AccountView> {
        match self {
            Self::Found { view, .. } => Some(view),
            Self::Missing(_) | Self::NotServed(_) | Self::Closed { .. } => None,
        }
    }

    /// Whether the account exists and does not answer as it should; no object changes its state for that. A new
    /// process, which has not tried the key yet, does not count.
    pub fn is_out_of_touch(&self) -> bool {
        self.view().is_some_and(|view| match &view.state {
            AccountState::Blocked(why, _) => !matches!(why, Reason::Pending | Reason::Suspended),
            AccountState::Usable => view.is_unreachable,
        })
    }

    /// Whether the account exists, but may not be called because something is wrong with it.
    pub fn is_blocked(&self) -> bool {
        let state = self.view().map(|view| &view.state);
        matches!(state, Some(AccountState::Blocked(..))) && self.is_out_of_touch()
    }

    /// Whether it is known if everything through the account is stopped for the object.
    pub fn is_stop_known(&self) -> bool {
        match self {
            Self::Missing(_) | Self::NotServed(_) => true,
            Self::Closed { .. } => false,
            Self::Found { view, .. } => {
                !matches!(&view.state, AccountState::Blocked(Reason::Pending, _))
            }
        }
    }

    /// Why everything through the account is stopped for the object; None: it is not.
    pub fn suspension(&self) -> Option<&str> {
        match &self.view()?.state {
            AccountState::Blocked(Reason::Suspended, why) => Some(why),
            AccountState::Blocked(..) | AccountState::Usable => None,
        }
    }

    /// Message: the object is suspended, what follows from that, and how to resume. `is_own`: its own spec suspends it,
    /// and the account does not.
    pub fn describe_suspension(&self, is_own: bool, what: &str) -> String {
        if let Some(why) = self.suspension() {
            return why.to_owned();
        }
        let by = match is_own {
            true => "spec.suspend",
            false => "spec.defaults.suspend of the account",
        };
        format!("Suspended by {by}; {what}. To resume, set spec.suspend to false")
    }

    /// What the account offers the namespace, if it exists and may be asked.
    pub fn terms(&self) -> Option<&Terms> {
        match self {
            Self::Found { terms, .. } => Some(terms),
            Self::Missing(_) | Self::NotServed(_) | Self::Closed { .. } => None,
        }
    }

    /// The account, if it refuses the namespace and has nothing of the object; None while that is unknown.
    pub fn refusing(&self) -> Option<&AccountView> {
        match self {
            Self::Closed { explanation, view } if explanation.reason == Reason::NotAllowed => {
                Some(view)
            }
            _ => None,
        }
    }

    /// The account, if it may be called for this purpose; otherwise why not.
    pub fn usable(&self, purpose: Purpose) -> Result<&AccountView, Explanation> {
        match self {
            Self::Missing(which) => Err(Explanation::missing(
                Reason::AccountNotFound,
                format!(
                    "{which} does not exist. Create it, or name another in spec.accountRef of a new object (accountRef cannot change)"
                ),
            )),
            Self::NotServed(which) => Err(Explanation::stalled(
                Reason::AccountNotFound,
                format!(
                    "{which} is served only by an operator of the whole cluster. This namespace has its own \
                     operator: use a ProviderAccount of this namespace in spec.accountRef, or remove the \
                     namespace from that operator's --watch-namespace"
                ),
            )),
            Self::Closed { explanation, .. } => Err(explanation.clone()),
            Self::Found { view, terms } => {
                let closed = closed(terms).filter(|_| purpose != Purpose::End);
                closed.map_or(Ok(()), Err)?;
                match (&view.state, &view.no_orders) {
                    (AccountState::Blocked(reason, message), _) => {
                        Err(explain_blocked(*reason, message.clone()))
                    }
                    (AccountState::Usable, Some((reason, message)))
                        if purpose == Purpose::Order =>
                    {
                        Err(explain_blocked(*reason, message.clone()))
                    }
                    (AccountState::Usable, _) => Ok(view),
                }
            }
        }
    }
}

/// Stops the account for an object, if there is a reason to.
pub fn suspend_view(view: &mut AccountView, stopped: Option<String>) {
    if let Some(why) = stopped {
        view.state = AccountState::Blocked(Reason::Suspended, why);
    }
}

/// Why nothing new may begin on these terms; None: it may.
pub fn closed(terms: &Terms) -> Option<Explanation> {
    match terms {
        Terms::Own | Terms::Entry(_) => None,
        Terms::Unknown(why) => Some(Explanation::missing(Reason::Pending, why.clone())),
        Terms::Refused(why) => Some(Explanation::stalled(Reason::NotAllowed, why.clone())),
    }
}

/// What a reason of the account means to an object that waits for it.
pub fn explain_blocked(reason: Reason, message: String) -> Explanation {
    match reason {
        Reason::ReferenceNotFound => Explanation::missing(reason, message),
        Reason::Pending
        | Reason::ProviderUnreachable
        | Reason::RateLimited
        | Reason::WaitingForListing
        | Reason::AccountNotReady => Explanation::waits(reason, message),
        // A deletion that waits for that has a message.
        Reason::Suspended => Explanation {
            message,
            ..Explanation::suspended()
        },
        _ => Explanation::stalled(reason, message),
    }
}

/// What the live account object says, for the namespace of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAccount {
    /// Its UID.
    pub uid: String,
    /// Its account ID.
    pub account_id: Option<String>,
    /// Policies of its servers and hosts that do not set them.
    pub defaults: Policies,
    /// Its limits.
    pub limits: Limits,
    /// Why everything through it is stopped for the namespace; None: it is not stopped.
    pub stopped: Option<String>,
    /// What it offers the namespace of the object.
    pub terms: Terms,
}
