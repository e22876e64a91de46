//! Who refers to stored keys: what the key objects may know of servers.

use super::ServerObjects;
use crate::controllers::{
    objects::{Referrer, UNREADABLE, Uid, Words},
    stored_keys::{Referrers, Released, StoredKeys},
};
use api::{BareMetalServer, reinstall::InstallStatus, server::OrderOutcome};
use flexmetal_core::{
    account::key::AccountKey,
    server::facts,
    stored_keys::{KeyUser, KeyUsers},
};
use std::{collections::BTreeSet, sync::Arc};

/// Before the full name of a key object that a server names.
const NAMES: &str = "key:";
/// Before the namespace of a server that may be in the middle of an order: the order names what stood in the spec when
/// it started.
const ORDERS: &str = "order:";
/// Before the identifier of a stored key.
const STORED: &str = "uuid:";

/// What a server refers to.
pub(super) fn refers(server: &BareMetalServer) -> Words {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let mut words = Words::new();
    if is_ordering(server) {
        words.insert(format!("{ORDERS}{namespace}").into());
    }
    for key in &server.spec.ssh_keys {
        if let Some(name) = &key.name {
            words.insert(format!("{NAMES}{namespace}/{name}").into());
        }
        if let Some(uuid) = &key.uuid {
            words.insert(format!("{STORED}{}", uuid.to_ascii_lowercase()).into());
        }
    }
    words
}

/// Whether an order may be under way: from its start until the machine is delivered, or the order is known to have
/// made none. Or a re-installation, until its end is seen.
fn is_ordering(server: &BareMetalServer) -> bool {
    let status = server.status.as_ref();
    let is_delivered = status.is_some_and(|s| s.delivered_at.is_some());
    let order = status.and_then(|s| s.order.as_ref());
    let is_closed = order
        .and_then(|order| order.outcome)
        .is_some_and(OrderOutcome::is_closed);
    let is_started = order.is_some() || facts::order_annotation(server).is_some();
    let is_ordered = is_started && !is_delivered && !is_closed;
    let install = status.and_then(|s| s.install.as_ref());
    is_ordered || install.and_then(InstallStatus::open).is_some()
}

/// Tells the key objects what a server refers to no more.
pub(super) fn tell(keys: &StoredKeys, released: &Words) {
    for word in released {
        let whom = if let Some(name) = word.strip_prefix(NAMES) {
            name.split_once('/')
                .map(|(namespace, name)| Released::Named(namespace, name))
        } else if let Some(namespace) = word.strip_prefix(ORDERS) {
            Some(Released::Namespace(namespace))
        } else if let Some(uuid) = word.strip_prefix(STORED) {
            Some(Released::Stored(uuid))
        } else {
            (&**word == UNREADABLE).then_some(Released::Unknown)
        };
        if let Some(whom) = whom {
            keys.released(whom);
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
        let ordering = self.0.referring(&format!("{ORDERS}{namespace}"));
        let is_ordering: BTreeSet<Uid> = ordering.iter().map(|(uid, _)| uid.clone()).collect();
        let user = |(uid, found): (Uid, Arc<Referrer>), is_unreadable: bool| KeyUser {
            namespace: found.namespace.clone(),
            name: found.name.clone(),
            is_ordering: is_unreadable || is_ordering.contains(&uid),
            is_host: false,
        };
        let mut named = self.0.referring(&format!("{NAMES}{namespace}/{name}"));
        named.retain(|(uid, _)| !is_ordering.contains(uid));
        let by_name = ordering.into_iter().chain(named);
        let mut by_name: Vec<KeyUser> = by_name.map(|f| user(f, false)).collect();
        // One of this namespace that does not decode may name anything.
        let unreadable = self.0.referring(UNREADABLE).into_iter();
        let unreadable = unreadable.filter(|(_, found)| found.namespace == namespace);
        by_name.extend(unreadable.map(|found| user(found, true)));
        let by_uuid = uuids.iter().map(|uuid| {
            let found = self.0.referring(&format!("{STORED}{uuid}")).into_iter();
            let found = found.filter(|(_, found)| found.account.as_ref().is_some_and(is_same));
            (
                uuid.clone(),
                found.map(|found| user(found, false)).collect(),
            )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::{objects::Traits, stored_keys::Keys};
    use flexmetal_core::stored_keys::Found;
    use kube::{
        core::{DeserializeGuard, error_boundary::InvalidObject},
        runtime::watcher::Event,
    };
    use serde_json::{Value, json};
    use std::sync::Mutex;

    const STORED_KEY: &str = "0B2C4F5E-1111-4222-8333-444455556666";

    fn server(namespace: &str, name: &str, keys: &Value, status: &Value) -> BareMetalServer {
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"),
                "resourceVersion": "1"},
            "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"},
                "sshKeys": keys},
            "status": status,
        }))
        .unwrap()
    }

    fn order(outcome: Option<&str>) -> Value {
        json!({"order": {"cluster": "0123456789abcdef", "uid": "u", "mark": "m", "epoch": 1,
            "attempt": "a", "sendBy": "2026-01-01T00:00:00Z", "outcome": outcome}})
    }

    #[test]
    fn an_order_may_be_under_way_until_its_machine_is_delivered_or_it_made_none() {
        let is_ordering = |status: Value| is_ordering(&server("shop", "web", &json!([]), &status));
        assert!(!is_ordering(json!({})));
        assert!(is_ordering(order(None)));
        assert!(is_ordering(order(Some("Created"))));
        assert!(!is_ordering(order(Some("Refused"))));
        let mut delivered = order(Some("Created"));
        delivered["deliveredAt"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_ordering(delivered));
        // The metadata is written first.
        let mut started = server("shop", "web", &json!([]), &json!({}));
        let note = [("flexmetal.dev/order".to_owned(), "{}".to_owned())];
        started.metadata.annotations = Some(note.into());
        assert!(super::is_ordering(&started));
    }

    #[test]
    fn whatever_a_server_lets_go_of_is_told() {
        struct Heard(Mutex<Vec<String>>);
        impl Keys for Heard {
            fn find(&self, _: &str, _: &str) -> Found {
                Found::Missing
            }
            fn shows(&self, _: &api::SshKey) -> Found {
                Found::Missing
            }
            fn wake(&self, whom: Released<'_>) {
                self.0.lock().unwrap().push(format!("{whom:?}"));
            }
        }
        let (keys, heard) = (StoredKeys::default(), Arc::new(Heard(Mutex::default())));
        keys.set_keys(heard.clone());
        let words = ["?", "key:shop/ops", "order:shop", "uuid:u1"];
        tell(&keys, &words.into_iter().map(Box::from).collect());
        assert_eq!(
            *heard.0.lock().unwrap(),
            [
                "Unknown",
                "Named(\"shop\", \"ops\")",
                "Namespace(\"shop\")",
                "Stored(\"u1\")"
            ]
        );
    }

    #[test]
    fn it_is_known_who_names_a_key_and_who_ceases_to_is_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let traits = Traits {
            account_of: Some(|object| Some(super::super::account_of(object))),
            refers: Some(refers),
            released: Box::new(move |words| heard.lock().unwrap().extend(words.clone())),
            ..Traits::default()
        };
        let objects: Arc<ServerObjects> = Arc::new(ServerObjects::new(traits, 1));
        let servers = Servers(objects.clone());
        let uuid = STORED_KEY.to_ascii_lowercase();
        let users = || servers.users("shop", "ops", std::slice::from_ref(&uuid), &|_| true);
        assert_eq!(users(), None, "nothing is listed yet");

        objects.take_in(0, Event::Init);
        objects.take_in(0, Event::InitDone);
        assert_eq!(users().unwrap().by_name, Vec::new());
        let show = |server: BareMetalServer| {
            objects.take_in(0, Event::Apply(DeserializeGuard(Ok(server))));
        };
        let named = json!([{"name": "ops"}]);
        show(server("shop", "web", &named, &order(None)));
        show(server("bank", "vault", &named, &json!({})));
        show(server(
            "bank",
            "door",
            &json!([{"uuid": STORED_KEY}]),
            &json!({}),
        ));
        let found = users().unwrap();
        let user = |namespace: &str, name: &str, is_ordering| KeyUser {
            namespace: namespace.into(),
            name: name.into(),
            is_ordering,
            is_host: false,
        };
        assert_eq!(found.by_name, vec![user("shop", "web", true)]);
        assert_eq!(found.of(STORED_KEY), [user("bank", "door", false)]);
        let others = servers
            .users("shop", "ops", std::slice::from_ref(&uuid), &|_| false)
            .unwrap();
        assert_eq!(others.of(STORED_KEY), [], "on another account");
        assert!(told.lock().unwrap().is_empty());

        // An edit in the middle of the order takes nothing out of it.
        let mut edited = server("shop", "web", &json!([]), &order(None));
        edited.metadata.resource_version = Some("2".into());
        show(edited);
        assert_eq!(users().unwrap().by_name, vec![user("shop", "web", true)]);
        assert_eq!(
            std::mem::take(&mut *told.lock().unwrap()),
            [Box::from("key:shop/ops")]
        );

        let mut delivered = order(Some("Created"));
        delivered["deliveredAt"] = json!("2026-01-01T00:00:00Z");
        let mut next = server("shop", "web", &named, &delivered);
        next.metadata.resource_version = Some("3".into());
        show(next.clone());
        assert_eq!(users().unwrap().by_name, vec![user("shop", "web", false)]);
        objects.take_in(0, Event::Delete(DeserializeGuard(Ok(next))));
        assert_eq!(users().unwrap().by_name, Vec::new());
        let told: Vec<String> = told
            .lock()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told, ["order:shop", "key:shop/ops"]);

        // What does not decode may name anything in its namespace.
        let invalid = InvalidObject {
            metadata: server("shop", "broken", &named, &json!({})).metadata,
            error: "no".into(),
        };
        objects.take_in(0, Event::Apply(DeserializeGuard(Err(invalid))));
        assert_eq!(users().unwrap().by_name, vec![user("shop", "broken", true)]);
    }
}
