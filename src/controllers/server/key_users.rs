//! Who refers to stored keys: what the key objects may know of servers.

use super::{ServerObjects, facts};
use crate::{
    account::AccountKey,
    controllers::{
        objects::{Referrer, UNREADABLE, Uid, Words},
        stored_keys::{KeyUser, KeyUsers, Referrers, StoredKeys},
    },
    kinds::{BareMetalServer, server::OrderOutcome},
};
use std::{collections::BTreeSet, sync::Arc};

/// Before the full name of a key object that a server names.
const NAMES: &str = "key:";
/// The same, while an order of the server may be under way.
const ORDERS: &str = "order:";
/// Before the identifier of a stored key.
const STORED: &str = "uuid:";

/// What a server refers to.
pub(super) fn refers(server: &BareMetalServer) -> Words {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let is_ordering = is_ordering(server);
    let mut words = Words::new();
    for key in &server.spec.ssh_keys {
        if let Some(name) = &key.name {
            words.insert(format!("{NAMES}{namespace}/{name}").into());
            if is_ordering {
                words.insert(format!("{ORDERS}{namespace}/{name}").into());
            }
        }
        if let Some(uuid) = &key.uuid {
            words.insert(format!("{STORED}{}", uuid.to_ascii_lowercase()).into());
        }
    }
    words
}

/// Whether an order may be under way: from its start until the machine is delivered, or the order is known to have
/// made none.
fn is_ordering(server: &BareMetalServer) -> bool {
    let status = server.status.as_ref();
    let is_delivered = status.is_some_and(|s| s.delivered_at.is_some());
    let order = status.and_then(|s| s.order.as_ref());
    let is_closed = order
        .and_then(|order| order.outcome)
        .is_some_and(OrderOutcome::is_closed);
    let is_started = order.is_some() || facts::order_annotation(server).is_some();
    is_started && !is_delivered && !is_closed
}

/// Tells the key objects what a server refers to no more.
pub(super) fn tell(keys: &StoredKeys, released: &Words) {
    for word in released {
        let name = word.strip_prefix(NAMES).or(word.strip_prefix(ORDERS));
        if let Some((namespace, name)) = name.and_then(|name| name.split_once('/')) {
            keys.released(namespace, name);
        }
    }
}

/// The servers, as those who refer to keys.
pub(super) struct Servers(pub(super) Arc<ServerObjects>);

impl Referrers for Servers {
    fn users(
        &self,
        namespace: &str,
        name: &str,
        uuids: &[String],
        is_same: &dyn Fn(&AccountKey) -> bool,
    ) -> Option<KeyUsers> {
        if !self.0.is_complete() {
            return None;
        }
        let ordering = self.0.referring(&format!("{ORDERS}{namespace}/{name}"));
        let ordering: BTreeSet<Uid> = ordering.into_iter().map(|(uid, _)| uid).collect();
        let user = |(uid, found): (Uid, Referrer), is_unreadable: bool| KeyUser {
            namespace: found.namespace,
            name: found.name,
            is_ordering: is_unreadable || ordering.contains(&uid),
        };
        let named = self.0.referring(&format!("{NAMES}{namespace}/{name}"));
        let mut by_name: Vec<KeyUser> = named.into_iter().map(|f| user(f, false)).collect();
        // One of this namespace that does not decode may name anything.
        let unreadable = self.0.referring(UNREADABLE).into_iter();
        let unreadable = unreadable.filter(|(_, found)| found.namespace == namespace);
        by_name.extend(unreadable.map(|found| user(found, true)));
        let by_uuid = uuids.iter().map(|uuid| {
            let found = self.0.referring(&format!("{STORED}{uuid}")).into_iter();
            let found = found.filter(|(_, found)| found.account.as_ref().is_some_and(is_same));
            (uuid.clone(), found.map(|found| user(found, false)).collect())
        });
        Some(KeyUsers {
            by_uuid: by_uuid.collect(),
            by_name,
        })
    }

    fn wake(&self, namespace: &str, name: &str) {
        self.0.wake_referring(&format!("{NAMES}{namespace}/{name}"));
    }

    fn wake_all(&self) {
        self.0.wake_all_referring();
    }
}
