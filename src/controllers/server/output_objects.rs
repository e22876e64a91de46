//! The ConfigMaps and Secrets of a server, except writes of the root password Secret (`password_secret.rs`). Objects of
//! other owners stay untouched, but our finalizer comes off if no existing object controls them.

use super::{ServerContext, act};
use crate::{
    controllers::writes::{ApiServerError, bounded, without_finalizer},
    runtime::clients::post_params,
};
use api::{
    BareMetalServer,
    kind::{controller, is_ours},
    names::{MANAGED_BY, MANAGER, OUTPUT_FINALIZER, OUTPUT_SECRET},
    outputs::{OutputKind, OutputRecord},
};
use flexmetal_core::{
    last_error::LastError,
    server::{decide::outputs::OutputState, facts::ServerFacts, memory::ServerObservation},
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

/// Why something was not done, or is not known.
#[derive(Debug)]
pub(super) enum OutputError {
    /// The server changed; nothing was sent.
    NotNow(Box<ServerObservation>),
    /// The API server did not do it.
    Failed(ApiServerError),
}

impl OutputError {
    /// `what`: what was not done.
    pub(super) fn observed(self, what: &str) -> ServerObservation {
        match self {
            Self::NotNow(observation) => *observation,
            // It changed in between; the next try reads it again.
            Self::Failed(failure) if matches!(failure.code(), Some(404 | 409)) => {
                ServerObservation::Stale
            }
            Self::Failed(failure) => {
                let why = failure.explain();
                ServerObservation::Failed(LastError::from_write(format!("{what}: {why}")))
            }
        }
    }
}

impl From<ApiServerError> for OutputError {
    fn from(failure: ApiServerError) -> Self {
        Self::Failed(failure)
    }
}

/// The outputs that lose our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFilter {
    /// All of them.
    Any,
    /// Only those that a user deleted.
    Deleted,
}

/// The key of the password in a root password Secret.
pub(super) const PASSWORD: &str = "password";

/// A ConfigMap or a Secret.
pub(super) trait OutputObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
    /// Whether an object that the server controls may be overwritten.
    fn fits(&self) -> bool;

    /// Whether it has the same data as `wanted` and nothing else.
    fn is_same(&self, wanted: &Self) -> bool;
}

impl OutputObject for ConfigMap {
    fn fits(&self) -> bool {
        true
    }

    fn is_same(&self, wanted: &Self) -> bool {
        self.data == wanted.data && self.binary_data.as_ref().is_none_or(BTreeMap::is_empty)
    }
}

impl OutputObject for Secret {
    fn fits(&self) -> bool {
        // A root password cannot be fetched again, so no output overwrites it.
        is_of_our_type(self) && !holds_password(self)
    }

    fn is_same(&self, wanted: &Self) -> bool {
        self.data == wanted.data
    }
}

/// The content of a Secret, by key. No `Debug`, since the values are secret.
pub(super) type SecretEntries = BTreeMap<String, SecretText>;

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

/// The objects that belong to a server.
pub(super) struct Owned<'a> {
    pub(super) ctx: &'a ServerContext,
    /// The server.
    pub(super) facts: &'a ServerFacts,
    /// Checked on the live server right before each write. Reads do not need it.
    pub(super) may_write: &'a (dyn Fn(&ServerFacts) -> bool + Sync),
}

impl Owned<'_> {
    /// Makes the server's ConfigMap contain exactly this data, unless the server is suspended. One GET if it already
    /// does.
    pub(super) async fn reconcile_config_map(
        &self,
        name: &str,
        data: BTreeMap<String, String>,
    ) -> Result<OutputState, OutputError> {
        let wanted = ConfigMap {
            metadata: self.metadata(name),
            data: Some(data),
            ..ConfigMap::default()
        };
        self.reconcile_output(wanted).await
    }

    /// The same for a Secret of our type.
    pub(super) async fn reconcile_secret(
        &self,
        name: &str,
        entries: &SecretEntries,
    ) -> Result<OutputState, OutputError> {
        self.reconcile_output(secret(self.metadata(name), entries))
            .await
    }

    async fn reconcile_output<K: OutputObject>(
        &self,
        mut wanted: K,
    ) -> Result<OutputState, OutputError> {
        let api: Api<K> = self.api();
        let name = wanted.meta().name.clone().unwrap_or_default();
        let mut found = bounded(api.get_opt(&name)).await?;
        let is_other =
            |found: &mut K| is_deleted(found) || !self.controls(found.meta()) || !found.fits();
        if let Some(other) = found.take_if(is_other)
            && let Some(state) = self.leave(other).await?
        {
            return Ok(state);
        }
        let params = post_params();
        match found {
            Some(found) if !has_output_finalizer(found.meta()) => {
                return Ok(OutputState::WithoutFinalizer);
            }
            Some(found) if found.is_same(&wanted) => return Ok(OutputState::Written),
            _ if self.facts.writes_no_outputs() => return Ok(OutputState::Suspended),
            None => {
                self.check().await?;
                bounded(api.create(&params, &wanted)).await?;
            }
            Some(found) => {
                self.check().await?;
                // Replaces only the version that was read.
                wanted.meta_mut().clone_from(found.meta());
                bounded(api.replace(&name, &params, &wanted)).await?;
            }
        }
        tracing::debug!(
            namespace = self.facts.namespace(),
            name = self.facts.name(),
            kind = %K::kind(&()),
            output = name,
            "output written"
        );
        Ok(OutputState::Written)
    }

    /// Leaves an object alone that is not the server's or is being deleted, but removes our finalizer if nobody else
    /// would. None: it is gone, and the name is free.
    pub(super) async fn leave<K: OutputObject>(
        &self,
        found: K,
    ) -> Result<Option<OutputState>, OutputError> {
        let (is_deleted, is_its) = (is_deleted(&found), self.controls(found.meta()));
        // Another object of this server, such as its root password, stays until the server ends.
        if is_its && !is_deleted {
            return Ok(Some(OutputState::NotOurs));
        }
        let is_last = without_finalizer(&found, OUTPUT_FINALIZER).is_empty();
        let is_freed = self.free(found).await?;
        Ok(match is_deleted && (is_freed || is_its) {
            true if is_freed && is_last => None,
            true => Some(OutputState::Deleted),
            false => Some(OutputState::NotOurs),
        })
    }

    /// Removes our finalizer from an output that matches the filter.
    pub(super) async fn free_output(
        &self,
        output: &OutputRecord,
        which: OutputFilter,
    ) -> Result<(), ServerObservation> {
        let (kind, name) = (output.kind.kind(), &output.name);
        let freed = match output.kind {
            OutputKind::ConfigMap => self.free_named::<ConfigMap>(name, which).await,
            OutputKind::Secret => self.free_named::<Secret>(name, which).await,
        };
        let what = || format!("Cannot remove the finalizer of {kind} {name}");
        freed.map_err(|undone| undone.observed(&what()))
    }

    async fn free_named<K: OutputObject>(
        &self,
        name: &str,
        which: OutputFilter,
    ) -> Result<(), OutputError> {
        let found = bounded(self.api::<K>().get_opt(name)).await?;
        match found.filter(|found| which == OutputFilter::Any || is_deleted(found)) {
            Some(found) => self.free(found).await.map(drop),
            None => Ok(()),
        }
    }

    /// Removes our finalizer if the server, or no existing object, controls this one. Returns whether it did.
    async fn free<K: OutputObject>(&self, found: K) -> Result<bool, OutputError> {
        let is_free = !self.facts.read_only && self.is_free(found.meta()).await?;
        if is_free {
            self.remove_finalizer(found).await?;
        }
        Ok(is_free)
    }

    /// Whether it has our finalizer and only this server would remove it: its controller is this server, or a server
    /// that is gone, or there is none (after `--cascade=orphan`).
    async fn is_free(&self, metadata: &ObjectMeta) -> Result<bool, ApiServerError> {
        if !has_output_finalizer(metadata) {
            return Ok(false);
        }
        let Some(owner) = controller(metadata).filter(|_| !self.controls(metadata)) else {
            return Ok(true);
        };
        if !is_ours(owner) || owner.kind != BareMetalServer::kind(&()) {
            return Ok(false);
        }
        let servers: Api<BareMetalServer> = self.api();
        let found = bounded(servers.get_metadata_opt(&owner.name)).await?;
        Ok(found.is_none_or(|found| found.metadata.uid.as_ref() != Some(&owner.uid)))
    }

    /// Removes our finalizer, on the version that was read.
    pub(super) async fn remove_finalizer<K: OutputObject>(
        &self,
        mut found: K,
    ) -> Result<(), OutputError> {
        self.check().await?;
        let others = without_finalizer(&found, OUTPUT_FINALIZER);
        found.meta_mut().finalizers = Some(others);
        let name = found.meta().name.clone().unwrap_or_default();
        let params = post_params();
        bounded(self.api().replace(&name, &params, &found)).await?;
        Ok(())
    }

    async fn check(&self) -> Result<(), OutputError> {
        let not_now = |observation| OutputError::NotNow(Box::new(observation));
        let fresh = Box::pin(act::get_live(self.ctx, self.facts)).await;
        match (self.may_write)(&fresh.map_err(not_now)?) {
            true => Ok(()),
            false => Err(not_now(ServerObservation::Stale)),
        }
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.ctx.client.clone(), self.facts.namespace())
    }

    /// The metadata of a new object of this name.
    pub(super) fn metadata(&self, name: &str) -> ObjectMeta {
        let owner = self.facts.object.controller_owner_ref(&());
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.into(), MANAGER.into())])),
            finalizers: Some(vec![OUTPUT_FINALIZER.into()]),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        }
    }

    /// Whether this very server, by UID, is the controller.
    fn controls(&self, metadata: &ObjectMeta) -> bool {
        let uid = self.facts.object.metadata.uid.as_ref();
        controller(metadata).is_some_and(|owner| Some(&owner.uid) == uid)
    }

    pub(super) fn is_our_secret(&self, found: &Secret) -> bool {
        let metadata = &found.metadata;
        self.controls(metadata) && has_output_finalizer(metadata) && is_of_our_type(found)
    }
}

pub(super) fn is_deleted<K: OutputObject>(found: &K) -> bool {
    found.meta().deletion_timestamp.is_some()
}

fn has_output_finalizer(metadata: &ObjectMeta) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == OUTPUT_FINALIZER)
}

fn is_of_our_type(found: &Secret) -> bool {
    found.type_.as_deref() == Some(OUTPUT_SECRET)
}
