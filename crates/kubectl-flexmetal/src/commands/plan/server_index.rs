//! Which servers of the provider concern an object, and which other objects have them.

use super::{account::PlannedAccount, facts::KnownObjects};
use crate::objects::Object;
use api::BareMetalServer;
use flexmetal_core::{
    account::{ownership_tags, view::SeenServer},
    cluster_id::ClusterId,
    owner::{NAME_HASH, Owner},
    server::{
        facts::is_same_uuid,
        recorded::{adopts_named_server, recorded_server},
        refresh::ServerIndex,
    },
};
use hosting_types::Server;
use kube::ResourceExt as _;
use std::{sync::Arc, time::Duration};

/// The servers of the account, and the other objects.
pub struct ServersAndOwners<'a> {
    /// The account.
    pub account: &'a PlannedAccount,
    /// The objects.
    pub others: &'a KnownObjects,
    /// Identity of the cluster.
    pub cluster: &'a ClusterId,
    /// When the servers were listed.
    pub seen: Duration,
}

impl ServersAndOwners<'_> {
    fn find(&self, is_it: impl Fn(&Server) -> bool) -> Vec<SeenServer> {
        let servers = self.account.servers().iter().filter(|it| is_it(it));
        let seen = servers.map(|server| SeenServer {
            server: Arc::new(server.clone()),
            seen: self.seen,
        });
        seen.collect()
    }

    fn others(&self, except: &str) -> impl Iterator<Item = &BareMetalServer> {
        let servers = self.others.objects.iter().filter_map(|it| match it {
            Object::BareMetalServer(server) => Some(&**server),
            _ => None,
        });
        servers.filter(move |it| it.metadata.uid.as_deref() != Some(except))
    }
}

impl ServerIndex for ServersAndOwners<'_> {
    fn servers_by_namespaced_name_hash(&self, name_hash: &str) -> Vec<SeenServer> {
        self.find(|server| ownership_tags::has_name_hash(server, name_hash))
    }

    fn find_server(&self, uuid: &str) -> Option<SeenServer> {
        self.find(|server| is_same_uuid(server.id.as_str(), uuid))
            .pop()
    }

    fn is_owner(&self, owner: &str, except: &str) -> Option<bool> {
        let hash = owner.get(..NAME_HASH)?;
        let is_it = |object: &BareMetalServer| {
            let namespace = object.namespace().unwrap_or_default();
            Owner::new(self.cluster, &namespace, &object.name_any(), "").name_hash() == hash
        };
        match self.others(except).any(is_it) {
            true => Some(true),
            false => self.others.are_all.then_some(false),
        }
    }

    fn is_recorded(&self, uuid: &str, except: &str) -> bool {
        let mut recorded = self.others(except).filter_map(recorded_server);
        recorded.any(|own| is_same_uuid(&own, uuid))
    }

    fn is_named(&self, uuid: &str, namespace: &str, except: &str) -> bool {
        self.others(except).any(|other| {
            let named = other.spec.external_id.as_deref();
            other.metadata.namespace.as_deref() == Some(namespace)
                && other.metadata.deletion_timestamp.is_none()
                && named.is_some_and(|named| is_same_uuid(named, uuid))
                && adopts_named_server(other, &self.account.key)
        })
    }
}
