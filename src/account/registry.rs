//! All account objects, and the live accounts that they stand on.

use super::{
    Account, AccountKey, Claims, Contact, Rate, Wake,
    handle::{Counts, Settings},
    known,
    live::{ClaimsCell, Live, Member},
    orphans::Verdict,
    view::{Proof, Times},
};
use crate::kinds::{
    Reason,
    account::{AllowedNamespaces, KnownMachine, Limits, Timing},
    references::{AccountKind, AccountRef},
};
use futures::{StreamExt as _, stream::BoxStream};
use hosting::{ApiKey, BaseUrl, Client};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    watch,
};

/// The account objects of the cluster. A clone is the same registry.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Registry>,
}

struct Registry {
    cluster_tag: String,
    rate: Rate,
    claims: ClaimsCell,
    entries: Mutex<Entries>,
    sender: UnboundedSender<Wake>,
    receiver: Mutex<Option<UnboundedReceiver<Wake>>>,
    ready: watch::Sender<bool>,
}

#[derive(Default)]
struct Entries {
    accounts: HashMap<AccountKey, Account>,
    /// Where each live account leads to. Equal URL and key: the same account.
    lives: HashMap<AccountKey, (BaseUrl, ApiKey, Live)>,
}

/// What an account reference leads to.
pub enum Resolution {
    /// There is no such object.
    Missing,
    /// There is one, and it does not allow the namespace. That stops orders, never releases.
    NotAllowed {
        /// The account.
        account: Account,
        /// What a person should read.
        message: String,
    },
    /// The account.
    Found(Account),
}

/// How to reach an account.
pub struct Connection {
    /// Where it is.
    pub base_url: BaseUrl,
    /// Its key.
    pub key: ApiKey,
    /// A client with both.
    pub client: Client,
}

/// What the controller of an account object has made of it.
pub struct Installation {
    /// How to reach it. None keeps the connection that there is, if any.
    pub connection: Option<Connection>,
    /// Why nothing may change.
    pub block: Option<(Reason, String)>,
    /// Why nothing may be ordered.
    pub no_orders: Option<(Reason, String)>,
    /// Which namespaces may use it; None for the kind that serves its own.
    pub allowed: Option<AllowedNamespaces>,
    /// Its times.
    pub times: Times,
    /// Its limits.
    pub limits: Limits,
    /// The machines that it is known by.
    pub known: Vec<KnownMachine>,
}

/// How an account stands, for its status.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What is known of the key.
    pub contact: Contact,
    /// The rounds fail.
    pub error: Option<(Reason, String)>,
    /// The last complete listing.
    pub proof: Option<Arc<Proof>>,
    /// What the last look for orphans came to.
    pub verdict: Verdict,
    /// How many machines there are.
    pub counts: Counts,
    /// The machines to remember from now on.
    pub known: Vec<KnownMachine>,
}

impl Accounts {
    /// A registry for the cluster of this identity (16 hex digits). Each account may make calls at this rate.
    pub fn new(cluster: &str, rate: Rate) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            inner: Arc::new(Registry {
                cluster_tag: super::marks::cluster_tag(cluster),
                rate,
                claims: Arc::new(OnceLock::new()),
                entries: Mutex::default(),
                sender,
                receiver: Mutex::new(Some(receiver)),
                ready: watch::Sender::new(false),
            }),
        }
    }

    /// Says who knows the objects. Until then nothing is judged. Only the first call counts.
    pub fn set_claims(&self, claims: Arc<dyn Claims>) {
        let _ = self.inner.claims.set(claims);
    }

    /// How many servers use an account, as the claims say; None while nobody knows.
    pub fn users(&self, key: &AccountKey) -> Option<usize> {
        self.inner.claims.get().and_then(|c| c.users(key))
    }

    /// Resolves a server's reference.
    pub fn resolve(&self, namespace: &str, reference: &AccountRef) -> Resolution {
        let key = AccountKey {
            kind: reference.kind,
            namespace: match reference.kind {
                AccountKind::ProviderAccount => Some(namespace.to_owned()),
                AccountKind::ClusterProviderAccount => None,
            },
            name: reference.name.clone(),
        };
        let Some(account) = self.get(&key) else {
            return Resolution::Missing;
        };
        let (is_allowed, live) = {
            let settings = account.settings();
            let is_allowed = settings
                .allowed
                .as_ref()
                .is_none_or(|a| a.allows(namespace));
            (
                is_allowed,
                settings.connection.as_ref().map(|(l, _)| l.clone()),
            )
        };
        if let Some(live) = live {
            live.core.care();
        }
        if is_allowed {
            return Resolution::Found(account);
        }
        let message = format!(
            "{key} does not allow namespace {namespace}: add it to spec.allowedNamespaces.names of the account"
        );
        Resolution::NotAllowed { account, message }
    }

    /// The account of an object.
    pub fn get(&self, key: &AccountKey) -> Option<Account> {
        self.entries().accounts.get(key).cloned()
    }

    /// What is new, as it happens. There is one consumer: only the first call gets anything.
    pub fn wakes(&self) -> BoxStream<'static, Wake> {
        let receiver = self
            .inner
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match receiver {
            Some(receiver) => futures::stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|wake| (wake, receiver))
            })
            .boxed(),
            None => futures::stream::pending().boxed(),
        }
    }

    /// Waits until every account object that there was at the begin is known, so that a missing one
    /// is really missing.
    pub async fn ready(&self) {
        let mut ready = self.inner.ready.subscribe();
        // The sender lives as long as `self`.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Every account object of the first listing is known.
    pub fn set_ready(&self) {
        self.inner.ready.send_replace(true);
    }

    /// Somebody began or ceased to use the account: its controller looks again.
    pub fn users_changed(&self, key: &AccountKey) {
        if let Some(account) = self.get(key) {
            account.changed().notify_one();
        }
    }

    /// Makes an account object known, before anything else is known of it.
    pub fn announce(&self, key: &AccountKey, used_before: bool) {
        let mut entries = self.entries();
        if entries.accounts.contains_key(key) {
            return;
        }
        entries.accounts.entry(key.clone()).or_insert_with(|| {
            let text = format!("{key} was not read yet");
            Account::new(
                key.clone(),
                Settings {
                    connection: None,
                    block: Some((Reason::Pending, text)),
                    no_orders: None,
                    allowed: None,
                    held: watch::Sender::new(false),
                    times: Times::from(&Timing::default()),
                    known: Vec::new(),
                    used_before,
                },
            )
        });
        drop(entries);
        self.wake(key);
    }

    /// What wakes the controller of an account object: its live account, its users, orders that wait
    /// for finalizers. An object that is not known yet is from here on.
    pub fn changes(&self, key: &AccountKey) -> Arc<Notify> {
        self.announce(key, false);
        self.get(key)
            .map(|a| a.changed().clone())
            .unwrap_or_default()
    }

    /// Puts into force what the controller has made of an account object. One that is not known stays so.
    pub fn install(&self, key: &AccountKey, installation: Installation) {
        let Some(account) = self.get(key) else { return };
        let connection = installation.connection.map(|c| self.connect(key, c));
        let news = {
            let mut settings = account.settings();
            let is_new_connection = connection.is_some();
            if let Some(connection) = connection {
                settings.connection = Some(connection);
            }
            let news = is_new_connection
                || settings.block != installation.block
                || settings.no_orders != installation.no_orders
                || settings.allowed != installation.allowed
                || settings.times != installation.times;
            settings.block = installation.block;
            settings.no_orders = installation.no_orders;
            settings.allowed = installation.allowed;
            settings.times = installation.times;
            settings.known = installation.known.clone();
            if let Some((live, client)) = &settings.connection {
                let member = Member {
                    client: client.clone(),
                    times: installation.times,
                    limits: installation.limits,
                    known: installation.known,
                    changed: account.changed().clone(),
                };
                let mut knowledge = live.core.knowledge();
                knowledge.cared |= !member.known.is_empty();
                knowledge.members.insert(key.clone(), member);
                drop(knowledge);
                live.core.replan.notify_one();
                live.core.restock.notify_one();
            }
            news
        };
        if news {
            self.wake(key);
        }
    }

    /// Says whether account and Secret are kept from vanishing. Orders wait for it.
    pub fn set_held(&self, key: &AccountKey, held: bool) {
        if let Some(account) = self.get(key) {
            account.settings().held.send_replace(held);
        }
    }

    /// The key or the spec changed: a refused key is tried at once.
    pub fn probe_now(&self, key: &AccountKey) {
        if let Some(live) = self.get(key).and_then(|a| a.live()) {
            let mut knowledge = live.core.knowledge();
            knowledge.breaker.probe_now();
            knowledge.retry_at = std::time::Duration::ZERO;
            drop(knowledge);
            live.core.replan.notify_one();
        }
    }

    /// The account object is gone.
    pub fn remove(&self, key: &AccountKey) {
        let mut entries = self.entries();
        let live = entries.lives.remove(key);
        let account = entries.accounts.remove(key);
        drop(entries);
        if let Some((_, _, live)) = live {
            live.core.knowledge().members.remove(key);
        }
        if let Some(account) = account {
            let mut settings = account.settings();
            settings.connection = None;
            let text = format!("{key} is gone");
            settings.block = Some((Reason::AccountNotFound, text));
        }
        self.wake(key);
    }

    /// How the account stands, given the machines that it was known by. None without a connection.
    pub fn standing(&self, key: &AccountKey, known: &[KnownMachine]) -> Option<Standing> {
        let live = self.get(key)?.live()?;
        let knowledge = live.core.knowledge();
        Some(Standing {
            contact: knowledge.breaker.contact().clone(),
            error: knowledge.error.clone(),
            proof: knowledge.proof.clone(),
            verdict: knowledge.verdict.clone(),
            counts: Counts::of(knowledge.snapshot.ours()),
            known: known::refresh(known, &knowledge.snapshot, knowledge.proof.as_deref()),
        })
    }

    /// The live account with this URL and key: one that another object stands on, or a new one.
    fn connect(&self, key: &AccountKey, connection: Connection) -> (Live, Client) {
        let Connection {
            base_url,
            key: api_key,
            client,
        } = connection;
        let mut entries = self.entries();
        let same = entries
            .lives
            .values()
            .find(|(url, k, _)| *url == base_url && k.is_same_as(&api_key))
            .map(|(_, _, live)| live.clone());
        let live = same.unwrap_or_else(|| {
            Live::begin(
                self.inner.cluster_tag.clone(),
                self.inner.rate,
                self.inner.claims.clone(),
                self.inner.sender.clone(),
            )
        });
        let former = entries
            .lives
            .insert(key.clone(), (base_url, api_key, live.clone()));
        drop(entries);
        if let Some((_, _, former)) = former
            && !Arc::ptr_eq(&former.core, &live.core)
        {
            former.core.knowledge().members.remove(key);
        }
        (live, client)
    }

    fn wake(&self, key: &AccountKey) {
        // Nobody listens while the process ends.
        let _ = self.inner.sender.send(Wake::Account(key.clone()));
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.inner
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
