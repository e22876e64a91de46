//! The looks at slow lists, each in its time.

use super::ListPollOutcome;
use crate::{
    account::{
        Connection, EnqueueTarget, memory_budget::MemoryReservation, pace, polls::calls_for_list,
        rate_limiter::Caller, session::Core,
    },
    runtime::clock,
};
use flexmetal_core::account::{
    key_state::KeyState,
    priority::Priority,
    view::{Catalogue, ListKind},
};
use hosting_types::list::Gap;
use std::{sync::Arc, time::Duration};

impl Core {
    /// A look at a list that starts at or after this moment is wanted.
    pub(crate) fn request_list(&self, list: ListKind, not_before: Duration, caller: &Caller) {
        if self.lists.request_list(list, not_before, &caller.uid) {
            self.enqueue(&EnqueueTarget::Object(caller.uid.clone()));
        }
    }

    /// Makes the looks that are wanted. Never ends.
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
            // What is due goes ahead, however often more of it is wanted.
            if due > clock::now().mono {
                tokio::select! {
                    biased;
                    () = replan.notified() => continue,
                    () = clock::sleep_until(due) => {}
                }
            }
            match self.poll_list(list, &connection).await {
                Ok(ListPollOutcome {
                    enqueued: woken,
                    is_another,
                }) => {
                    self.subscribers.enqueue_objects(woken);
                    if is_another {
                        self.enqueue(&EnqueueTarget::List(self.account.key.clone(), list));
                    }
                }
                Err(error) => {
                    if let Gap::Failed(error) = &error {
                        self.record_call_error(error);
                    }
                    let is_refused = matches!(self.state().key.state(), KeyState::Rejected(_));
                    let now = clock::now().mono;
                    let woken = self.lists.record_failure(list, &error, is_refused, now);
                    self.subscribers.enqueue_objects(woken);
                }
            }
        }
    }

    fn next_list_poll(&self, list: ListKind) -> Option<(Duration, Arc<Connection>)> {
        let (times, connection) = {
            let state = self.state();
            if *state.key.state() != KeyState::Accepted {
                return None;
            }
            (state.times()?, state.connection()?)
        };
        // Whoever searches needs the list of all servers and a proof listing: both in the same rhythm.
        let spacing = match list {
            ListKind::Catalogue => times.active_poll_interval,
            ListKind::Servers | ListKind::Tags | ListKind::SshKeys | ListKind::Hosts => {
                let cost = self.rate_limiter.time_for(self.calls_for(list));
                pace::spaced(Duration::ZERO, times, cost)
            }
        };
        if let ListKind::Tags | ListKind::SshKeys | ListKind::Hosts = list {
            self.lists.set_tolerance(list, times.idle_poll_interval / 2);
        }
        Some((self.lists.due(list, spacing)?, connection))
    }

    /// About how many calls a look at a list takes.
    fn calls_for(&self, list: ListKind) -> u32 {
        match list {
            ListKind::Catalogue => 4,
            ListKind::Servers | ListKind::Tags | ListKind::Hosts => {
                calls_for_list(self.lists.record_count(list))
            }
            // It has no pages.
            ListKind::SshKeys => 1,
        }
    }

    async fn poll_list(&self, list: ListKind, by: &Connection) -> Result<ListPollOutcome, Gap> {
        let started = clock::now().mono;
        Ok(match list {
            ListKind::Catalogue => {
                let catalogue = self.catalogue(by).await?;
                let answer = self
                    .lists
                    .store_content(list, started, catalogue, |c| &mut c.catalogue);
                // After it can be seen, and before anybody is woken.
                if let Some((looked, catalogue)) = self.lists.view().0.catalogue
                    && looked == started
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
                let mut held = self.memory_budget.empty_reservation();
                held.reserve(&all)?;
                self.lists
                    .store_content(list, started, (all, held), |c| &mut c.ssh_keys)
            }
            ListKind::Hosts => {
                let (started, hosts) = self.list_all_hosts(by).await?;
                self.lists.set_record_count(list, hosts.0.len());
                self.lists
                    .store_content(list, started, hosts, |c| &mut c.hosts)
            }
        })
    }

    async fn catalogue(&self, by: &Connection) -> Result<(Catalogue, MemoryReservation), Gap> {
        let lane = Priority::Catalogue;
        let mut held = self.memory_budget.empty_reservation();
        let quotas = self.call(by, lane, by.client.quota_usage()).await?;
        held.reserve(&quotas)?;
        let plans = self.call(by, lane, by.client.plans()).await?;
        held.reserve(&plans)?;
        let locations = self.call(by, lane, by.client.locations()).await?;
        held.reserve(&locations)?;
        let systems = self.call(by, lane, by.client.operating_systems()).await?;
        held.reserve(&systems)?;
        Ok((
            Catalogue {
                locations,
                plans,
                systems,
                quotas,
            },
            held,
        ))
    }
}
