//! Polls the lists of an account when they are due.

use super::ListPollOutcome;
use crate::{
    account::{
        Connection, EnqueueTarget, memory_budget::MemoryReservation, poll_plan,
        polls::calls_for_list, rate_limiter::Caller, session::Core,
    },
    runtime::clock,
};
use flexmetal_core::account::{
    key_state::KeyState,
    priority::Priority,
    view::{Catalogue, ListKind},
};
use hosting_types::list::ListGap;
use std::{sync::Arc, time::Duration};

impl Core {
    /// Requests a poll for an object, and enqueues the object if the list is available already.
    pub(crate) fn request_list(&self, list: ListKind, not_before: Duration, caller: &Caller) {
        if self.lists.request_list(list, not_before, &caller.uid) {
            self.enqueue(&EnqueueTarget::Object(caller.uid.clone()));
        }
    }

    /// Polls requested lists. Never returns.
    pub(crate) async fn run_list_pollers(&self) {
        futures::future::join_all(ListKind::ALL.map(|list| self.run_list_poller(list))).await;
    }

    async fn run_list_poller(&self, list: ListKind) {
        let replan = &self.lists.replan[list as usize];
        loop {
            let Some((due, connection)) = self.next_list_poll(list) else {
                replan.notified().await;
                continue;
            };
            // More requests do not delay a poll that is due.
            if due > clock::now().mono {
                tokio::select! {
                    biased;
                    () = replan.notified() => continue,
                    () = clock::sleep_until(due) => {}
                }
            }
            match self.poll_list(list, &connection).await {
                Ok(ListPollOutcome {
                    enqueued,
                    is_another,
                }) => {
                    self.subscribers.enqueue_objects(enqueued);
                    if is_another {
                        self.enqueue(&EnqueueTarget::List(self.account.key.clone(), list));
                    }
                }
                Err(error) => {
                    if let ListGap::Failed(error) = &error {
                        self.record_call_error(error);
                    }
                    let is_refused = matches!(self.state().breaker.state(), KeyState::Rejected(_));
                    let now = clock::now().mono;
                    let waiting = self.lists.record_failure(list, &error, is_refused, now);
                    self.subscribers.enqueue_objects(waiting);
                }
            }
        }
    }

    fn next_list_poll(&self, list: ListKind) -> Option<(Duration, Arc<Connection>)> {
        let (times, connection) = {
            let state = self.state();
            if *state.breaker.state() != KeyState::Accepted {
                return None;
            }
            (state.times()?, state.connection()?)
        };
        // An object that searches for its server needs this list and a complete list, so both have the same spacing.
        let spacing = match list {
            ListKind::Catalogue => times.active_poll_interval,
            ListKind::Servers | ListKind::Tags | ListKind::SshKeys | ListKind::Hosts => {
                let cost = self.rate_limiter.time_for(self.calls_for(list));
                poll_plan::next_requested_list_at(Duration::ZERO, times, cost)
            }
        };
        if let ListKind::Tags | ListKind::SshKeys | ListKind::Hosts = list {
            self.lists.set_tolerance(list, times.idle_poll_interval / 2);
        }
        Some((self.lists.due(list, spacing)?, connection))
    }

    /// Approximate number of calls for one poll of a list.
    fn calls_for(&self, list: ListKind) -> u32 {
        match list {
            ListKind::Catalogue => 4,
            ListKind::Servers | ListKind::Tags | ListKind::Hosts => {
                calls_for_list(self.lists.record_count(list))
            }
            // The API returns SSH keys without pages.
            ListKind::SshKeys => 1,
        }
    }

    async fn poll_list(&self, list: ListKind, by: &Connection) -> Result<ListPollOutcome, ListGap> {
        let started = clock::now().mono;
        Ok(match list {
            ListKind::Catalogue => {
                let catalogue = self.catalogue(by).await?;
                let answer = self
                    .lists
                    .store_content(list, started, catalogue, |c| &mut c.catalogue);
                // After the catalogue is visible, and before objects are enqueued.
                if let Some((read_at, catalogue)) = self.lists.view().0.catalogue
                    && read_at == started
                {
                    self.refusals.apply_catalogue(&catalogue, started);
                }
                answer
            }
            ListKind::Servers => {
                let (started, all) = self.list_all_servers(by).await?;
                self.lists.set_record_count(list, all.0.len());
                self.lists
                    .store_content(list, started, all, |c| &mut c.servers)
            }
            ListKind::Tags => {
                let (started, read, tags) = self.list_all_tags(by).await?;
                self.lists.set_record_count(list, read);
                self.lists
                    .store_content(list, started, tags, |c| &mut c.tags)
            }
            ListKind::SshKeys => {
                let all = self
                    .call(by, Priority::Catalogue, by.client.ssh_keys())
                    .await?;
                let mut reservation = self.memory_budget.empty_reservation();
                reservation.reserve(&all)?;
                self.lists
                    .store_content(list, started, (all, reservation), |c| &mut c.ssh_keys)
            }
            ListKind::Hosts => {
                let (started, hosts) = self.list_all_hosts(by).await?;
                self.lists.set_record_count(list, hosts.0.len());
                self.lists
                    .store_content(list, started, hosts, |c| &mut c.hosts)
            }
        })
    }

    async fn catalogue(&self, by: &Connection) -> Result<(Catalogue, MemoryReservation), ListGap> {
        let priority = Priority::Catalogue;
        let mut reservation = self.memory_budget.empty_reservation();
        let quotas = self.call(by, priority, by.client.quota_usage()).await?;
        reservation.reserve(&quotas)?;
        let plans = self.call(by, priority, by.client.plans()).await?;
        reservation.reserve(&plans)?;
        let locations = self.call(by, priority, by.client.locations()).await?;
        reservation.reserve(&locations)?;
        let systems = self
            .call(by, priority, by.client.operating_systems())
            .await?;
        reservation.reserve(&systems)?;
        Ok((
            Catalogue {
                locations,
                plans,
                systems,
                quotas,
            },
            reservation,
        ))
    }
}
