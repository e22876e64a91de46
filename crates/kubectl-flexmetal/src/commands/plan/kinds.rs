//! Plans an object of each kind: gathers its facts, and predicts what the decisions on them send.

use super::{
    account::FoundAccount,
    effects::{ApplyResult, ObjectPlan, PlannedEffect},
    facts::Gatherer,
    predict::{NextStep, Step, add_object_finalizer, predict, send, send_last},
    server::plan_server,
    whitelist::plan_whitelist,
};
use crate::{
    exit::PluginError,
    objects::{Object, ObjectKind},
};
use api::{
    DedicatedHost, ServerCommand, ServerTag, SshKey,
    names::TAG_ANNOTATION,
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::{terms::Terms, view::ListKind},
    command::{
        decide::{CommandEffect, decide as decide_command},
        facts::{CommandFacts, TargetFact, has_begun, target_queue},
    },
    host::{
        decide::{HostEffect, decide as decide_host},
        facts::{HostFacts, HostObservation, InstallLogSnapshot},
    },
    ownership::{Claimant, ConflictingOwners, rank_by_age},
    power::KnownCommand,
    reconcile::Ended,
    server_commands::PowerTarget,
    ssh_key::{
        decide::{SshKeyEffect, decide as decide_key},
        facts::{SeenKey, SshKeyFacts},
    },
    tag::{
        decide::{TagEffect, decide as decide_tag},
        facts::{TagFacts, TagObservation, rename_of},
    },
};
use kube::ResourceExt as _;
use std::{collections::BTreeMap, sync::Arc};

/// Plans an object.
pub async fn plan_object(
    gatherer: &mut Gatherer<'_>,
    object: Object,
    plan: &mut ObjectPlan,
) -> Result<(), PluginError> {
    let after = match object {
        Object::BareMetalServer(it) => Box::pin(plan_server(gatherer, *it, plan)).await?,
        Object::ServerTag(it) => Box::pin(plan_tag(gatherer, *it, plan)).await?,
        Object::SshKey(it) => Box::pin(plan_key(gatherer, *it, plan)).await?,
        Object::IpWhitelist(it) => Box::pin(plan_whitelist(gatherer, *it, plan)).await?,
        Object::DedicatedHost(it) => Box::pin(plan_host(gatherer, *it, plan)).await?,
        Object::ServerCommand(it) => Box::pin(plan_command(gatherer, *it, plan)).await?,
        // The operator only reads for an account.
        account @ (Object::ProviderAccount(_) | Object::ClusterProviderAccount(_)) => account,
    };
    plan.describe_state(&after);
    let is_account = matches!(
        after,
        Object::ProviderAccount(_) | Object::ClusterProviderAccount(_)
    );
    plan.may_continue = match is_account {
        true => plan.apply == ApplyResult::Configured,
        false => plan.effects.is_empty() && after.deleted_at().is_some(),
    };
    if is_account && plan.may_continue {
        plan.why = "Objects that use the account are not planned".into();
    }
    Ok(())
}

/// Whether the account may serve a claimant.
pub fn is_served(_: &Claimant, terms: &Terms) -> bool {
    !matches!(terms, Terms::Refused(_))
}

/// The last step of an object that sends nothing.
pub fn end() -> Step {
    (Vec::new(), NextStep::End)
}

async fn plan_tag(
    gatherer: &mut Gatherer<'_>,
    mut object: ServerTag,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let any = object.clone().into();
    let found = gatherer.find_account(&any, &[ListKind::Tags]).await?;
    let owners = gatherer.find_conflicting_owners(&any, &found, is_served);
    let conflicting_owners = owners.await?;
    plan.effects = predict(
        &mut object,
        &found,
        |subject| {
            let mut facts = TagFacts {
                subject,
                conflicting_owners: conflicting_owners.clone(),
            };
            facts.refresh_memory();
            let decision = decide_tag(&facts);
            (facts.subject, decision)
        },
        |effect, object, subject| match effect {
            TagEffect::AddFinalizer { annotation } => {
                let mut observation = TagObservation::Wrote(Ended::Done);
                if let Some(annotation) = annotation {
                    let text = serde_json::to_string(annotation).unwrap_or_default();
                    let annotations = object.annotations_mut();
                    annotations.insert(TAG_ANNOTATION.to_owned(), text);
                    observation = TagObservation::Annotated(rename_of(annotation));
                }
                subject.memory.own.record_observation(observation);
                add_object_finalizer(object)
            }
            TagEffect::Make { tag } => send("createTag", format!("Create tag {tag}")),
            TagEffect::Rename { rename, .. } => {
                let text = format!("Rename tag {} to {}", rename.from, rename.to);
                send("renameTag", text)
            }
            TagEffect::Delete { tag, .. } => send("deleteTag", format!("Delete tag {tag}")),
            TagEffect::RemoveFinalizer => end(),
        },
    );
    Ok(object.into())
}

async fn plan_key(
    gatherer: &mut Gatherer<'_>,
    mut object: SshKey,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let any = object.clone().into();
    let found = gatherer.find_account(&any, &[ListKind::SshKeys]).await?;
    let owners = gatherer.find_conflicting_owners(&any, &found, is_served);
    let is_shared = owners.await?.successor.is_some();
    plan.effects = predict(
        &mut object,
        &found,
        |subject| {
            let list = subject.view().and_then(|view| view.ssh_keys.clone());
            let mut facts = SshKeyFacts {
                shown: list.map(|(at, keys)| {
                    let keys = keys.iter().map(SeenKey::from_record).collect();
                    (at, Arc::new(keys))
                }),
                subject,
                is_shared,
                store_call: Default::default(),
                deletions: BTreeMap::new(),
            };
            facts.refresh_memory();
            let decision = decide_key(&facts);
            (facts.subject, decision)
        },
        |effect, object, _| match effect {
            SshKeyEffect::AddFinalizer => add_object_finalizer(object),
            SshKeyEffect::Store(new) => {
                let text = format!("Store public key {}", new.key.as_str());
                send("storeKey", text)
            }
            SshKeyEffect::Delete { uuid } => {
                let text = format!("Delete stored key {uuid}");
                send("deleteKey", text)
            }
            SshKeyEffect::RemoveFinalizer => end(),
        },
    );
    Ok(object.into())
}

/// The other objects that claim the host.
async fn find_owners_of_host(
    gatherer: &mut Gatherer<'_>,
    host: &DedicatedHost,
    found: &FoundAccount,
) -> Result<ConflictingOwners, PluginError> {
    let number = host.spec.host_id;
    let may_have = |claimant: &Claimant, terms: &Terms| match terms {
        Terms::Entry(_) => terms.may_use_host(number),
        _ => is_served(claimant, terms),
    };
    let any = host.clone().into();
    let owners = gatherer.find_conflicting_owners(&any, found, may_have);
    owners.await
}

async fn plan_host(
    gatherer: &mut Gatherer<'_>,
    mut object: DedicatedHost,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let lists = [ListKind::Hosts, ListKind::Catalogue];
    let found = gatherer
        .find_account(&object.clone().into(), &lists)
        .await?;
    let conflicting_owners = find_owners_of_host(gatherer, &object, &found).await?;
    let key = match &object.spec.ssh_key_ref {
        Some(key) => {
            let account = found.account.as_ref();
            let shown = gatherer.find_key(&namespace, &key.name, account);
            Some(shown.await?)
        }
        None => None,
    };
    let target = PowerTarget::Host {
        number: object.spec.host_id.to_string(),
        accounts: vec![found.key.clone()],
    };
    let commands = gatherer.find_running_command(&namespace, &target).await?;
    let power = object.status.as_ref();
    let power = power.and_then(|status| status.records.power.as_ref());
    let power = gatherer.read_power_command(&namespace, power).await?;
    plan.effects = predict(
        &mut object,
        &found,
        |subject| {
            let uid = subject.object.metadata.uid.as_deref();
            let mut facts = HostFacts {
                conflicting_owners: conflicting_owners.clone(),
                is_owner_known: true,
                key: key.clone(),
                commands: commands.clone(),
                power: KnownCommand::from_command(uid, power.clone()),
                subject,
            };
            facts.refresh_memory();
            let decision = decide_host(&facts);
            (facts.subject, decision)
        },
        |effect, object, subject| {
            let own = &mut subject.memory.own;
            match effect {
                HostEffect::Install(new) => {
                    let (host, revision) = (new.host, new.revision);
                    let text =
                        format!("Install host {host} for revision {revision} (erases its disks)");
                    send_last(PlannedEffect::erase("installHost", text))
                }
                HostEffect::Power { name, action } => {
                    own.record_observation(HostObservation::Powered(name.clone()));
                    let host = format!("host {}", object.spec.host_id);
                    let effect = PlannedEffect::switch_power(&host, *action, name);
                    (vec![effect], NextStep::Now)
                }
                HostEffect::ReadLog { .. } => {
                    own.record_observation(HostObservation::Log(InstallLogSnapshot {
                        at: subject.now.mono,
                        log: Default::default(),
                        error: None,
                    }));
                    (Vec::new(), NextStep::Now)
                }
            }
        },
    );
    Ok(object.into())
}

async fn plan_command(
    gatherer: &mut Gatherer<'_>,
    mut object: ServerCommand,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let reference = &object.spec.target_ref;
    let kind = match reference.kind() {
        TargetKind::BareMetalServer => ObjectKind::BareMetalServer,
        TargetKind::DedicatedHost => ObjectKind::DedicatedHost,
    };
    let target = gatherer.find_object(kind, Some(&namespace), &reference.name);
    let target = target.await?;
    // A command names no account.
    let any = target.clone().unwrap_or_else(|| object.clone().into());
    let found = gatherer.find_account(&any, &[]).await?;
    let target = match target {
        Some(Object::BareMetalServer(server)) => Some(Target::Server(Arc::new(*server))),
        Some(Object::DedicatedHost(host)) => Some(Target::Host(Arc::new(*host))),
        _ => None,
    };
    let conflicting_owners = match &target {
        Some(Target::Host(host)) => find_owners_of_host(gatherer, host, &found).await?,
        _ => ConflictingOwners::default(),
    };
    let target = target.map_or(TargetFact::Missing, TargetFact::Found);
    let others = gatherer.list(ObjectKind::ServerCommand, &namespace).await?;
    let others = others.objects.iter().filter_map(|it| match it {
        Object::ServerCommand(command) => Some(&**command),
        _ => None,
    });
    let is_first = is_first_command(&object, others);
    plan.effects = predict(
        &mut object,
        &found,
        |mut subject| {
            // Its timeout counts from then.
            subject.first_seen = subject.now.mono;
            let mut facts = CommandFacts {
                steady: subject.now.wall,
                target: target.clone(),
                conflicting_owners: conflicting_owners.clone(),
                is_first,
                subject,
            };
            let attempt = facts.open_attempt();
            let (now, sent) = (facts.subject.now.mono, facts.subject.status().records.sent);
            let memory = &mut facts.subject.memory;
            memory.own.compare(&sent, memory.reported);
            memory.own.searches_for(attempt.as_deref(), now);
            let decision = decide_command(&facts);
            (facts.subject, decision)
        },
        |effect, object, _| match effect {
            CommandEffect::Send(new) => {
                let target = format!("{} {}", object.spec.target_ref.name, new.server);
                let name = object.name_any();
                send_last(PlannedEffect::switch_power(&target, new.action, &name))
            }
            CommandEffect::ReadCommand(_)
            | CommandEffect::Search { .. }
            | CommandEffect::RemoveFinalizer
            | CommandEffect::Delete => end(),
        },
    );
    Ok(object.into())
}

/// Whether no other command for the same target has begun, or is older and waits.
fn is_first_command<'a>(
    object: &ServerCommand,
    mut others: impl Iterator<Item = &'a ServerCommand>,
) -> bool {
    let rank = |it: &ServerCommand| Some((!has_begun(it)?, rank_by_age(&it.metadata)));
    let own = rank(object);
    !others.any(|other| {
        let is_other = other.metadata.uid != object.metadata.uid;
        let is_in_queue = is_other && target_queue(other) == target_queue(object);
        let rank = rank(other).filter(|_| is_in_queue);
        rank.is_some_and(|rank| !rank.0 || own.as_ref().is_none_or(|own| rank < *own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn older_waiting_command_goes_first() {
        let command = |name: &str, month: u8, target: &str, status: Value| -> ServerCommand {
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {"name": name, "namespace": "a", "uid": name,
                    "creationTimestamp": format!("2026-0{month}-01T00:00:00Z")},
                "spec": {"targetRef": {"name": target}, "action": "Reboot"}, "status": status,
            }))
            .unwrap()
        };
        let old = command("old", 1, "web", json!({}));
        let new = command("new", 2, "web", json!({}));
        assert!(is_first_command(&old, [&old, &new].into_iter()));
        assert!(!is_first_command(&new, [&old, &new].into_iter()));
        let conditions = json!([{"type": "Complete", "status": "True", "reason": "Completed",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let ended = command("ended", 1, "web", json!({"conditions": conditions}));
        let other = command("other", 1, "db", json!({}));
        assert!(is_first_command(&new, [&ended, &other].into_iter()));
    }
}
