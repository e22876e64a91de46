//! `ProviderAccount` and `ClusterProviderAccount`: observe, decide, configure, act, report.
//!
//! What an account's objects may do follows from its own: so each pass first configures the live
//! account, then does at most one thing in Kubernetes, or reports. The Secret, and the object with the
//! CA bundle, are read by name and never listed or watched, so they are read again every quarter of a minute. While
//! their repair is awaited, or account or Secret ends, they are read every second or two at first and once a minute in
//! the end.
//!
//! Account and Secret bear a finalizer for as long as anybody uses them: without the key nothing
//! could be released. So a namespace can be deleted whole: account and Secret wait until the
//! objects that use them are gone. The object with the CA bundle bears none: its certificates that are in use are in the
//! status of the account, too, and stay in use without it.

mod destination;
pub mod object;

mod act;
mod bundle;
mod candidate;
mod memory;
mod observe;
mod operator;
mod pass;
mod secret;
#[cfg(test)]
mod sharing_tests;

use super::{
    context::{Context, Process},
    drive::drive,
    objects::{KindOptions, Objects, ObservedObject},
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

/// Changes that come together make one pass: the counts of an account change with every machine.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The account objects of one of the two kinds.
pub type AccountObjects<K> = Objects<K, AccountMemory>;

/// The objects of both kinds.
pub struct AccountController {
    process: Process,
    secrets: Arc<Secrets>,
    /// Every account object is known, or was waited for long enough.
    known: watch::Sender<bool>,
    /// Accounts of a namespace.
    pub namespaced: Arc<AccountObjects<ProviderAccount>>,
    /// Accounts of the cluster; None where they belong to another operator.
    pub cluster: Option<Arc<AccountObjects<ClusterProviderAccount>>>,
}

impl AccountController {
    /// No objects yet. Registers both kinds with the accounts, which wake them.
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

    /// Looks after all account objects until shutdown.
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

    /// Whether every account object is known, and what changes of them is heard.
    pub fn is_ready(&self) -> bool {
        let is_deaf = self
            .cluster
            .as_ref()
            .is_some_and(|cluster| cluster.is_stale());
        *self.known.borrow() && !self.namespaced.is_stale() && !is_deaf
    }

    /// It has changed where this process acts.
    pub fn leadership_changed(&self, is_gain: bool) {
        self.namespaced.leadership_changed(is_gain);
        if let Some(cluster) = &self.cluster {
            cluster.leadership_changed(is_gain);
        }
    }

    /// This operator ends: it serves no account any more.
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
        drive(ctx, watches, ready, move |ctx, seen| {
            pass::pass(ctx, secrets.clone(), seen)
        })
        .await;
    }

    /// Waits until every account object is known, so that a missing one is really missing. A kind
    /// that may not be listed must not stop the others.
    pub async fn known(&self) {
        /// How long the first listings are waited for.
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
        // What was held back until now.
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
        // Known from the first sight on, long before its first pass: until then nothing may take
        // it for missing.
        on_first_observation: Box::new(move |shown: &ObservedObject<K>| {
            secrets.first_seen(shown, &own);
            object::announce(&accounts, shown);
        }),
        ..KindOptions::default()
    };
    Objects::new(traits, watches)
}
