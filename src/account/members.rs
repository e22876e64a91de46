//! The account objects that stand on one live account.

use super::{Settings, limits::Reservations};
use api::account::KnownMachine;
use flexmetal_core::account::{key::AccountKey, view::Times};
use hosting::Client;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// The account objects, by name.
#[derive(Default)]
pub(crate) struct Members {
    all: BTreeMap<AccountKey, Member>,
    /// Those whose client did not reach the API when it was last tried.
    unreached: BTreeSet<AccountKey>,
}

pub(crate) struct Member {
    uid: String,
    client: Client,
    settings: Arc<Settings>,
    /// What the account object has ordered.
    reservations: Reservations,
}

impl Member {
    pub(super) fn new(
        uid: &str,
        client: Client,
        settings: Arc<Settings>,
        reservations: Reservations,
    ) -> Self {
        Self {
            uid: uid.to_owned(),
            client,
            settings,
            reservations,
        }
    }

    /// The machines that the account object is known by.
    pub(super) fn known(&self) -> &[KnownMachine] {
        &self.settings.known
    }
}

impl Members {
    /// An account object stands on the live account from here on, or has other settings.
    pub(crate) fn join(&mut self, key: &AccountKey, member: Member) {
        self.unreached.remove(key);
        self.all.insert(key.clone(), member);
    }

    pub(crate) fn leave(&mut self, key: &AccountKey) {
        self.unreached.remove(key);
        self.all.remove(key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether this account object is the only one.
    pub(crate) fn is_only(&self, key: &AccountKey) -> bool {
        self.all.len() == 1 && self.all.contains_key(key)
    }

    pub(crate) fn keys(&self) -> Vec<AccountKey> {
        self.all.keys().cloned().collect()
    }

    /// The UIDs of the account objects.
    pub(crate) fn uids(&self) -> Vec<String> {
        self.all.values().map(|m| m.uid.clone()).collect()
    }

    /// The client that the account's own calls go by, with the name of its member: the first one that
    /// was not unreached. Members differ in what their objects say of the connection, such as its roots.
    pub(crate) fn client(&self) -> Option<(AccountKey, Client)> {
        let reaches = |(key, _): &(&AccountKey, &Member)| !self.unreached.contains(*key);
        let found = self.all.iter().find(reaches).or(self.all.iter().next());
        found.map(|(key, m)| (key.clone(), m.client.clone()))
    }

    /// The client of this member reached no API. Returns whether that of another one may; when none
    /// does, all are as good again.
    pub(crate) fn unreached(&mut self, key: &AccountKey) -> bool {
        if self.all.contains_key(key) {
            self.unreached.insert(key.clone());
        }
        let another = self.unreached.len() < self.all.len();
        if !another {
            self.unreached.clear();
        }
        another
    }

    /// The members' times in one: the most frequent looks, the longest waits.
    pub(crate) fn times(&self) -> Option<Times> {
        let times = self.all.values().map(|m| m.settings.times);
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
        let known = self.all.values().flat_map(|m| &m.settings.known);
        known.cloned().collect()
    }

    /// What the members have ordered.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &Reservations> {
        self.all.values().map(|m| &m.reservations)
    }

    /// The marks of objects with an order that is not settled.
    pub(crate) fn ordering(&self) -> HashSet<String> {
        self.reservations().flat_map(Reservations::marks).collect()
    }
}
