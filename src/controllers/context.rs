//! What a reconcile may use, and the check before every effect.

use super::objects::Objects;
use crate::{
    account::{Account, Accounts, Resolution},
    controllers::{
        allowed_endpoints::AllowedEndpoints, events::Events, host_objects::KnownHosts,
        live_list::LiveList, namespaces::NamespaceUids, server_commands::ServerCommands,
        stored_keys::StoredKeys, streams::Guarded,
    },
    runtime::{clients::WatchTimes, kind_api::KindApi, leader::Leadership, metrics::Metrics},
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

/// What the reconciles of every kind may use.
#[derive(Clone)]
pub struct Process {
    /// For reads and writes; every call has a deadline.
    pub client: Client,
    /// For watches, without a read timeout.
    pub watch_client: Client,
    /// How long watches last and wait.
    pub watch_times: WatchTimes,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// The accounts.
    pub accounts: Accounts,
    /// Whether nothing but reads is sent to the provider, and no intent, finalizer or annotation is written.
    pub read_only: bool,
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// Namespace of the operator, with the key Secrets of cluster-scoped accounts.
    pub namespace: String,
    /// Which namespaces are watched.
    pub watched: Watched,
    /// Whether the minimum of each account interval applies.
    pub minimum: Minimum,
    /// Where keys may be sent.
    pub allowed_endpoints: AllowedEndpoints,
    /// How servers, hosts and SshKeys find each other.
    pub stored_keys: StoredKeys,
    /// The UIDs of namespaces.
    pub namespace_uids: NamespaceUids,
    /// The last live list of the server objects, for an adoption.
    pub live_list: LiveList,
    /// How servers and hosts learn of the commands for them.
    pub server_commands: ServerCommands,
    /// How commands learn of the hosts that they are for.
    pub hosts: KnownHosts,
    /// Publishes events.
    pub events: Events,
    /// Whether this process is the leader.
    pub leadership: Leadership,
    /// The Lease of this operator as accounts record it: namespace and name.
    pub lease: String,
    /// No effect starts once this is cancelled.
    pub shutdown: CancellationToken,
}

/// What the reconciles of one kind may use: the process, and the objects of the kind.
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
    /// Check before a reconcile: when to requeue if another process is the leader, or if another operator serves the
    /// account.
    pub fn requeue_if_not_serving(&self, uid: &str) -> Option<Requeue> {
        let account = self.objects.account(uid);
        (!self.serves(account.as_ref())).then_some(STANDBY_REQUEUE)
    }
}

impl Process {
    /// The account of a reference as a fact, and to act through if it may be called. `on_record`: whether the object
    /// has something recorded there; then it is reconciled even if the account does not serve the namespace.
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
            Some(explanation) if !on_record(&account) => {
                let view = account.view();
                (ResolvedAccount::Closed { explanation, view }, None)
            }
            _ => {
                let facts = ResolvedAccount::found(account.view(), terms);
                (facts, Some(account))
            }
        }
    }

    /// Check before every effect: whether it may start now.
    pub fn may_act(&self) -> bool {
        !self.is_shutting_down() && self.leader_since().is_some()
    }

    /// Since when this process is the leader, on the monotonic clock. `None` if it is not.
    pub fn leader_since(&self) -> Option<Duration> {
        self.leadership.leader_since()
    }

    /// Whether this process is the leader and no other operator serves the account. `None`: the account is not known.
    pub fn serves(&self, account: Option<&AccountKey>) -> bool {
        let term = self.leadership.unbroken_since();
        term.is_some_and(|term| account.is_none_or(|key| self.accounts.is_served(key, term)))
    }

    /// Whether the process ends. Nothing retries later then.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// Check before a whole reconcile: `None` if this process is the leader, else when to requeue. An election enqueues
    /// every object.
    pub fn requeue_if_standby(&self) -> Option<Requeue> {
        self.leader_since().is_none().then_some(STANDBY_REQUEUE)
    }

    /// Check of a backoff: `None` if an effect may start, else how long to wait.
    pub fn retry_after(&self, rest: Option<Duration>) -> Option<Duration> {
        match rest {
            None if self.may_act() => None,
            None => Some(BACKSTOP),
            rest => rest,
        }
    }
}

/// Backstop for what this process may not do now: an election, or the end of the process, comes earlier.
const BACKSTOP: Duration = Duration::from_secs(600);
const STANDBY_REQUEUE: Requeue = Requeue::After(BACKSTOP);

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Every namespace.
    All,
    /// Only these.
    Namespaces(Vec<String>),
}

impl Watched {
    /// Whether every namespace is watched.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Whether the objects of this namespace are watched. The namespace is a hash, as in an owner.
    pub fn sees(&self, cluster: &ClusterId, namespace: &str) -> bool {
        let is_it = |name: &String| owner::namespace_hash(cluster.as_str(), name) == namespace;
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.iter().any(is_it),
        }
    }

    /// Whether accounts of this kind are served. Only an operator of all namespaces serves cluster-scoped accounts:
    /// several operators would undo each other's work.
    pub fn serves(&self, kind: AccountKind) -> bool {
        self.is_all() || kind == AccountKind::ProviderAccount
    }

    /// Number of watches for a namespaced kind.
    pub fn watches(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Namespaces(names) => names.len(),
        }
    }

    /// The watched APIs of a namespaced kind.
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
