//! Which servers the objects own, by namespace and name and by the server recorded in status.

use super::ServerObjects;
use crate::{
    account::Claims,
    controllers::{namespaces::NamespaceUids, objects::ObservedObject},
};
use api::BareMetalServer;
use flexmetal_core::{
    account::{key::AccountKey, orphan_scan::TaggedOwner},
    cluster_id::ClusterId,
    owner::{NAME_HASH, Owner},
    server::{
        facts::is_same_uuid,
        recorded::{may_send, recorded_server},
    },
};
use hosting_types::ServerId;
use std::{collections::HashSet, sync::Arc};

/// The claims of all server objects.
pub(super) struct ServerObjectClaims {
    pub(super) cluster: ClusterId,
    pub(super) namespace_uids: NamespaceUids,
    pub(super) objects: Arc<ServerObjects>,
    pub(super) all_namespaces: bool,
}

impl Claims for ServerObjectClaims {
    fn name_hashes(&self) -> Option<HashSet<String>> {
        (self.all_namespaces && self.objects.is_complete()).then(|| self.objects.aliases())
    }

    fn is_complete(&self) -> bool {
        self.objects.is_complete()
    }

    fn is_recorded(&self, uuid: &str, account: &AccountKey) -> bool {
        let uuid = uuid.to_ascii_lowercase();
        let accounts = std::slice::from_ref(account);
        !self.objects.claimants(&uuid, accounts).is_empty()
    }

    fn namespace(&self, name_hash: &str) -> Option<String> {
        self.objects.namespace_by_alias(name_hash)
    }

    fn disowns(&self, owner: &str, account: &AccountKey, uuid: &str) -> bool {
        let name_hash = owner.get(..NAME_HASH).unwrap_or_default();
        let Some((uid, named)) = self.objects.named_by_alias(name_hash) else {
            return false;
        };
        let Some(ObservedObject::Decoded(object)) = self.objects.newest(&uid) else {
            return false;
        };
        let recorded = recorded_server(&object);
        let owner_now = self.owner_now(&object);
        let object = TaggedOwner {
            account: named.as_ref(),
            recorded: recorded.as_deref(),
            owner: owner_now.as_ref().map(Owner::as_str),
        };
        object.disowns(owner, account, uuid)
    }
}

impl ServerObjectClaims {
    /// The owner that the object's order tags name, if the UID of its namespace is known.
    fn owner_now(&self, object: &BareMetalServer) -> Option<Owner> {
        let (namespace, name) = (
            object.metadata.namespace.as_ref()?,
            object.metadata.name.as_ref()?,
        );
        let uid = self.namespace_uids.known(namespace)?;
        Some(Owner::new(&self.cluster, namespace, name, &uid))
    }
}

/// Whether another object than `except` has this name hash, even while it is being deleted. None: not known. `is_seen`:
/// this process watches its namespace.
pub(super) fn is_owner(
    objects: &ServerObjects,
    is_seen: bool,
    name_hash: &str,
    except: &str,
) -> Option<bool> {
    match objects
        .by_alias(name_hash)
        .is_some_and(|uid| *uid != *except)
    {
        true => Some(true),
        false => (is_seen && objects.is_complete()).then_some(false),
    }
}

/// Whether another object than `except` with this name hash records the server and may send requests.
pub(super) fn adopts_recorded_server(
    objects: &ServerObjects,
    name_hash: &str,
    except: &str,
    server: &ServerId,
) -> bool {
    let uid = objects.by_alias(name_hash).filter(|uid| **uid != *except);
    let Some(ObservedObject::Decoded(object)) = uid.and_then(|uid| objects.newest(&uid)) else {
        return false;
    };
    let recorded = object.own_order().and_then(|order| order.server.as_deref());
    may_send(&object) && recorded.is_some_and(|it| is_same_uuid(it, server.as_str()))
}
