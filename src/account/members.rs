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
            settle: a.settle.max(b.settle),
            listing_spacing: a.listing_spacing.max(b.listing_spacing),
            send_window: a.send_window.min(b.send_window),
            order_timeout: a.order_timeout.max(b.order_timeout),
            poll_moving: a.poll_moving.min(b.poll_moving),
            poll_still: a.poll_still.min(b.poll_still),
            sweep: a.sweep.min(b.sweep),
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
