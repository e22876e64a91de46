//! The gauges of the accounts at a scrape.

use super::{Account, Accounts, session::Core};
use crate::runtime::{
    clock,
    metrics::{Metric, Samples, count, flag},
};
use api::Reason;
use flexmetal_core::account::{key_state::KeyState, view::SeenServer};
use hosting_types::quota::{LocationQuota, QuotaUsage};
use std::time::Duration;

impl Accounts {
    /// Adds the gauges of every account.
    pub fn collect(&self, samples: &mut Samples) {
        let mut accounts = self.all();
        // Where a bound cuts series, it cuts the same ones at each scrape, and those of the cluster last.
        accounts.sort_by_cached_key(|account| {
            let key = account.key().clone();
            (key.namespace, key.name)
        });
        for account in accounts {
            account.collect(samples);
        }
    }
}

impl Account {
    fn collect(&self, samples: &mut Samples) {
        let label = &*self.key().label();
        self.collect_limits(samples, label);
        let Some((live, _)) = self.connected() else {
            return;
        };
        let core = &live.core;
        core.rate_limiter.collect(samples, label);
        core.collect_lists(samples, label);
        core.collect_state(samples, label);
        core.collect_usage(samples, label);
    }

    fn collect_limits(&self, samples: &mut Samples, label: &str) {
        let limits = &self.settings().limits;
        let (servers, orders) = match self.connected() {
            Some((live, _)) => {
                let state = live.core.state();
                let snapshot = state.servers.snapshot();
                self.reservations().used(snapshot, clock::now())
            }
            None => (0, 0),
        };
        for (limit, used, allowed) in [
            ("maxServers", servers, limits.max_servers),
            ("maxOrdersPerHour", orders, limits.max_orders_per_hour),
        ] {
            if let Some(allowed) = allowed {
                samples.set(Metric::LimitUsed, &[label, limit], count(used));
                samples.set(Metric::LimitAllowed, &[label, limit], f64::from(allowed));
            }
        }
    }
}

impl Core {
    fn collect_state(&self, samples: &mut Samples, label: &str) {
        let now = clock::now().mono;
        let state = self.state();
        match state.breaker.state() {
            KeyState::Untried => {}
            key => {
                let is_accepted = *key == KeyState::Accepted;
                samples.set(Metric::CredentialsAccepted, &[label], flag(is_accepted));
            }
        }
        let outage = state.schedule.outage().map(|(reason, _)| *reason);
        let is_unreachable = outage.is_some_and(|reason| reason != Reason::RateLimited);
        samples.set(Metric::Unreachable, &[label], flag(is_unreachable));
        let is_limited = outage == Some(Reason::RateLimited);
        samples.max(Metric::RateLimited, &[label], flag(is_limited));
        let snapshot = state.servers.snapshot();
        for SeenServer { server, .. } in snapshot.own_servers() {
            let status = server.status.as_str();
            let labels = [label, &server.location, &server.instance_type, status];
            samples.add(Metric::Servers, &labels, 1.0);
        }
        // The servers are read by several polls, so the oldest reading counts.
        let oldest = snapshot.unreleased_servers().map(|s| s.seen).min();
        let listed = state.servers.complete_list().map(|list| list.ended);
        if let Some(read) = oldest.or(listed) {
            set_list_age(samples, label, "servers", now, read);
        }
    }

    fn collect_lists(&self, samples: &mut Samples, label: &str) {
        let now = clock::now().mono;
        let (contents, _) = self.lists.view();
        let catalogue = self.lists.newest_catalogue();
        for (list, read) in [
            ("catalog", catalogue.as_ref().map(|(read, _)| *read)),
            ("tags", contents.tags.map(|(read, _)| read)),
            ("sshKeys", contents.ssh_keys.map(|(read, _)| read)),
            ("hosts", contents.hosts.map(|(read, _)| read)),
        ] {
            if let Some(read) = read {
                set_list_age(samples, label, list, now, read);
            }
        }
        for location in catalogue
            .iter()
            .flat_map(|(_, catalogue)| &catalogue.quotas)
        {
            for usage in &location.usages {
                let quota = quota_name(location, usage);
                let both = [
                    (Metric::QuotaUsed, usage.usage),
                    (Metric::QuotaAllowed, usage.quota),
                ];
                for (metric, number) in both {
                    let number = number.map(|number| usize::try_from(number).unwrap_or_default());
                    if let Some(number) = number {
                        samples.add(metric, &[label, &quota], count(number));
                    }
                }
            }
        }
    }
}

fn set_list_age(samples: &mut Samples, label: &str, list: &str, now: Duration, read: Duration) {
    let age = now.saturating_sub(read).as_secs_f64();
    samples.set(Metric::ListAge, &[label, list], age);
}

/// Location, instance type and contract or pool of a quota.
fn quota_name(location: &LocationQuota, usage: &QuotaUsage) -> String {
    let pool = usage.contract_id.as_ref().unwrap_or(&usage.quota_type);
    format!("{}/{}/{pool}", location.location, usage.instance_type)
}
