//! The account objects that stand on one live account.

use super::{AccountKey, Settings, view::Times};
use crate::kinds::account::{KnownMachine, Limits};
use hosting::Client;
use std::{collections::BTreeMap, sync::Arc};

/// The account objects, by name.
#[derive(Default)]
pub(crate) struct Members(BTreeMap<AccountKey, Member>);

struct Member {
    uid: String,
    client: Client,
    settings: Arc<Settings>,
}

impl Members {
    /// An account object stands on the live account from here on, or has other settings.
    pub(crate) fn join(
        &mut self,
        key: &AccountKey,
        uid: &str,
        client: Client,
        settings: Arc<Settings>,
    ) {
        let member = Member {
            uid: uid.to_owned(),
            client,
            settings,
        };
        self.0.insert(key.clone(), member);
    }

    pub(crate) fn leave(&mut self, key: &AccountKey) {
        self.0.remove(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> Vec<AccountKey> {
        self.0.keys().cloned().collect()
    }

    /// The UIDs of the account objects.
    pub(crate) fn uids(&self) -> Vec<String> {
        self.0.values().map(|m| m.uid.clone()).collect()
    }

    /// The client of any member: they differ in time-outs at most.
    pub(crate) fn client(&self) -> Option<Client> {
        self.0.values().next().map(|m| m.client.clone())
    }

    /// The members' times in one: the most frequent looks, the longest waits.
    pub(crate) fn times(&self) -> Option<Times> {
        let times = self.0.values().map(|m| m.settings.times);
        times.reduce(|a, b| Times {
            absence_grace_period: a.absence_grace_period.max(b.absence_grace_period),
            absence_check_interval: a.absence_check_interval.max(b.absence_check_interval),
            send_window: a.send_window.min(b.send_window),
            order_timeout: a.order_timeout.max(b.order_timeout),
            active_poll_interval: a.active_poll_interval.min(b.active_poll_interval),
            idle_poll_interval: a.idle_poll_interval.min(b.idle_poll_interval),
            orphan_scan_interval: a.orphan_scan_interval.min(b.orphan_scan_interval),
        })
    }

    /// The machines that any member is known by.
    pub(crate) fn known(&self) -> Vec<KnownMachine> {
        let known = self.0.values().flat_map(|m| &m.settings.known);
        known.cloned().collect()
    }

    /// The limits of all members, each with the name of its account. The account that orders is named
    /// first, so that a message speaks of it.
    pub(crate) fn limits(&self, ordering: &AccountKey) -> Vec<(String, &Limits)> {
        let mut members: Vec<_> = self.0.iter().collect();
        members.sort_by_key(|(key, _)| *key != ordering);
        members
            .into_iter()
            .map(|(key, m)| (key.to_string(), &m.settings.limits))
            .collect()
    }
}
