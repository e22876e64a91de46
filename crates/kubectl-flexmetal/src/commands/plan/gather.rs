//! Gathers the facts of one object, predicts its decisions, and fills in its plan.

use super::{
    account::PlannedAccount,
    describe_state,
    effects::{ObjectPlan, PlannedEffect},
    facts::{Gatherer, find_conflicting_owners},
    installation::read_installation,
    kinds::{
        KindInputs, KindPrediction, PlannedCommand, PlannedHost, PlannedKey, PlannedKind,
        PlannedTag,
    },
    server::{ServerInputs, ServerPrediction},
    steps::predict_effects,
    whitelist::PlannedWhitelist,
};
use crate::{
    account_client::list_error, ages, context::api_error, exit::PluginError, objects::Object,
};
use api::{
    BareMetalServer, DedicatedHost, IpWhitelist, ServerCommand, ServerTag, SshKey,
    power::PowerRecord,
    references::{AccountKind, PinnedAccount, SshKeySource},
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::{key::AccountKey, terms::Terms, view::ListKind},
    command::facts::{TargetFact, host_switched, is_finished, is_under_way},
    moment::Moment,
    ownership::Claimant,
    server::facts::account_of as account_of_server,
    server_commands::RunningCommand,
    ssh_key::facts as key_facts,
    whitelist::decide::list::{ListedEntry, ProviderWhitelist},
};
use hosting_types::{ApiKeyId, Error, list::ListGap};
use kube::ResourceExt as _;
use std::{sync::Arc, time::Duration};

/// Plans an object.
pub async fn plan_object(
    gatherer: &mut Gatherer<'_>,
    object: Object,
    plan: &mut ObjectPlan,
) -> Result<(), PluginError> {
    let after: Object = match object {
        Object::BareMetalServer(it) => Box::pin(plan_server(gatherer, *it, plan)).await?.into(),
        Object::ServerTag(it) => Box::pin(plan_tag(gatherer, *it, plan)).await?.into(),
        Object::SshKey(it) => Box::pin(plan_key(gatherer, *it, plan)).await?.into(),
        Object::IpWhitelist(it) => Box::pin(plan_whitelist(gatherer, *it, plan)).await?.into(),
        Object::DedicatedHost(it) => Box::pin(plan_host(gatherer, *it, plan)).await?.into(),
        Object::ServerCommand(it) => Box::pin(plan_command(gatherer, *it, plan)).await?.into(),
        // An account only reads at the provider.
        account @ (Object::ProviderAccount(_) | Object::ClusterProviderAccount(_)) => account,
    };
    describe_state(&after, plan);
    Ok(())
}

/// The process of a plan has run since 1970: both of its clocks show the same.
fn start() -> Moment {
    let wall = ages::now().as_second();
    Moment {
        wall,
        mono: Duration::from_secs(u64::try_from(wall).unwrap_or_default()),
    }
}

/// The account of an object, and its terms.
struct FoundAccount {
    key: AccountKey,
    reference: PinnedAccount,
    account: Option<PlannedAccount>,
    terms: Terms,
}

impl FoundAccount {
    fn inputs(self, gatherer: &Gatherer<'_>) -> KindInputs {
        KindInputs {
            cluster: gatherer.cluster.clone(),
            account: self.account,
            reference: self.reference,
            terms: self.terms,
        }
    }

    /// Whether another object may use the account: one of the same namespace may, and the terms of others are not
    /// looked up.
    fn allows(&self) -> impl Fn(&Claimant) -> bool + use<> {
        let own = self.key.namespace.clone();
        move |claimant| own.as_ref().is_none_or(|own| claimant.namespace == *own)
    }
}

async fn find_account(
    gatherer: &mut Gatherer<'_>,
    reference: PinnedAccount,
    namespace: &str,
    wanted: &[ListKind],
    plan: &mut ObjectPlan,
) -> Result<FoundAccount, PluginError> {
    let account = gatherer.account(&reference, namespace, wanted).await?;
    let key = AccountKey::from_reference(&reference, namespace);
    let labels = match key.kind {
        AccountKind::ProviderAccount => None,
        AccountKind::ClusterProviderAccount => gatherer.namespace(namespace).await?.labels,
    };
    let terms = match &account {
        Some(account) => account.terms(namespace, labels.as_ref()),
        None => Terms::Own,
    };
    plan.assumptions
        .extend(account.iter().flat_map(|it| it.assumptions.iter().cloned()));
    Ok(FoundAccount {
        key,
        reference,
        account,
        terms,
    })
}

async fn plan_server(
    gatherer: &mut Gatherer<'_>,
    object: BareMetalServer,
    plan: &mut ObjectPlan,
) -> Result<BareMetalServer, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let namespace_uid = gatherer.namespace(&namespace).await?.uid;
    let namespace_uid = namespace_uid.map_err(|why| {
        PluginError::NotAllowed(format!("namespace {namespace} cannot be read: {why}"))
    })?;
    let reference = account_of_server(&object);
    let lists = [ListKind::Servers, ListKind::Catalogue];
    let found = find_account(gatherer, reference, &namespace, &lists, plan).await?;
    let account_id = found.account.as_ref().map(PlannedAccount::account_id);
    let mut named_keys = Vec::new();
    for name in object.spec.ssh_keys.iter().filter_map(SshKeySource::named) {
        let id = account_id.as_deref();
        named_keys.push(gatherer.look_up_key(&namespace, name, id).await?);
    }
    let (mut installation, mut unread) = (None, Vec::new());
    if object.metadata.deletion_timestamp.is_none() {
        let (context, planned) = (gatherer.context, &gatherer.planned);
        let read = read_installation(context, planned, &object, &named_keys).await?;
        installation = Some(read.installation);
        unread = read.unread;
        plan.assumptions.extend(read.assumptions);
    }
    let objects = gatherer.list_servers(&namespace).await?;
    let commands = find_running_command(gatherer, &namespace, |command| {
        let target = &command.spec.target_ref;
        target.kind() == TargetKind::BareMetalServer && target.name == object.name_any()
    });
    let commands = commands.await?;
    let power = object.status.as_ref();
    let power = power.and_then(|status| status.records.power.as_ref());
    let power_command = read_power_command(gatherer, &namespace, power).await?;
    let key = found.key.clone();
    let inputs = ServerInputs {
        cluster: gatherer.cluster.clone(),
        namespace_uid,
        account: found.account,
        terms: found.terms,
        objects: objects.objects,
        has_all_objects: objects.are_all,
        installation,
        unread,
        named_keys,
        commands,
        power_command,
    };
    let start = start();
    let mut prediction = ServerPrediction::new(object, inputs, start);
    plan.effects = predict_effects(&mut prediction, start);
    for order in plan
        .effects
        .iter()
        .filter_map(|effect| effect.order.as_ref())
    {
        if let Some(account) = gatherer.account_mut(&key) {
            account.record_order(&namespace, order);
        }
    }
    Ok(prediction.object)
}

/// Predicts the decisions of a kind that shares the facts of a subject.
fn predict_kind<P: PlannedKind>(
    object: P::Object,
    kind: P,
    inputs: KindInputs,
) -> (P::Object, Vec<PlannedEffect>) {
    let mut prediction = KindPrediction::new(object, kind, inputs);
    let effects = predict_effects(&mut prediction, start());
    (prediction.object, effects)
}

async fn plan_tag(
    gatherer: &mut Gatherer<'_>,
    object: ServerTag,
    plan: &mut ObjectPlan,
) -> Result<ServerTag, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let reference = object.account();
    let found = find_account(gatherer, reference, &namespace, &[ListKind::Tags], plan).await?;
    let others = gatherer.list_tags(&namespace).await?;
    let recorded = object
        .status
        .as_ref()
        .and_then(|status| status.tag.as_deref());
    let ending = recorded.filter(|_| object.metadata.deletion_timestamp.is_some());
    let claimed = ending.unwrap_or(object.wanted());
    let kind = PlannedTag {
        conflicting_owners: find_conflicting_owners(
            &others.objects,
            object.metadata.uid.as_deref().unwrap_or_default(),
            (&found.key, claimed),
            |other: &ServerTag| {
                let namespace = other.namespace().unwrap_or_default();
                let key = AccountKey::from_reference(&other.account(), &namespace);
                Some((key, other.wanted().to_owned()))
            },
            found.allows(),
        ),
    };
    let inputs = found.inputs(gatherer);
    let (object, effects) = predict_kind(object, kind, inputs);
    plan.effects = effects;
    Ok(object)
}

async fn plan_key(
    gatherer: &mut Gatherer<'_>,
    object: SshKey,
    plan: &mut ObjectPlan,
) -> Result<SshKey, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let reference = key_facts::account_of(&object);
    let found = find_account(gatherer, reference, &namespace, &[ListKind::SshKeys], plan).await?;
    let others = gatherer.list_keys(&namespace).await?;
    let claimed = key_facts::claim(&object).unwrap_or_default();
    let owners = find_conflicting_owners(
        &others.objects,
        object.metadata.uid.as_deref().unwrap_or_default(),
        (&found.key, &claimed),
        |other: &SshKey| {
            let namespace = other.namespace().unwrap_or_default();
            let account = key_facts::account_of(other);
            let key = AccountKey::from_reference(&account, &namespace);
            Some((key, key_facts::claim(other)?))
        },
        found.allows(),
    );
    let kind = PlannedKey {
        is_shared: owners.successor.is_some(),
    };
    let inputs = found.inputs(gatherer);
    let (object, effects) = predict_kind(object, kind, inputs);
    plan.effects = effects;
    Ok(object)
}

async fn plan_whitelist(
    gatherer: &mut Gatherer<'_>,
    object: IpWhitelist,
    plan: &mut ObjectPlan,
) -> Result<IpWhitelist, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let found = find_account(gatherer, object.account(), &namespace, &[], plan).await?;
    let others = gatherer.list_whitelists(&namespace).await?;
    let home = gatherer.context.operator_namespace.clone();
    let allows = found.allows();
    let may_have = move |claimant: &Claimant| {
        let is_of_cluster = claimant.account.kind == AccountKind::ClusterProviderAccount;
        allows(claimant) && (!is_of_cluster || claimant.namespace == home)
    };
    let conflicting_owners = find_conflicting_owners(
        &others.objects,
        object.metadata.uid.as_deref().unwrap_or_default(),
        (&found.key, &object.spec.api_key_id.to_string()),
        |other: &IpWhitelist| {
            let namespace = other.namespace().unwrap_or_default();
            let key = AccountKey::from_reference(&other.account(), &namespace);
            Some((key, other.spec.api_key_id.to_string()))
        },
        may_have,
    );
    let is_account_in_namespace = match found.key.kind {
        AccountKind::ProviderAccount => true,
        AccountKind::ClusterProviderAccount => namespace == gatherer.context.operator_namespace,
    };
    let list = match found.account.as_ref().and_then(|it| it.client.clone()) {
        Some(client) if is_account_in_namespace => {
            let id = ApiKeyId(u64::try_from(object.spec.api_key_id).unwrap_or_default());
            let hash = gatherer.cluster.name_hash(&namespace, &object.name_any());
            match client.all_of_whitelist(id).collect().await {
                Ok(entries) => {
                    let entries = entries.into_records();
                    let entries = entries.iter().map(|it| ListedEntry::from_record(it, &hash));
                    let entries = entries.collect();
                    Some(Arc::new(ProviderWhitelist { entries }))
                }
                Err(incomplete)
                    if matches!(incomplete.gap, ListGap::Failed(Error::NotFound(_))) =>
                {
                    None
                }
                Err(incomplete) => {
                    let act = format!("list the whitelist of API key {id}");
                    return Err(list_error(&act, incomplete));
                }
            }
        }
        _ => None,
    };
    let kind = PlannedWhitelist {
        conflicting_owners,
        is_account_in_namespace,
        list,
    };
    let inputs = found.inputs(gatherer);
    let (object, effects) = predict_kind(object, kind, inputs);
    plan.effects = effects;
    Ok(object)
}

/// What an object says of its host, and of its account.
fn claim_of_host(host: &DedicatedHost) -> Option<(AccountKey, String)> {
    let namespace = host.namespace().unwrap_or_default();
    let key = AccountKey::from_reference(&host.account(), &namespace);
    Some((key, host.spec.host_id.to_string()))
}

async fn plan_host(
    gatherer: &mut Gatherer<'_>,
    object: DedicatedHost,
    plan: &mut ObjectPlan,
) -> Result<DedicatedHost, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let lists = [ListKind::Hosts, ListKind::Catalogue];
    let found = find_account(gatherer, object.account(), &namespace, &lists, plan).await?;
    let others = gatherer.list_hosts(&namespace).await?;
    let number = object.spec.host_id.to_string();
    let conflicting_owners = find_conflicting_owners(
        &others.objects,
        object.metadata.uid.as_deref().unwrap_or_default(),
        (&found.key, &number),
        claim_of_host,
        found.allows(),
    );
    let account_id = found.account.as_ref().map(PlannedAccount::account_id);
    let key = match &object.spec.ssh_key_ref {
        Some(key) => {
            let id = account_id.as_deref();
            Some(gatherer.look_up_key(&namespace, &key.name, id).await?)
        }
        None => None,
    };
    let commands = find_running_command(gatherer, &namespace, |command| {
        host_switched(command).as_ref() == Some(&number)
    });
    let commands = commands.await?;
    let power = object.status.as_ref();
    let power = power.and_then(|status| status.records.power.as_ref());
    let power = read_power_command(gatherer, &namespace, power).await?;
    let kind = PlannedHost {
        conflicting_owners,
        key,
        commands,
        power,
    };
    let inputs = found.inputs(gatherer);
    let (object, effects) = predict_kind(object, kind, inputs);
    plan.effects = effects;
    Ok(object)
}

async fn plan_command(
    gatherer: &mut Gatherer<'_>,
    object: ServerCommand,
    plan: &mut ObjectPlan,
) -> Result<ServerCommand, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let target = read_target(gatherer, &object, &namespace).await?;
    let reference = match &target {
        Some(target) => target.account(),
        None => object.account(),
    };
    let found = find_account(gatherer, reference, &namespace, &[], plan).await?;
    let conflicting_owners = match &target {
        Some(Target::Host(host)) => {
            let hosts = gatherer.list_hosts(&namespace).await?;
            find_conflicting_owners(
                &hosts.objects,
                host.metadata.uid.as_deref().unwrap_or_default(),
                (&found.key, &host.spec.host_id.to_string()),
                claim_of_host,
                found.allows(),
            )
        }
        _ => Default::default(),
    };
    let others = gatherer.list_commands(&namespace).await?;
    let kind = PlannedCommand {
        target: target.map_or(TargetFact::Missing, TargetFact::Found),
        conflicting_owners,
        is_first: is_first_command(&object, &others.objects),
    };
    let inputs = found.inputs(gatherer);
    let (object, effects) = predict_kind(object, kind, inputs);
    plan.effects = effects;
    Ok(object)
}

/// Whether no other command for the same target has begun, or is older and waits.
fn is_first_command(object: &ServerCommand, others: &[ServerCommand]) -> bool {
    let target = |command: &ServerCommand| {
        let target = &command.spec.target_ref;
        (command.namespace(), target.kind(), target.name.clone())
    };
    let rank = |command: &ServerCommand| {
        let created = command.metadata.creation_timestamp.as_ref();
        let created = created.map_or(0, |time| time.0.as_second());
        (created, command.metadata.uid.clone())
    };
    let is_before = |other: &ServerCommand| {
        let is_waiting = !is_finished(other) && other.metadata.deletion_timestamp.is_none();
        is_under_way(other) || (is_waiting && rank(other) < rank(object) && !is_under_way(object))
    };
    let mut others = others.iter().filter(|other| {
        target(other) == target(object) && other.metadata.uid != object.metadata.uid
    });
    !others.any(is_before)
}

async fn read_target(
    gatherer: &Gatherer<'_>,
    command: &ServerCommand,
    namespace: &str,
) -> Result<Option<Target>, PluginError> {
    let (kind, name) = (
        command.spec.target_ref.kind(),
        &command.spec.target_ref.name,
    );
    match gatherer.planned.find(kind.as_str(), namespace, name) {
        Some(Object::BareMetalServer(server)) => {
            return Ok(Some(Target::Server(Arc::new(BareMetalServer::clone(
                server,
            )))));
        }
        Some(Object::DedicatedHost(host)) => {
            return Ok(Some(Target::Host(Arc::new(DedicatedHost::clone(host)))));
        }
        _ => {}
    }
    let context = gatherer.context;
    let found = match kind {
        TargetKind::BareMetalServer => {
            let found = context
                .api_in::<BareMetalServer>(namespace)
                .get_opt(name)
                .await;
            found.map(|found| found.map(|server| Target::Server(Arc::new(server))))
        }
        TargetKind::DedicatedHost => {
            let found = context
                .api_in::<DedicatedHost>(namespace)
                .get_opt(name)
                .await;
            found.map(|found| found.map(|host| Target::Host(Arc::new(host))))
        }
    };
    let act = || format!("read {} {namespace}/{name}", kind.as_str());
    found.map_err(|error| api_error(act(), error))
}

/// The command that runs for a server or host.
async fn find_running_command(
    gatherer: &mut Gatherer<'_>,
    namespace: &str,
    is_for_it: impl Fn(&ServerCommand) -> bool,
) -> Result<RunningCommand, PluginError> {
    let commands = gatherer.list_commands(namespace).await?;
    let mut running = commands.objects.iter().filter(|command| {
        command.metadata.namespace.as_deref() == Some(namespace)
            && is_under_way(command)
            && is_for_it(command)
    });
    Ok(match running.next() {
        Some(command) => RunningCommand::Command(command.name_any()),
        None => RunningCommand::Nothing,
    })
}

/// The command of `spec.power` whose end is awaited.
async fn read_power_command(
    gatherer: &Gatherer<'_>,
    namespace: &str,
    power: Option<&PowerRecord>,
) -> Result<Option<Option<ServerCommand>>, PluginError> {
    let Some(awaited) = power.and_then(PowerRecord::awaited) else {
        return Ok(None);
    };
    let commands = gatherer.context.api_in::<ServerCommand>(namespace);
    let found = commands.get_opt(&awaited.name).await;
    let act = || format!("read ServerCommand {namespace}/{}", awaited.name);
    found.map(Some).map_err(|error| api_error(act(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn command(name: &str, created: &str, status: Value) -> ServerCommand {
        let mut command = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created},
            "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
        });
        command["status"] = status;
        serde_json::from_value(command).unwrap()
    }

    #[test]
    fn older_waiting_command_goes_first() {
        let old = command("old", "2026-01-01T00:00:00Z", json!({}));
        let new = command("new", "2026-02-01T00:00:00Z", json!({}));
        let both = [old.clone(), new.clone()];
        assert!(is_first_command(&old, &both));
        assert!(!is_first_command(&new, &both));
        let ended = json!({"conditions": [{"type": "Complete", "status": "True", "reason": "Completed",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let ended = command("old", "2026-01-01T00:00:00Z", ended);
        assert!(is_first_command(&new, &[ended, new.clone()]));
        let mut other = old;
        other.spec.target_ref.name = "db".into();
        assert!(is_first_command(&new, &[other, new.clone()]));
    }

    #[test]
    fn both_clocks_of_a_plan_agree() {
        let start = start();
        assert_eq!(start.mono.as_secs(), u64::try_from(start.wall).unwrap());
        assert!(start.wall > 1_700_000_000);
    }
}
