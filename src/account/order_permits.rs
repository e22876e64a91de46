//! Order permits, and the sending of orders.

use super::{
    Account, AccountSettings,
    handle::Connected,
    limits::{ProposedOrder, Reservations},
    rate_limiter::{Caller, Permit},
    session::Session,
};
use crate::runtime::clock;
use api::{Reason, names::ACCOUNT_FINALIZER, selector::Labels};
use flexmetal_core::account::{
    order_limits::{filter_hashes_for_entry, retained_namespace_hashes},
    order_supply::{Demand, may_lack_supply},
    ownership_tags,
    priority::Priority,
    terms::Terms,
    view::AccountState,
};
use hosting_types::{Order, OrderResult};
use std::{collections::HashSet, sync::Arc};

/// Why an order may not be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A limit of the account is reached. The text names the field and the numbers.
    Limit(String),
    /// The account may not order.
    Blocked(Reason, String),
}

/// Answer to a request for an order permit.
#[must_use]
pub enum OrderPermitAnswer {
    /// One order may be sent now.
    Now(OrderPermit),
    /// The object is in the queue, and is reconciled when its permit is granted.
    Queued,
}

/// Permission for one order: a call, a slot in flight, and a reservation against the limits. Dropping it unused returns
/// all of them.
#[must_use]
pub struct OrderPermit {
    permit: Permit,
    reservations: Reservations,
    reservation: u64,
}

impl Account {
    /// Requests a permit for one order of the object with this name hash. If none is free, the caller enters the queue
    /// and is reconciled when it should ask again.
    ///
    /// # Errors
    /// [`Denied`]: a limit or the state of the account blocks the order. The caller leaves the queue.
    pub fn request_order_permit(
        &self,
        name_hash: &str,
        caller: &Caller,
    ) -> Result<OrderPermitAnswer, Denied> {
        let answer = self.try_request_order_permit(name_hash, caller);
        if answer.is_err()
            && let Some((live, _)) = self.connected()
        {
            live.core.rate_limiter.cancel_request(&caller.uid);
        }
        answer
    }

    fn try_request_order_permit(
        &self,
        name_hash: &str,
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
        let subscribers = self.subscribers();
        let retained_hashes = self.find_retained_hashes(&live, &terms, &settings)?;
        let candidate = || ProposedOrder {
            name_hash,
            account: self.key(),
            limits: &settings.limits,
            terms: &terms,
            every: settings.times.active_poll_interval,
            reservations: self.reservations(),
            owners: &subscribers.owners,
            namespaces: &subscribers.namespaces,
            retained_hashes: &retained_hashes,
            now: clock::now(),
        };
        if candidate().counts_by_namespace() {
            let unknown = {
                let state = core.state();
                let live = state.servers.snapshot().own_servers();
                let live = live.filter(|s| s.server.status.is_live());
                subscribers.owners.unknown(live)
            };
            subscribers.ask_owners(unknown);
        }
        candidate()
            .check(core.state().servers.snapshot())
            .map_err(Denied::Limit)?;
        if !core.rate_limiter.request_calls(Priority::Order, 1, caller) {
            return Ok(OrderPermitAnswer::Queued);
        }
        let permit = Permit::new(live.clone(), connection, Priority::Order, 1);
        let reservation = {
            // Check and reserve under one lock.
            let state = core.state();
            let candidate = candidate();
            let checked = candidate.check(state.servers.snapshot());
            checked.map(|()| {
                subscribers.owners.record(name_hash, &caller.namespace);
                let now = candidate.now.mono;
                self.reservations().admit(name_hash, &caller.namespace, now)
            })
        };
        let reservation = reservation.map_err(Denied::Limit)?;
        Ok(OrderPermitAnswer::Now(OrderPermit {
            permit,
            reservations: self.reservations().clone(),
            reservation,
        }))
    }

    /// Hashes of the namespaces whose retained servers count for the entry in force.
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
        let subscribers = self.subscribers();
        // What is not known yet would not be counted.
        let awaited = match () {
            () if !subscribers.knows_servers() => "servers",
            () if entry.namespace_selector.is_some() && !subscribers.namespaces.are_all_known() => {
                "namespaces"
            }
            () => {
                let retained = {
                    let state = live.core.state();
                    let own = state.servers.snapshot().own_servers();
                    retained_namespace_hashes(own.map(|s| &*s.server))
                };
                let entries = settings.allowed.as_deref().unwrap_or_default();
                let (cluster, namespaces) = (&live.core.cluster, &subscribers.namespaces);
                let matching =
                    |is_so: &dyn Fn(&str, &Labels) -> bool| namespaces.names_matching(is_so);
                return Ok(filter_hashes_for_entry(
                    retained, entry, entries, cluster, matching,
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

    /// Why nothing may be ordered now, though releases go on. Objects that order are enqueued when it changes.
    pub(super) fn why_no_orders(&self) -> Option<(Reason, String)> {
        if let Some(why) = &self.settings().no_orders {
            return Some(why.clone());
        }
        // Without the key the operator could not release what it ordered.
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

    /// Sends the order, at once and at most once; a created server is in the snapshot afterwards. Once polled it must
    /// be polled to its end, like [`hosting::Client::order`].
    pub async fn order(
        &self,
        mut permit: OrderPermit,
        order: &Order,
        order_tag: &str,
    ) -> OrderResult {
        permit.permit.spend();
        let core = &permit.permit.session().core;
        let sent = clock::now().mono;
        permit
            .reservations
            .record_sent(permit.reservation, order_tag, sent);
        let client = &permit.permit.connection().client;
        let outcome = core.await_answer(client.order(order, order_tag)).await;
        match &outcome {
            OrderResult::Created(server) => {
                core.record_answer(permit.permit.connection(), Ok(()));
                // As of now, not of the send: no earlier read can contain the server.
                core.record_server((**server).clone(), clock::now().mono);
            }
            OrderResult::Refused(error) => {
                core.record_answer(permit.permit.connection(), Err(error));
                if may_lack_supply(error) {
                    let name_hash = ownership_tags::name_hash(order_tag).unwrap_or_default();
                    core.refusals.record_refusal(
                        Demand::from_order(order),
                        name_hash,
                        clock::now().mono,
                    );
                }
            }
            OrderResult::NotSent(error) => core.record_call_error(error),
            OrderResult::Unknown(_) => core.suspect_outage(),
        }
        // The snapshot of a previous session is not read any more.
        let is_seen = permit.is_seen_by(self);
        permit
            .reservations
            .record_outcome(permit.reservation, &outcome, is_seen);
        outcome
    }
}

impl OrderPermit {
    /// Hash of the connection that this permit is for.
    pub fn connection(&self) -> &str {
        &self.permit.connection().connection_hash
    }

    /// Whether the account still uses the connection of this permit. Checks over another connection do not count for
    /// it.
    pub fn is_current_for(&self, account: &Account) -> bool {
        account.is_current_permit(&self.permit)
    }

    /// Whether the account's current session sees the server that this permit creates.
    fn is_seen_by(&self, account: &Account) -> bool {
        let connected = account.connected();
        connected.is_some_and(|(live, _)| Arc::ptr_eq(&live.core, &self.permit.session().core))
    }
}

impl Drop for OrderPermit {
    fn drop(&mut self) {
        self.reservations.give_up(self.reservation);
    }
}
