//! Who uses the accounts: what is asked of them, and what they are told.

use super::{namespaces::Namespaces, owners::Owners};
use flexmetal_core::account::{
    facts::UsedBy,
    key::AccountKey,
    on_record::OnRecord,
    ownership_tags,
    view::{CompleteList, ListKind},
};
use std::{
    collections::HashSet,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// One kind of object that uses accounts, or is one.
pub trait Users: Send + Sync {
    /// How many objects of this kind use the account, the terminating ones included: those that name it, in a namespace
    /// that `serves` says yes to or with something of their own on record there. An object that does not decode may
    /// use any account and counts for each that it could name.
    ///
    /// None: the first listing is not in yet. An account must not lose its finalizer before that.
    fn count(&self, account: &AccountKey, serves: &dyn Fn(&str) -> bool) -> Option<usize>;

    /// Their kind, for people.
    fn kind(&self) -> String {
        String::new()
    }

    /// The names of those who use the account, each with its namespace. Reads every such object, so it is asked while
    /// an account waits for the last of them.
    fn names(&self, _account: &AccountKey, _serves: &dyn Fn(&str) -> bool) -> Vec<String> {
        Vec::new()
    }

    /// What the objects of this kind that name the account have on record there. None: the first listing is not
    /// in yet. Reads every such object, so it is asked while URL or key have changed.
    fn on_record(&self, account: &AccountKey) -> Option<OnRecord>;

    /// Something is new. Must not block; whom the kind does not know, it ignores.
    fn enqueue(&self, wake: &EnqueueTarget);
}

/// Which machines are claimed.
pub trait Claims: Send + Sync {
    /// The object marks of all servers of the cluster, the terminating ones included.
    ///
    /// None: not all namespaces are watched, or the first listing is not in yet. Nothing is judged then.
    fn name_hashes(&self) -> Option<HashSet<String>>;

    /// Whether the first listing of the servers is in.
    fn is_complete(&self) -> bool;

    /// Whether the object in the place of this owner says that this machine is not its own: it does not have it on record, and
    /// is of a later namespace, or has another one and uses another account. What else it has on its own account it tells of
    /// itself.
    fn disowns(&self, owner: &str, account: &AccountKey, uuid: &str) -> bool;

    /// Whether an object of the account has this server on record.
    fn is_recorded(&self, uuid: &str, account: &AccountKey) -> bool;

    /// The namespace of the object of this mark.
    fn namespace(&self, mark: &str) -> Option<String>;
}

/// Who should look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueTarget {
    /// The object with this UID: its permit or its list is there, or its account object has news.
    Object(String),
    /// The object of this mark: a machine of it changed, or a proof listing that it wanted is there.
    NameHash(String),
    /// Every object of this account: whether calls may be made, or what is in force, has changed.
    Account(AccountKey),
    /// Whoever looks at this list of the account: it is another one now.
    List(AccountKey, ListKind),
    /// Every object of this namespace: what an account of the cluster offers may be another thing now.
    Namespace(String),
}

/// All kinds that have made themselves known. A clone is the same audience.
#[derive(Clone, Default)]
pub(crate) struct Subscribers {
    kinds: Arc<RwLock<Vec<Arc<dyn Users>>>>,
    claims: Arc<OnceLock<Arc<dyn Claims>>>,
    /// The namespaces of the cluster.
    pub(crate) namespaces: Namespaces,
    /// Whose machines there are.
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

    /// The machines of a complete listing that the objects of their marks disown.
    pub(crate) fn disowned(&self, proof: &CompleteList, account: &AccountKey) -> HashSet<String> {
        let Some(claims) = self.claims.get() else {
            return HashSet::new();
        };
        let live = proof.servers.iter().filter(|s| s.status.is_live());
        let disowned = live.filter(|server| {
            let mut owners = ownership_tags::owners(server).peekable();
            let uuid = server.id.as_str();
            owners.peek().is_some() && owners.all(|owner| claims.disowns(owner, account, uuid))
        });
        disowned.map(|s| s.id.as_str().to_owned()).collect()
    }

    /// Whether an object of the account has this server on record, as far as is known.
    pub(crate) fn is_recorded(&self, uuid: &str, account: &AccountKey) -> bool {
        let claims = self.claims.get();
        claims.is_some_and(|claims| claims.is_recorded(uuid, account))
    }

    /// Whether it is known which servers there are.
    pub(crate) fn knows_servers(&self) -> bool {
        self.claims.get().is_some_and(|claims| claims.is_complete())
    }

    /// Asks whose machines these are.
    pub(crate) fn ask_owners(&self, marks: HashSet<String>) {
        if let Some(claims) = self.claims.get() {
            self.owners.ask(marks, &**claims);
        }
    }

    /// Kind by kind, those that have any; None while one of them does not know, or there is none.
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

    /// The first names of those who use the account, kind by kind.
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

    /// What all kinds have on record; None while any of them does not know, or there is none.
    pub(crate) fn on_record(&self, account: &AccountKey) -> Option<OnRecord> {
        let kinds = self.kinds();
        if kinds.is_empty() {
            return None;
        }
        let mut all = OnRecord::default();
        for kind in kinds {
            all.add(kind.on_record(account)?);
        }
        Some(all)
    }

    /// Tells every kind. Never called with a lock of an account held: they may ask back.
    pub(crate) fn enqueue(&self, wake: &EnqueueTarget) {
        for kind in self.kinds() {
            kind.enqueue(wake);
        }
    }

    /// Wakes objects by their UIDs.
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
