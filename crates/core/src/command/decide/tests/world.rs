//! A simulation that carries out decisions with the shipped functions: intents and answers get lost, processes restart
//! or both act as leader, lists are late, and a user sends commands of the same kind.

use super::*;
use crate::{
    attempt_state::{AttemptState, Closed, Reply},
    command::facts::add,
    provider_commands::{RequestedCommand, command_of, since, summarize_commands},
    reconcile::Ended,
};
use hosting_types::{
    CommandId,
    command::{Command, CommandState},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// A command at the provider.
#[derive(Clone)]
struct Made {
    command: Command,
    shown_from: u64,
}

struct World {
    rng: StdRng,
    now: u64,
    object: ServerCommand,
    version: u64,
    made: Vec<Made>,
    /// Requests that have not arrived.
    wire: Vec<PowerAction>,
    /// All that was ever sent.
    sent: Vec<PowerAction>,
    /// Each process: its memory, the object as it last saw it, and when it first saw the object.
    processes: [(Memory<CommandMemory>, ServerCommand, u64); 2],
    attempts: u32,
}

impl World {
    fn new(seed: u64, case: &Case) -> Self {
        let object = (*case.0.subject.object).clone();
        let process = || (Memory::default(), object.clone(), 0);
        Self {
            rng: StdRng::seed_from_u64(seed),
            now: 0,
            version: 0,
            made: Vec::new(),
            wire: Vec::new(),
            sent: Vec::new(),
            processes: [process(), process()],
            attempts: 0,
            object,
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// A request reaches the provider: one of the operator, or one of a user.
    fn make(&mut self, action: PowerAction) {
        let number = self.made.len() + 1;
        let id = CommandId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap();
        let late = u64::from(self.chance(20)) * 60;
        self.made.push(Made {
            command: Command {
                id,
                server: None,
                command: Some(command_of(action).as_str().into()),
                state: CommandState::Pending,
                created_at: moment(WALL + i64::try_from(self.now).unwrap()).map(|t| t.0),
                updated_at: None,
            },
            shown_from: self.now + late,
        });
    }

    fn listed(&self) -> Vec<Command> {
        let shown = self.made.iter().filter(|made| made.shown_from <= self.now);
        shown.map(|made| made.command.clone()).collect()
    }

    fn facts(&self, process: usize, base: &Case) -> CommandFacts {
        let (memory, object, first_seen) = &self.processes[process];
        let mut facts = base.0.clone();
        let wall = WALL + i64::try_from(self.now).unwrap();
        facts.subject.now = Moment {
            wall,
            mono: secs(self.now) + NOW,
        };
        facts.steady = wall;
        facts.subject.first_seen = secs(*first_seen) + NOW;
        facts.subject.memory = memory.clone();
        facts.subject.object = Arc::new(object.clone());
        let sent = facts.subject.status().records.sent;
        facts.subject.memory.own.compare(&sent, None);
        let records = facts.records();
        let open = records.last().filter(|r| r.outcome.is_none());
        let open = open.map(|r| r.intent.attempt.clone());
        let now = facts.subject.now.mono;
        let own = &mut facts.subject.memory.own;
        own.searches_for(open.as_deref(), now);
        facts
    }

    /// A write by a process that has the newest version of the object, or an older one.
    fn write(&mut self, process: usize, change: impl FnOnce(&mut ServerCommand)) -> Reply {
        let seen = self.processes[process].1.metadata.resource_version.clone();
        if seen != self.object.metadata.resource_version {
            return Reply::Stale;
        }
        if self.chance(10) {
            return Reply::Unknown;
        }
        change(&mut self.object);
        self.version += 1;
        self.object.metadata.resource_version = Some(self.version.to_string());
        if self.chance(10) {
            return Reply::Unknown;
        }
        self.processes[process].1 = self.object.clone();
        Reply::Done
    }

    fn send(
        &mut self,
        process: usize,
        facts: &CommandFacts,
        new: &NewCommand,
    ) -> (Ended, CommandObservation) {
        // Read and decide again.
        self.processes[process].1 = self.object.clone();
        let mut fresh = facts.clone();
        fresh.subject.object = Arc::new(self.object.clone());
        if decide(&fresh).effect != Some(CommandEffect::Send(Box::new(new.clone()))) {
            return (Ended::Stale, CommandObservation::Nothing);
        }
        self.attempts += 1;
        let at = fresh.subject.now.mono;
        let wall = fresh.subject.now.wall;
        let record = CommandRecord::new_open(CommandIntent {
            uid: "uid-1".into(),
            action: new.action,
            server: new.server.clone(),
            attempt: format!("a{}", self.attempts),
            started_at: wall,
            send_by: wall + 30,
            account: new.account.clone(),
            listed: summarize_commands(&self.listed(), wall).unwrap(),
        });
        let text = serde_json::to_string(&record.intent).unwrap();
        let mut sent = fresh.records();
        add(&mut sent, record.clone());
        let mut state = AttemptState::default();
        loop {
            let reply = match state {
                AttemptState::WriteMetadata => self.write(process, |o| {
                    o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]);
                    o.metadata.annotations =
                        Some([(COMMAND_ANNOTATION.to_owned(), text.clone())].into());
                }),
                AttemptState::WriteStatus => self.write(process, |o| {
                    o.status
                        .get_or_insert_default()
                        .records
                        .sent
                        .clone_from(&sent);
                }),
                AttemptState::ReadMetadata | AttemptState::ReadStatus => {
                    self.processes[process].1 = self.object.clone();
                    let annotations = self.object.metadata.annotations.as_ref();
                    let status = self.object.status.as_ref();
                    Reply::Shows {
                        metadata: annotations.is_some_and(|a| a[COMMAND_ANNOTATION] == text),
                        status: status.is_some_and(|s| s.records.sent.last() == Some(&record)),
                    }
                }
                AttemptState::Send => break,
                AttemptState::Closed(Closed::NotStarted) => {
                    return (Ended::Stale, CommandObservation::Nothing);
                }
                AttemptState::Closed(Closed::NotSent) => {
                    let unsent = CommandRecord {
                        outcome: Some(CommandOutcome::NotSent),
                        ..record
                    };
                    return (Ended::Stale, CommandObservation::Sent(unsent, at));
                }
            };
            if self.chance(5) {
                self.crash(process);
                return (Ended::Done, CommandObservation::Nothing);
            }
            state = state.after(reply);
        }
        self.sent.push(new.action);
        match self.rng.random_range(0..5) {
            // It arrives, and the answer too.
            0 | 1 => {
                self.make(new.action);
                let made = &self.made.last().unwrap().command;
                let known = CommandRecord {
                    outcome: Some(CommandOutcome::Accepted),
                    id: Some(made.id.as_str().into()),
                    state: Some(made.state.as_str().into()),
                    ..record
                };
                (Ended::Done, CommandObservation::Sent(known, at))
            }
            2 => {
                self.make(new.action);
                (Ended::Done, CommandObservation::Sent(record, at))
            }
            3 => {
                self.wire.push(new.action);
                (Ended::Done, CommandObservation::Sent(record, at))
            }
            _ => {
                self.wire.push(new.action);
                self.crash(process);
                (Ended::Done, CommandObservation::Nothing)
            }
        }
    }

    fn crash(&mut self, process: usize) {
        self.processes[process] = (Memory::default(), self.object.clone(), self.now);
    }

    fn reconcile(&mut self, process: usize, base: &Case) {
        let facts = self.facts(process, base);
        self.processes[process].0 = facts.subject.memory.clone();
        let decision = decide(&facts);
        let at = facts.subject.now.mono;
        let (ended, observation) = match &decision.effect {
            None => {
                let (status, _) = decision.status(&facts.subject, jiff::Timestamp::UNIX_EPOCH);
                if self.object.status.as_ref() != Some(&status) {
                    self.write(process, |o| o.status = Some(status));
                }
                return;
            }
            Some(CommandEffect::Send(new)) => {
                let before = self.processes[process].2;
                let done = self.send(process, &facts, new);
                if self.processes[process].2 != before {
                    return;
                }
                done
            }
            Some(CommandEffect::ReadCommand(record)) => {
                let id = record.id.clone().unwrap();
                let made = self.made.iter().find(|m| m.command.id.as_str() == id);
                let record = CommandRecord {
                    state: Some(made.unwrap().command.state.as_str().into()),
                    ..(**record).clone()
                };
                (Ended::Done, CommandObservation::CommandRead(record, at))
            }
            Some(CommandEffect::Search { record, .. }) => {
                let commands = self.listed();
                let found = since(
                    &record.intent.listed,
                    &commands,
                    RequestedCommand::Power(record.intent.action),
                );
                let attempt = record.intent.attempt.clone();
                let observation = match found.as_slice() {
                    [] => CommandObservation::NotListed(attempt, at),
                    [one] => {
                        let known = CommandRecord {
                            outcome: Some(CommandOutcome::Accepted),
                            id: Some(one.id.as_str().into()),
                            state: Some(one.state.as_str().into()),
                            ..(**record).clone()
                        };
                        CommandObservation::CommandRead(known, at)
                    }
                    _ => CommandObservation::Several(attempt, "several".into()),
                };
                (Ended::Done, observation)
            }
            Some(CommandEffect::RemoveFinalizer) => {
                self.write(process, |o| o.metadata.finalizers = None);
                return;
            }
            Some(CommandEffect::Delete) => return,
        };
        let memory = &mut self.processes[process].0;
        memory.own.record_observation(observation);
        memory.record_effect(ended, at);
    }

    /// What happens between reconciles.
    fn continue_command(&mut self, action: PowerAction) {
        self.now += self.rng.random_range(1..40);
        if self.chance(20) && !self.wire.is_empty() {
            let action = self.wire.remove(0);
            self.make(action);
        }
        if self.chance(3) {
            self.make(action);
        }
        let ends = self.rng.random_range(0..100);
        for made in &mut self.made {
            if ends < 10 {
                made.command.state = CommandState::Finished;
            }
        }
        for process in 0..2 {
            if self.chance(3) {
                self.crash(process);
            }
            if self.chance(60) {
                self.processes[process].1 = self.object.clone();
            }
        }
    }
}

#[test]
fn commands_are_sent_once_despite_faults() {
    let mut ends = [0, 0];
    for seed in 0..600 {
        let base = match seed % 2 {
            0 => reboot(),
            _ => shutdown(300),
        };
        let action = base.0.subject.object.spec.action;
        let mut world = World::new(seed, &base);
        for _ in 0..400 {
            let process = usize::from(world.chance(50));
            world.reconcile(process, &base);
            world.continue_command(action);
            let most = [
                (action, 1),
                (
                    PowerAction::PowerOff,
                    usize::from(action != PowerAction::Reboot),
                ),
            ];
            for (action, most) in most {
                let sent = world.sent.iter().filter(|of| **of == action).count();
                assert!(sent <= most, "seed {seed}: {:?}", world.sent);
            }
        }
        let status = world.object.status.clone().unwrap_or_default();
        let is = |kind| conditions::is_true(&status.conditions, kind);
        assert!(
            is(Type::Complete) || is(Type::Failed),
            "seed {seed}: {status:?}"
        );
        ends[usize::from(is(Type::Complete))] += 1;
        if is(Type::Complete) {
            // The provider has the completed command, of this action or the one that follows it.
            let id = status.command_id.unwrap();
            let made = world
                .made
                .iter()
                .find(|m| m.command.id.as_str() == id)
                .unwrap();
            assert_eq!(made.command.state, CommandState::Finished);
        }
    }
    assert!(ends.iter().all(|end| *end > 20), "{ends:?}");
}
