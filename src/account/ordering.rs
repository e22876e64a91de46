//! Orders: may one go out, and the sending of it.

use super::{
    Account, AccountSettings,
    handle::Connected,
    limits::{ProposedOrder, Reservations, filter_hashes_for_entry, retained_namespace_hashes},
    rate_limiter::{Caller, Permit},
    session::Session,
};
use crate::runtime::clock;
use api::{Reason, names::ACCOUNT_FINALIZER};
use flexmetal_core::account::{
    ownership_tags,
    priority::Priority,
    supply::{Demand, may_lack_supply},
    terms::Terms,
    view::AccountState,
};
use hosting_types::{Order, OrderResult};
use std::{collections::HashSet, sync::Arc};

/// Why an order may not go out now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A limit of the account is reached. The text names the field and the numbers.
    Limit(String),
    /// The account may not order.
    Blocked(Reason, String),
}

/// The answer to a request for an order.
#[must_use]
pub enum OrderPermitAnswer {
    /// One order may be sent now.
    Now(OrderPermit),
    /// The object is queued, and woken when its permit is there.
    Queued,
}

/// The permission for one order: a call, a place in flight, and a reservation against the limits.
/// Dropped unused, it gives all of them back.
#[must_use]
pub struct OrderPermit {
    permit: Permit,
    reservations: Reservations,
    reservation: u64,
}

impl Account {
    /// A permit for one order of the object with this mark, now; else the object is queued, and woken
    /// when it should ask again.
    ///
    /// # Errors
    /// [`Denied`] says whether a limit or the state of the account stands against it. The object has no
    /// place in the queue then.
    pub fn request_order_permit(
        &self,
        mark: &str,
        caller: &Caller,
    ) -> Result<OrderPermitAnswer, Denied> {
        let turn = self.try_request_order_permit(mark, caller);
        if turn.is_err()
            && let Some((live, _)) = self.connected()
        {
            live.core.rate_limiter.cancel_request(&caller.uid);
        }
        turn
    }

    fn try_request_order_permit(
        &self,
        mark: &str,
        caller: &Caller,
    ) -> Result<OrderPermitAnswer, Denied> {
        let (live, connection) = self.may_order()?;
        let core = &live.core;
        let terms = match self.terms(&caller.namespace) {
            Terms::Unknown(why) => return Err(Denied::Blocked(Reason::Pending, why)),
            Terms::Refused(why) => return Err(Denied::Blocked(Reason::NotAllowed, why)),
            terms @ (Terms::Own | Terms::Entry(_)) => terms,
        };
        let settings = self.settings();
        let audience = self.subscribers();
        let left = self.find_retained_hashes(&live, &terms, &settings)?;
        let candidate = || ProposedOrder {
            name_hash: mark,
            account: self.key(),
            limits: &settings.limits,
            terms: &terms,
            every: settings.times.active_poll_interval,
            reservations: self.reservations(),
            owners: &audience.owners,
            namespaces: &audience.namespaces,
            retained_hashes: &left,
            now: clock::now(),
        };
        if candidate().counts_by_namespace() {
            let unknown = {
                let state = core.state();
                let live = state.servers.snapshot().own_servers();
                let live = live.filter(|s| s.server.status.is_live());
                audience.owners.unknown(live)
            };
            audience.ask_owners(unknown);
        }
        candidate()
            .check(core.state().servers.snapshot())
            .map_err(Denied::Limit)?;
        if !core.rate_limiter.request_calls(Priority::Order, 1, caller) {
            return Ok(OrderPermitAnswer::Queued);
        }
        let permit = Permit::new(live.clone(), connection, Priority::Order, 1);
        let reservation = {
            // Checked and reserved under one lock.
            let state = core.state();
            let candidate = candidate();
            let checked = candidate.check(state.servers.snapshot());
            checked.map(|()| {
                audience.owners.record(mark, &caller.namespace);
                let now = candidate.now.mono;
                self.reservations().admit(mark, &caller.namespace, now)
            })
        };
        let reservation = reservation.map_err(Denied::Limit)?;
        Ok(OrderPermitAnswer::Now(OrderPermit {
            permit,
            reservations: self.reservations().clone(),
            reservation,
        }))
    }

    /// The marks of the namespaces whose retained machines count for the entry that holds.
    fn find_retained_hashes(
        &self,
        live: &Session,
        terms: &Terms,
        settings: &AccountSettings,
    ) -> Result<HashSet<String>, Denied> {
        let entry = match terms {
            Terms::Entry(entry) if entry.limits.has_counters() => entry,
            _ => return Ok(HashSet::new()),
        };
        let audience = self.subscribers();
        // What is not known yet would not be counted.
        let awaited = match () {
            () if !audience.knows_servers() => "servers",
            () if entry.namespace_selector.is_some() && !audience.namespaces.are_all_known() => {
                "namespaces"
            }
            () => {
                let retained = retained_namespace_hashes(live.core.state().servers.snapshot());
                let entries = settings.allowed.as_deref().unwrap_or_default();
                let (cluster, namespaces) = (&live.core.cluster, &audience.namespaces);
                return Ok(filter_hashes_for_entry(
                    retained, entry, entries, cluster, namespaces,
                ));
            }
        };
        let text = format!(
            "Waiting for the list of all {awaited} of the cluster; limits.maxServers and limits.maxOrdersPerHour of entry {:?} in spec.allowedNamespaces of {} need it. If this stays, let the operator list and watch {awaited}",
            entry.name,
            self.key()
        );
        Err(Denied::Blocked(Reason::Pending, text))
    }

    /// Why nothing may be ordered now, though releases go on. Who orders is woken when it changes.
    pub(super) fn why_no_orders(&self) -> Option<(Reason, String)> {
        if let Some(why) = &self.settings().no_orders {
            return Some(why.clone());
        }
        // Without the key nothing that is ordered could be released.
        (!self.has_finalizers()).then(|| {
            let text = format!(
                "Waiting for the finalizer of {}; {ACCOUNT_FINALIZER} is not yet on the account and its Secret. If this stays, look at the conditions of the account",
                self.key(),
            );
            (Reason::Pending, text)
        })
    }

    fn may_order(&self) -> Result<Connected, Denied> {
        if let AccountState::Blocked(reason, message) = self.view().state {
            return Err(Denied::Blocked(reason, message));
        }
        if let Some((reason, message)) = self.why_no_orders() {
            if !self.has_finalizers() {
                self.enqueue_account_object();
            }
            return Err(Denied::Blocked(reason, message));
        }
        self.connected().ok_or_else(|| {
            let text = format!(
                "{} has no usable key or base URL. Look at the conditions of the account",
                self.key(),
            );
            Denied::Blocked(Reason::Pending, text)
        })
    }

    /// Sends the order, at once and at most once. On success the machine is known from here on.
    ///
    /// Once polled it must be polled to its end, like [`hosting::Client::order`].
    pub async fn order(
        &self,
        mut permit: OrderPermit,
        order: &Order,
        order_tag: &str,
    ) -> OrderResult {
        permit.permit.spend();
        let core = &permit.permit.live().core;
        let sent = clock::now().mono;
        permit
            .reservations
            .record_sent(permit.reservation, order_tag, sent);
        let client = &permit.permit.connection().client;
        let outcome = core.await_answer(client.order(order, order_tag)).await;
        match &outcome {
            OrderResult::Created(server) => {
                core.record_answer(permit.permit.connection(), Ok(()));
                // As of now, not of the send: no earlier look can have shown it.
                core.record_server((**server).clone(), clock::now().mono);
            }
            OrderResult::Refused(error) => {
                core.record_answer(permit.permit.connection(), Err(error));
                if may_lack_supply(error) {
                    let mark = ownership_tags::name_hash(order_tag).unwrap_or_default();
                    core.refusals.record_refusal(
                        Demand::from_order(order),
                        mark,
                        clock::now().mono,
                    );
                }
            }
            OrderResult::NotSent(error) => core.record_call_error(error),
            OrderResult::Unknown(_) => core.suspect_outage(),
        }
        // In a former session it is in a snapshot that nobody looks at.
        let is_seen = permit.is_seen_by(self);
        permit
            .reservations
            .record_outcome(permit.reservation, &outcome, is_seen);
        outcome
    }
}

impl OrderPermit {
    /// The word for the connection that this permit is for.
    pub fn connection(&self) -> &str {
        &self.permit.connection().connection_hash
    }

    /// Whether the account still stands on the connection that this permit is for: what was checked
    /// on another one says nothing of it.
    pub fn is_current_for(&self, account: &Account) -> bool {
        account.is_current_permit(&self.permit)
    }

    /// Whether what it makes is seen in the session that the account has.
    fn is_seen_by(&self, account: &Account) -> bool {
        let connected = account.connected();
        connected.is_some_and(|(live, _)| Arc::ptr_eq(&live.core, &self.permit.live().core))
    }
}

impl Drop for OrderPermit {
    fn drop(&mut self) {
        self.reservations.give_up(self.reservation);
    }
}
