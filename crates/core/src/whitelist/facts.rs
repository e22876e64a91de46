//! The facts that a decision on an IpWhitelist uses.

use super::{
    decide::{
        descriptions,
        desired_entries::{DesiredWhitelist, Invalid, egress, entries},
        list::ProviderWhitelist,
        plan::{AcknowledgedRisks, WhitelistPlan, plan},
    },
    memory::{WhitelistMemory, WhitelistSnapshot},
};
use crate::{
    account::{key::AccountKey, view::AccountTimes},
    acknowledgement::Acknowledgements,
    cluster_id::OwnerHash,
    ownership::ConflictingOwners,
    reconcile::Subject,
};
use api::{IpWhitelist, Reason, conditions::Type, references::AccountKind, whitelist::EntryPolicy};
use hosting_types::ApiKeyId;
use std::time::Duration;

/// All facts that a decision uses.
#[derive(Clone)]
pub struct WhitelistFacts {
    /// The object and its account.
    pub subject: Subject<IpWhitelist, WhitelistMemory>,
    /// The other objects that name the same API key.
    pub conflicting_owners: ConflictingOwners,
    /// Whether the account belongs to the object's namespace. A cluster account belongs to the operator's namespace.
    pub is_account_in_namespace: bool,
    /// Whether all IpWhitelists are listed. Until then, an older object for the same key may be unknown.
    pub is_listed: bool,
}

impl WhitelistFacts {
    /// The owner hash of the object's entries. It does not depend on the UID, so a recreated object adopts the entries
    /// that stayed.
    pub fn owner_hash(&self) -> OwnerHash {
        let subject = &self.subject;
        subject
            .cluster
            .name_hash(subject.namespace(), subject.name())
    }

    /// The number of the API key.
    pub fn key(&self) -> ApiKeyId {
        let id = self.subject.object.spec.api_key_id;
        ApiKeyId(u64::try_from(id).unwrap_or_default())
    }

    /// The desired whitelist.
    ///
    /// # Errors
    /// One message about all invalid fields.
    pub fn target(&self) -> Result<DesiredWhitelist, Invalid> {
        let spec = &self.subject.object.spec;
        let is_end = self.subject.is_deleting();
        let of_account = self.subject.view().map(|view| view.egress.clone());
        let egress = egress(spec, &of_account.unwrap_or_default());
        let (entries, egress) = match is_end {
            // During a deletion an invalid spec does not block.
            true => (Vec::new(), egress.unwrap_or_default()),
            false => match (entries(spec, &self.owner_hash()), egress) {
                (Ok(entries), Ok(egress)) => (entries, egress),
                (entries, egress) => {
                    let wrong = [entries.err(), egress.err()].into_iter().flatten();
                    return Err(Invalid::new(&wrong.flatten().collect::<Vec<_>>()));
                }
            },
        };
        Ok(DesiredWhitelist {
            entries,
            mode: spec.entry_policy.unwrap_or_default(),
            egress,
            is_guarded: spec.lockout_guard.unwrap_or(true),
            is_end,
            owner_hash: self.owner_hash(),
        })
    }

    /// The plan from this list to the target.
    pub fn plan(&self, list: &ProviderWhitelist, target: &DesiredWhitelist) -> WhitelistPlan {
        plan(list, target, self.acknowledged_risks(list, target))
    }

    /// The risks that a user has acknowledged for this list and target.
    pub fn acknowledged_risks(
        &self,
        list: &ProviderWhitelist,
        target: &DesiredWhitelist,
    ) -> AcknowledgedRisks {
        let given = self.acknowledgements();
        let lockout = descriptions::lockout(self.key(), list, target);
        let removal = descriptions::removal(self.key(), &self.others(list));
        AcknowledgedRisks {
            lockout: given.is_given(&lockout),
            others: self.removes_others(target) && given.is_given(&removal),
        }
    }

    /// Whether the object removes entries that it did not add.
    pub fn removes_others(&self, target: &DesiredWhitelist) -> bool {
        target.mode == EntryPolicy::Exact && !target.is_end
    }

    /// The entries of other objects that an acknowledgement covers. Removed ones stay included, so the token survives
    /// each step. A new one changes the token.
    pub fn others(&self, list: &ProviderWhitelist) -> Vec<i64> {
        let shown = list.of_others();
        let mut shown: Vec<i64> = shown
            .map(|entry| i64::try_from(entry.id.0).unwrap_or(i64::MAX))
            .collect();
        shown.sort_unstable();
        let status = self.subject.object.status.as_ref();
        let asked = status.map_or(&[][..], |status| &status.removable_entry_ids);
        match shown.iter().all(|id| asked.contains(id)) {
            true => asked.to_vec(),
            false => shown,
        }
    }

    /// The acknowledgements of the object.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        let status = self.subject.object.status.as_ref();
        Acknowledgements::from_meta(
            &self.subject.object.metadata,
            status.map_or(&[], |s| &s.pending_acknowledgements),
            status.map_or(&[], |s| &s.acknowledged),
            self.subject.now.wall,
        )
    }

    /// Starts a reconcile: resets memory from before this process became responsible for the object.
    pub fn start(&mut self) {
        let may_have_steps = !self.reported_steps().is_empty() || self.had_other_owner();
        let (since, now) = (
            self.subject.observations_count_from(),
            self.subject.now.mono,
        );
        let connection = self.connection().map(str::to_owned);
        let (is_ruled, is_deleting) = (
            self.conflicting_owners.owner.is_some(),
            self.subject.is_deleting(),
        );
        let own = &mut self.subject.memory.own;
        own.start_reconcile(since, may_have_steps);
        own.record_other_owner(is_ruled, now);
        own.reset_for_connection(connection.as_deref());
        if is_deleting {
            own.start_deletion();
        }
    }

    /// Whether status says that another object owns the list, so its steps may still be in progress.
    fn had_other_owner(&self) -> bool {
        let status = self.subject.object.status.as_ref();
        let reason = Reason::OwnershipConflict.as_str();
        status.is_some_and(|status| status.conditions.iter().any(|c| c.reason == reason))
    }

    /// The credentials hash of the account.
    pub fn connection(&self) -> Option<&str> {
        self.subject.view()?.credentials_hash.as_deref()
    }

    /// The facts after a complete list was read.
    #[must_use]
    pub fn with_snapshot(&self, snapshot: WhitelistSnapshot) -> Self {
        let spacing = self.times().absence_check_interval;
        let mut facts = self.clone();
        facts
            .subject
            .memory
            .own
            .record_snapshot(snapshot, self.generation(), spacing);
        let is_done = |facts: &Self| {
            let target = facts.target().ok()?;
            let snapshot = facts.usable_snapshot()?;
            Some(facts.plan(&snapshot.list, &target).steps.is_empty())
        };
        // A list that matches the target clears the error.
        if facts.subject.memory.own.not_applied.is_some() && is_done(&facts) == Some(true) {
            facts.subject.memory.own.not_applied = None;
        }
        facts
    }

    /// The last list, if it was read with the current credentials.
    pub fn usable_snapshot(&self) -> Option<&WhitelistSnapshot> {
        self.subject.view()?;
        self.subject
            .memory
            .own
            .snapshot_for_connection(self.connection())
    }

    /// The steps that status reports.
    pub fn reported_steps(&self) -> &[String] {
        let status = self.subject.object.status.as_ref();
        status.map_or(&[], |status| &status.plan)
    }

    /// Whether status has entries that exist at the provider.
    pub fn had_entries(&self) -> bool {
        let status = self.subject.object.status.as_ref();
        status.is_some_and(|status| status.entries.iter().any(|entry| entry.id.is_some()))
    }

    /// The account's times.
    pub fn times(&self) -> AccountTimes {
        self.subject
            .view()
            .map(|view| view.times)
            .unwrap_or_default()
    }

    /// The generation of the spec.
    pub fn generation(&self) -> i64 {
        self.subject.object.metadata.generation.unwrap_or_default()
    }

    /// Which accepted step the provider does not apply. Status keeps it over a restart, until the spec changes.
    pub fn not_applied(&self) -> Option<String> {
        let known = self.subject.memory.own.not_applied.as_ref();
        if let Some((generation, why)) = known {
            return Some(why.clone()).filter(|_| *generation == self.generation());
        }
        let conditions = self.subject.object.status.as_ref()?.conditions.iter();
        let stalled = conditions.into_iter().find(|c| {
            c.type_ == Type::Stalled.as_str() && c.reason == Reason::EntryNotApplied.as_str()
        })?;
        let is_current = stalled.observed_generation == self.subject.object.metadata.generation;
        is_current.then(|| stalled.message.clone())
    }

    /// Calls to read the list: its pages, the empty one after them, and one in reserve.
    pub fn calls_of_list(&self) -> u32 {
        let own = &self.subject.memory.own;
        let shown = own
            .snapshot
            .as_ref()
            .map_or(100, |snapshot| snapshot.list.entries.len());
        let by_size = u32::try_from((shown + own.more) / EACH + 3).unwrap_or(u32::MAX);
        // The provider may return smaller pages.
        by_size.max(own.calls.saturating_add(1))
    }

    /// A deletion only uses lists that began at or after this moment.
    pub fn not_before(&self) -> Duration {
        let spacing = self.times().absence_check_interval;
        self.subject.now.mono.saturating_sub(spacing)
    }
}

/// New records per page: pages overlap by one.
const EACH: usize = 49;

/// Whether an object of this namespace may have the whitelist of a key of the account. An object that may not blocks no
/// other: otherwise any namespace could disable the whitelist of a cluster account's key.
pub fn is_account_in_namespace(
    account: &AccountKey,
    namespace: &str,
    operator_namespace: &str,
) -> bool {
    match account.kind {
        AccountKind::ProviderAccount => true,
        AccountKind::ClusterProviderAccount => namespace == operator_namespace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_object_takes_no_cluster_account_whitelist() {
        let may = |kind, namespace: &str| {
            let account = AccountKey::named(kind, Some(namespace), "default");
            is_account_in_namespace(&account, namespace, "system")
        };
        assert!(may(AccountKind::ProviderAccount, "shop"));
        assert!(may(AccountKind::ClusterProviderAccount, "system"));
        assert!(!may(AccountKind::ClusterProviderAccount, "shop"));
    }
}
