//! What a pass may use, and the one gate before every effect.

use super::objects::Objects;
use crate::{
    account::Accounts,
    controllers::{events::Events, mark::ClusterId, streams::Guarded},
    kinds::{Kind, timing::Minimum},
    runtime::clients::WatchTimes,
};
use kube::{Api, Client};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What the passes of every kind may use.
#[derive(Clone)]
pub struct Process {
    /// For reads and writes; every call has a deadline.
    pub client: Client,
    /// For watches; silence is no failure.
    pub watch_client: Client,
    /// How long watches last and wait.
    pub watch_times: WatchTimes,
    /// The accounts.
    pub accounts: Accounts,
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// Namespace of the operator, where the key Secrets of cluster accounts lie.
    pub namespace: String,
    /// Which namespaces are watched.
    pub watched: Watched,
    /// Whether the minimum of each time of an account holds.
    pub minimum: Minimum,
    /// Where events go.
    pub events: Events,
    /// No effect starts once this is cancelled.
    pub shutdown: CancellationToken,
}

/// What the passes of one kind may use: the process, and the objects of the kind.
pub struct Context<K: Kind, M> {
    process: Process,
    /// The objects of the kind.
    pub objects: Arc<Objects<K, M>>,
}

impl<K: Kind, M> Deref for Context<K, M> {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl<K: Kind, M> Context<K, M> {
    /// The context of a kind with these objects.
    pub fn new(process: &Process, objects: Arc<Objects<K, M>>) -> Self {
        Self {
            process: process.clone(),
            objects,
        }
    }
}

impl Process {
    /// The gate: whether an effect may start now. Every kind asks right before each one.
    pub fn may_act(&self) -> bool {
        !self.shutdown.is_cancelled()
    }

    /// Since when this process acts for a namespace (None: the cluster-wide objects); None: it does not.
    // One operator acts from its start until leases come.
    #[allow(clippy::unused_self)]
    pub fn acting_since(&self, _namespace: Option<&str>) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// The gate for an object in back-off: None when an effect may start, else how long to wait.
    pub fn hold_back(&self, rest: Option<Duration>) -> Option<Duration> {
        /// The process ends before this is over.
        const ENDING: Duration = Duration::from_secs(60);
        match rest {
            None if self.may_act() => None,
            None => Some(ENDING),
            rest => rest,
        }
    }
}

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Every namespace.
    All,
    /// These.
    Namespaces(Vec<String>),
}

impl Watched {
    /// Whether every namespace is watched.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// How many watches that makes for a kind that has namespaces.
    pub fn watches(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Namespaces(names) => names.len(),
        }
    }

    /// The watches of a kind that has namespaces.
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<Guarded<K>>>
    where
        K: Kind + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match self {
            Self::All => vec![Api::all(client.clone())],
            Self::Namespaces(names) => names
                .iter()
                .map(|name| Api::namespaced(client.clone(), name))
                .collect(),
        }
    }
}
