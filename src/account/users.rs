//! The objects that use accounts: what accounts ask them, and how they are enqueued.

use super::{namespace_labels::Namespaces, server_owners::Owners};
use flexmetal_core::account::{
    facts::UsedBy,
    key::AccountKey,
    ownership_tags,
    recorded::RecordedResources,
    view::{CompleteList, ListKind},
};
use std::{
    collections::HashSet,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// One kind of object that uses accounts, or is one.
pub trait Users: Send + Sync {
    /// Number of objects, terminating ones included, that name the account and are served or have something recorded
    /// there. Undecodable ones count for every account they may name. None: not listed yet, so the finalizer must stay.
    fn count(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> Option<usize>;

    /// Name of the kind in messages.
    fn kind(&self) -> String {
        String::new()
    }

    /// Names of the objects that use the account, with their namespaces. Reads every object, so it is called only while
    /// an account waits for the last of them.
    fn names(&self, _account: &AccountKey, _serves: &dyn Fn(&str) -> bool) -> Vec<String> {
        Vec::new()
    }

    /// What the objects that name the account have recorded there. None: the initial list is not complete. Reads every
    /// object, so call it rarely.
    fn recorded_resources(&self, account: &AccountKey) -> Option<RecordedResources>;

    /// Enqueues the objects of this kind that the target means. Must not block.
    fn enqueue(&self, target: &EnqueueTarget);
}

/// Which servers have an owner.
pub trait Claims: Send + Sync {
    /// Name hashes of all BareMetalServers of the cluster, terminating ones included. None: not all namespaces are
    /// watched, or the initial list is not complete, so no server counts as an orphan.
    fn name_hashes(&self) -> Option<HashSet<String>>;

    /// Whether the initial list of the BareMetalServers is complete.
    fn is_complete(&self) -> bool;

    /// Whether the object of this owner's name disowns the server: it has not recorded it, and either its namespace is
    /// a recreated one, or it has recorded another server and uses another account.
    fn disowns(&self, owner: &str, account: &AccountKey, uuid: &str) -> bool;

    /// Whether an object of the account has recorded this server.
    fn is_recorded(&self, uuid: &str, account: &AccountKey) -> bool;

    /// Namespace of the object with this name hash.
    fn namespace(&self, name_hash: &str) -> Option<String>;
}

/// Which objects to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueTarget {
    /// The object with this UID: its permit or list is available, or its account object changed.
    Object(String),
    /// The object with this name hash: a server of it changed, or a complete list it requested is available.
    NameHash(String),
    /// Every object of this account: whether calls are possible, or its settings, changed.
    Account(AccountKey),
    /// Every object that reads this list of the account: its content changed.
    List(AccountKey, ListKind),
    /// Every object of this namespace: what cluster-scoped accounts offer it may have changed.
    Namespace(String),
}

/// All registered kinds. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Subscribers {
    kinds: Arc<RwLock<Vec<Arc<dyn Users>>>>,
    claims: Arc<OnceLock<Arc<dyn Claims>>>,
    pub(crate) namespaces: Namespaces,
    /// Namespaces of the objects that ordered servers.
    pub(crate) owners: Owners,
}

impl Subscribers {
    pub(crate) fn add(&self, kind: Arc<dyn Users>) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        kinds.push(kind);
    }

    /// Only the first call counts.
    pub(crate) fn set_claims(&self, claims: Arc<dyn Claims>) {
        let _ = self.claims.set(claims);
    }

    pub(crate) fn claimed_name_hashes(&self) -> Option<HashSet<String>> {
        self.claims.get()?.name_hashes()
    }

    /// UUIDs of the live servers in a complete list that all their owners disown.
    pub(crate) fn disowned(
        &self,
        complete_list: &CompleteList,
        account: &AccountKey,
    ) -> HashSet<String> {
        let Some(claims) = self.claims.get() else {
            return HashSet::new();
        };
        let live = complete_list.servers.iter().filter(|s| s.status.is_live());
        let disowned = live.filter(|server| {
            let mut owners = ownership_tags::owners(server).peekable();
            let uuid = server.id.as_str();
            owners.peek().is_some() && owners.all(|owner| claims.disowns(owner, account, uuid))
        });
        disowned.map(|s| s.id.as_str().to_owned()).collect()
    }

    /// Whether an object of the account is known to have recorded this server.
    pub(crate) fn is_recorded(&self, uuid: &str, account: &AccountKey) -> bool {
        let claims = self.claims.get();
        claims.is_some_and(|claims| claims.is_recorded(uuid, account))
    }

    /// Whether all BareMetalServers are known.
    pub(crate) fn knows_servers(&self) -> bool {
        self.claims.get().is_some_and(|claims| claims.is_complete())
    }

    /// Looks up the namespaces of these name hashes.
    pub(crate) fn ask_owners(&self, hashes: HashSet<String>) {
        if let Some(claims) = self.claims.get() {
            self.owners.ask(hashes, &**claims);
        }
    }

    /// Counts by kind, without zeros. None while any kind does not know, or none is registered.
    pub(crate) fn count(
        &self,
        account: &AccountKey,
        serves: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<UsedBy>> {
        let kinds = self.kinds();
        if kinds.is_empty() {
            return None;
        }
        let mut used_by = Vec::new();
        for kind in kinds {
            let count = kind.count(account, serves)?;
            if count > 0 {
                let kind = kind.kind();
                used_by.push(UsedBy { kind, count });
            }
        }
        used_by.sort_unstable();
        Some(used_by)
    }

    /// The first names of the objects that use the account, by kind.
    pub(crate) fn names(
        &self,
        account: &AccountKey,
        serves: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Vec<(String, Vec<String>)> {
        let kinds = self.kinds().into_iter();
        let named = kinds.map(|kind| {
            let mut names = kind.names(account, serves);
            names.sort_unstable();
            names.truncate(most);
            (kind.kind(), names)
        });
        let mut named: Vec<_> = named.filter(|(_, names)| !names.is_empty()).collect();
        named.sort_unstable();
        named
    }

    /// What all kinds have recorded. None while any kind does not know, or none is registered.
    pub(crate) fn recorded_resources(&self, account: &AccountKey) -> Option<RecordedResources> {
        let kinds = self.kinds();
        if kinds.is_empty() {
            return None;
        }
        let mut all = RecordedResources::default();
        for kind in kinds {
            all.add(kind.recorded_resources(account)?);
        }
        Some(all)
    }

    /// Enqueues the target in every kind. Call it without a lock of an account: a kind may call back.
    pub(crate) fn enqueue(&self, target: &EnqueueTarget) {
        for kind in self.kinds() {
            kind.enqueue(target);
        }
    }

    pub(crate) fn enqueue_objects(&self, uids: impl IntoIterator<Item = String>) {
        for uid in uids {
            self.enqueue(&EnqueueTarget::Object(uid));
        }
    }

    fn kinds(&self) -> Vec<Arc<dyn Users>> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.clone()
    }
}
