//! Plans an IpWhitelist.

use super::{
    account::FoundAccount,
    effects::{ObjectPlan, PlannedEffect},
    facts::Gatherer,
    kinds::{end, is_served},
    predict::{NextStep, add_object_finalizer, predict},
};
use crate::{account_client::list_error, exit::PluginError, objects::Object};
use api::IpWhitelist;
use flexmetal_core::{
    account::terms::Terms,
    ownership::{Claimant, ConflictingOwners},
    whitelist::{
        decide::{
            WhitelistEffect, decide as decide_whitelist,
            list::{ListedEntry, ProviderWhitelist},
            lockout_guard::WhitelistStep,
        },
        facts::{WhitelistFacts, is_account_in_namespace},
        memory::WhitelistSnapshot,
    },
};
use hosting_types::{ApiKeyId, Error, WhitelistEntryId, list::ListGap};
use kube::ResourceExt as _;
use std::sync::Arc;

/// The most steps of a plan. A whitelist has far fewer entries.
const MOST_STEPS: u64 = 1000;

/// Plans a whitelist.
pub async fn plan_whitelist(
    gatherer: &mut Gatherer<'_>,
    mut object: IpWhitelist,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let any = object.clone().into();
    let found = gatherer.find_account(&any, &[]).await?;
    let home = gatherer.context.operator_namespace.clone();
    let may_have = |claimant: &Claimant, terms: &Terms| {
        is_served(claimant, terms)
            && is_account_in_namespace(&claimant.account, &claimant.namespace, &home)
    };
    let owners = gatherer.find_conflicting_owners(&any, &found, may_have);
    let conflicting_owners = owners.await?;
    let is_home = is_account_in_namespace(&found.key, &namespace, &home);
    let list = match is_home {
        true => read_whitelist(gatherer, &object, &found).await?,
        false => None,
    };
    plan.effects = predict_whitelist(&mut object, &found, (conflicting_owners, is_home, list));
    Ok(object.into())
}

fn predict_whitelist(
    object: &mut IpWhitelist,
    found: &FoundAccount,
    (conflicting_owners, is_home, list): (ConflictingOwners, bool, Option<Arc<ProviderWhitelist>>),
) -> Vec<PlannedEffect> {
    let gather = |subject| WhitelistFacts {
        subject,
        conflicting_owners: conflicting_owners.clone(),
        is_account_in_namespace: is_home,
        is_listed: true,
    };
    predict(
        object,
        found,
        |subject| {
            let mut facts = gather(subject);
            facts.start();
            let decision = decide_whitelist(&facts);
            (facts.subject, decision)
        },
        |effect, object, subject| {
            match effect {
                WhitelistEffect::AddFinalizer => return add_object_finalizer(object),
                WhitelistEffect::RemoveFinalizer => return end(),
                WhitelistEffect::ReadAndApply { .. } => {}
            }
            let facts = gather(subject.clone());
            let (now, connection) = (subject.now.mono, facts.connection().map(str::to_owned));
            let Some(list) = &list else {
                let spacing = facts.times().absence_check_interval;
                let own = &mut subject.memory.own;
                own.found_no_key(now, spacing, connection.as_deref());
                return (Vec::new(), NextStep::At(now + spacing));
            };
            if facts.usable_snapshot().is_none_or(|it| it.began != now) {
                let facts = facts.with_snapshot(WhitelistSnapshot {
                    list: list.clone(),
                    began: now,
                    ended: now,
                    connection,
                });
                subject.memory.own = facts.subject.memory.own;
                return (Vec::new(), NextStep::Now);
            }
            let steps = follow_steps(&facts, list);
            (steps.iter().map(describe_step).collect(), NextStep::End)
        },
    )
}

/// The steps from this list, until the declared one is reached, or a step needs the user.
fn follow_steps(facts: &WhitelistFacts, list: &ProviderWhitelist) -> Vec<WhitelistStep> {
    let Ok(target) = facts.target() else {
        return Vec::new();
    };
    let mut list = list.clone();
    // Numbers of new entries, which no other entry has.
    let new_ids = (0..MOST_STEPS).map(|number| WhitelistEntryId(u64::MAX - number));
    let steps = new_ids.map_while(|new_id| {
        let step = facts.plan(&list, &target).next?;
        apply_step(&mut list, &step, new_id);
        Some(step)
    });
    steps.collect()
}

fn apply_step(list: &mut ProviderWhitelist, step: &WhitelistStep, new_id: WhitelistEntryId) {
    let (id, new) = match step {
        WhitelistStep::Add(new) => (new_id, Some(new)),
        WhitelistStep::Change(id, new) => (*id, Some(new)),
        WhitelistStep::Remove(id) => (*id, None),
    };
    list.entries.retain(|entry| entry.id != id);
    list.entries.extend(new.map(|new| ListedEntry {
        id,
        range: Some(new.range),
        active: Some(new.active),
        comments: new.comments.clone(),
        name: Some(new.name.clone()),
        is_of_other: false,
    }));
}

fn describe_step(step: &WhitelistStep) -> PlannedEffect {
    match step {
        WhitelistStep::Add(entry) => {
            let text = format!("Add entry {} with {}", entry.name, entry.range);
            PlannedEffect::new("addEntry", text)
        }
        WhitelistStep::Change(id, entry) => {
            let text = format!("Change entry {id} to {} with {}", entry.name, entry.range);
            PlannedEffect::new("changeEntry", text)
        }
        WhitelistStep::Remove(id) => {
            PlannedEffect::new("removeEntry", format!("Remove entry {id}"))
        }
    }
}

/// The entries of the API key. None: the account has no such key, or cannot be used.
async fn read_whitelist(
    gatherer: &Gatherer<'_>,
    object: &IpWhitelist,
    found: &FoundAccount,
) -> Result<Option<Arc<ProviderWhitelist>>, PluginError> {
    let Some(client) = found.account.as_ref().and_then(|it| it.client.as_ref()) else {
        return Ok(None);
    };
    let id = ApiKeyId(u64::try_from(object.spec.api_key_id).unwrap_or_default());
    let namespace = object.namespace().unwrap_or_default();
    let hash = gatherer.cluster.name_hash(&namespace, &object.name_any());
    match client.all_of_whitelist(id).collect().await {
        Ok(entries) => {
            let entries = entries.into_records();
            let entries = entries.iter().map(|it| ListedEntry::from_record(it, &hash));
            let entries = entries.collect();
            Ok(Some(Arc::new(ProviderWhitelist { entries })))
        }
        Err(incomplete) if matches!(incomplete.gap, ListGap::Failed(Error::NotFound(_))) => {
            Ok(None)
        }
        Err(incomplete) => {
            let act = format!("list the whitelist of API key {id}");
            Err(list_error(&act, incomplete))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::account::tests::found, *};
    use hosting_types::{WhitelistEntryId, whitelist::WhitelistEntry};
    use serde_json::{Value, json};

    /// What is sent for this spec, if the provider has one other active entry.
    fn predict_acts(spec: &Value) -> Vec<&'static str> {
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
            "metadata": {"name": "office", "namespace": "a", "uid": "u", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
        });
        let other = WhitelistEntry {
            id: WhitelistEntryId(7),
            ip_start: None,
            ip_end: None,
            ip_range: Some("198.51.100.0/24".into()),
            comments: None,
            active: Some(true),
            updated_at: None,
        };
        let found = found(json!({}), &json!({"accountID": "id-1"}));
        let hash = found.cluster.name_hash("a", "office");
        let entries = vec![ListedEntry::from_record(&other, &hash)];
        let list = Some(Arc::new(ProviderWhitelist { entries }));
        let mut object = serde_json::from_value(object).unwrap();
        let facts = (ConflictingOwners::default(), true, list);
        let effects = predict_whitelist(&mut object, &found, facts);
        effects.iter().map(|effect| effect.act).collect()
    }

    #[test]
    fn each_missing_entry_is_added() {
        let entry = |name: &str, cidr: &str| json!({"name": name, "cidr": cidr});
        let entries = [entry("one", "192.0.2.1/32"), entry("two", "192.0.2.2/32")];
        let spec = json!({"apiKeyID": 5, "entries": entries, "egressCIDRs": ["198.51.100.7/32"]});
        assert_eq!(predict_acts(&spec), ["addEntry", "addEntry"]);
        assert!(predict_acts(&json!({"apiKeyID": 5, "entries": []})).is_empty());
    }
}
