//! Which objects want the same thing at the provider, in the order in which they may have it.

use super::{Inner, Objects, Uid};
use crate::{account::AccountKey, kinds::Kind, runtime::clock};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// So many of those who come next are woken when one goes. One of them follows it; the others find that out by
/// themselves, later.
const WOKEN: usize = 64;

/// An object that wants something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its UID.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its account.
    pub account: AccountKey,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// The older goes first: by creation, then by UID, as no two have the same.
type Rank = (i64, Uid);

/// What an object claims, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    of: Arc<str>,
    rank: Rank,
    claimant: Arc<Claimant>,
}

/// Who claims what.
#[derive(Default)]
pub(super) struct Claims(HashMap<Arc<str>, BTreeMap<Rank, Arc<Claimant>>>);

impl Claim {
    pub(super) fn new(of: String, account: AccountKey, meta: &ObjectMeta) -> Self {
        let created = meta.creation_timestamp.as_ref();
        let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
        Self {
            of: of.into(),
            rank: (created.map_or(0, |time| time.0.as_second()), uid.clone()),
            claimant: Arc::new(Claimant {
                uid,
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                account,
                is_deleting: meta.deletion_timestamp.is_some(),
            }),
        }
    }
}

impl Claims {
    /// One object claims another thing than before. Returns whom that concerns: those behind it.
    fn change(&mut self, before: Option<&Claim>, after: Option<&Claim>) -> Vec<Uid> {
        let mut concerned = Vec::new();
        if let Some(claim) = before
            && let Some(all) = self.0.get_mut(&claim.of)
        {
            all.remove(&claim.rank);
            concerned.extend(behind(all, &claim.rank));
            if all.is_empty() {
                self.0.remove(&claim.of);
            }
        }
        if let Some(claim) = after {
            let all = self.0.entry(claim.of.clone()).or_default();
            all.insert(claim.rank.clone(), claim.claimant.clone());
            concerned.extend(behind(all, &claim.rank));
        }
        concerned
    }
}

fn behind<'a>(
    all: &'a BTreeMap<Rank, Arc<Claimant>>,
    rank: &'a Rank,
) -> impl Iterator<Item = Uid> + 'a {
    let behind = all.range(rank.clone()..).filter(move |(r, _)| *r != rank);
    behind.take(WOKEN).map(|((_, uid), _)| uid.clone())
}

impl<K: Kind, M> Inner<K, M> {
    /// Notes what an object claims from now on, and wakes whom that concerns.
    pub(super) fn claim(&mut self, uid: &str, claim: Option<Claim>) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.claim == claim {
            return;
        }
        let before = std::mem::replace(&mut entry.claim, claim.clone());
        let now = clock::now().mono;
        for uid in self.claims.change(before.as_ref(), claim.as_ref()) {
            self.want(&uid, now, Duration::ZERO);
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Those who claim this, the oldest first.
    pub fn claimants(&self, of: &str) -> Vec<Arc<Claimant>> {
        let inner = self.lock();
        let all = inner.claims.0.get(of);
        all.map(|all| all.values().cloned().collect())
            .unwrap_or_default()
    }
}
