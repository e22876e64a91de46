//! Objects that claim the same thing at the provider, in order of precedence.

use super::{Objects, ObjectsInner, Uid};
use crate::runtime::clock;
use api::Kind;
use flexmetal_core::{
    account::key::AccountKey,
    ownership::{AgeRank, Claimant, rank_by_age},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Maximum number of objects that a change of a claim enqueues. If more are behind it, they notice at their next
/// reconcile.
const MOST_ENQUEUED: usize = 64;
/// Maximum number at each other account: it may be the same account under another name.
const OF_OTHERS: usize = 2;

/// What an object claims, and its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectClaim {
    of: Arc<str>,
    rank: AgeRank,
    claimant: Arc<Claimant>,
}

/// The claimants of one thing at one account.
type ClaimantsByRank = BTreeMap<AgeRank, Arc<Claimant>>;

/// All claims, by account too: one tenant's objects do not slow down the others.
#[derive(Default)]
pub(super) struct ClaimIndex(HashMap<Arc<str>, HashMap<AccountKey, ClaimantsByRank>>);

impl ObjectClaim {
    pub(super) fn new(of: String, account: AccountKey, meta: &ObjectMeta) -> Self {
        Self {
            of: of.into(),
            rank: rank_by_age(meta),
            claimant: Arc::new(Claimant::new(account, meta)),
        }
    }
}

impl ClaimIndex {
    /// Replaces the claim of one object. Returns the objects behind the old and the new claim.
    fn change(&mut self, before: Option<&ObjectClaim>, after: Option<&ObjectClaim>) -> Vec<Uid> {
        let mut concerned = Vec::new();
        if let Some(claim) = before
            && let Some(all) = self.0.get_mut(&claim.of)
        {
            let account = &claim.claimant.account;
            let is_last = all.get_mut(account).is_some_and(|row| {
                row.remove(&claim.rank);
                row.is_empty()
            });
            concerned.extend(behind(all, claim));
            if is_last {
                all.remove(account);
            }
            if all.is_empty() {
                self.0.remove(&claim.of);
            }
        }
        if let Some(claim) = after {
            let all = self.0.entry(claim.of.clone()).or_default();
            let row = all.entry(claim.claimant.account.clone()).or_default();
            row.insert(claim.rank.clone(), claim.claimant.clone());
            concerned.extend(behind(all, claim));
        }
        concerned
    }
}

fn behind<'a>(
    all: &'a HashMap<AccountKey, ClaimantsByRank>,
    claim: &'a ObjectClaim,
) -> impl Iterator<Item = Uid> + 'a {
    let rows = all.iter().take(MOST_ENQUEUED);
    rows.flat_map(move |(account, row)| {
        let most = match *account == claim.claimant.account {
            true => MOST_ENQUEUED,
            false => OF_OTHERS,
        };
        let behind = row.range(claim.rank.clone()..);
        let behind = behind.filter(move |(rank, _)| **rank != claim.rank);
        behind.take(most).map(|((_, uid), _)| uid.clone())
    })
}

impl<K: Kind, M> ObjectsInner<K, M> {
    /// Records what an object claims and enqueues the objects behind it.
    pub(super) fn claim(&mut self, uid: &str, claim: Option<ObjectClaim>) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.claim == claim {
            return;
        }
        let before = std::mem::replace(&mut entry.claim, claim);
        let after = entry.claim.clone();
        let now = clock::now().mono;
        for uid in self.claims.change(before.as_ref(), after.as_ref()) {
            self.enqueue_after(&uid, now, Duration::ZERO);
        }
    }
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// The claimants of this at an account with these names, the oldest first.
    pub fn claimants(&self, of: &str, accounts: &[AccountKey]) -> Vec<Arc<Claimant>> {
        let inner = self.lock();
        let all = inner.claims.0.get(of);
        let rows = all.map(|all| accounts.iter().filter_map(|account| all.get(account)));
        let found: BTreeMap<&AgeRank, &Arc<Claimant>> =
            rows.into_iter().flatten().flatten().collect();
        found.into_values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::objects::{KindOptions, WorkItem, WorkItemResult};
    use api::{ServerTag, references::PinnedAccount};
    use kube::runtime::watcher::Event;
    use serde_json::json;

    type ClaimedTags = Objects<ServerTag, ()>;

    fn objects() -> ClaimedTags {
        let traits = KindOptions {
            account_of: Some(|_: &ServerTag| {
                Some(AccountKey::from_reference(
                    &PinnedAccount::from_reference(None),
                    "n",
                ))
            }),
            claim: Some(|tag: &ServerTag| Some(tag.wanted().to_owned())),
            ..KindOptions::default()
        };
        Objects::new(traits, 1)
    }

    /// Applies an object that was created in this second.
    fn show(objects: &ClaimedTags, uid: &str, second: u8, version: u64, tag: &str) {
        let object = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
            "metadata": {
                "name": uid, "namespace": "n", "uid": uid, "generation": version,
                "resourceVersion": version.to_string(),
                "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            },
            "spec": {"tag": tag},
        }));
        objects.apply_event(0, Event::Apply(object.unwrap()));
    }

    /// The names of the claimants.
    fn claim(objects: &ClaimedTags, of: &str) -> Vec<String> {
        let all = objects.claimants(
            of,
            &[AccountKey::from_reference(
                &PinnedAccount::from_reference(None),
                "n",
            )],
        );
        all.iter().map(|c| c.name.clone()).collect()
    }

    /// The objects that were reconciled.
    fn started(objects: &ClaimedTags) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((uid, seen, _)) = objects.start() {
            let is_last = matches!(seen, WorkItem::Gone(_));
            objects.ended(
                &uid,
                WorkItemResult::Done(Duration::from_secs(600)),
                is_last,
            );
            all.push(uid.to_string());
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn changed_claim_enqueues_only_later_claimants() {
        let objects = objects();
        show(&objects, "b", 2, 1, "web");
        show(&objects, "c", 3, 2, "web");
        show(&objects, "a", 3, 3, "web");
        show(&objects, "other", 1, 4, "www");
        assert_eq!(claim(&objects, "web"), ["b", "a", "c"], "by time, then UID");
        assert_eq!(started(&objects), ["b", "c", "a", "other"]);

        // No object is behind the youngest one.
        show(&objects, "z", 9, 5, "web");
        assert_eq!(started(&objects), ["z"]);
        // The oldest object changes its claim: enqueues all behind it, before and after.
        show(&objects, "other", 1, 6, "web");
        assert_eq!(claim(&objects, "web"), ["other", "b", "a", "c", "z"]);
        let mut enqueued = started(&objects);
        enqueued.sort();
        assert_eq!(enqueued, ["a", "b", "c", "other", "z"]);
        assert_eq!(claim(&objects, "www"), Vec::<String>::new());
        // Nothing relevant has changed.
        show(&objects, "b", 2, 7, "web");
        assert_eq!(started(&objects), ["b"]);

        let gone = objects.newest("a").unwrap();
        let meta = gone.meta().clone();
        let gone = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
            "metadata": meta, "spec": {"tag": "web"},
        });
        objects.apply_event(0, Event::Delete(serde_json::from_value(gone).unwrap()));
        assert_eq!(claim(&objects, "web"), ["other", "b", "c", "z"]);
        let mut enqueued = started(&objects);
        enqueued.sort();
        assert_eq!(
            enqueued,
            ["a", "c", "z"],
            "its own last pass, and those behind it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn removed_claim_enqueues_bounded_number_of_claimants() {
        let objects = objects();
        show(&objects, "first", 0, 1, "web");
        for n in 0..200_u64 {
            show(&objects, &format!("n-{n:03}"), 1, n + 2, "web");
        }
        started(&objects);
        show(&objects, "first", 0, 300, "www");
        assert_eq!(started(&objects).len(), 1 + MOST_ENQUEUED);
    }
}
