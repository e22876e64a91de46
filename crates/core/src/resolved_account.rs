//! The account that an object names, as its reference was resolved: a fact of every kind that uses one.

use super::explanation::Explanation;
use crate::account::{
    terms::Terms,
    view::{AccountState, AccountView},
};
use api::{Policies, Reason, limits::Limits, references::PinnedAccount};

/// The account of an object.
#[derive(Clone)]
// One of them lives for one pass; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum ResolvedAccount {
    /// There is no such account. Says which.
    Missing(String),
    /// It is not for this operator. Says which.
    NotServed(String),
    /// It does not serve the namespace, or that is not known yet, and nothing of the object is on record there: nothing
    /// is asked of it.
    Closed {
        /// Why.
        explanation: Explanation,
        /// What it shows all the same.
        view: AccountView,
    },
    /// There is one.
    Found {
        /// The account at this moment.
        view: AccountView,
        /// What it offers this namespace. That it does not serve it stops what is new, never what ends.
        terms: Terms,
    },
}

/// What an account is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An order.
    Order,
    /// Any other change that the object wishes for.
    Change,
    /// To look, and to end what there is.
    End,
}

impl ResolvedAccount {
    /// The account at this moment, on these terms.
    pub fn found(mut view: AccountView, terms: Terms) -> Self {
        stop(&mut view, terms.stopped());
        Self::Found { view, terms }
    }

    /// There is no account that this leads to.
    pub fn missing(reference: &PinnedAccount) -> Self {
        Self::Missing(format!("{} {}", reference.kind.as_str(), reference.name))
    }

    /// Takes in what the account object says now.
    pub fn set_live(&mut self, live: LiveAccount) {
        if let Self::Found { view, terms } = self {
            *terms = live.terms;
            view.defaults = Some(live.defaults);
            view.limits = live.limits;
            view.uid = live.uid;
            view.account_id = live.account_id;
            stop(view, live.stopped);
        }
    }

    /// The account at this moment, where there is one.
    pub fn view(&self) -> Option<&AccountView> {
        match self {
            Self::Found { view, .. } => Some(view),
            Self::Missing(_) | Self::NotServed(_) | Self::Closed { .. } => None,
        }
    }

    /// Whether the account is there and does not answer as it should: no object changes state for that. An operator that
    /// has just started has not tried the key yet.
    pub fn is_out_of_touch(&self) -> bool {
        self.view().is_some_and(|view| match &view.state {
            AccountState::Blocked(why, _) => !matches!(why, Reason::Pending | Reason::Suspended),
            AccountState::Usable => view.is_unreachable,
        })
    }

    /// Whether the account is there, and may not be called because something is wrong with it.
    pub fn is_blocked(&self) -> bool {
        let state = self.view().map(|view| &view.state);
        matches!(state, Some(AccountState::Blocked(..))) && self.is_out_of_touch()
    }

    /// Whether it is known that everything through the account is stopped for the object, or is not.
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
    pub fn stopped(&self) -> Option<&str> {
        match &self.view()?.state {
            AccountState::Blocked(Reason::Suspended, why) => Some(why),
            AccountState::Blocked(..) | AccountState::Usable => None,
        }
    }

    /// Says that the object is suspended, what follows from it, and how to go on. `is_own`: by its own spec, where the
    /// account is not.
    pub fn describe_suspension(&self, is_own: bool, what: &str) -> String {
        if let Some(why) = self.stopped() {
            return why.to_owned();
        }
        let by = match is_own {
            true => "spec.suspend",
            false => "spec.defaults.suspend of the account",
        };
        format!("Suspended by {by}; {what}. To resume, set spec.suspend to false")
    }

    /// What the account offers the namespace, where there is one that may be asked.
    pub fn terms(&self) -> Option<&Terms> {
        match self {
            Self::Found { terms, .. } => Some(terms),
            Self::Missing(_) | Self::NotServed(_) | Self::Closed { .. } => None,
        }
    }

    /// What an account shows that does not serve the namespace, and that has nothing of the object on record. None too
    /// while that is not known.
    pub fn refusing(&self) -> Option<&AccountView> {
        match self {
            Self::Closed {
                explanation: cause,
                view,
            } if cause.reason == Reason::NotAllowed => Some(view),
            _ => None,
        }
    }

    /// The account when it may be called for this.
    ///
    /// # Errors
    /// Why not.
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
            Self::Closed {
                explanation: cause, ..
            } => Err(cause.clone()),
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

/// Stops the account for an object, where this says why.
pub fn stop(view: &mut AccountView, stopped: Option<String>) {
    if let Some(why) = stopped {
        view.state = AccountState::Blocked(Reason::Suspended, why);
    }
}

/// Why nothing new is begun on these terms; None: it may be.
pub fn closed(terms: &Terms) -> Option<Explanation> {
    match terms {
        Terms::Own | Terms::Entry(_) => None,
        Terms::Unknown(why) => Some(Explanation::missing(Reason::Pending, why.clone())),
        Terms::Refused(why) => Some(Explanation::stalled(Reason::NotAllowed, why.clone())),
    }
}

/// What a reason of the account is to an object that waits for it.
pub fn explain_blocked(reason: Reason, message: String) -> Explanation {
    match reason {
        Reason::ReferenceNotFound => Explanation::missing(reason, message),
        Reason::Pending
        | Reason::ProviderUnreachable
        | Reason::RateLimited
        | Reason::WaitingForListing
        | Reason::AccountNotReady => Explanation::waits(reason, message),
        // A deletion that waits for that says why.
        Reason::Suspended => Explanation {
            message,
            ..Explanation::suspended()
        },
        _ => Explanation::stalled(reason, message),
    }
}

/// What an account object says at this moment, and the namespace of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAccount {
    /// Its UID.
    pub uid: String,
    /// Its lineage.
    pub account_id: Option<String>,
    /// What its servers and hosts do where they do not say it themselves.
    pub defaults: Policies,
    /// Its limits.
    pub limits: Limits,
    /// Why everything through it is stopped for the namespace; None: it is not.
    pub stopped: Option<String>,
    /// What it offers the namespace of the object.
    pub terms: Terms,
}
