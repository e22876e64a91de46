//! Predicts the decisions on a BareMetalServer.

#[cfg(test)]
mod tests;

use super::{
    account::PlannedAccount,
    effects::{Act, PlannedEffect},
    limits,
    server_index::ServersAndOwners,
    steps::{NextStep, Prediction, Step, find_ready_reason},
};
use api::{
    BareMetalServer, Reason,
    names::{OUTPUT_FINALIZER, RETAINED_TAG, SERVER_FINALIZER},
    order::OrderRecord,
};
use flexmetal_core::{
    account::{ownership_tags, terms::Terms},
    cluster_id::ClusterId,
    explanation::Explanation,
    moment::Moment,
    protocol::adopt::{self as rules, AdoptionStep, ClaimStep},
    requeue::Requeue,
    resolved_account::ResolvedAccount,
    server::{
        decide::{
            ServerDecision, ServerEffect, decide,
            outputs::{self, OutputState},
            sent_hashes,
        },
        facts::{Installation, ServerFacts},
        memory::{ServerMemory, ServerObservation},
        observed::ObservedServer,
        protocol_facts,
        tag_changes::{TagChange, TagEnd},
    },
    server_commands::RunningCommand,
    stored_keys::KeyLookup,
};
use hosting_types::Server;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::{sync::Arc, time::Duration};

/// A requeue at least this long means that an object needs nothing.
const IDLE: Duration = Duration::from_secs(600);
/// How long the operator has known every object, in a plan. It has reported the first steps of a new one by then.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// What the decisions on a server need besides the object.
pub struct ServerInputs {
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// UID of the namespace.
    pub namespace_uid: Arc<str>,
    /// The account; none if it does not exist.
    pub account: Option<PlannedAccount>,
    /// What the account offers the namespace.
    pub terms: Terms,
    /// All BareMetalServers that the caller may list.
    pub objects: Arc<Vec<BareMetalServer>>,
    /// Whether these are those of all namespaces.
    pub has_all_objects: bool,
    /// The installation; none if it was not read.
    pub installation: Option<Result<Installation, Explanation>>,
    /// The fields of it that the caller may not read.
    pub unread: Vec<&'static str>,
    /// The SshKeys that the spec names.
    pub named_keys: Vec<KeyLookup>,
    /// The ServerCommands of the object.
    pub commands: RunningCommand,
    /// The ServerCommand of `spec.power`, if it was read.
    pub power_command: Option<Option<api::ServerCommand>>,
}

/// A server whose decisions are predicted.
pub struct ServerPrediction {
    /// The object, as predicted.
    pub object: BareMetalServer,
    inputs: ServerInputs,
    memory: ServerMemory,
    /// Whether something was predicted that the next decision may have to wait for.
    has_acted: bool,
}

impl ServerPrediction {
    /// Before the first decision, with the memory of an operator that has been leader all the time.
    pub fn new(object: BareMetalServer, inputs: ServerInputs, now: Moment) -> Self {
        let mut prediction = Self {
            object,
            inputs,
            memory: ServerMemory::default(),
            has_acted: false,
        };
        prediction.remember_history(now);
        prediction
    }

    /// Such an operator saw the object's creation and how each order ended, unless one is open.
    fn remember_history(&mut self, now: Moment) {
        self.memory.record_leadership(Duration::ZERO);
        let facts = self.observe(now);
        let mut object = protocol_facts::to_protocol_object(&facts);
        let order = facts.order().map(protocol_facts::to_protocol_order);
        let since = facts.order().map_or(facts.first_seen, recorded_at);
        let mut memory = ServerMemory::default();
        memory.record_leadership(Duration::ZERO);
        match order {
            Some(open) if !open.is_closed() => {
                memory
                    .protocol
                    .observe_object(&object, Some(open), false, since);
            }
            closed => {
                let has_finalizer = object.finalizer;
                (object.finalizer, object.order) = (false, None);
                memory
                    .protocol
                    .observe_object(&object, None, true, facts.first_seen);
                if has_finalizer {
                    memory.protocol.added_finalizer();
                }
                if closed.is_some() {
                    memory.record_written_order(closed, since);
                }
            }
        }
        if let Some(Ok(installation)) = &self.inputs.installation {
            let hashes = sent_hashes::hashes(&self.object.spec, installation);
            memory.installation.record_hashes(
                self.object.metadata.generation,
                &self.inputs.named_keys,
                (hashes, &self.inputs.unread[..]),
                &sent_hashes::hashes_from_status(&self.object),
                now.mono,
            );
        }
        self.memory = memory;
    }

    /// The facts at this moment. The process of the plan has run since 1970, so its two clocks are one.
    fn observe(&mut self, now: Moment) -> ServerFacts {
        let created = self.object.metadata.creation_timestamp.as_ref();
        let created = created.map_or(now.mono, |time| to_moment(time.0.as_second()));
        let first_seen = created.min(now.mono.saturating_sub(KNOWN_FOR));
        let inputs = &self.inputs;
        let is_recorded = self
            .object
            .status
            .as_ref()
            .is_some_and(|status| status.records.order.is_some() || status.uuid.is_some());
        let account = match &inputs.account {
            Some(account) => account.resolve(&inputs.terms, is_recorded, &inputs.cluster, now),
            None => {
                ResolvedAccount::missing(&flexmetal_core::server::facts::account_of(&self.object))
            }
        };
        let observed = ObservedServer {
            object: Arc::new(self.object.clone()),
            memory: self.memory.clone(),
            now,
            wall_at_start: 0,
            namespace_uid: Ok(inputs.namespace_uid.clone()),
            leader_since: Some(Duration::ZERO),
            first_seen: Some(first_seen),
            absent_from: Some(first_seen),
            cluster: inputs.cluster.clone(),
            kind_deleting: Some(false),
            account,
            installation: inputs.installation.clone(),
            named_keys: inputs.named_keys.clone(),
            commands: inputs.commands.clone(),
            power_command: inputs.power_command.clone(),
        };
        let index = inputs.account.as_ref().map(|account| ServersAndOwners {
            account,
            inputs,
            seen: now.mono,
        });
        let facts = observed.facts(index.as_ref());
        self.memory = facts.memory.clone();
        facts
    }

    fn servers_mut(&mut self) -> Option<&mut Vec<Server>> {
        let servers = self.inputs.account.as_mut()?.lists.servers.as_mut()?;
        Some(Arc::make_mut(servers))
    }

    fn find_server(&self, uuid: &str) -> Option<&Server> {
        let servers = self.inputs.account.as_ref()?.lists.servers.as_ref()?;
        servers.iter().find(|server| server.id == *uuid)
    }

    /// Changes a tag of the predicted server.
    fn change_tag(&mut self, uuid: &str, tag: &str, adds: bool) {
        let mut servers = self.servers_mut().into_iter().flatten();
        if let Some(server) = servers.find(|server| server.id == *uuid) {
            server.tags.retain(|it| it != tag);
            if adds {
                server.tags.push(tag.to_owned());
            }
        }
    }

    fn add_finalizer(&mut self, finalizer: &str) {
        let finalizers = self.object.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|it| it == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
    }

    /// Why the account permits no order now.
    fn find_denial(&self, now: Moment) -> Option<(Reason, String)> {
        let account = self.inputs.account.as_ref()?;
        let limits = &account.limits();
        let (terms, cluster) = (&self.inputs.terms, &self.inputs.cluster);
        let reached = limits::find_reached_limit(account, limits, terms, cluster, now.wall)?;
        Some((Reason::LimitReached, reached))
    }

    /// Writes the decided status, and says what follows.
    fn report(&mut self, facts: &ServerFacts, decision: &ServerDecision, now: Moment) -> NextStep {
        let status = decision
            .desired
            .finish(Timestamp::from_second(now.wall).unwrap_or_default());
        let before = facts.order().map(protocol_facts::to_protocol_order);
        let is_written = self.object.status.as_ref() != Some(&status);
        self.object.status = Some(status);
        let after = own_order(&self.object).map(protocol_facts::to_protocol_order);
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
            _ if self.may_be_answered(now) => NextStep::End,
            _ if wanted.is_some() => NextStep::At(wanted.unwrap_or_default()),
            (Requeue::After(rest), _) if self.has_acted && rest < IDLE => {
                NextStep::At(now.mono + rest)
            }
            _ => NextStep::End,
        }
    }

    /// Whether the operator still waits for the answer to the recorded order.
    fn may_be_answered(&self, now: Moment) -> bool {
        let open = own_order(&self.object).filter(|order| order.outcome.is_none());
        let account = self.inputs.account.as_ref();
        open.zip(account).is_some_and(|(order, account)| {
            let timeout = i64::try_from(account.order_timeout().as_secs()).unwrap_or(i64::MAX);
            now.wall <= order.send_by.saturating_add(timeout)
        })
    }

    /// Applies an effect to the predicted state.
    fn carry_out(&mut self, facts: &ServerFacts, effect: &ServerEffect, now: Moment) -> Step {
        self.has_acted = true;
        match effect {
            ServerEffect::Order(new) => {
                return Step::sending(PlannedEffect::of_order(new), NextStep::End);
            }
            ServerEffect::Release { uuid } => {
                return Step::sending(PlannedEffect::of_release(uuid), NextStep::End);
            }
            ServerEffect::Reinstall(new) => {
                return Step::sending(PlannedEffect::of_reinstall(new), NextStep::End);
            }
            ServerEffect::FetchPassword { of, .. } => {
                let text = format!("Read the root password of server {} (once)", of.server);
                let effect = PlannedEffect::new(Act::FetchRootPassword, &of.server, text);
                return Step::sending(effect, NextStep::End);
            }
            ServerEffect::PollInstall { .. }
            | ServerEffect::FindPassword { .. }
            | ServerEffect::ForgetPassword { .. }
            | ServerEffect::RemoveFinalizer => return Step::quiet(NextStep::End),
            ServerEffect::Claim { uuid } => return self.claim(facts, uuid, now),
            ServerEffect::Adopt { uuid } => return self.adopt(facts, uuid, now),
            ServerEffect::Command { name, action } => {
                let uuid = facts.status().uuid.unwrap_or_default();
                self.observe_effect(ServerObservation::Commanded(name.clone()), now);
                let target = format!("server {uuid}");
                return Step::sending(
                    PlannedEffect::of_power(&target, *action, name),
                    NextStep::Now,
                );
            }
            ServerEffect::AddTag { uuid, tag } => return self.retag(uuid, tag, true, now),
            ServerEffect::RemoveTag { uuid, tag } => return self.retag(uuid, tag, false, now),
            ServerEffect::Retain { uuid } => {
                self.change_tag(uuid, RETAINED_TAG, true);
                self.observe_effect(ServerObservation::Done, now);
                let effect = PlannedEffect::of_tag(uuid, RETAINED_TAG, true);
                return Step::sending(effect, NextStep::Now);
            }
            ServerEffect::AddFinalizer => {
                self.add_finalizer(SERVER_FINALIZER);
                let observation = match facts.order() {
                    Some(_) => ServerObservation::FinalizerRestored,
                    None => ServerObservation::FinalizerAdded,
                };
                self.observe_effect(observation, now);
            }
            ServerEffect::Read { uuid } => {
                let is_there = self.find_server(uuid).is_some();
                let read = ServerObservation::Read {
                    uuid: uuid.clone(),
                    at: now.mono,
                    is_there,
                };
                self.observe_effect(read, now);
            }
            ServerEffect::WriteOutput(output) => {
                let written = ServerObservation::Output {
                    place: output.place,
                    content: output.content_hash(),
                    state: OutputState::Written,
                };
                self.observe_effect(written, now);
            }
            ServerEffect::RecordOutput(output) => {
                self.object.status = Some(outputs::add_record(facts, output).0);
                self.add_finalizer(OUTPUT_FINALIZER);
                self.observe_effect(ServerObservation::Done, now);
            }
            ServerEffect::CheckDeletedOutputs(outputs) => {
                let checked = ServerObservation::OutputsChecked(outputs.clone());
                self.observe_effect(checked, now);
            }
            ServerEffect::Expire { .. } => {
                let at = Timestamp::from_second(now.wall).unwrap_or_default();
                self.object.metadata.deletion_timestamp = Some(Time(at));
                self.observe_effect(ServerObservation::Done, now);
            }
        }
        Step::quiet(NextStep::Now)
    }

    fn observe_effect(&mut self, observation: ServerObservation, now: Moment) {
        self.memory.record_observation(observation, now.mono);
    }

    /// Changes a tag for the spec.
    fn retag(&mut self, uuid: &str, tag: &str, adds: bool, now: Moment) -> Step {
        self.change_tag(uuid, tag, adds);
        let change = TagChange {
            uuid: uuid.to_owned(),
            tag: tag.to_owned(),
            adds,
            end: TagEnd::Made,
        };
        self.observe_effect(ServerObservation::TagChanged(change), now);
        Step::sending(PlannedEffect::of_tag(uuid, tag, adds), NextStep::Now)
    }

    /// Adds the ownership tags to the server to adopt.
    fn claim(&mut self, facts: &ServerFacts, uuid: &str, now: Moment) -> Step {
        let known = self.find_server(uuid).cloned();
        let (Some(owner), Some(order), Some(server)) = (facts.owner(), facts.order(), known) else {
            return Step::quiet(NextStep::End);
        };
        let row = protocol_facts::to_protocol_server(facts, &owner, &server);
        let is_recorded = facts.recorded_elsewhere.contains(&server.id);
        let is_owned = facts.owned_elsewhere.contains(&server.id);
        let judged = rules::claim(
            &row,
            protocol_facts::is_shared(facts),
            is_recorded,
            is_owned,
        );
        if judged != ClaimStep::Tag {
            return Step::quiet(NextStep::End);
        }
        let order_tag = row.own_seq.is_none().then(|| owner.order_tag(order.seq));
        let missing: Vec<String> = [Some(facts.cluster.tag()), order_tag]
            .into_iter()
            .flatten()
            .filter(|tag| !server.has_tag(tag))
            .collect();
        for tag in &missing {
            self.change_tag(uuid, tag, true);
        }
        self.observe_effect(ServerObservation::Claimed(uuid.to_owned()), now);
        let effects = missing
            .iter()
            .map(|tag| PlannedEffect::of_tag(uuid, tag, true));
        Step {
            effects: effects.collect(),
            next: NextStep::Now,
        }
    }

    /// Removes the tags of other owners, or records the server.
    fn adopt(&mut self, facts: &ServerFacts, uuid: &str, now: Moment) -> Step {
        let known = self.find_server(uuid).cloned();
        let (Some(owner), Some(order), Some(server)) = (facts.owner(), facts.order(), known) else {
            return Step::quiet(NextStep::End);
        };
        let row = protocol_facts::to_protocol_server(facts, &owner, &server);
        let order = protocol_facts::to_protocol_order(order);
        match rules::finish(&order, &row, false) {
            AdoptionStep::Adopted(order) => {
                self.observe_effect(ServerObservation::Adopted(order), now);
                Step::quiet(NextStep::Now)
            }
            AdoptionStep::RemoveOther => {
                let is_others = |tag: &&String| {
                    ownership_tags::owner(tag).is_some_and(|of| of != owner.as_str())
                };
                let others: Vec<String> = server.tags.iter().filter(is_others).cloned().collect();
                for tag in &others {
                    self.change_tag(uuid, tag, false);
                }
                let effects = others
                    .iter()
                    .map(|tag| PlannedEffect::of_tag(uuid, tag, false));
                Step {
                    effects: effects.collect(),
                    next: NextStep::Now,
                }
            }
            AdoptionStep::Yield | AdoptionStep::ClaimAgain | AdoptionStep::Wait => {
                Step::quiet(NextStep::End)
            }
        }
    }
}

impl Prediction for ServerPrediction {
    fn decide(&mut self, now: Moment) -> Step {
        let mut facts = self.observe(now);
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
            Some(effect) => self.carry_out(&facts, effect, now),
            None => Step::quiet(self.report(&facts, &decision, now)),
        }
    }

    fn ready_reason(&self) -> Option<String> {
        find_ready_reason(&self.object.status.as_ref()?.conditions)
    }
}

/// The order record of the object, unless it was copied or restored from another one.
pub fn own_order(object: &BareMetalServer) -> Option<&OrderRecord> {
    let order = object.status.as_ref()?.records.order.as_ref()?;
    (object.metadata.uid.as_ref() == Some(&order.uid)).then_some(order)
}

/// When an order record was last changed.
fn recorded_at(order: &OrderRecord) -> Duration {
    to_moment(order.outcome_at.unwrap_or(order.send_by))
}

fn to_moment(unix: i64) -> Duration {
    Duration::from_secs(u64::try_from(unix).unwrap_or_default())
}
