//! ConfigMaps and Secrets that belong to a server: the one place that writes them, but for the Secret with a root password
//! (`password_secret.rs`).
//!
//! One is the server's where its controller is this very object, by UID, and it has our finalizer; a Secret must also have
//! our type, which nobody can change afterwards. What belongs to somebody else, or to nobody, is never touched, whatever its
//! name, but for our finalizer: where nobody who is there controls what has it, it comes off, since nobody else would take it
//! off. Once the finalizer is off they go with the server, as the garbage collector has it.

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
use flexmetal_core::server::memory::Observation;
use hosting_types::SecretText;
use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
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
    /// The server is not any more as it was; nothing was sent.
    NotNow(Box<Observation>),
    /// It changed in between. The next try sees how it is.
    Stale,
    /// Not done, or nobody knows; in the API server's words.
    Failed(String),
}

/// Which outputs our finalizer comes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All of them.
    Any,
    /// Those that somebody deleted.
    Deleted,
}

/// The key of a root password in the Secret that holds one.
pub(super) const PASSWORD: &str = "password";

/// A ConfigMap or a Secret.
pub(super) trait Output:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
}

impl Output for ConfigMap {}
impl Output for Secret {}

/// What a Secret holds, by its keys. Without `Debug`, as what is in it.
pub(super) type SecretEntries = BTreeMap<String, SecretText>;

/// Brings it about that the server's ConfigMap of this name holds this and nothing else. Costs one GET where it does;
/// `may_write` is asked only where it does not.
pub(super) async fn keep_config_map(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    data: BTreeMap<String, String>,
    may_write: impl Future<Output = Result<(), Observation>>,
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
    let fits = |_: &ConfigMap| true;
    keep(ctx, server, wanted, fits, is_same, take, may_write).await
}

/// The same for a Secret, which has our type.
pub(super) async fn keep_secret(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    entries: &SecretEntries,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept {
    let wanted = secret(metadata(server, name), entries);
    let is_same = |found: &Secret, wanted: &Secret| found.data == wanted.data;
    let take = |found: Secret, wanted: Secret| Secret {
        metadata: found.metadata,
        ..wanted
    };
    // A password cannot be had again, so it gives way to none of this.
    let fits = |found: &Secret| is_of_our_type(found) && !holds_password(found);
    keep(ctx, server, wanted, fits, is_same, take, may_write).await
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
    ctx: &ServerContext,
    server: &BareMetalServer,
    wanted: K,
    fits: impl Fn(&K) -> bool,
    is_same: impl Fn(&K, &K) -> bool,
    take: impl Fn(K, K) -> K,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept
where
    K: Output,
{
    let api: Api<K> = api(ctx, server);
    let name = wanted.meta().name.clone().unwrap_or_default();
    let found = match bounded(api.get_opt(&name)).await {
        Ok(found) => found,
        Err(failure) => return failed(&failure),
    };
    if let Some(found) = &found {
        let is_ours = is_controlled(server, found.meta()) && fits(found);
        let is_deleted = found.meta().deletion_timestamp.is_some();
        match is_ours {
            true if is_deleted => {}
            true if !has_output_finalizer(found.meta()) => return Kept::WithoutFinalizer,
            true if is_same(found, &wanted) => return Kept::Stands,
            true => {}
            false => return leave(ctx, server, found.clone(), may_write).await,
        }
    }
    if let Err(observation) = may_write.await {
        return Kept::NotNow(Box::new(observation));
    }
    let params = post_params();
    let written = match found {
        None => bounded(api.create(&params, &wanted)).await,
        // Somebody deleted it: it is created again once it is gone.
        Some(found) if found.meta().deletion_timestamp.is_some() => {
            return match remove_finalizer(&api, &name, found).await {
                Ok(()) => Kept::Stale,
                Err(failure) => failed(&failure),
            };
        }
        // On the version that was read.
        Some(found) => bounded(api.replace(&name, &params, &take(found, wanted))).await,
    };
    match written {
        Ok(_) => Kept::Written,
        Err(failure) => failed(&failure),
    }
}

/// Leaves alone what is not the server's, but for our finalizer, where nobody else would take it off.
pub(super) async fn leave<K>(
    ctx: &ServerContext,
    server: &BareMetalServer,
    found: K,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept
where
    K: Output,
{
    let is_deleted = found.meta().deletion_timestamp.is_some();
    // What the server has of another form, such as its root password, it keeps to the end.
    if !is_deleted && is_controlled(server, found.meta()) {
        return Kept::NotOurs;
    }
    match free(ctx, server, found, may_write).await {
        // Once it is gone the name is free.
        Kept::Written if is_deleted => Kept::Stale,
        Kept::Written => Kept::NotOurs,
        kept => kept,
    }
}

/// Takes our finalizer off one, where the server ends or somebody deleted it.
pub(super) async fn free_output(
    ctx: &ServerContext,
    server: &BareMetalServer,
    output: &OutputRecord,
    which: Which,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept {
    let name = &output.name;
    match output.kind {
        OutputPlace::ConfigMap => {
            free_output_of::<ConfigMap>(ctx, server, name, which, may_write).await
        }
        OutputPlace::Secret => free_output_of::<Secret>(ctx, server, name, which, may_write).await,
    }
}

async fn free_output_of<K>(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    which: Which,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept
where
    K: Output,
{
    let api: Api<K> = api(ctx, server);
    let found = match bounded(api.get_opt(name)).await {
        Ok(Some(found)) => found,
        Ok(None) => return Kept::Stands,
        Err(failure) => return failed(&failure),
    };
    if which == Which::Deleted && found.meta().deletion_timestamp.is_none() {
        return Kept::Stands;
    }
    free(ctx, server, found, may_write).await
}

/// Takes our finalizer off what the server controls, or nobody who is there.
async fn free<K>(
    ctx: &ServerContext,
    server: &BareMetalServer,
    found: K,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Kept
where
    K: Output,
{
    match is_free(ctx, server, found.meta()).await {
        Ok(true) => {}
        Ok(false) => return Kept::NotOurs,
        Err(failure) => return failed(&failure),
    }
    if let Err(observation) = may_write.await {
        return Kept::NotNow(Box::new(observation));
    }
    let name = found.meta().name.clone().unwrap_or_default();
    match remove_finalizer(&api(ctx, server), &name, found).await {
        Ok(()) => Kept::Written,
        Err(failure) => failed(&failure),
    }
}

/// Whether our finalizer is on what has these metadata, and nobody but the server is there to take it off: its controller is
/// this very object, or nobody, such as after a deletion with `--cascade=orphan`, or a server that is gone.
async fn is_free(
    ctx: &ServerContext,
    server: &BareMetalServer,
    metadata: &ObjectMeta,
) -> Result<bool, Failure> {
    if !has_output_finalizer(metadata) {
        return Ok(false);
    }
    let Some(owner) = controller(metadata) else {
        return Ok(true);
    };
    if is_controlled(server, metadata) {
        return Ok(true);
    }
    let group = owner.api_version.split('/').next();
    if group != Some(&*BareMetalServer::group(&())) || owner.kind != BareMetalServer::kind(&()) {
        return Ok(false);
    }
    let servers: Api<BareMetalServer> = api(ctx, server);
    let found = bounded(servers.get_metadata_opt(&owner.name)).await?;
    Ok(found.is_none_or(|found| found.metadata.uid.as_ref() != Some(&owner.uid)))
}

/// Takes our finalizer off, on the version that was read.
pub(super) async fn remove_finalizer<K>(
    api: &Api<K>,
    name: &str,
    mut found: K,
) -> Result<(), Failure>
where
    K: Output,
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

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Whether the server is the controller of what has these metadata.
fn is_controlled(server: &BareMetalServer, metadata: &ObjectMeta) -> bool {
    controller(metadata).is_some_and(|owner| Some(&owner.uid) == server.metadata.uid.as_ref())
}

fn has_output_finalizer(metadata: &ObjectMeta) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == OUTPUT_FINALIZER)
}

fn is_of_our_type(found: &Secret) -> bool {
    found.type_.as_deref() == Some(OUTPUT_SECRET)
}

pub(super) fn is_our_secret(server: &BareMetalServer, found: &Secret) -> bool {
    let metadata = &found.metadata;
    is_controlled(server, metadata) && has_output_finalizer(metadata) && is_of_our_type(found)
}

fn failed(failure: &Failure) -> Kept {
    match failure.code() {
        Some(404 | 409) => Kept::Stale,
        _ => Kept::Failed(failure.explain()),
    }
}
