//! The looks at slow lists, each in its time.

use super::Answer;
use crate::{
    account::{Connection, Wake, live::Core, pace, room::Held, rounds::calls_of, turns::Caller},
    runtime::clock,
};
use flexmetal_core::account::{
    key_state::KeyState,
    lane::Lane,
    view::{Catalogue, List},
};
use hosting_types::list::Gap;
use std::{sync::Arc, time::Duration};

impl Core {
    /// A look at a list that starts at or after this moment is wanted.
    pub(crate) fn want_list(&self, list: List, not_before: Duration, caller: &Caller) {
        if self.lists.want(list, not_before, &caller.uid) {
            self.wake(&Wake::Object(caller.uid.clone()));
        }
    }

    /// Makes the looks that are wanted. Never ends.
    pub(crate) async fn keep_lists(&self) {
        futures::future::join_all(List::ALL.map(|list| self.keep_list(list))).await;
    }

    async fn keep_list(&self, list: List) {
        let replan = &self.lists.replan[list as usize];
        loop {
            let Some((due, connection)) = self.next_look(list) else {
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
            match self.look_at(list, &connection).await {
                Ok(Answer { woken, is_another }) => {
                    self.audience.wake_objects(woken);
                    if is_another {
                        self.wake(&Wake::List(self.of.key.clone(), list));
                    }
                }
                Err(error) => {
                    if let Gap::Failed(error) = &error {
                        self.judge(error);
                    }
                    let is_refused = matches!(self.state().key.state(), KeyState::Rejected(_));
                    let now = clock::now().mono;
                    let woken = self.lists.failed(list, &error, is_refused, now);
                    self.audience.wake_objects(woken);
                }
            }
        }
    }

    fn next_look(&self, list: List) -> Option<(Duration, Arc<Connection>)> {
        let (times, connection) = {
            let state = self.state();
            if *state.key.state() != KeyState::Accepted {
                return None;
            }
            (state.times()?, state.connection()?)
        };
        // Whoever searches needs the list of all servers and a proof listing: both in the same rhythm.
        let spacing = match list {
            List::Catalogue => times.active_poll_interval,
            List::Servers | List::Tags | List::SshKeys | List::Hosts => {
                let cost = self.turns.time_for(self.calls_for(list));
                pace::spaced(Duration::ZERO, times, cost)
            }
        };
        if let List::Tags | List::SshKeys | List::Hosts = list {
            self.lists.answers_early(list, times.idle_poll_interval / 2);
        }
        Some((self.lists.due(list, spacing)?, connection))
    }

    /// About how many calls a look at a list takes.
    fn calls_for(&self, list: List) -> u32 {
        match list {
            List::Catalogue => 4,
            List::Servers | List::Tags | List::Hosts => calls_of(self.lists.read(list)),
            // It has no pages.
            List::SshKeys => 1,
        }
    }

    async fn look_at(&self, list: List, by: &Connection) -> Result<Answer, Gap> {
        let started = clock::now().mono;
        Ok(match list {
            List::Catalogue => {
                let catalogue = self.catalogue(by).await?;
                let answer = self
                    .lists
                    .answer(list, started, catalogue, |c| &mut c.catalogue);
                // After it can be seen, and before anybody is woken.
                if let Some((looked, catalogue)) = self.lists.view().0.catalogue
                    && looked == started
                {
                    self.refusals.looked(&catalogue, started);
                }
                answer
            }
            List::Servers => {
                let (started, all) = self.every_machine(by).await?;
                self.lists.has_read(list, all.0.len());
                self.lists.answer(list, started, all, |c| &mut c.servers)
            }
            List::Tags => {
                let (started, read, tags) = self.every_tag(by).await?;
                self.lists.has_read(list, read);
                self.lists.answer(list, started, tags, |c| &mut c.tags)
            }
            List::SshKeys => {
                let all = self.call(by, Lane::Catalogue, by.client.ssh_keys()).await?;
                let mut held = self.room.nothing();
                held.reserve(&all)?;
                self.lists
                    .answer(list, started, (all, held), |c| &mut c.ssh_keys)
            }
            List::Hosts => {
                let (started, hosts) = self.every_host(by).await?;
                self.lists.has_read(list, hosts.0.len());
                self.lists.answer(list, started, hosts, |c| &mut c.hosts)
            }
        })
    }

    async fn catalogue(&self, by: &Connection) -> Result<(Catalogue, Held), Gap> {
        let lane = Lane::Catalogue;
        let mut held = self.room.nothing();
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
