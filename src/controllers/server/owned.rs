//! ConfigMaps and Secrets that belong to a server: the one place that writes and deletes them.
//!
//! One is the server's where its controller is this very object, by UID; a Secret must also have our type, which nobody
//! can change afterwards. What belongs to somebody else, or to nobody, is never touched, whatever its name. With the
//! server they go by themselves, as the garbage collector has it.

use super::ServerContext;
use crate::{
    controllers::writes::{Failure, bounded},
    kinds::{
        BareMetalServer,
        names::{MANAGED_BY, MANAGER, OUTPUT_SECRET},
        root_password::Installed,
    },
};
use hosting::SecretText;
use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, fmt::Debug};

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Written, or deleted.
    Written,
    /// It is so already, and nothing was sent.
    Stands,
    /// The name belongs to somebody else, or to nobody; nothing was sent.
    NotOurs,
    /// It changed in between. The next try sees how it is.
    Stale,
    /// Not done, or nobody knows; in the API server's words.
    Failed(String),
}

/// What the API server's clock is asked with; neither is ever kept.
const CLOCK_ANNOTATION: &str = "flexmetal.dev/clock";
const CLOCK_MANAGER: &str = "flexmetal-operator-clock";

/// The key of a root password in the Secret that holds one.
pub(super) const PASSWORD: &str = "password";

/// The key of the installation that it is of.
pub(super) const INSTALLATION: &str = "installation";
/// The key of the machine.
pub(super) const UUID: &str = "uuid";

/// What the Secret for a password is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is none, or one of the server's that may be overwritten.
    Free,
    /// It holds the password of this installation.
    Holds,
    /// The name belongs to somebody else, or to nobody.
    NotOurs,
    /// It cannot be seen, or is being deleted; in words.
    Failed(String),
}

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
    let is_ours = |found: &ConfigMap| is_of(server, &found.metadata);
    let explain = Failure::explain;
    keep(api(ctx, server), wanted, is_ours, is_same, take, explain).await
}

/// The same for a Secret, which has our type.
pub(super) async fn keep_secret(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    entries: &SecretEntries,
) -> Kept {
    let bytes = |text: &SecretText| ByteString(text.expose().as_bytes().to_vec());
    let data = entries.iter().map(|(key, text)| (key.clone(), bytes(text)));
    let wanted = Secret {
        metadata: metadata(server, name),
        type_: Some(OUTPUT_SECRET.to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    };
    let is_same = |found: &Secret, wanted: &Secret| found.data == wanted.data;
    let take = |found: Secret, wanted: Secret| Secret {
        metadata: found.metadata,
        ..wanted
    };
    // A password cannot be had again, so it gives way to the next one alone, whatever names the Secret meanwhile.
    let gives_way = |found: &Secret| entries.contains_key(PASSWORD) || !holds_password(found);
    let is_ours = |found: &Secret| is_our_secret(server, found) && gives_way(found);
    let explain = match entries.contains_key(PASSWORD) {
        true => without_words,
        false => Failure::explain,
    };
    keep(api(ctx, server), wanted, is_ours, is_same, take, explain).await
}

/// Whether the name of a Secret is free for the password of this installation, or it is there already. Nothing is written.
pub(super) async fn find_password(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    of: &Installed,
) -> Found {
    let api: Api<Secret> = api(ctx, server);
    match bounded(api.get_opt(name)).await {
        Ok(Some(found)) if !is_our_secret(server, &found) => Found::NotOurs,
        Ok(Some(found)) if found.metadata.deletion_timestamp.is_some() => {
            Found::Failed("it is being deleted".to_owned())
        }
        Ok(Some(found)) if holds_password_of(&found, of) => Found::Holds,
        Ok(_) => Found::Free,
        Err(failure) => Found::Failed(without_words(&failure)),
    }
}

/// Deletes the server's Secret of this name, as it is read right before, where it holds the password of this installation,
/// and this moment, in seconds since 1970, is over by the API server's clock.
pub(super) async fn delete_password(
    ctx: &ServerContext,
    server: &BareMetalServer,
    name: &str,
    of: &Installed,
    at: i64,
) -> Kept {
    let api: Api<Secret> = api(ctx, server);
    let found = match bounded(api.get_opt(name)).await {
        Ok(Some(found)) if !is_our_secret(server, &found) => return Kept::NotOurs,
        Ok(Some(found)) if !holds_password_of(&found, of) => return Kept::Stands,
        Ok(Some(found)) if found.metadata.deletion_timestamp.is_none() => found,
        Ok(_) => return Kept::Stands,
        Err(failure) => return Kept::Failed(without_words(&failure)),
    };
    let now = match clock_of_api_server(&api, name, found.clone()).await {
        Ok(now) => now,
        Err(failure) => return Kept::Failed(without_words(&failure)),
    };
    if now.is_none_or(|now| now < at) {
        let why = "by the API server's clock spec.rootPassword.ttl is not over yet";
        return Kept::Failed(why.to_owned());
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.metadata.uid,
            resource_version: found.metadata.resource_version,
        }),
        ..DeleteParams::default()
    };
    match bounded(api.delete(name, &params)).await {
        Ok(_) => Kept::Written,
        Err(failure) => failed(&failure, without_words),
    }
}

/// What time it is for the API server: what it would note for a change, which is not made.
async fn clock_of_api_server(
    api: &Api<Secret>,
    name: &str,
    mut found: Secret,
) -> Result<Option<i64>, Failure> {
    let annotations = found.metadata.annotations.get_or_insert_default();
    annotations.insert(CLOCK_ANNOTATION.to_owned(), "asked for".to_owned());
    let params = PostParams {
        dry_run: true,
        field_manager: Some(CLOCK_MANAGER.to_owned()),
    };
    let tried = bounded(api.replace(name, &params, &found)).await?;
    let entries = tried.metadata.managed_fields.unwrap_or_default();
    let own = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(CLOCK_MANAGER);
    let noted = entries
        .iter()
        .find(own)
        .and_then(|entry| entry.time.as_ref());
    Ok(noted.map(|time| time.0.as_second()))
}

fn holds_password(found: &Secret) -> bool {
    let data = found.data.as_ref();
    data.is_some_and(|data| data.contains_key(PASSWORD))
}

fn holds_password_of(found: &Secret, of: &Installed) -> bool {
    let says = |key: &str, what: &str| {
        let entry = found.data.as_ref().and_then(|data| data.get(key));
        entry.is_some_and(|entry| entry.0 == what.as_bytes())
    };
    holds_password(found) && says(UUID, &of.machine) && says(INSTALLATION, &of.label())
}

async fn keep<K>(
    api: Api<K>,
    wanted: K,
    is_ours: impl Fn(&K) -> bool,
    is_same: impl Fn(&K, &K) -> bool,
    take: impl Fn(K, K) -> K,
    explain: fn(&Failure) -> String,
) -> Kept
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let name = wanted.meta().name.clone().unwrap_or_default();
    let found = match bounded(api.get_opt(&name)).await {
        Ok(found) => found,
        Err(failure) => return failed(&failure, explain),
    };
    let params = PostParams::default();
    let written = match found {
        None => bounded(api.create(&params, &wanted)).await,
        Some(found) if !is_ours(&found) => return Kept::NotOurs,
        // What is written on it goes with it.
        Some(found) if found.meta().deletion_timestamp.is_some() => return Kept::Stale,
        Some(found) if is_same(&found, &wanted) => return Kept::Stands,
        // On the version that was read.
        Some(found) => bounded(api.replace(&name, &params, &take(found, wanted))).await,
    };
    match written {
        Ok(_) => Kept::Written,
        Err(failure) => failed(&failure, explain),
    }
}

fn api<K>(ctx: &ServerContext, server: &BareMetalServer) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    Api::namespaced(ctx.client.clone(), namespace)
}

fn metadata(server: &BareMetalServer, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(MANAGED_BY.into(), MANAGER.into())])),
        owner_references: server.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Whether the server is the controller of what has these metadata.
fn is_of(server: &BareMetalServer, metadata: &ObjectMeta) -> bool {
    let uid = server.metadata.uid.as_ref();
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid)
}

fn is_our_secret(server: &BareMetalServer, found: &Secret) -> bool {
    is_of(server, &found.metadata) && found.type_.as_deref() == Some(OUTPUT_SECRET)
}

fn failed(failure: &Failure, explain: fn(&Failure) -> String) -> Kept {
    match failure.code() {
        Some(404 | 409) => Kept::Stale,
        _ => Kept::Failed(explain(failure)),
    }
}

/// Without the words of the API server, which may quote what the Secret holds.
fn without_words(failure: &Failure) -> String {
    match failure.code() {
        Some(code) => format!("the API server answers {code}"),
        None => "the API server does not answer".to_owned(),
    }
}
