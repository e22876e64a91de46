//! Conflicts over one thing of an account: the oldest object that claims it owns it. What each object claims is
//! recorded in `src/controllers/objects/claims.rs`.

use crate::account::key::AccountKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

/// Creation time, then UID. The older object goes first; no two are equal.
pub type AgeRank = (i64, Arc<str>);

/// The rank of an object.
pub fn rank_by_age(meta: &ObjectMeta) -> AgeRank {
    let created = meta.creation_timestamp.as_ref();
    let uid = meta.uid.as_deref().unwrap_or_default();
    (created.map_or(0, |time| time.0.as_second()), uid.into())
}

/// The other objects that claim the same thing of the same account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictingOwners {
    /// The owner, if it is another object: the oldest claimant.
    pub owner: Option<Arc<Claimant>>,
    /// A claimant that remains when this object is deleted.
    pub successor: Option<Arc<Claimant>>,
}

impl ConflictingOwners {
    /// Finds them among the claimants of one thing, oldest first. `counts`: whether a claimant may use the account. One
    /// that may not must not block the others.
    pub fn find_among(
        uid: &str,
        claimants: &[Arc<Claimant>],
        counts: impl Fn(&Claimant) -> bool,
    ) -> Self {
        let older = claimants.iter().take_while(|c| &*c.uid != uid);
        let others = claimants
            .iter()
            .filter(|c| &*c.uid != uid && !c.is_deleting);
        Self {
            owner: older.into_iter().find(|c| counts(c)).cloned(),
            successor: others.into_iter().find(|c| counts(c)).cloned(),
        }
    }
}

/// An object that claims something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its account.
    pub account: AccountKey,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

impl Claimant {
    /// An object that claims something of this account.
    pub fn new(account: AccountKey, meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            account,
            is_deleting: meta.deletion_timestamp.is_some(),
        }
    }

    /// The object in words. An object of another namespace stays unnamed, as its users may not know it.
    pub fn named(&self, kind: &str, namespace: &str) -> String {
        match self.namespace == namespace {
            true => format!("{kind} {namespace}/{}", self.name),
            false => format!("{kind} of another namespace"),
        }
    }

    /// What a user of a namespace can do against the conflict. Users cannot see the objects of other namespaces.
    pub fn remedy(&self, namespace: &str) -> &'static str {
        match self.namespace == namespace {
            true => "Delete one of the two",
            false => "Delete this one, or ask an administrator of the account",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::key::AccountKey;
    use api::references::PinnedAccount;

    fn account(name: &str) -> AccountKey {
        let mut account = PinnedAccount::from_reference(None);
        account.name = name.to_owned();
        AccountKey::from_reference(&account, "n")
    }

    fn claimant(uid: &str, name: &str, is_deleting: bool) -> Arc<Claimant> {
        Arc::new(Claimant {
            uid: uid.into(),
            namespace: "n".into(),
            name: uid.into(),
            account: account(name),
            is_deleting,
        })
    }

    #[test]
    fn an_object_of_another_namespace_has_no_name() {
        let claimant = claimant("web", "a", false);
        assert_eq!(claimant.named("ServerTag", "n"), "ServerTag n/web");
        assert_eq!(
            claimant.named("ServerTag", "other"),
            "ServerTag of another namespace"
        );
        assert_eq!(claimant.remedy("n"), "Delete one of the two");
        assert!(claimant.remedy("other").starts_with("Delete this one,"));
    }

    #[test]
    fn oldest_claimant_owns_then_next_live_one() {
        let all = [
            claimant("elsewhere", "b", false),
            claimant("ends", "a", true),
            claimant("second", "a", false),
            claimant("third", "a", false),
        ];
        let owners = |uid: &str| {
            let found = ConflictingOwners::find_among(uid, &all, |c| c.account == account("a"));
            let name = |c: Option<Arc<Claimant>>| c.map(|c| c.name.clone());
            (name(found.owner), name(found.successor))
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(owners("ends"), (None, some("second")));
        assert_eq!(owners("second"), (some("ends"), some("third")));
        assert_eq!(owners("third"), (some("ends"), some("second")));
        // An object that is not listed yet is the youngest.
        assert_eq!(owners("new"), (some("ends"), some("second")));
        let alone = ConflictingOwners::find_among("elsewhere", &all, |c| c.account == account("b"));
        assert_eq!(alone, ConflictingOwners::default());
    }
}
