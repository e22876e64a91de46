//! The gauges of the account objects at a scrape, from their status.

use super::{
    AccountController,
    object::{self, AccountObject},
};
use crate::{
    controllers::objects::{Objects, seconds_between},
    runtime::{
        clock,
        metrics::{Metric, Samples, flag},
    },
};
use api::account::AccountStatus;

/// Gauges of ages and counts that are 0 unless an object shows more.
const ZERO_AT_LEAST: [Metric; 4] = [
    Metric::OrdersOpen,
    Metric::OldestUnknownOrder,
    Metric::OldestProvisioning,
    Metric::OldestOrphan,
];

impl AccountController {
    /// Adds the gauges of all account objects.
    pub fn collect(&self, samples: &mut Samples) {
        collect_kind(&self.namespaced, samples);
        if let Some(cluster) = &self.cluster {
            collect_kind(cluster, samples);
        }
    }
}

fn collect_kind<K: AccountObject, M: Clone + Default + Send>(
    objects: &Objects<K, M>,
    samples: &mut Samples,
) {
    for account in objects.decoded() {
        let label = object::key::<K>(account.meta()).label();
        for metric in ZERO_AT_LEAST {
            samples.add(metric, &[&label], 0.0);
        }
        if let Some(status) = account.status() {
            collect_status(samples, &label, status);
        }
    }
}

fn collect_status(samples: &mut Samples, label: &str, status: &AccountStatus) {
    if let Some(servers) = &status.servers {
        for (metric, number) in [
            (Metric::Orphans, Some(servers.orphans)),
            (Metric::DuplicateServers, Some(servers.duplicates)),
            (Metric::RetainedServers, Some(servers.retained)),
            (Metric::UnmanagedServers, servers.unmanaged),
        ] {
            if let Some(number) = number {
                samples.set(metric, &[label], f64::from(number));
            }
        }
    }
    let since = status
        .orphans
        .iter()
        .filter_map(|orphan| orphan.since.as_ref());
    if let Some(oldest) = since.map(|since| since.0.as_second()).min() {
        let age = seconds_between(oldest, clock::now().wall);
        samples.max(Metric::OldestOrphan, &[label], age);
    }
    let namespaces = status
        .release_limit
        .iter()
        .flat_map(|limit| &limit.namespaces);
    let is_engaged = namespaces.into_iter().any(|it| it.blocked_since.is_some());
    samples.set(Metric::ReleaseLimitEngaged, &[label], flag(is_engaged));
}
