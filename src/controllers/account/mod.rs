//! `ProviderAccount` and `ClusterProviderAccount`: each reconcile first configures the live account, then does at most
//! one write in Kubernetes. Secret and CA bundle are read by name and polled, never listed or watched.

mod destination;
pub mod object;

mod act;
mod ca_bundle;
mod candidate;
mod gauges;
mod memory;
mod observe;
mod operator;
mod reconcile;
mod secret;
#[cfg(test)]
mod sharing_tests;

use super::{
    context::{Context, Process},
    objects::{KindOptions, Objects, ObservedObject},
    reconcile_loop::run_reconcile_loop,
    streams::Guarded,
};
use api::{ClusterProviderAccount, ProviderAccount, references::AccountKind};
use futures::future::join_all;
use kube::Api;
use memory::AccountMemory;
use object::AccountObject;
use secret::Secrets;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Changes within this time cause one reconcile: the account's counts change with every server.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The account objects of one of the two kinds.
pub type AccountObjects<K> = Objects<K, AccountMemory>;

/// The objects of both kinds.
pub struct AccountController {
    process: Process,
    secrets: Arc<Secrets>,
    /// True once all account objects are listed, or the wait for them timed out.
    known: watch::Sender<bool>,
    /// The namespaced accounts.
    pub namespaced: Arc<AccountObjects<ProviderAccount>>,
    /// The cluster-scoped accounts. `None` if another operator serves them.
    pub cluster: Option<Arc<AccountObjects<ClusterProviderAccount>>>,
}

impl AccountController {
    /// Starts without objects. Registers both kinds with the accounts, which enqueue them.
    pub fn new(process: &Process) -> Self {
        let watches = process.watched.watches();
        let secrets = Arc::<Secrets>::default();
        let namespaced = Arc::new(objects(process, &secrets, watches));
        process.accounts.add_users(namespaced.clone());
        let serves = process.watched.serves(AccountKind::ClusterProviderAccount);
        let cluster = serves.then(|| Arc::new(objects(process, &secrets, 1)));
        if let Some(cluster) = &cluster {
            process.accounts.add_users(cluster.clone());
        }
        Self {
            process: process.clone(),
            secrets,
            known: watch::Sender::new(false),
            namespaced,
            cluster,
        }
    }

    /// Reconciles all account objects until shutdown.
    pub async fn run(&self) {
        let watch = &self.process.watch_client;
        let cluster = async {
            if let Some(cluster) = &self.cluster {
                self.drive(cluster, vec![Api::all(watch.clone())]).await;
            }
        };
        tokio::join!(
            self.drive(&self.namespaced, self.process.watched.apis(watch)),
            cluster,
        );
    }

    /// Whether all account objects are listed and no watch is stale.
    pub fn is_ready(&self) -> bool {
        let is_cluster_stale = self
            .cluster
            .as_ref()
            .is_some_and(|cluster| cluster.is_stale());
        *self.known.borrow() && !self.namespaced.is_stale() && !is_cluster_stale
    }

    /// Handles the gain or loss of leadership.
    pub fn leadership_changed(&self, is_gain: bool) {
        self.namespaced.leadership_changed(is_gain);
        if let Some(cluster) = &self.cluster {
            cluster.leadership_changed(is_gain);
        }
    }

    /// Removes this operator's Lease from the status of all accounts, at shutdown.
    pub async fn clear_operator(&self) {
        let cluster = async {
            if let Some(cluster) = &self.cluster {
                self.clear_of(cluster).await;
            }
        };
        tokio::join!(self.clear_of(&self.namespaced), cluster);
    }

    async fn clear_of<K: AccountObject>(&self, objects: &Arc<AccountObjects<K>>) {
        let ctx = Context::new(&self.process, objects.clone());
        let all = objects.decoded();
        join_all(all.iter().map(|object| operator::clear(&ctx, object))).await;
    }

    async fn drive<K: AccountObject>(
        &self,
        objects: &Arc<AccountObjects<K>>,
        watches: Vec<Api<Guarded<K>>>,
    ) {
        let ctx = Arc::new(Context::new(&self.process, objects.clone()));
        let secrets = self.secrets.clone();
        let ready = std::future::ready(());
        run_reconcile_loop(ctx, watches, ready, move |ctx, seen| {
            reconcile::reconcile(ctx, secrets.clone(), seen)
        })
        .await;
    }

    /// Waits until all account objects are listed, so that a missing one is really missing. The timeout keeps a kind
    /// without list permission from blocking the others.
    pub async fn known(&self) {
        /// Timeout of the initial lists.
        const FIRST_LISTING: Duration = Duration::from_secs(30);
        let cluster = async {
            if let Some(cluster) = &self.cluster {
                cluster.completed().await;
            }
        };
        let listed = async { tokio::join!(self.namespaced.completed(), cluster) };
        let _ = tokio::time::timeout(FIRST_LISTING, listed).await;
        self.secrets.complete();
        self.known.send_replace(true);
        // Reconcile what waited for the complete lists.
        self.namespaced.enqueue_all();
        if let Some(cluster) = &self.cluster {
            cluster.enqueue_all();
        }
    }
}

fn objects<K: AccountObject>(
    process: &Process,
    secrets: &Arc<Secrets>,
    watches: usize,
) -> AccountObjects<K> {
    let (accounts, own) = (process.accounts.clone(), process.namespace.clone());
    let secrets = secrets.clone();
    let traits = KindOptions {
        debounce: DEBOUNCE,
        // Announced at the first observation, long before the first reconcile: else it would count as missing.
        on_first_observation: Box::new(move |shown: &ObservedObject<K>| {
            secrets.first_seen(shown, &own);
            object::announce(&accounts, shown);
        }),
        ..KindOptions::default()
    };
    Objects::new(traits, watches)
}
