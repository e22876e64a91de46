//! The watches of both kinds, and a loop for each object.

use super::{
    object::{self, AccountObject},
    pass::{tend, used_before},
};
use crate::{
    account::{AccountKey, Accounts},
    controllers::{
        events::Events,
        server::Watched,
        streams::{self, Change, Guarded},
    },
    kinds::{ClusterProviderAccount, ProviderAccount},
};
use futures::{StreamExt as _, stream};
use kube::{Api, Client, Resource as _};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How long the first listings are waited for. A kind that may not be listed must not stop the others.
const FIRST_LISTING: Duration = Duration::from_secs(30);

/// What every pass needs.
pub struct Context {
    /// For reads and writes; every call has a deadline.
    pub(super) client: Client,
    pub(super) accounts: Accounts,
    /// Namespace of the operator, where the Secrets of cluster accounts lie.
    pub(super) namespace: String,
    watched: Watched,
    pub(super) events: Events,
    pub(super) shutdown: CancellationToken,
    /// Which Secret each account stands on.
    secrets: Mutex<HashMap<AccountKey, (String, String)>>,
}

impl Context {
    /// `client` is for calls, each of which must have a deadline; `namespace` is the operator's own.
    pub fn new(
        client: Client,
        accounts: Accounts,
        namespace: String,
        watched: Watched,
        events: Events,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            client,
            accounts,
            namespace,
            watched,
            events,
            shutdown,
            secrets: Mutex::default(),
        }
    }

    /// Notes which Secret an account stands on; None when the account is gone.
    pub(super) fn note_secret(&self, key: &AccountKey, secret: Option<(String, String)>) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        match secret {
            Some(secret) => drop(secrets.insert(key.clone(), secret)),
            None => drop(secrets.remove(key)),
        }
    }

    /// Whether another account that is, or may be, in use stands on this Secret.
    pub(super) fn secret_is_shared(&self, key: &AccountKey, namespace: &str, name: &str) -> bool {
        let others: Vec<AccountKey> = {
            let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            secrets
                .iter()
                .filter(|(other, (ns, n))| *other != key && ns == namespace && n == name)
                .map(|(other, _)| other.clone())
                .collect()
        };
        others.iter().any(|k| self.accounts.users(k) != Some(0))
    }
}

/// Looks after all account objects until shutdown; passes under way are finished.
/// `watch_client` has no deadline on its answers.
pub async fn run(context: Context, watch_client: Client) {
    let ctx = Arc::new(context);
    let namespaced: Vec<Api<Guarded<ProviderAccount>>> = match &ctx.watched {
        Watched::All => vec![Api::all(watch_client.clone())],
        Watched::Namespaces(names) => names
            .iter()
            .map(|n| Api::namespaced(watch_client.clone(), n))
            .collect(),
    };
    let cluster: Vec<Api<Guarded<ClusterProviderAccount>>> = vec![Api::all(watch_client)];
    let unlisted = Arc::new(AtomicUsize::new(namespaced.len() + cluster.len()));
    let patience = async {
        tokio::select! {
            () = ctx.shutdown.cancelled() => {}
            () = tokio::time::sleep(FIRST_LISTING) => ctx.accounts.set_ready(),
        }
    };
    tokio::join!(
        watch_all(&ctx, namespaced, &unlisted),
        watch_all(&ctx, cluster, &unlisted),
        patience,
    );
}

async fn watch_all<K: AccountObject>(
    ctx: &Arc<Context>,
    apis: Vec<Api<Guarded<K>>>,
    unlisted: &AtomicUsize,
) {
    let mut loops = Loops {
        ctx: ctx.clone(),
        by_key: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let streams = apis.into_iter().map(|api| {
        let (_, changes) = streams::root::<K>(api);
        // Each watch counts down once, at its first listing.
        let mut listed = false;
        changes
            .map(move |change| {
                let first =
                    matches!(change, Change::Listed) && !std::mem::replace(&mut listed, true);
                (change, first)
            })
            .boxed()
    });
    let mut changes = stream::select_all(streams);
    loop {
        let (change, first) = tokio::select! {
            () = ctx.shutdown.cancelled() => break,
            next = changes.next() => match next {
                Some(next) => next,
                None => break,
            },
        };
        match change {
            Change::Applied(object) => loops.applied(object),
            Change::Gone(object) => loops.gone(&object),
            Change::Listed => {}
        }
        if first && unlisted.fetch_sub(1, Ordering::AcqRel) == 1 {
            ctx.accounts.set_ready();
        }
    }
    while loops.tasks.join_next().await.is_some() {}
}

/// The loops of the objects of one kind. A loop outlives its object: the next one of the same name
/// begins when the former is buried.
struct Loops<K: AccountObject> {
    ctx: Arc<Context>,
    by_key: HashMap<AccountKey, watch::Sender<Option<Arc<Guarded<K>>>>>,
    tasks: JoinSet<()>,
}

impl<K: AccountObject> Loops<K> {
    fn applied(&mut self, object: Arc<Guarded<K>>) {
        let key = object::key(K::KIND, object.meta());
        self.ctx.accounts.announce(&key, used_before(&object));
        if let Some(sender) = self.by_key.get(&key) {
            sender.send_replace(Some(object));
            return;
        }
        let (sender, receiver) = watch::channel(Some(object));
        self.by_key.insert(key.clone(), sender);
        self.tasks.spawn(tend::<K>(self.ctx.clone(), key, receiver));
    }

    fn gone(&mut self, object: &Guarded<K>) {
        let key = object::key(K::KIND, object.meta());
        if let Some(sender) = self.by_key.get(&key) {
            sender.send_replace(None);
        }
    }
}
