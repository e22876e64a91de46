//! What a pass may use, and the one gate before every effect.

use super::objects::Objects;
use crate::{
    account::{Account, Accounts, Resolution},
    controllers::{
        allowed_endpoints::AllowedEndpoints, events::Events, host_objects::KnownHosts,
        live_list::LiveList, namespaces::NamespaceUids, server_commands::ServerCommands,
        stored_keys::StoredKeys, streams::Guarded,
    },
    runtime::{clients::WatchTimes, kind_api::KindApi, leader::Leadership},
};
use api::{
    Kind,
    references::{AccountKind, PinnedAccount},
    timing::Minimum,
};
use flexmetal_core::{
    account::key::AccountKey,
    cluster_id::ClusterId,
    owner,
    requeue::Requeue,
    resolved_account::{ResolvedAccount, closed},
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
    /// Where keys may be sent.
    pub allowed_endpoints: AllowedEndpoints,
    /// Where servers and the keys that they name find each other.
    pub stored_keys: StoredKeys,
    /// The UIDs of namespaces.
    pub namespace_uids: NamespaceUids,
    /// The server objects as the API server has them, as last listed for one that takes a server.
    pub live_list: LiveList,
    /// Where servers and hosts hear of the commands for them.
    pub server_commands: ServerCommands,
    /// Where commands hear of the hosts that they are for.
    pub hosts: KnownHosts,
    /// Where events go.
    pub events: Events,
    /// Whether this process is the one that acts.
    pub leadership: Leadership,
    /// The Lease of this operator, as accounts name it: its namespace and name.
    pub lease: String,
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

impl<K: Kind, M: Clone + Default + Send> Context<K, M> {
    /// The gate for a pass over an object: when to look again, where another process leads or another operator serves its
    /// account.
    pub fn requeue_if_not_serving(&self, uid: &str) -> Option<Requeue> {
        let account = self.objects.account(uid);
        (!self.serves(account.as_ref())).then_some(STANDBY_REQUEUE)
    }
}

impl Process {
    /// The account that a reference leads to, as a fact, and to act through where there is one that may be asked.
    /// `on_record`: whether something of the object is on record there, which is looked after even where the account
    /// does not serve the namespace.
    pub fn account_facts(
        &self,
        namespace: &str,
        reference: &PinnedAccount,
        on_record: impl FnOnce(&Account) -> bool,
    ) -> (ResolvedAccount, Option<Account>) {
        let (account, terms) = match self.accounts.resolve(namespace, reference) {
            Resolution::Found { account, terms } => (account, terms),
            Resolution::Missing => {
                let facts = match self.watched.serves(reference.kind) {
                    true => ResolvedAccount::missing(reference),
                    false => ResolvedAccount::NotServed(format!(
                        "{} {}",
                        reference.kind.as_str(),
                        reference.name
                    )),
                };
                return (facts, None);
            }
        };
        match closed(&terms) {
            Some(cause) if !on_record(&account) => {
                let view = account.view();
                (
                    ResolvedAccount::Closed {
                        explanation: cause,
                        view,
                    },
                    None,
                )
            }
            _ => {
                let facts = ResolvedAccount::found(account.view(), terms);
                (facts, Some(account))
            }
        }
    }

    /// The gate: whether an effect may start now. Every kind asks right before each one.
    pub fn may_act(&self) -> bool {
        !self.is_ending() && self.leader_since().is_some()
    }

    /// Since which monotonic moment this process acts; None: it does not.
    pub fn leader_since(&self) -> Option<Duration> {
        self.leadership.since()
    }

    /// Whether this process acts, and no other operator serves the account (None: it is not known which one).
    pub fn serves(&self, account: Option<&AccountKey>) -> bool {
        let term = self.leadership.unbroken_since();
        term.is_some_and(|term| account.is_none_or(|key| self.accounts.is_served(key, term)))
    }

    /// Whether the process ends: nobody comes back to what is put off.
    pub fn is_ending(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// The gate for a whole pass: None when this process acts, else when to look again. What may
    /// not be done is not decided either; an election wakes every object.
    pub fn requeue_if_standby(&self) -> Option<Requeue> {
        self.leader_since().is_none().then_some(STANDBY_REQUEUE)
    }

    /// The gate for an object in back-off: None when an effect may start, else how long to wait.
    pub fn retry_after(&self, rest: Option<Duration>) -> Option<Duration> {
        match rest {
            None if self.may_act() => None,
            None => Some(BACKSTOP),
            rest => rest,
        }
    }
}

/// The backstop of what this process may not do now: an election comes before, or its end.
const BACKSTOP: Duration = Duration::from_secs(600);
const STANDBY_REQUEUE: Requeue = Requeue::After(BACKSTOP);

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

    /// Whether the objects of this namespace, as an owner has it, are watched.
    pub fn sees(&self, cluster: &ClusterId, namespace: &str) -> bool {
        let is_it = |name: &String| owner::namespace_hash(cluster.as_str(), name) == namespace;
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.iter().any(is_it),
        }
    }

    /// Whether accounts of this kind are served. A cluster account belongs to the operator of the whole
    /// cluster: several that serve it would undo each other's work.
    pub fn serves(&self, kind: AccountKind) -> bool {
        self.is_all() || kind == AccountKind::ProviderAccount
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
        K: KindApi + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
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
