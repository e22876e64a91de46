//! Reconciles `BareMetalServer` objects: gathers facts, decides, and carries out at most one effect. A decision
//! without an effect is written to status and ends the work item.

mod act;
mod adoption;
pub mod claims;
mod observe;
mod orders;
mod output_objects;
#[cfg(test)]
mod output_objects_tests;
mod outputs;
mod password_secret;
mod permits;
mod reconcile;
mod reinstalls;
mod release_limit;
mod report;
mod root_password;
mod ssh_keys;
mod writes;

use super::{
    context::{Context, Process},
    objects::{KindOptions, ObjectDetails, Objects, ReferenceKeys},
    reconcile_loop::run_reconcile_loop,
};
use api::{
    BareMetalServer,
    conditions::{Type, find_condition},
};
use claims::ServerObjectClaims;
use flexmetal_core::{
    account::key::AccountKey,
    cluster_id::ClusterId,
    owner::Owner,
    server::{
        memory::ServerMemory,
        recorded::{collect_recorded, recorded_server},
    },
};
use hosting_types::ServerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{hash::Hash as _, sync::Arc};

/// The server objects of all watched namespaces.
pub type ServerObjects = Objects<BareMetalServer, ServerMemory>;
/// The context of the server controller.
pub type ServerContext = Context<BareMetalServer, ServerMemory>;

/// The controller of servers.
pub struct ServerController {
    process: Process,
    /// The objects.
    pub objects: Arc<ServerObjects>,
}

impl ServerController {
    /// No objects yet. Registers the kind with the accounts, which enqueue its objects and ask which servers they own.
    pub fn new(process: &Process) -> Self {
        let objects = Arc::new(Objects::new(
            kind_options(process),
            process.watched.watches(),
        ));
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

    /// Reconciles all servers until shutdown. Nothing starts before `accounts_known`: until then, a missing account may
    /// just not be listed yet.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        run_reconcile_loop(ctx, watches, accounts_known, reconcile::reconcile).await;
    }
}

fn kind_options(process: &Process) -> KindOptions<BareMetalServer> {
    let cluster = process.cluster.clone();
    let of_record = cluster.clone();
    KindOptions {
        account_of: Some(|object| Some(account_of(object))),
        claim: Some(recorded_server),
        on_record: Some(Box::new(move |object, all| {
            let place = name_hash_of(&of_record, &object.metadata);
            collect_recorded(object, place.as_deref(), all)
        })),
        alias: Box::new(move |meta| name_hash_of(&cluster, meta)),
        refers: Some(refers),
        details,
        // Status gained or lost its order or installation record.
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

/// The name hash of an object, as in the order tags of its servers.
fn name_hash_of(cluster: &ClusterId, meta: &ObjectMeta) -> Option<String> {
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some(
        Owner::new(cluster, namespace, name, "")
            .name_hash()
            .to_owned(),
    )
}

/// The references of an object: SSH keys, and the server that it names.
fn refers(object: &BareMetalServer) -> ReferenceKeys {
    let mut keys = ssh_keys::refers(object);
    let named = object.spec.external_id.as_deref();
    keys.extend(named.map(|uuid| names_server(uuid).into()));
    keys
}

/// The reference key of a server that an object names.
fn names_server(uuid: &str) -> String {
    format!("server {}", uuid.to_ascii_lowercase())
}

/// What gauges show of a server.
fn details(object: &BareMetalServer) -> ObjectDetails {
    let Some(status) = &object.status else {
        return ObjectDetails::default();
    };
    let order = status.records.order.as_ref();
    let open = order.filter(|order| order.outcome.is_none());
    let shown = ServerStatus::parse(status.provider_status.as_deref().unwrap_or_default());
    let is_coming = status.delivered_at.is_none()
        && status.uuid.is_some()
        && shown.is_live()
        && shown != ServerStatus::Delivered;
    let ordered = status.ordered_at.as_ref().map(|at| at.0.as_second());
    let password = status.root_password.as_ref();
    let stored = find_condition(&status.conditions, Type::RootPasswordStored);
    let is_awaited = stored.is_some_and(|stored| stored.status != "True");
    let password = password.filter(|password| password.stored_at.is_none() && is_awaited);
    ObjectDetails {
        open_order: open.map(|order| (order.started_at(), order.send_by)),
        provisioning_since: ordered.filter(|_| is_coming),
        password_until: password.map(|password| password.available_until.0.as_second()),
        covers_operator: None,
    }
}

/// The account that a server names.
fn account_of(server: &BareMetalServer) -> AccountKey {
    let reference = flexmetal_core::server::facts::account_of(server);
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&reference, namespace)
}
