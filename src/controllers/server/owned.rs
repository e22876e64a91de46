//! ConfigMaps and Secrets that belong to a server: the one place that writes them, but for the Secret with a root password
//! (`password_secret.rs`).
//!
//! One is the server's where its controller is this very object, by UID, and it has our finalizer; a Secret must also have
//! our type, which nobody can change afterwards. What belongs to somebody else, or to nobody, is never touched, whatever its
//! name. Once the finalizer is off they go with the server, as the garbage collector has it.

use super::ServerContext;
use crate::{
    controllers::writes::{Failure, bounded, without_finalizer},
    runtime::clients::post_params,
};
use api::{
    BareMetalServer,
    names::{MANAGED_BY, MANAGER, OUTPUT_FINALIZER, OUTPUT_SECRET},
    outputs::{OutputPlace, OutputRecord},
};
use hosting_types::SecretText;
use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Resource};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, fmt::Debug};

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Written.
    Written,
    /// It is so already, and nothing was sent.
    Stands,
    /// The name belongs to somebody else, or to nobody; nothing was sent.
    NotOurs,
    /// It is the server's, and somebody took our finalizer off; nothing was sent.
    WithoutFinalizer,
    /// It changed in between. The next try sees how it is.
    Stale,
    /// Not done, or nobody knows; in the API server's words.
    Failed(String),
}

/// Off which our finalizer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Off any.
    Always,
    /// Off one that somebody deleted.
    IfDeleted,
}

/// The key of a root password in the Secret that holds one.
pub(super) const PASSWORD: &str = "password";

/// What a Secret holds, by its keys. Without `Debug`, as what is in it.
pub(super) type SecretEntries = BTreeMap<String, SecretText>;

/// Brings it about that the server's ConfigMap of this name holds this and nothing else. Costs one GET where it does.
pub(super) async fn keep_config_map(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    data: BTreeMap<String, String>,
) -> Kept {
    let wanted = ConfigMap {
        metadata: metadata(server, name),
        data: Some(data),
        ..ConfigMap::default()
    };
    let is_same = |found: &ConfigMap, wanted: &ConfigMap| {
        found.data == wanted.data && found.binary_data.as_ref().is_none_or(BTreeMap::is_empty)
    };
    let take = |found: ConfigMap, wanted: ConfigMap| ConfigMap {
        metadata: found.metadata,
        ..wanted
    };
    let is_ours = |found: &ConfigMap| is_controlled(server, &found.metadata);
    keep(api(ctx, server), wanted, is_ours, is_same, take).await
}

/// The same for a Secret, which has our type.
pub(super) async fn keep_secret(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    entries: &SecretEntries,
) -> Kept {
    let wanted = secret(metadata(server, name), entries);
    let is_same = |found: &Secret, wanted: &Secret| found.data == wanted.data;
    let take = |found: Secret, wanted: Secret| Secret {
        metadata: found.metadata,
        ..wanted
    };
    // A password cannot be had again, so it gives way to none of this.
    let is_ours = |found: &Secret| {
        let is_output = found.type_.as_deref() == Some(OUTPUT_SECRET);
        is_controlled(server, &found.metadata) && is_output && !holds_password(found)
    };
    keep(api(ctx, server), wanted, is_ours, is_same, take).await
}

/// A Secret of our type.
pub(super) fn secret(metadata: ObjectMeta, entries: &SecretEntries) -> Secret {
    let bytes = |text: &SecretText| ByteString(text.expose().as_bytes().to_vec());
    let data = entries.iter().map(|(key, text)| (key.clone(), bytes(text)));
    Secret {
        metadata,
        type_: Some(OUTPUT_SECRET.to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

pub(super) fn holds_password(found: &Secret) -> bool {
    let data = found.data.as_ref();
    data.is_some_and(|data| data.contains_key(PASSWORD))
}

async fn keep<K>(
    api: Api<K>,
    wanted: K,
    is_ours: impl Fn(&K) -> bool,
    is_same: impl Fn(&K, &K) -> bool,
    take: impl Fn(K, K) -> K,
) -> Kept
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let name = wanted.meta().name.clone().unwrap_or_default();
    let found = match bounded(api.get_opt(&name)).await {
        Ok(found) => found,
        Err(failure) => return failed(&failure),
    };
    let params = post_params();
    let written = match found {
        None => bounded(api.create(&params, &wanted)).await,
        Some(found) if !is_ours(&found) => return Kept::NotOurs,
        Some(found) if !has_finalizer(found.meta()) => return Kept::WithoutFinalizer,
        // Somebody deleted it: it is created again once it is gone.
        Some(found) if found.meta().deletion_timestamp.is_some() => {
            return match remove_finalizer(&api, &name, found).await {
                Ok(()) => Kept::Stale,
                Err(failure) => failed(&failure),
            };
        }
        Some(found) if is_same(&found, &wanted) => return Kept::Stands,
        // On the version that was read.
        Some(found) => bounded(api.replace(&name, &params, &take(found, wanted))).await,
    };
    match written {
        Ok(_) => Kept::Written,
        Err(failure) => failed(&failure),
    }
}

/// Takes our finalizer off one of the server's.
pub(super) async fn remove_output_finalizer(
    ctx: &ServerContext,
    server: &BareMetalServer,
    output: &OutputRecord,
    which: Which,
) -> Kept {
    let name = &output.name;
    match output.kind {
        OutputPlace::ConfigMap => {
            remove_finalizer_of::<ConfigMap>(api(ctx, server), server, name, which).await
        }
        OutputPlace::Secret => {
            remove_finalizer_of::<Secret>(api(ctx, server), server, name, which).await
        }
    }
}

async fn remove_finalizer_of<K>(
    api: Api<K>,
    server: &BareMetalServer,
    name: &str,
    which: Which,
) -> Kept
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let found = match bounded(api.get_opt(name)).await {
        Ok(Some(found)) => found,
        Ok(None) => return Kept::Stands,
        Err(failure) => return failed(&failure),
    };
    if !is_held(server, found.meta()) {
        return Kept::NotOurs;
    }
    if which == Which::IfDeleted && found.meta().deletion_timestamp.is_none() {
        return Kept::Stands;
    }
    match remove_finalizer(&api, name, found).await {
        Ok(()) => Kept::Written,
        Err(failure) => failed(&failure),
    }
}

/// Takes our finalizer off, on the version that was read.
pub(super) async fn remove_finalizer<K>(
    api: &Api<K>,
    name: &str,
    mut found: K,
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let others = without_finalizer(&found, OUTPUT_FINALIZER);
    found.meta_mut().finalizers = Some(others);
    let params = post_params();
    bounded(api.replace(name, &params, &found)).await.map(drop)
}

pub(super) fn api<K>(ctx: &ServerContext, server: &BareMetalServer) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    Api::namespaced(ctx.client.clone(), namespace)
}

pub(super) fn metadata(server: &BareMetalServer, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(MANAGED_BY.into(), MANAGER.into())])),
        finalizers: Some(vec![OUTPUT_FINALIZER.into()]),
        owner_references: server.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Whether the server is the controller of what has these metadata, and our finalizer is on it.
fn is_held(server: &BareMetalServer, metadata: &ObjectMeta) -> bool {
    is_controlled(server, metadata) && has_finalizer(metadata)
}

fn is_controlled(server: &BareMetalServer, metadata: &ObjectMeta) -> bool {
    let uid = server.metadata.uid.as_ref();
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid)
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == OUTPUT_FINALIZER)
}

pub(super) fn is_our_secret(server: &BareMetalServer, found: &Secret) -> bool {
    is_held(server, &found.metadata) && found.type_.as_deref() == Some(OUTPUT_SECRET)
}

fn failed(failure: &Failure) -> Kept {
    match failure.code() {
        Some(404 | 409) => Kept::Stale,
        _ => Kept::Failed(failure.explain()),
    }
}
