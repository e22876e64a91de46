//! Predicts the changes of an IpWhitelist.

use super::{
    effects::PlannedEffect,
    kinds::{DecisionOf, PlannedKind, add_finalizer},
    steps::{NextStep, Step},
};
use api::IpWhitelist;
use flexmetal_core::{
    ownership::ConflictingOwners,
    reconcile::Subject,
    whitelist::{
        decide::{
            WhitelistEffect, decide,
            list::{ListedEntry, ProviderWhitelist},
            lockout_guard::WhitelistStep,
        },
        facts::WhitelistFacts,
        memory::{WhitelistMemory, WhitelistSnapshot},
    },
};
use hosting_types::WhitelistEntryId;
use std::sync::Arc;

/// The most changes of one whitelist that a plan shows.
const MOST_CHANGES: usize = 100;

/// The whitelist of an API key.
pub struct PlannedWhitelist {
    /// The other objects that name the same key.
    pub conflicting_owners: ConflictingOwners,
    /// Whether the account belongs to the object's namespace.
    pub is_account_in_namespace: bool,
    /// Its entries at the provider; none if the account has no such key.
    pub list: Option<Arc<ProviderWhitelist>>,
}

impl PlannedWhitelist {
    fn facts(&self, subject: &Subject<IpWhitelist, WhitelistMemory>) -> WhitelistFacts {
        WhitelistFacts {
            subject: subject.clone(),
            conflicting_owners: self.conflicting_owners.clone(),
            is_account_in_namespace: self.is_account_in_namespace,
            is_listed: true,
        }
    }
}

impl PlannedKind for PlannedWhitelist {
    type Object = IpWhitelist;
    type Own = WhitelistMemory;
    type Effect = WhitelistEffect;

    fn decide(
        &self,
        subject: &mut Subject<IpWhitelist, WhitelistMemory>,
    ) -> DecisionOf<IpWhitelist, WhitelistEffect> {
        let mut facts = self.facts(subject);
        facts.start();
        subject.memory.own = facts.subject.memory.own.clone();
        decide(&facts)
    }

    fn carry_out(
        &self,
        effect: &WhitelistEffect,
        object: &mut IpWhitelist,
        subject: &mut Subject<IpWhitelist, WhitelistMemory>,
    ) -> Step {
        match effect {
            WhitelistEffect::AddFinalizer => return add_finalizer(object),
            WhitelistEffect::RemoveFinalizer => return Step::quiet(NextStep::End),
            WhitelistEffect::ReadAndApply { .. } => {}
        }
        let facts = self.facts(subject);
        let (now, connection) = (subject.now.mono, facts.connection().map(str::to_owned));
        let Some(list) = &self.list else {
            let spacing = facts.times().absence_check_interval;
            let own = &mut subject.memory.own;
            own.found_no_key(now, spacing, connection.as_deref());
            return Step::quiet(NextStep::At(now + spacing));
        };
        let is_read = facts.usable_snapshot().is_some_and(|it| it.began == now);
        if !is_read {
            let facts = facts.with_snapshot(WhitelistSnapshot {
                list: list.clone(),
                began: now,
                ended: now,
                connection,
            });
            subject.memory.own = facts.subject.memory.own.clone();
            return Step::quiet(NextStep::Now);
        }
        Step {
            effects: list_changes(&facts, list),
            next: NextStep::End,
        }
    }
}

/// All changes that follow each other, until none is left or the next one is blocked.
fn list_changes(facts: &WhitelistFacts, list: &ProviderWhitelist) -> Vec<PlannedEffect> {
    let Ok(target) = facts.target() else {
        return Vec::new();
    };
    let mut list = list.clone();
    let mut changes = Vec::new();
    while changes.len() < MOST_CHANGES
        && let Some(step) = facts.plan(&list, &target).next
    {
        changes.push(PlannedEffect::of_whitelist_step(&step));
        apply_change(&mut list, step);
    }
    changes
}

/// Changes the list as the provider would.
fn apply_change(list: &mut ProviderWhitelist, step: WhitelistStep) {
    let (id, entry) = match step {
        WhitelistStep::Remove(id) => {
            list.entries.retain(|entry| entry.id != id);
            return;
        }
        WhitelistStep::Change(id, entry) => {
            list.entries.retain(|entry| entry.id != id);
            (id, entry)
        }
        WhitelistStep::Add(entry) => {
            let highest = list.entries.iter().map(|entry| entry.id.0).max();
            let id = highest.unwrap_or_default().saturating_add(1);
            (WhitelistEntryId(id), entry)
        }
    };
    list.entries.push(ListedEntry {
        id,
        range: Some(entry.range),
        active: Some(entry.active),
        comments: entry.comments,
        name: Some(entry.name),
        is_of_other: false,
    });
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            account::tests::account,
            effects::Act,
            kinds::{KindInputs, KindPrediction},
            steps::predict_effects,
        },
        *,
    };
    use api::references::PinnedAccount;
    use flexmetal_core::{account::terms::Terms, cluster_id::ClusterId, moment::Moment};
    use hosting_types::whitelist::WhitelistEntry;
    use serde_json::{Value, json};
    use std::time::Duration;

    /// What is sent for these entries, if the provider has one other active entry.
    fn predict(spec: Value) -> Vec<Act> {
        let cluster = ClusterId::from_namespace_uid("u");
        let mut object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
            "metadata": {"name": "office", "namespace": "a", "uid": "u", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
        });
        object["spec"] = spec;
        let other = WhitelistEntry {
            id: WhitelistEntryId(7),
            ip_start: None,
            ip_end: None,
            ip_range: Some("198.51.100.0/24".into()),
            comments: None,
            active: Some(true),
            updated_at: None,
        };
        let hash = cluster.name_hash("a", "office");
        let kind = PlannedWhitelist {
            conflicting_owners: ConflictingOwners::default(),
            is_account_in_namespace: true,
            list: Some(Arc::new(ProviderWhitelist {
                entries: vec![ListedEntry::from_record(&other, &hash)],
            })),
        };
        let inputs = KindInputs {
            cluster,
            account: Some(account(json!({}), json!({"accountID": "id-1"}))),
            reference: PinnedAccount::from_reference(None),
            terms: Terms::Own,
        };
        let object = serde_json::from_value(object).unwrap();
        let mut prediction = KindPrediction::new(object, kind, inputs);
        let start = Moment {
            wall: 1_790_000_000,
            mono: Duration::from_secs(1_790_000_000),
        };
        let effects = predict_effects(&mut prediction, start);
        effects.iter().map(|effect| effect.act).collect()
    }

    #[test]
    fn each_missing_entry_is_added() {
        let entry = |name: &str, cidr: &str| json!({"name": name, "cidr": cidr});
        let entries = [entry("one", "192.0.2.1/32"), entry("two", "192.0.2.2/32")];
        let spec = json!({"apiKeyID": 5, "entries": entries, "egressCIDRs": ["198.51.100.7/32"]});
        assert_eq!(predict(spec), [Act::AddEntry, Act::AddEntry]);
        assert_eq!(predict(json!({"apiKeyID": 5, "entries": []})), []);
    }
}
