//! Reads once an hour what the servers of an account have used, if its settings say so.

use super::{Connection, session::Core};
use crate::runtime::{
    clock,
    metrics::{Metric, Samples},
};
use flexmetal_core::{
    account::{
        key_state::KeyState,
        priority::Priority,
        usage::{AccountUsage, UsageOfMonth, UsageOwners, UsageTotal, months},
    },
    owner::namespace_hash,
};
use hosting_types::Error;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Time between two reads.
const EVERY: Duration = Duration::from_secs(3600);

/// The usage as last read.
#[derive(Default)]
pub(crate) struct UsageReads {
    state: Mutex<UsageReadsState>,
    /// Signals that settings or the state of the key changed.
    pub(crate) replan: Notify,
}

#[derive(Default)]
struct UsageReadsState {
    /// When the last read ended.
    ended: Option<Duration>,
    usage: Arc<AccountUsage>,
}

impl UsageReads {
    fn state(&self) -> MutexGuard<'_, UsageReadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Reads the usage. Never returns.
    pub(crate) async fn run_usage_reads(&self) {
        loop {
            let due = self.usage_due();
            let wait = async {
                match due {
                    Some(due) => clock::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.usage.replan.notified() => continue,
                () = wait => {}
            }
            let Some(connection) = self.state().connection() else {
                // The session has ended, or starts.
                self.usage.replan.notified().await;
                continue;
            };
            let read = self.read_usage(&connection).await;
            let mut state = self.usage.state();
            state.ended = Some(clock::now().mono);
            state.usage = Arc::new(match read {
                Ok(usage) => usage,
                Err(error) => AccountUsage {
                    error: Some(error.explain()),
                    ..AccountUsage::clone(&state.usage)
                },
            });
            drop(state);
            self.enqueue_account_object();
        }
    }

    /// When the next read is due. None: not at all.
    fn usage_due(&self) -> Option<Duration> {
        let is_wanted = {
            let state = self.state();
            state.reads_usage() && *state.breaker.state() == KeyState::Accepted
        };
        let ended = self.usage.state().ended;
        is_wanted.then(|| ended.map_or(Duration::ZERO, |ended| ended + EVERY))
    }

    async fn read_usage(&self, by: &Connection) -> Result<AccountUsage, Error> {
        let wall = clock::now().wall;
        let mut all = Vec::new();
        for (first, last) in months(wall).into_iter().flatten() {
            let call = by.client.usage(Some(first), Some(last));
            let usages = self.call(by, Priority::Catalogue, call).await?;
            all.push(UsageOfMonth::new(first, &usages, &self.usage_owners()));
        }
        Ok(AccountUsage {
            read_at: Some(wall),
            error: None,
            months: all.try_into().ok(),
        })
    }

    fn usage_owners(&self) -> UsageOwners {
        // An operator of some namespaces does not know the others; its accounts serve their own.
        let mut names = self.subscribers.namespaces.names_matching(|_, _| true);
        names.extend(self.account.key.namespace.clone());
        let by_hash = |name: String| (namespace_hash(&self.cluster, &name), name);
        UsageOwners {
            cluster_tag: self.cluster_tag.clone(),
            namespaces: names.into_iter().map(by_hash).collect(),
            claims: self.subscribers.claimed_name_hashes(),
        }
    }

    /// The usage as last read. None: it is not read.
    pub(crate) fn usage(&self) -> Option<Arc<AccountUsage>> {
        let reads = self.state().reads_usage();
        reads.then(|| self.usage.state().usage.clone())
    }

    /// Adds the gauges of the usage.
    pub(crate) fn collect_usage(&self, samples: &mut Samples, account: &str) {
        let Some(usage) = self.usage() else {
            return;
        };
        let names = ["current", "previous"];
        for (name, month) in names.into_iter().zip(usage.months.iter().flatten()) {
            for ((namespace, contract), total) in &month.shares {
                let labels = [account, namespace, contract, name];
                let UsageTotal {
                    hours,
                    egress_bytes,
                } = *total;
                samples.set(Metric::UsageHours, &labels, amount(hours));
                samples.set(Metric::UsageEgress, &labels, amount(egress_bytes));
            }
        }
    }
}

/// Exact up to 2^53, which is nine million gigabytes.
#[allow(clippy::cast_precision_loss)]
fn amount(number: i64) -> f64 {
    number as f64
}
