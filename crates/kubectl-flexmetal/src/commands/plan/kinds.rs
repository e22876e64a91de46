//! Predicts the decisions on the kinds that share the facts of [`Subject`]: tags, keys, hosts and commands here,
//! and whitelists.

use super::{
    account::PlannedAccount,
    effects::{Act, PlannedEffect},
    steps::{NextStep, Prediction, Step, find_ready_reason},
};
use api::{
    DedicatedHost, Kind, ServerCommand, ServerTag, SshKey,
    names::{OBJECT_FINALIZER, TAG_ANNOTATION},
    references::PinnedAccount,
};
use flexmetal_core::{
    account::terms::Terms,
    cluster_id::ClusterId,
    command::{
        decide::{CommandEffect, decide as decide_command},
        facts::{CommandFacts, CommandMemory, TargetFact},
    },
    host::{
        decide::{HostEffect, decide as decide_host},
        facts::{HostFacts, HostMemory, HostObservation, InstallLogSnapshot},
    },
    moment::Moment,
    ownership::ConflictingOwners,
    power::KnownCommand,
    reconcile::{Decision, Ended, Memory, Subject},
    resolved_account::ResolvedAccount,
    server_commands::RunningCommand,
    ssh_key::{
        decide::{SshKeyEffect, decide as decide_key},
        facts::{SeenKey, SshKeyFacts},
        memory::SshKeyMemory,
    },
    stored_keys::KeyLookup,
    tag::{
        decide::{TagEffect, decide as decide_tag},
        facts::{TagFacts, TagMemory, TagObservation, rename_of},
    },
};
use jiff::Timestamp;
use kube::{Resource as _, core::object::HasStatus};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A requeue at least this long means that an object needs nothing.
const IDLE: Duration = Duration::from_secs(600);
/// How long the operator has known every object, in a plan. It has reported the first steps of a new one by then.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// A decision on an object of this kind.
pub type DecisionOf<K, E> = Decision<<K as HasStatus>::Status, E>;

/// One kind: its decision, and what its effects do.
pub trait PlannedKind {
    /// The object.
    type Object: Kind;
    /// What the operator remembers of an object.
    type Own: Clone + Default;
    /// What a decision may ask for.
    type Effect;

    /// Decides, after the memory was updated from the facts.
    fn decide(
        &self,
        subject: &mut Subject<Self::Object, Self::Own>,
    ) -> DecisionOf<Self::Object, Self::Effect>;

    /// Applies an effect to the object and to what the operator remembers.
    fn carry_out(
        &self,
        effect: &Self::Effect,
        object: &mut Self::Object,
        subject: &mut Subject<Self::Object, Self::Own>,
    ) -> Step;
}

/// What the decisions on any such object need besides it.
pub struct KindInputs {
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// The account; none if it does not exist.
    pub account: Option<PlannedAccount>,
    /// Its name.
    pub reference: PinnedAccount,
    /// What it offers the namespace.
    pub terms: Terms,
}

/// An object whose decisions are predicted.
pub struct KindPrediction<P: PlannedKind> {
    /// The object, as predicted.
    pub object: P::Object,
    kind: P,
    inputs: KindInputs,
    memory: Memory<P::Own>,
    has_acted: bool,
}

impl<P: PlannedKind> KindPrediction<P> {
    /// Before the first decision.
    pub fn new(object: P::Object, kind: P, inputs: KindInputs) -> Self {
        Self {
            object,
            kind,
            inputs,
            memory: Memory::default(),
            has_acted: false,
        }
    }

    /// The facts that every kind has. The process of the plan has run since 1970, so its two clocks are one.
    fn subject(&self, now: Moment) -> Subject<P::Object, P::Own> {
        let created = self.object.meta().creation_timestamp.as_ref();
        let created = created.and_then(|time| u64::try_from(time.0.as_second()).ok());
        let created = created.map_or(now.mono, Duration::from_secs);
        let KindInputs {
            cluster,
            account,
            reference,
            terms,
        } = &self.inputs;
        let is_recorded = self.object.status().is_some_and(P::Object::exists);
        Subject {
            now,
            leader_since: Duration::ZERO,
            first_seen: created.min(now.mono.saturating_sub(KNOWN_FOR)),
            cluster: cluster.clone(),
            kind_deleting: Some(false),
            account: match account {
                Some(account) => account.resolve(terms, is_recorded, cluster, now),
                None => ResolvedAccount::missing(reference),
            },
            memory: self.memory.clone(),
            object: Arc::new(self.object.clone()),
        }
    }

    /// Writes the decided status, and says what follows.
    fn report(
        &mut self,
        subject: &Subject<P::Object, P::Own>,
        decision: &DecisionOf<P::Object, P::Effect>,
    ) -> NextStep {
        let now = subject.now;
        let at = Timestamp::from_second(now.wall).unwrap_or_default();
        let (status, _) = decision.status(subject, at);
        let is_written = subject.object.status() != Some(&status);
        *self.object.status_mut() = Some(status);
        self.memory.reported = Some(now.mono);
        let wanted = decision.wants.into_iter().chain(decision.wants_also);
        let wanted = wanted.map(|(_, at)| at).max();
        match wanted {
            _ if is_written && decision.requeue_once_written => NextStep::Now,
            Some(at) => NextStep::At(at),
            None if self.has_acted && decision.requeue_after < IDLE => {
                NextStep::At(now.mono + decision.requeue_after)
            }
            None => NextStep::End,
        }
    }
}

impl<P: PlannedKind> Prediction for KindPrediction<P> {
    fn decide(&mut self, now: Moment) -> Step {
        let mut subject = self.subject(now);
        let decision = self.kind.decide(&mut subject);
        let awaited = decision.grace_reason(&subject);
        subject.memory.grace.record_awaited(awaited, now.mono);
        match &decision.effect {
            Some(effect) => {
                self.has_acted = true;
                let mut object = self.object.clone();
                let step = self.kind.carry_out(effect, &mut object, &mut subject);
                self.object = object;
                self.memory = subject.memory;
                step
            }
            None => {
                self.memory = subject.memory.clone();
                Step::quiet(self.report(&subject, &decision))
            }
        }
    }

    fn ready_reason(&self) -> Option<String> {
        find_ready_reason(P::Object::conditions(self.object.status()?))
    }
}

/// Adds our finalizer.
pub fn add_finalizer<K: Kind>(object: &mut K) -> Step {
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|it| it == OBJECT_FINALIZER) {
        finalizers.push(OBJECT_FINALIZER.to_owned());
    }
    Step::quiet(NextStep::Now)
}

fn sends(act: Act, target: &str, text: String) -> Step {
    Step::sending(PlannedEffect::new(act, target, text), NextStep::End)
}

/// A tag of the account.
pub struct PlannedTag {
    /// The other objects that name it.
    pub conflicting_owners: ConflictingOwners,
}

impl PlannedKind for PlannedTag {
    type Object = ServerTag;
    type Own = TagMemory;
    type Effect = TagEffect;

    fn decide(
        &self,
        subject: &mut Subject<ServerTag, TagMemory>,
    ) -> DecisionOf<ServerTag, TagEffect> {
        let mut facts = TagFacts {
            subject: subject.clone(),
            conflicting_owners: self.conflicting_owners.clone(),
        };
        let mut own = subject.memory.own.clone();
        own.refresh(&facts);
        facts.subject.memory.own = own.clone();
        subject.memory.own = own;
        decide_tag(&facts)
    }

    fn carry_out(
        &self,
        effect: &TagEffect,
        object: &mut ServerTag,
        subject: &mut Subject<ServerTag, TagMemory>,
    ) -> Step {
        match effect {
            TagEffect::AddFinalizer { annotation } => {
                let observation = match annotation {
                    Some(annotation) => {
                        let text = serde_json::to_string(annotation).unwrap_or_default();
                        let annotations = object.metadata.annotations.get_or_insert_default();
                        annotations.insert(TAG_ANNOTATION.to_owned(), text);
                        TagObservation::Annotated(rename_of(annotation))
                    }
                    None => TagObservation::Wrote(Ended::Done),
                };
                subject.memory.own.record_observation(observation);
                add_finalizer(object)
            }
            TagEffect::Make { tag } => sends(Act::CreateTag, tag, format!("Create tag {tag}")),
            TagEffect::Rename { rename, .. } => sends(
                Act::RenameTag,
                &rename.from,
                format!("Rename tag {} to {}", rename.from, rename.to),
            ),
            TagEffect::Delete { tag, .. } => {
                sends(Act::DeleteTag, tag, format!("Delete tag {tag}"))
            }
            TagEffect::RemoveFinalizer => Step::quiet(NextStep::End),
        }
    }
}

/// A stored key.
pub struct PlannedKey {
    /// Whether another living object of the account has the same key.
    pub is_shared: bool,
}

impl PlannedKind for PlannedKey {
    type Object = SshKey;
    type Own = SshKeyMemory;
    type Effect = SshKeyEffect;

    fn decide(
        &self,
        subject: &mut Subject<SshKey, SshKeyMemory>,
    ) -> DecisionOf<SshKey, SshKeyEffect> {
        let list = subject.view().and_then(|view| view.ssh_keys.clone());
        let shown = list.map(|(at, keys)| {
            let keys = keys.iter().map(SeenKey::from_record).collect();
            (at, Arc::new(keys))
        });
        let mut facts = SshKeyFacts {
            subject: subject.clone(),
            shown,
            is_shared: self.is_shared,
            store_call: Default::default(),
            deletions: BTreeMap::new(),
        };
        facts.refresh_memory();
        subject.memory.own = facts.subject.memory.own.clone();
        decide_key(&facts)
    }

    fn carry_out(
        &self,
        effect: &SshKeyEffect,
        object: &mut SshKey,
        _: &mut Subject<SshKey, SshKeyMemory>,
    ) -> Step {
        match effect {
            SshKeyEffect::AddFinalizer => add_finalizer(object),
            SshKeyEffect::Store(new) => {
                let key = new.key.as_str();
                sends(Act::StoreKey, key, format!("Store public key {key}"))
            }
            SshKeyEffect::Delete { uuid } => {
                sends(Act::DeleteKey, uuid, format!("Delete stored key {uuid}"))
            }
            SshKeyEffect::RemoveFinalizer => Step::quiet(NextStep::End),
        }
    }
}

/// A dedicated host.
pub struct PlannedHost {
    /// The other objects that name it.
    pub conflicting_owners: ConflictingOwners,
    /// The SshKey that the object names, if any.
    pub key: Option<KeyLookup>,
    /// The ServerCommands in progress for it.
    pub commands: RunningCommand,
    /// The ServerCommand of `spec.power`, if it was read.
    pub power: Option<Option<ServerCommand>>,
}

impl PlannedKind for PlannedHost {
    type Object = DedicatedHost;
    type Own = HostMemory;
    type Effect = HostEffect;

    fn decide(
        &self,
        subject: &mut Subject<DedicatedHost, HostMemory>,
    ) -> DecisionOf<DedicatedHost, HostEffect> {
        let uid = subject.object.metadata.uid.clone();
        let mut facts = HostFacts {
            conflicting_owners: self.conflicting_owners.clone(),
            is_owner_known: true,
            key: self.key.clone(),
            commands: self.commands.clone(),
            power: KnownCommand::from_command(uid.as_deref(), self.power.clone()),
            subject: subject.clone(),
        };
        let mut own = subject.memory.own.clone();
        own.refresh(&facts);
        facts.subject.memory.own = own.clone();
        subject.memory.own = own;
        decide_host(&facts)
    }

    fn carry_out(
        &self,
        effect: &HostEffect,
        object: &mut DedicatedHost,
        subject: &mut Subject<DedicatedHost, HostMemory>,
    ) -> Step {
        let own = &mut subject.memory.own;
        match effect {
            HostEffect::Install(new) => {
                let effect = PlannedEffect::of_host_install(new.host, new.revision);
                Step::sending(effect, NextStep::End)
            }
            HostEffect::Power { name, action } => {
                own.record_observation(HostObservation::Powered(name.clone()));
                let host = format!("host {}", object.spec.host_id);
                Step::sending(PlannedEffect::of_power(&host, *action, name), NextStep::Now)
            }
            HostEffect::ReadLog { .. } => {
                own.record_observation(HostObservation::Log(InstallLogSnapshot {
                    at: subject.now.mono,
                    log: Default::default(),
                    error: None,
                }));
                Step::quiet(NextStep::Now)
            }
        }
    }
}

/// A power command.
pub struct PlannedCommand {
    /// Its target.
    pub target: TargetFact,
    /// Other owners of the host, if the target is one.
    pub conflicting_owners: ConflictingOwners,
    /// Whether no other command for the target goes first.
    pub is_first: bool,
}

impl PlannedKind for PlannedCommand {
    type Object = ServerCommand;
    type Own = CommandMemory;
    type Effect = CommandEffect;

    fn decide(
        &self,
        subject: &mut Subject<ServerCommand, CommandMemory>,
    ) -> DecisionOf<ServerCommand, CommandEffect> {
        let mut facts = CommandFacts {
            steady: subject.now.wall,
            target: self.target.clone(),
            conflicting_owners: self.conflicting_owners.clone(),
            is_first: self.is_first,
            subject: subject.clone(),
        };
        let attempt = facts.open_attempt();
        let sent = facts.subject.status().records.sent;
        let memory = &mut facts.subject.memory;
        memory.own.compare(&sent, memory.reported);
        memory
            .own
            .searches_for(attempt.as_deref(), subject.now.mono);
        subject.memory.own = memory.own.clone();
        decide_command(&facts)
    }

    fn carry_out(
        &self,
        effect: &CommandEffect,
        object: &mut ServerCommand,
        _: &mut Subject<ServerCommand, CommandMemory>,
    ) -> Step {
        match effect {
            CommandEffect::Send(new) => {
                let target = format!("{} {}", object.spec.target_ref.name, new.server);
                let name = object.metadata.name.as_deref().unwrap_or_default();
                let effect = PlannedEffect::of_power(&target, new.action, name);
                Step::sending(effect, NextStep::End)
            }
            CommandEffect::ReadCommand(_)
            | CommandEffect::Search { .. }
            | CommandEffect::RemoveFinalizer
            | CommandEffect::Delete => Step::quiet(NextStep::End),
        }
    }
}
