//! The moves of that world.

use super::{
    scenes::{Scene, Variant},
    world::*,
};
use api::{
    command::{CommandIntent, CommandOutcome, CommandRecord},
    target::TargetKind,
};
use flexmetal_core::{
    attempt_state::{self, AttemptState, Closed, Reply},
    command::{
        decide::{CommandDecision, CommandEffect, decide, may_send},
        facts::{CommandFacts, CommandObservation, add, is_under_way},
    },
    host_record::is_switched,
    provider_commands::{RequestedCommand, is_done, running, since, summarize_commands},
};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;

impl Scene {
    pub(super) fn go(&self, before: &State, chosen: Move) -> Option<State> {
        let mut state = before.clone();
        match chosen {
            Move::Tick => state.now += 1,
            Move::Pass(process) => self.reconcile(&mut state, process)?,
            Move::Write(process, fate) => write(&mut state, process, fate)?,
            Move::CheckServer(process) => self.check_server(&mut state, process)?,
            Move::Post(process, fate) => self.post(&mut state, process, fate)?,
            Move::Crash(it) => {
                state.crashes -= 1;
                state.processes[it] = process(state.now);
            }
            Move::Arrive(index) => {
                let (action, _) = state.wire.remove(index);
                state.make(action);
            }
            Move::End(index) => state.made[index].is_over = true,
            Move::UserCommand => {
                state.user_actions -= 1;
                state.make(self.action);
            }
            Move::MakeUp => {
                state.user_actions -= 1;
                state.version += 1;
                state.annotation = Some(made_up());
            }
            Move::Strip => {
                state.user_actions -= 1;
                state.version += 1;
                state.annotation = None;
            }
            Move::Delete => state.is_deleted = true,
            Move::Rebind => state.server = 2,
            Move::RecordRelease => state.is_release_recorded = true,
            Move::Ask => {
                if is_under_way(&state.object(self)) {
                    return None;
                }
                state.has_asked = true;
            }
            Move::Release => state.is_released = true,
        }
        Some(state)
    }

    pub(super) fn decided(&self, state: &State, process: usize) -> (CommandFacts, CommandDecision) {
        let mut facts = state.facts(self, process);
        if self.variant == Variant::Again {
            let object = Arc::make_mut(&mut facts.subject.object);
            let sent = &mut object.status.get_or_insert_default().records.sent;
            sent.retain(|record| record.outcome.is_some());
        }
        let decision = decide(&facts);
        (facts, decision)
    }

    pub(super) fn reconcile(&self, state: &mut State, process: usize) -> Option<()> {
        let (facts, decision) = self.decided(state, process);
        state.processes[process].memory = facts.subject.memory.own.clone();
        let mono = facts.subject.now.mono;
        match &decision.effect {
            None => {
                let (status, _) = decision.status(&facts.subject, Timestamp::UNIX_EPOCH);
                let ended = ended(&status.conditions);
                if status.records.sent == state.sent && ended == state.ended {
                    return None;
                }
                state.sent = status.records.sent;
                state.processes[process].memory.compare(&state.sent, None);
                state.ended = ended;
                state.version += 1;
            }
            Some(CommandEffect::Send(new)) => {
                // The provider lists no commands of a host.
                let commands = match self.kind {
                    TargetKind::BareMetalServer => state.commands(),
                    TargetKind::DedicatedHost => Vec::new(),
                };
                if state.attempts == ATTEMPTS
                    || is_done(&commands, &facts.records())
                    || running(&commands, &facts.records(), at(state.now)).is_some()
                {
                    return None;
                }
                state.attempts += 1;
                let record = CommandRecord::new_open(CommandIntent {
                    uid: "uid".into(),
                    action: new.action,
                    server: new.server.clone(),
                    attempt: format!("a{}", state.attempts),
                    started_at: at(state.now),
                    send_by: at(state.now) + 30,
                    account: new.account.clone(),
                    listed: summarize_commands(&commands, at(state.now)).unwrap(),
                });
                let mut records = facts.records();
                add(&mut records, record.clone());
                state.processes[process].sending = Some(Sending {
                    new: (**new).clone(),
                    record,
                    records,
                    base: state.version,
                    since: state.now,
                    stage: AttemptState::default(),
                    is_let: false,
                });
            }
            Some(CommandEffect::ReadCommand(record)) if self.kind == TargetKind::DedicatedHost => {
                let word = state.power();
                // An unchanged state leads nowhere.
                if record.state.as_deref() == Some(word) {
                    return None;
                }
                let record = by_host(record, word);
                state.record_observation(process, CommandObservation::CommandRead(record, mono));
            }
            Some(CommandEffect::Search { record, .. })
                if self.kind == TargetKind::DedicatedHost =>
            {
                let intent = &record.intent;
                let word = state.power();
                let observation = match is_switched(word, intent.action) {
                    Some(true) => CommandObservation::CommandRead(by_host(record, word), mono),
                    None | Some(false) => {
                        CommandObservation::NotListed(intent.attempt.clone(), mono)
                    }
                };
                state.record_observation(process, observation);
            }
            Some(CommandEffect::ReadCommand(record)) => {
                let commands = state.commands();
                let found = commands
                    .iter()
                    .find(|c| Some(c.id.as_str()) == record.id.as_deref());
                let record = accepted(record, found?);
                state.record_observation(process, CommandObservation::CommandRead(record, mono));
            }
            Some(CommandEffect::Search { record, .. }) => {
                let commands = state.commands();
                let intent = &record.intent;
                let found = since(
                    &intent.listed,
                    &commands,
                    RequestedCommand::Power(intent.action),
                );
                let attempt = intent.attempt.clone();
                let observation = match found.as_slice() {
                    [] => CommandObservation::NotListed(attempt, mono),
                    [one] => CommandObservation::CommandRead(accepted(record, one), mono),
                    _ => CommandObservation::Several(attempt, "several".into()),
                };
                state.record_observation(process, observation);
            }
            Some(CommandEffect::RemoveFinalizer | CommandEffect::Delete) => return None,
        }
        Some(())
    }

    /// Reads the server after the intent is written.
    pub(super) fn check_server(&self, state: &mut State, process: usize) -> Option<()> {
        let sending = state.processes[process].sending.clone()?;
        let facts = state.facts(self, process);
        let is_let = self.variant == Variant::Unseen || may_send(&facts, &sending.new);
        let (began, now) = (moment(sending.since), moment(state.now));
        let by = sending.record.intent.send_by;
        if is_let && attempt_state::may_send(began, by, now, WINDOW) {
            state.processes[process].sending.as_mut()?.is_let = true;
        } else {
            close(state, process, sending.record);
        }
        Some(())
    }

    pub(super) fn post(&self, state: &mut State, process: usize, fate: Fate) -> Option<()> {
        let Sending { new, record, .. } = state.processes[process].sending.take()?;
        let action = new.action;
        if state.posts.contains(&action) {
            state.broken = Some("sent twice");
        }
        if state.is_released {
            state.broken = Some("sent after the release");
        }
        if new.server != target_id(self.kind, state.server) {
            state.broken = Some("sent to another's machine");
        }
        if state.ended.is_some() && self.variant == Variant::Ships {
            state.broken = Some("sent by what was over");
        }
        state.posts.push(action);
        state.posts.sort_unstable();
        let mono = moment(state.now).mono;
        let known = match fate {
            Fate::Done => {
                state.make(action);
                match self.kind {
                    TargetKind::BareMetalServer => accepted(&record, state.commands().last()?),
                    TargetKind::DedicatedHost => CommandRecord {
                        outcome: Some(CommandOutcome::Accepted),
                        ..record
                    },
                }
            }
            Fate::Unanswered => {
                state.make(action);
                record
            }
            Fate::Late => {
                state.wire.push((action, state.now));
                record
            }
            Fate::Lost => record,
        };
        state.record_observation(process, CommandObservation::Sent(known, mono));
        Some(())
    }
}

/// A command whose progress the host's power shows.
fn by_host(record: &CommandRecord, word: &str) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        state: Some(word.to_owned()),
        ..record.clone()
    }
}

/// An annotation with the object's UID that no operator wrote.
pub(super) fn made_up() -> String {
    json!({
        "uid": "uid", "action": "PowerOff", "server": server_uuid(3), "attempt": "made-up",
        "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z", "listed": {},
        "account": {
            "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
        },
    })
    .to_string()
}

pub(super) fn ended(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> Option<bool> {
    let is = |kind: &str| {
        conditions
            .iter()
            .any(|c| c.type_ == kind && c.status == "True")
    };
    match (is("Complete"), is("Failed")) {
        (false, false) => None,
        (well, _) => Some(well),
    }
}

pub(super) fn close(state: &mut State, process: usize, record: CommandRecord) {
    state.processes[process].sending = None;
    let mono = moment(state.now).mono;
    state.record_observation(process, CommandObservation::Sent(unsent(record), mono));
}

/// One write of an intent at the version it is based on, and a read afterwards if the answer is lost.
pub(super) fn write(state: &mut State, process: usize, fate: Fate) -> Option<()> {
    let mut sending = state.processes[process].sending.clone()?;
    let is_current = sending.base == state.version;
    if is_current && fate != Fate::Lost {
        state.version += 1;
        match sending.stage {
            AttemptState::WriteMetadata => {
                state.annotation = serde_json::to_string(&sending.record.intent).ok();
            }
            _ => state.sent.clone_from(&sending.records),
        }
    }
    let reply = match fate {
        Fate::Done if is_current => Reply::Done,
        Fate::Done => Reply::Stale,
        Fate::Unanswered | Fate::Late | Fate::Lost => Reply::Unknown,
    };
    sending.base = state.version;
    sending.stage = sending.stage.after(reply);
    if matches!(
        sending.stage,
        AttemptState::ReadMetadata | AttemptState::ReadStatus
    ) {
        let text = serde_json::to_string(&sending.record.intent).ok();
        sending.stage = sending.stage.after(Reply::Shows {
            metadata: state.annotation == text,
            status: state.sent.last() == Some(&sending.record),
        });
    }
    match sending.stage {
        AttemptState::Closed(Closed::NotStarted) => state.processes[process].sending = None,
        AttemptState::Closed(Closed::NotSent) => close(state, process, sending.record),
        _ => state.processes[process].sending = Some(sending),
    }
    Some(())
}
