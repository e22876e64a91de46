//! `BareMetalServer`: observe, decide, act, report.
//!
//! A reconcile is a short row of passes. Each pass gathers facts, decides, and carries out at most
//! one effect; what the effect brought to light is a fact of the next pass. The first decision
//! without an effect is written to status, and the row ends.

mod act;
mod adoption;
pub mod claims;
mod installation;
mod observe;
mod orders;
mod outputs;
mod owned;
#[cfg(test)]
mod owned_tests;
mod pass;
mod password_secret;
mod permission;
mod reinstalls;
mod release_limit;
mod report;
mod root_password;
mod ssh_keys;
mod writes;

use super::{
    context::{Context, Process},
    drive::drive,
    objects::{KindOptions, Objects, ReferenceKeys},
};
use api::BareMetalServer;
use claims::ServerObjectClaims;
use flexmetal_core::{
    account::key::AccountKey,
    cluster_id::ClusterId,
    owner::Owner,
    server::{memory::ServerMemory, on_record::on_record},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{hash::Hash as _, sync::Arc};

/// The server objects of all watched namespaces.
pub type ServerObjects = Objects<BareMetalServer, ServerMemory>;
/// What the passes over servers use.
pub type ServerContext = Context<BareMetalServer, ServerMemory>;

/// The controller of servers.
pub struct ServerController {
    process: Process,
    /// The objects.
    pub objects: Arc<ServerObjects>,
}

impl ServerController {
    /// No objects yet. Registers the kind with the accounts, which wake its objects and ask which
    /// machines they claim.
    pub fn new(process: &Process) -> Self {
        let objects = Arc::new(Objects::new(traits(process), process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process.accounts.set_claims(Arc::new(ServerObjectClaims {
            cluster: process.cluster.clone(),
            namespace_uids: process.namespace_uids.clone(),
            objects: objects.clone(),
            all_namespaces: process.watched.is_all(),
        }));
        process.stored_keys.add_referrers(objects.clone());
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Looks after all servers until shutdown. No pass starts before `accounts_known`: until then
    /// a missing account may be one that was not read yet.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        drive(ctx, watches, accounts_known, pass::pass).await;
    }
}

fn traits(process: &Process) -> KindOptions<BareMetalServer> {
    let cluster = process.cluster.clone();
    let of_record = cluster.clone();
    KindOptions {
        account_of: Some(|object| Some(account_of(object))),
        claim: Some(claims::recorded),
        on_record: Some(Box::new(move |object, all| {
            let place = place(&of_record, &object.metadata);
            on_record(object, place.as_deref(), all)
        })),
        alias: Box::new(move |meta| place(&cluster, meta)),
        refers: Some(refers),
        // A status that lost the order it spoke of, or what was installed.
        triggers: |object, hash| {
            let status = object.status.as_ref();
            status.is_some_and(|s| s.records.order.is_some()).hash(hash);
            status
                .is_some_and(|s| s.records.install.is_some())
                .hash(hash);
        },
        ..KindOptions::default()
    }
}

/// The namespace and name of an object, as in the order tags of its servers.
fn place(cluster: &ClusterId, meta: &ObjectMeta) -> Option<String> {
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some(
        Owner::new(cluster, namespace, name, "")
            .name_hash()
            .to_owned(),
    )
}

/// What an object refers to: SSH keys, and the server that it names.
fn refers(object: &BareMetalServer) -> ReferenceKeys {
    let mut words = ssh_keys::refers(object);
    let named = object.spec.external_id.as_deref();
    words.extend(named.map(|uuid| names_server(uuid).into()));
    words
}

/// What an object refers to that names this server.
fn names_server(uuid: &str) -> String {
    format!("server {}", uuid.to_ascii_lowercase())
}

/// The account that a server names.
fn account_of(server: &BareMetalServer) -> AccountKey {
    let reference = flexmetal_core::server::facts::account_of(server);
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&reference, namespace)
}
