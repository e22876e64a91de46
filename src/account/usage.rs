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
use hosting_types::{BaseUrl, Error};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Time between two reads.
const EVERY: Duration = Duration::from_secs(3600);

/// Time after a failed read.
const RETRY: Duration = Duration::from_secs(300);

/// The usage as last read. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct UsageReads(Arc<UsageReadsInner>);

#[derive(Default)]
struct UsageReadsInner {
    state: Mutex<UsageReadsState>,
    replan: Notify,
}

#[derive(Default)]
struct UsageReadsState {
    /// When the next read is due.
    due: Duration,
    /// Which hosting API was read.
    base_url: Option<BaseUrl>,
    usage: Arc<AccountUsage>,
}

impl UsageReads {
    fn state(&self) -> MutexGuard<'_, UsageReadsState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that settings or the state of the key changed.
    pub(crate) fn replan(&self) -> &Notify {
        &self.0.replan
    }
}

impl UsageReadsState {
    /// Forgets what another hosting API said.
    fn begin_with(&mut self, base_url: &BaseUrl) {
        if self.base_url.as_ref() != Some(base_url) {
            *self = Self {
                base_url: Some(base_url.clone()),
                ..Self::default()
            };
        }
    }

    fn end_read(&mut self, read: Result<AccountUsage, Error>) {
        let now = clock::now().mono;
        let (after, usage) = match read {
            Ok(usage) => (EVERY, usage),
            Err(error) => {
                let failed = AccountUsage {
                    error: Some(error.explain()),
                    ..AccountUsage::clone(&self.usage)
                };
                (RETRY, failed)
            }
        };
        self.due = now + after;
        self.usage = Arc::new(usage);
    }
}

impl Core {
    /// Reads the usage. Never returns.
    pub(crate) async fn run_usage_reads(&self) {
        loop {
            let reads = &self.account.usage;
            let due = self.usage_due();
            let wait = async {
                match due {
                    Some(due) => clock::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = reads.replan().notified() => continue,
                () = wait => {}
            }
            let Some(connection) = self.state().connection() else {
                // The session has ended.
                reads.replan().notified().await;
                continue;
            };
            let read = self.read_usage(&connection).await;
            reads.state().end_read(read);
            self.enqueue_account_object();
        }
    }

    /// When the next read is due. None: not at all.
    fn usage_due(&self) -> Option<Duration> {
        let connection = {
            let state = self.state();
            let is_wanted = state.reads_usage() && *state.breaker.state() == KeyState::Accepted;
            state.connection().filter(|_| is_wanted)?
        };
        let mut state = self.account.usage.state();
        state.begin_with(&connection.base_url);
        Some(state.due)
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
        reads.then(|| self.account.usage.state().usage.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn usage_is_kept_for_its_api_alone() {
        let reads = UsageReads::default();
        let (one, other) = (url("https://one.example/"), url("https://other.example/"));
        let seen = |read_at| AccountUsage {
            read_at,
            ..AccountUsage::default()
        };
        let mut state = reads.state();
        state.begin_with(&one);
        assert_eq!(state.due, Duration::ZERO);
        state.end_read(Ok(seen(Some(1))));
        let due = state.due;
        // The next session of the same account waits for the hour.
        state.begin_with(&one);
        assert_eq!((state.due, state.usage.read_at), (due, Some(1)));
        assert_eq!(due - clock::now().mono, EVERY);
        state.end_read(Err(Error::Undecodable {
            status: 200,
            why: "no list".to_owned(),
            idempotent: true,
        }));
        assert_eq!(state.usage.read_at, Some(1));
        assert!(state.usage.error.is_some());
        assert_eq!(state.due - clock::now().mono, RETRY);
        state.begin_with(&other);
        assert_eq!((state.due, state.usage.read_at), (Duration::ZERO, None));
    }
}
