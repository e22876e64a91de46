//! The moves of that world. Reads and writes have the order of `act`.

use super::{
    facts::{Around, SERVER_UUID, commands, facts, made_of, object, provider_server},
    reconcile::{Due, RECORDS, decided, intern_memory},
    scenes::{Scene, Variant},
    world::*,
};
use api::{
    command::{CommandOutcome, ListedCommands},
    install::{InstallEnd, InstallHistory, InstallRecord},
    target::Target,
};
use flexmetal_core::{
    attempt_state::{self, AttemptState, Reply},
    command::facts::is_installing,
    server::{
        decide::{
            precondition,
            reinstall::{
                attempt::{self, ReinstallCheck},
                may_send, may_start,
            },
        },
        facts::ServerFacts,
        install_memory::InstallObservation,
        memory::ServerObservation,
    },
};
use hosting_types::{Error, Refusal, Server};
use std::sync::Arc;

/// The initial status: revision 1 counts as performed.
pub(super) fn first() -> Said {
    Said::Installs(status(InstallHistory::new("uid", SERVER_UUID, 1, BASE)))
}

impl Scene {
    pub(super) fn go(&self, before: &State, chosen: Move) -> Option<State> {
        let mut state = *before;
        match chosen {
            Move::Tick => state.now += 1,
            Move::Pass(it) => self.reconcile(&mut state, it),
            Move::Step(it, fate) => self.step(&mut state, it, fate),
            Move::See(it) => state.seen(it),
            Move::Crash(it) => {
                state.crashes -= 1;
                state.processes[it].memory = memory(Default::default());
                state.processes[it].task = Task::Idle;
                state.seen(it);
            }
            Move::Arrive(number) => {
                let wire = state.wire[number].take()?;
                state.wipe(wire);
            }
            Move::End(number, how) => state.made[number].as_mut()?.state = how,
            Move::Portal => {
                state.user_installs -= 1;
                state.make(0);
            }
            Move::Edit => {
                let revision = self.edits[usize::from(state.edits)];
                state.edits += 1;
                let edited = |o: Object| Object {
                    revision,
                    generation: o.generation + 1,
                    ..o
                };
                state.write(state.object.map(edited));
            }
            Move::Protect => {
                let protected = |o: Object| Object {
                    is_protected: true,
                    generation: o.generation + 1,
                    ..o
                };
                state.write(state.object.map(protected));
            }
            Move::Delete => {
                let deleted = |o: Object| Object {
                    is_deleting: true,
                    ..o
                };
                state.write(state.object.map(deleted));
            }
            Move::Strip => {
                state.strips -= 1;
                let stripped = |o: Object| Object {
                    said: Said::Lost,
                    is_begun: false,
                    ..o
                };
                state.write(state.object.map(stripped));
            }
            Move::Restore => {
                state.restores -= 1;
                let restored = |o: Object| Object {
                    said: first(),
                    is_begun: false,
                    ..o
                };
                state.write(state.object.map(restored));
            }
            Move::Power => self.power(&mut state),
        }
        if !self.is_behind {
            state.seen(0);
            state.seen(1);
        }
        Some(state)
    }

    fn facts(&self, state: &State, it: usize, object: &Object) -> ServerFacts {
        facts(self, object, Around::from_state(state, it))
    }

    fn reconcile(&self, state: &mut State, it: usize) {
        let me = state.processes[it];
        if state.object.is_none() || me.view.is_begun {
            return;
        }
        let decided = decided(self, &me.view, Around::from_state(state, it));
        state.processes[it].memory = decided.memory;
        let is_newest = me.sees_newest;
        state.processes[it].task = match decided.due {
            Due::Install(new) if self.is_behind => Task::Start(new),
            // A fresh object allows no step in between.
            Due::Install(_) if state.attempts >= self.attempts => Task::Idle,
            Due::Install(new) => self.start(state, it, new),
            Due::Release => Task::Release,
            Due::Retain => Task::Retain,
            Due::LetGo => Task::LetGo { is_newest },
            Due::PollInstall(record) => {
                let record = RECORDS.get(record);
                let found = poll_install(state, &record);
                record_observation(state, it, found);
                Task::Idle
            }
            Due::Nothing => {
                if is_newest && decided.said != me.view.said {
                    state.write(Some(Object {
                        said: decided.said,
                        ..me.view
                    }));
                    state.seen(it);
                    check(state);
                }
                Task::Idle
            }
        };
    }

    fn step(&self, state: &mut State, it: usize, fate: Fate) {
        let task = state.processes[it].task;
        state.processes[it].task = Task::Idle;
        let next = match task {
            Task::Idle => Task::Idle,
            Task::Start(new) => self.start(state, it, new),
            Task::CheckBeforeIntent { .. } => self.check_before_intent(state, it, task),
            Task::Intend { attempt, is_newest } => self.intend(state, it, attempt, is_newest, fate),
            Task::Ask(attempt) => match state.power.is_under_way() {
                true => close(state, it, attempt),
                false => Task::GetObjectAgain(attempt),
            },
            Task::GetObjectAgain(attempt) => self.get_object_again(state, it, attempt),
            Task::Send(attempt) => {
                send(state, it, attempt, fate);
                Task::Idle
            }
            Task::Release => match self.fresh(state, it) {
                Some(fresh) if precondition::may_record_release(&fresh, SERVER_UUID) => {
                    Task::RecordRelease { is_newest: true }
                }
                _ => Task::Idle,
            },
            Task::RecordRelease { is_newest } => {
                if is_newest && fate != Fate::Lost {
                    let begun = |o: Object| Object {
                        is_begun: true,
                        ..o
                    };
                    state.write(state.object.map(begun));
                }
                Task::Idle
            }
            Task::Retain => match self.fresh(state, it) {
                Some(fresh)
                    if precondition::may_retain(&fresh, &provider_server(state.is_retained)) =>
                {
                    Task::TagRetained { since: state.now }
                }
                _ => Task::Idle,
            },
            Task::TagRetained { since } => {
                state.is_retained |= since == state.now;
                Task::Idle
            }
            Task::LetGo { is_newest } => {
                if is_newest {
                    state.write(None);
                }
                Task::Idle
            }
        };
        state.processes[it].task = next;
    }

    /// The object as it is now, and what this process knows.
    fn fresh(&self, state: &mut State, it: usize) -> Option<ServerFacts> {
        state.seen(it);
        Some(self.facts(state, it, &state.object?))
    }

    fn start(&self, state: &mut State, it: usize, new: u32) -> Task {
        let Some(fresh) = self.fresh(state, it) else {
            return Task::Idle;
        };
        let (Some(_), Some(object)) = (may_start(&fresh, &REQUESTS.get(new)), state.object) else {
            return Task::Idle;
        };
        state.attempts += 1;
        Task::CheckBeforeIntent {
            number: state.attempts,
            since: state.now,
            new,
            object,
            is_newest: true,
        }
    }

    fn check_before_intent(&self, state: &mut State, it: usize, task: Task) -> Task {
        let Task::CheckBeforeIntent {
            number,
            since,
            new,
            object,
            is_newest,
        } = task
        else {
            return Task::Idle;
        };
        let fresh = self.facts(state, it, &object);
        let request = REQUESTS.get(new);
        let known = may_start(&fresh, &request).unwrap();
        if let Some(why) =
            precondition::explain_blocked_reinstall(&fresh, &provider_server(state.is_retained))
        {
            let busy = InstallObservation::Busy(why, moment(state.now, 0).mono);
            record_observation(state, it, busy);
            return Task::Idle;
        }
        let now = wall(state.now);
        let intent = |listed| {
            let nonce = format!("a{number}");
            let since = (moment(since, number), WINDOW);
            attempt::build_intent(&fresh, &request, nonce, since, listed)
        };
        let listed = match attempt::check_commands(&known, &commands(state), now) {
            ReinstallCheck::Free(_) if self.variant == Variant::NoListBefore => {
                ListedCommands::default()
            }
            ReinstallCheck::Free(listed) => listed,
            ReinstallCheck::Repeated(listed, _) if self.variant == Variant::Unaccounted => listed,
            ReinstallCheck::Repeated(listed, why) => {
                sent(
                    state,
                    it,
                    attempt::close_not_repeated(intent(listed), why, now),
                );
                return Task::Idle;
            }
            ReinstallCheck::Busy(why) => {
                let busy = InstallObservation::Busy(why, moment(state.now, 0).mono);
                record_observation(state, it, busy);
                return Task::Idle;
            }
        };
        let attempt = attempt(Attempt {
            record: InstallRecord::unfinished(intent(listed)),
            known,
            new,
            since: (since, number),
            was_protected: object.is_protected,
        });
        match self.variant {
            Variant::IntentAfterSend => Task::Send(attempt),
            _ => Task::Intend { attempt, is_newest },
        }
    }

    fn intend(&self, state: &mut State, it: usize, number: u32, newest: bool, fate: Fate) -> Task {
        let attempt = ATTEMPTS.get(number);
        if newest && fate != Fate::Lost {
            let install = attempt::record_attempt(attempt.known.clone(), &attempt.record);
            let said = Said::Installs(status(install));
            state.write(state.object.map(|o| Object { said, ..o }));
        }
        let reply = match fate {
            Fate::Done if newest => Reply::Done,
            Fate::Done => return Task::Idle,
            _ => Reply::Unknown,
        };
        state.seen(it);
        let mut stage = AttemptState::WriteStatus.after(reply);
        if stage == AttemptState::ReadStatus {
            let shown = state.object.map_or(Reply::Stale, |o| {
                attempt::reply_from_read(&object(self, &o), &attempt.record.intent)
            });
            stage = stage.after(shown);
        }
        match stage {
            AttemptState::Send if self.has_power && self.variant != Variant::NoAsk => {
                Task::Ask(number)
            }
            AttemptState::Send => Task::GetObjectAgain(number),
            _ => close(state, it, number),
        }
    }

    fn get_object_again(&self, state: &mut State, it: usize, number: u32) -> Task {
        let attempt = ATTEMPTS.get(number);
        let intent = &attempt.record.intent;
        // Doubt about a sent attempt is separate from this attempt's intent.
        let scene = Self {
            variant: match self.variant {
                Variant::AgainAfterLost => Variant::Ships,
                variant => variant,
            },
            ..*self
        };
        let is_unread = self.variant == Variant::NoLiveRead;
        let fresh = scene.fresh(state, it);
        let is_let = is_unread
            || fresh.is_some_and(|last| may_send(&last, &REQUESTS.get(attempt.new), intent));
        let (tick, second) = attempt.since;
        let (since, now) = (moment(tick, second), moment(state.now, second));
        match is_let && attempt_state::may_send(since, intent.send_by, now, WINDOW) {
            true => Task::Send(number),
            false => close(state, it, number),
        }
    }

    fn power(&self, state: &mut State) {
        state.power = match state.power {
            Power::None | Power::Over => state.power,
            Power::Requested => Power::Recorded,
            Power::Recorded => match state.object {
                Some(o) if !o.is_begun => {
                    let target = Target::Server(Arc::new(object(self, &o)));
                    match is_installing(&target) {
                        true => Power::Over,
                        false => Power::Let,
                    }
                }
                _ => Power::Over,
            },
            Power::Let => {
                if state.is_sending() || state.is_installing() {
                    state.broken = Some("a power command in a re-installation");
                }
                Power::Sent
            }
            Power::Sent => Power::Over,
        };
    }
}

/// What a poll of the commands shows.
fn poll_install(state: &State, record: &InstallRecord) -> InstallObservation {
    let all = commands(state);
    let at = moment(state.now, 0).mono;
    let known = record.command_id.as_deref();
    match all.iter().find(|c| Some(c.id.as_str()) == known) {
        Some(command) => attempt::observe_command(record, command, at),
        None => attempt::observe_command_list(record, &all, at),
    }
}

fn send(state: &mut State, it: usize, number: u32, fate: Fate) {
    let attempt = ATTEMPTS.get(number);
    let wire = Wire {
        revision: u8::try_from(attempt.record.intent.revision).unwrap(),
        was_protected: attempt.was_protected,
    };
    if state.power == Power::Sent {
        state.broken = Some("a re-installation beside a power command");
    }
    let refused = |status, of: fn(Refusal) -> Error| {
        let message = "no".to_owned();
        Err(of(Refusal {
            status,
            code: None,
            message,
            fields: Vec::new(),
            retry_after: None,
            idempotent: false,
        }))
    };
    let lost = || Err(Error::TooLarge { cap: 1 });
    let answer: Result<Server, Error> = match fate {
        Fate::Done => {
            state.wipe(wire);
            Ok(provider_server(state.is_retained))
        }
        Fate::Unanswered => {
            state.wipe(wire);
            lost()
        }
        Fate::Late => {
            let free = state.wire.iter_mut().find(|wire| wire.is_none());
            *free.unwrap() = Some(wire);
            lost()
        }
        Fate::Lost => lost(),
        Fate::Refused => refused(422, Error::Refused),
        Fate::Conflict => refused(409, Error::Refused),
        Fate::Denied => refused(403, Error::AccessDenied),
    };
    sent(
        state,
        it,
        attempt::record_answer(attempt.record.clone(), &answer),
    );
}

/// Ends the attempt without a request.
fn close(state: &mut State, it: usize, number: u32) -> Task {
    let attempt = ATTEMPTS.get(number);
    sent(
        state,
        it,
        attempt::close_unsent(attempt.record.clone(), "not sent"),
    );
    Task::Idle
}

fn sent(state: &mut State, it: usize, record: InstallRecord) {
    let at = moment(state.now, 0).mono;
    record_observation(state, it, InstallObservation::Sent(Box::new(record), at));
}

fn record_observation(state: &mut State, it: usize, observation: InstallObservation) {
    let mut memory = (*MEMORIES.get(state.processes[it].memory)).clone();
    let now = moment(state.now, 0).mono;
    memory.record_observation(ServerObservation::Reinstall(observation), now);
    state.processes[it].memory = intern_memory(memory);
}

/// Checks that status reports the re-installation truthfully.
fn check(state: &mut State) {
    let Some(Said::Installs(number)) = state.object.map(|o| o.said) else {
        return;
    };
    let said = STATUSES.get(number);
    let Some(last) = &said.last else { return };
    let made = last.command_id.as_deref().map(|id| made_of(state, id));
    let is_its = |made: Option<Made>| {
        made.is_some_and(|m| m.revision == 0 || i64::from(m.revision) == last.intent.revision)
    };
    if !made.is_none_or(is_its) {
        state.broken = Some("another one's command is taken for it");
    }
    let wiped = state.wiped[usize::try_from(last.intent.revision).unwrap()];
    let is_unsent = last.outcome == Some(CommandOutcome::NotSent)
        || matches!(
            last.end,
            Some(InstallEnd::NotRepeated | InstallEnd::Refused)
        );
    let hides = |p: &Process| {
        let Task::Send(number) = p.task else {
            return false;
        };
        ATTEMPTS.get(number).record.intent.attempt != last.intent.attempt
    };
    let hides = state.processes.iter().any(hides) && state.is_sending();
    if is_unsent && (hides || wiped > 0 && state.is_installing()) {
        state.broken = Some("a request that is on its way is hidden");
    }
}
