//! Plans a BareMetalServer: gathers its facts, and predicts what the decisions on it send.

#[cfg(test)]
mod tests;

use super::{
    account::FoundAccount,
    effects::{ObjectPlan, PlannedEffect},
    facts::{Gatherer, KnownObjects},
    limits::{OrderOwners, find_reached_limit},
    predict::{
        NextStep, Step, add_finalizer, find_next_step, first_seen, moment_at, predict_effects,
        send, send_last,
    },
    server_index::ServersAndOwners,
};
use crate::{
    exit::PluginError,
    objects::{Object, ObjectKind},
};
use api::{
    BareMetalServer, Reason, ServerCommand,
    command::{CommandOutcome, ListedCommands},
    install::InstallRecord,
    names::{OUTPUT_FINALIZER, RETAINED_TAG, SERVER_FINALIZER},
    references::SshKeySource,
};
use flexmetal_core::{
    account::view::ListKind,
    explanation::Explanation,
    moment::Moment,
    requeue::Requeue,
    server::{
        decide::{
            NewReinstall, ServerDecision, ServerEffect, decide,
            outputs::{self, OutputState},
            reinstall::attempt::{build_intent, record_attempt},
            sent_hashes,
        },
        facts::{Installation, ServerFacts},
        installation::{InstallationParts, list_sources},
        memory::{ServerMemory, ServerObservation},
        observed::ObservedServer,
        protocol_facts,
        tag_changes::{TagChange, TagEnd},
    },
    server_commands::{PowerTarget, RunningCommand},
    stored_keys::KeyLookup,
};
use hosting_types::{Order, command::CommandState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::{sync::Arc, time::Duration};

/// Plans a server.
pub async fn plan_server(
    gatherer: &mut Gatherer<'_>,
    mut object: BareMetalServer,
    plan: &mut ObjectPlan,
) -> Result<Object, PluginError> {
    let namespace = object.namespace().unwrap_or_default();
    let namespace_uid = gatherer.read_namespace(&namespace).await?.uid;
    let lists = [ListKind::Servers, ListKind::Catalogue];
    let found = gatherer
        .find_account(&object.clone().into(), &lists)
        .await?;
    let order_owners = gatherer.order_owners(&found.terms, &namespace).await?;
    let mut named_keys = Vec::new();
    for name in object.spec.ssh_keys.iter().filter_map(SshKeySource::named) {
        let account = found.account.as_ref();
        named_keys.push(gatherer.find_key(&namespace, name, account).await?);
    }
    let mut installation = None;
    if object.metadata.deletion_timestamp.is_none() {
        let sources: Vec<_> = list_sources(&object.spec).collect();
        let values = gatherer.read_values(&namespace, &sources).await?;
        let parts = InstallationParts::from_values(&object, named_keys.clone(), values);
        installation = Some(parts.whole());
    }
    let target = PowerTarget::Server {
        namespace: namespace.clone(),
        name: object.name_any(),
    };
    let power = object.status.as_ref();
    let power = power.and_then(|status| status.records.power.as_ref());
    let key = found.key.clone();
    let mut server = PlannedServer {
        namespace_uid: namespace_uid.unwrap_or_default().into(),
        found,
        others: gatherer
            .list(ObjectKind::BareMetalServer, &namespace)
            .await?,
        order_owners,
        installation,
        named_keys,
        commands: gatherer.find_running_command(&namespace, &target).await?,
        power_command: gatherer.read_power_command(&namespace, power).await?,
        memory: ServerMemory::default(),
        has_acted: false,
        order: None,
    };
    plan.effects = server.predict(&mut object);
    if let Some((account, order)) = gatherer.account_mut(&key).zip(server.order) {
        account.record_order(&namespace, &order);
    }
    Ok(object.into())
}

/// A server whose decisions are predicted, and what they need besides the object.
struct PlannedServer {
    namespace_uid: Arc<str>,
    found: FoundAccount,
    /// All BareMetalServers that the caller may list.
    others: Arc<KnownObjects>,
    order_owners: OrderOwners,
    installation: Option<Result<Installation, Explanation>>,
    named_keys: Vec<KeyLookup>,
    commands: RunningCommand,
    /// The ServerCommand of `spec.power`, if it was read.
    power_command: Option<Option<ServerCommand>>,
    memory: ServerMemory,
    has_acted: bool,
    /// The order that it sends.
    order: Option<Order>,
}

impl PlannedServer {
    /// What the operator would send. It has been leader all the time.
    fn predict(&mut self, object: &mut BareMetalServer) -> Vec<PlannedEffect> {
        let start = self.found.start;
        self.remember_history(object, start);
        predict_effects(start, |now| {
            let mut facts = self.observe(object, now);
            let mut decision = decide(&facts);
            if matches!(decision.effect, Some(ServerEffect::Order(_))) {
                facts.denied = self.find_denial(now);
                if facts.denied.is_some() {
                    decision = decide(&facts);
                }
            }
            let reason = decision.desired.waiting_reason;
            self.memory.reference_grace.record_awaited(reason, now.mono);
            match &decision.effect {
                Some(effect) => self.carry_out(object, &facts, effect, now),
                None => (Vec::new(), self.report(object, &facts, &decision, now)),
            }
        })
    }

    /// A leader of all the time saw the object's creation and how each order ended, unless one is open.
    fn remember_history(&mut self, object: &BareMetalServer, now: Moment) {
        self.memory.record_leadership(Duration::ZERO);
        let facts = self.observe(object, now);
        let order = facts.order().map(protocol_facts::to_protocol_order);
        let since = facts.order().map_or(facts.first_seen, |order| {
            moment_at(order.outcome_at.unwrap_or(order.send_by)).mono
        });
        let mut shown = protocol_facts::to_protocol_object(&facts);
        let mut memory = ServerMemory::default();
        memory.record_leadership(Duration::ZERO);
        let protocol = &mut memory.protocol;
        match order {
            Some(open) if !open.is_closed() => {
                protocol.observe_object(&shown, Some(open), false, since);
            }
            closed => {
                let has_finalizer = shown.finalizer;
                (shown.finalizer, shown.order) = (false, None);
                protocol.observe_object(&shown, None, true, facts.first_seen);
                if has_finalizer {
                    protocol.added_finalizer();
                }
                if closed.is_some() {
                    memory.record_written_order(closed, since);
                }
            }
        }
        if let Some(Ok(installation)) = &self.installation {
            let hashes = sent_hashes::hashes(&object.spec, installation);
            memory.installation.record_hashes(
                object.metadata.generation,
                &self.named_keys,
                (hashes, &[]),
                &sent_hashes::hashes_from_status(object),
                now.mono,
            );
        }
        self.memory = memory;
    }

    /// The facts at this moment.
    fn observe(&mut self, object: &BareMetalServer, now: Moment) -> ServerFacts {
        let status = object.status.as_ref();
        let is_recorded = status.is_some_and(|it| it.records.order.is_some() || it.uuid.is_some());
        let first_seen = first_seen(object, now);
        let observed = ObservedServer {
            object: Arc::new(object.clone()),
            memory: self.memory.clone(),
            now,
            wall_at_start: 0,
            namespace_uid: Ok(self.namespace_uid.clone()),
            leader_since: Some(Duration::ZERO),
            first_seen: Some(first_seen),
            absent_from: Some(first_seen),
            cluster: self.found.cluster.clone(),
            kind_deleting: Some(false),
            read_only: false,
            account: self.found.resolve(is_recorded, now),
            installation: self.installation.clone(),
            named_keys: self.named_keys.clone(),
            commands: self.commands.clone(),
            power_command: self.power_command.clone(),
        };
        let index = self.found.account.as_ref().map(|account| ServersAndOwners {
            account,
            others: &self.others,
            cluster: &self.found.cluster,
            seen: now.mono,
        });
        let facts = observed.facts(index.as_ref());
        self.memory = facts.memory.clone();
        facts
    }

    /// Why the account permits no order now.
    fn find_denial(&self, now: Moment) -> Option<(Reason, String)> {
        let account = self.found.account.as_ref()?;
        let (terms, cluster) = (&self.found.terms, &self.found.cluster);
        let reached = find_reached_limit(account, terms, &self.order_owners, cluster, now.wall)?;
        Some((Reason::LimitReached, reached))
    }

    /// Writes the decided status, and says what follows.
    fn report(
        &mut self,
        object: &mut BareMetalServer,
        facts: &ServerFacts,
        decision: &ServerDecision,
        now: Moment,
    ) -> NextStep {
        let at = Timestamp::from_second(now.wall).unwrap_or_default();
        let status = decision.desired.finish(at);
        let before = facts.order().map(protocol_facts::to_protocol_order);
        let is_written = object.status.as_ref() != Some(&status);
        object.status = Some(status);
        let after = object.own_order().map(protocol_facts::to_protocol_order);
        if before != after {
            self.memory.record_written_order(after, now.mono);
        }
        let wanted = [
            decision.wants_complete_list,
            decision.wants_servers,
            decision.wants_catalogue,
        ];
        let wanted = wanted.into_iter().flatten().max();
        match (decision.requeue, decision.requeue_once_written) {
            (Requeue::Now, _) => NextStep::Now,
            (_, Requeue::Now) if is_written => NextStep::Now,
            // The answer to this order may come at any moment.
            _ if self.may_be_answered(object, now) => NextStep::End,
            (Requeue::After(rest), _) => find_next_step(now, wanted, rest, self.has_acted),
            _ => find_next_step(now, wanted, Duration::MAX, self.has_acted),
        }
    }

    /// Whether the operator still waits for the answer to the recorded order.
    fn may_be_answered(&self, object: &BareMetalServer, now: Moment) -> bool {
        let open = object.own_order().filter(|order| order.outcome.is_none());
        open.zip(self.found.account.as_ref())
            .is_some_and(|(order, account)| {
                let timeout = account.view.times.order_timeout.as_secs();
                let timeout = i64::try_from(timeout).unwrap_or(i64::MAX);
                now.wall <= order.send_by.saturating_add(timeout)
            })
    }

    /// Applies an effect to the predicted state.
    fn carry_out(
        &mut self,
        object: &mut BareMetalServer,
        facts: &ServerFacts,
        effect: &ServerEffect,
        now: Moment,
    ) -> Step {
        self.has_acted = true;
        let (sent, observation) = match effect {
            ServerEffect::Order(new) => {
                self.order = Some(new.order.clone());
                return send_last(PlannedEffect::order(&new.order));
            }
            ServerEffect::Release { uuid } => {
                let text = format!("Release server {uuid} (erases its disks, ends its billing)");
                return send_last(PlannedEffect::erase("release", text));
            }
            ServerEffect::Reinstall(new) => {
                let (uuid, revision) = (&new.server_uuid, new.revision);
                let text =
                    format!("Re-install server {uuid} for revision {revision} (erases its disks)");
                let next = match finish_reinstall(object, facts, new, now) {
                    true => NextStep::Now,
                    false => NextStep::End,
                };
                return (vec![PlannedEffect::erase("reinstall", text)], next);
            }
            ServerEffect::FetchPassword { of, .. } => {
                let text = format!("Read the root password of server {} (once)", of.server);
                return send("fetchRootPassword", text);
            }
            // The rest depends on a list of the objects and on a second look at the server.
            ServerEffect::Claim { uuid } | ServerEffect::Adopt { uuid } => {
                let text = format!("Adopt server {uuid} (adds this object's ownership tags)");
                return send("adopt", text);
            }
            ServerEffect::PollInstall { .. }
            | ServerEffect::FindPassword { .. }
            | ServerEffect::ForgetPassword { .. }
            | ServerEffect::RemoveFinalizer => return (Vec::new(), NextStep::End),
            ServerEffect::Command { name, action } => {
                let target = format!("server {}", facts.status().uuid.unwrap_or_default());
                let sent = PlannedEffect::switch_power(&target, *action, name);
                (Some(sent), ServerObservation::Commanded(name.clone()))
            }
            ServerEffect::AddTag { uuid, tag } => self.change_tag(uuid, tag, true),
            ServerEffect::RemoveTag { uuid, tag } => self.change_tag(uuid, tag, false),
            ServerEffect::Retain { uuid } => {
                let (sent, _) = self.change_tag(uuid, RETAINED_TAG, true);
                (sent, ServerObservation::Done)
            }
            ServerEffect::AddFinalizer => {
                add_finalizer(object, SERVER_FINALIZER);
                let observation = match facts.order() {
                    Some(_) => ServerObservation::FinalizerRestored,
                    None => ServerObservation::FinalizerAdded,
                };
                (None, observation)
            }
            ServerEffect::Read { uuid } => {
                let account = self.found.account.as_ref();
                let mut servers = account.into_iter().flat_map(|it| it.servers());
                let read = ServerObservation::Read {
                    uuid: uuid.clone(),
                    at: now.mono,
                    is_there: servers.any(|it| it.id == **uuid),
                };
                (None, read)
            }
            ServerEffect::WriteOutput(output) => {
                let written = ServerObservation::Output {
                    place: output.place,
                    content: output.content_hash(),
                    state: OutputState::Written,
                };
                (None, written)
            }
            ServerEffect::RecordOutput(output) => {
                object.status = Some(outputs::add_record(facts, output).0);
                add_finalizer(object, OUTPUT_FINALIZER);
                (None, ServerObservation::Done)
            }
            ServerEffect::CheckDeletedOutputs(outputs) => {
                (None, ServerObservation::OutputsChecked(outputs.clone()))
            }
            ServerEffect::Expire { .. } => {
                let at = Timestamp::from_second(now.wall).unwrap_or_default();
                object.metadata.deletion_timestamp = Some(Time(at));
                (None, ServerObservation::Done)
            }
        };
        self.memory.record_observation(observation, now.mono);
        (sent.into_iter().collect(), NextStep::Now)
    }

    /// Changes a tag of the predicted server.
    fn change_tag(
        &mut self,
        uuid: &str,
        tag: &str,
        adds: bool,
    ) -> (Option<PlannedEffect>, ServerObservation) {
        let account = self.found.account.as_mut();
        let servers = account.and_then(|it| it.servers_mut());
        let mut servers = servers.into_iter().flatten();
        if let Some(server) = servers.find(|server| server.id == *uuid) {
            server.tags.retain(|it| it != tag);
            server.tags.extend(adds.then(|| tag.to_owned()));
        }
        let change = TagChange {
            uuid: uuid.to_owned(),
            tag: tag.to_owned(),
            adds,
            end: TagEnd::Made,
        };
        let sent = PlannedEffect::change_tag(uuid, tag, adds);
        (Some(sent), ServerObservation::TagChanged(change))
    }
}

/// Records the re-installation as the operator does, and the provider's word for its end. False: it keeps no history.
fn finish_reinstall(
    object: &mut BareMetalServer,
    facts: &ServerFacts,
    new: &NewReinstall,
    now: Moment,
) -> bool {
    let status = object.status.get_or_insert_default();
    let Some(known) = status.records.install.take() else {
        return false;
    };
    let times = (now, Duration::ZERO);
    let intent = build_intent(
        facts,
        new,
        "planned".into(),
        times,
        ListedCommands::default(),
    );
    let record = InstallRecord {
        outcome: Some(CommandOutcome::Accepted),
        state: Some(CommandState::Finished.as_str().to_owned()),
        ..InstallRecord::unfinished(intent)
    };
    status.records.install = Some(record_attempt(known, &record));
    true
}
