//! Which servers of the provider concern an object, and which other objects have them.

use super::{
    account::PlannedAccount,
    server::{ServerInputs, own_order},
};
use api::{BareMetalServer, order::OrderRecord};
use flexmetal_core::{
    account::{ownership_tags, view::SeenServer},
    owner::{NAME_HASH, Owner},
    server::{facts::is_same_uuid, refresh::ServerIndex},
};
use hosting_types::{Server, ServerId};
use std::{sync::Arc, time::Duration};

/// The servers of the account, and the other objects.
pub struct ServersAndOwners<'a> {
    /// The account.
    pub account: &'a PlannedAccount,
    /// The other objects.
    pub inputs: &'a ServerInputs,
    /// When the servers were listed.
    pub seen: Duration,
}

impl ServersAndOwners<'_> {
    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.account.lists.servers.iter().flat_map(|it| it.iter())
    }

    fn to_seen(&self, server: &Server) -> SeenServer {
        SeenServer {
            server: Arc::new(server.clone()),
            seen: self.seen,
        }
    }

    fn others(&self, except: &str) -> impl Iterator<Item = &BareMetalServer> {
        let objects = self.inputs.objects.iter();
        objects.filter(move |it| it.metadata.uid.as_deref() != Some(except))
    }
}

impl ServerIndex for ServersAndOwners<'_> {
    fn servers_by_namespaced_name_hash(&self, name_hash: &str) -> Vec<SeenServer> {
        let servers = self.servers();
        let found = servers.filter(|it| ownership_tags::has_name_hash(it, name_hash));
        found.map(|server| self.to_seen(server)).collect()
    }

    fn find_server(&self, uuid: &str) -> Option<SeenServer> {
        let id = ServerId::parse(uuid).ok()?;
        let found = self.servers().find(|server| server.id == id)?;
        Some(self.to_seen(found))
    }

    fn is_owner(&self, owner: &str, except: &str) -> Option<bool> {
        let hash = owner.get(..NAME_HASH)?;
        let is_it = |object: &BareMetalServer| {
            let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
            namespace
                .as_ref()
                .zip(name.as_ref())
                .is_some_and(|(namespace, name)| {
                    Owner::new(&self.inputs.cluster, namespace, name, "").name_hash() == hash
                })
        };
        match self.others(except).any(is_it) {
            true => Some(true),
            false => self.inputs.has_all_objects.then_some(false),
        }
    }

    fn is_recorded(&self, uuid: &str, except: &str) -> bool {
        let mut others = self.others(except).filter_map(own_order);
        others.any(|order| order.created().is_some_and(|own| is_same_uuid(own, uuid)))
    }

    fn is_named(&self, uuid: &str, namespace: &str, except: &str) -> bool {
        let mut others = self.others(except);
        others.any(|other| {
            let named = other.spec.external_id.as_deref();
            let status = other.status.as_ref();
            let policies = status
                .and_then(|status| status.policies)
                .unwrap_or_default();
            let own = own_order(other).and_then(OrderRecord::created);
            other.metadata.namespace.as_deref() == Some(namespace)
                && other.metadata.deletion_timestamp.is_none()
                && named.is_some_and(|named| is_same_uuid(named, uuid))
                && other.spec.policies().over(policies).may_send()
                && own.is_none_or(|own| is_same_uuid(own, uuid))
        })
    }
}
