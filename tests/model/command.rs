//! One power command, and the release of its server: every interleaving of two operators that both act, crashes at each
//! step, answers that are lost or late, a person's own command, a note that somebody made up, and a server that is
//! deleted or gets another machine meanwhile.
//!
//! What is judged is what reaches the wire. The deciding code ships: what is due, what the commands of a machine tell,
//! the two writes and the last look before the request, and what a release takes for under way.

use flexmetal_operator::{
    account::{Terms, view::View},
    controllers::{
        account_facts::AccountFacts,
        command::{
            decide::{Decision, Effect, NewCommand, decide, may_send},
            facts::{CommandMemory, Facts, Observation, ServerFact, add, is_under_way},
            listed::{command_of, noted, running, since},
        },
        mark::ClusterId,
        once::{self, Closed, Reply, Stage},
        pass::{Memory, Subject},
    },
    kinds::{
        ServerCommand,
        command::{CommandIntent, CommandOutcome, CommandRecord, PowerAction},
        names::COMMAND_ANNOTATION,
        references::PinnedAccount,
    },
    runtime::Moment,
};
use hosting::{
    CommandId,
    command::{Command, CommandState},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::{sync::Arc, time::Duration};

const BASE: i64 = 1_790_000_000;
/// Seconds of one tick, after which nothing is sent any more that was begun before it.
const TICK: i64 = 300;
/// A walk ends here.
const TICKS: u8 = 4;
const WINDOW: Duration = Duration::from_secs(30);
/// So many attempts are begun at most.
const ATTEMPTS: u8 = 3;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// None: what ships.
    Ships,
    /// The server is not looked at between the intent and the request.
    Unseen,
    /// The release asks for the commands before its note, and not after.
    Early,
    /// The request follows the note in metadata; the status is not written before it.
    NoStatus,
    /// What may have been sent counts as not sent.
    Again,
}

/// What a scene has in it.
#[derive(Clone, Copy, Debug)]
struct Scene {
    action: PowerAction,
    /// The server is released.
    ends: bool,
    /// The server gets another machine.
    rebinds: bool,
    /// A person sends a command, and somebody makes a note up or strips it.
    has_people: bool,
    crashes: u8,
    variant: Variant,
}

/// An attempt on its way, where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sending {
    new: NewCommand,
    record: CommandRecord,
    /// What is on record with it.
    records: Vec<CommandRecord>,
    /// The version that the next write rests on.
    base: u8,
    since: u8,
    stage: Stage,
    /// The server was looked at: the request is next.
    is_let: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    memory: CommandMemory,
    started: u8,
    sending: Option<Sending>,
}

/// A command at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Made {
    action: PowerAction,
    at: u8,
    is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    /// The object.
    version: u8,
    note: Option<String>,
    sent: Vec<CommandRecord>,
    ended: Option<bool>,
    /// The server.
    machine: u8,
    is_deleted: bool,
    is_release_noted: bool,
    has_asked: bool,
    is_released: bool,
    /// The provider.
    made: Vec<Made>,
    wire: Vec<(PowerAction, u8)>,
    posts: Vec<PowerAction>,
    processes: [Process; 2],
    attempts: u8,
    crashes: u8,
    people: u8,
    broken: Option<&'static str>,
}

/// What becomes of a write or of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Done,
    /// Done, and the answer is lost.
    Unanswered,
    /// On its way still, and the answer is lost.
    Late,
    /// It never arrives, and nobody is told.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    Tick,
    /// A pass: decides, and does what takes one step.
    Pass(usize),
    Write(usize, Fate),
    Look(usize),
    Post(usize, Fate),
    Crash(usize),
    Arrive(usize),
    End(usize),
    Person,
    MakeUp,
    Strip,
    Delete,
    Rebind,
    Note,
    Ask,
    Release,
}

fn machine(number: u8) -> String {
    format!("00000000-0000-4000-8000-00000000000{number}")
}

fn at(tick: u8) -> i64 {
    BASE + i64::from(tick) * TICK
}

fn moment(tick: u8) -> Moment {
    let since = u64::from(tick) * TICK.unsigned_abs();
    Moment {
        wall: at(tick),
        mono: Duration::from_secs(100_000 + since),
    }
}

fn process(started: u8) -> Process {
    Process {
        memory: CommandMemory::default(),
        started,
        sending: None,
    }
}

fn unsent(record: CommandRecord) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..record
    }
}

fn accepted(record: &CommandRecord, command: &Command) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        id: Some(command.id.as_str().to_owned()),
        state: Some(command.state.as_str().to_owned()),
        ..record.clone()
    }
}

impl State {
    /// The object as the API server has it.
    fn object(&self, scene: &Scene) -> ServerCommand {
        let mut spec = json!({
            "serverRef": {"name": "web"}, "action": scene.action, "timeout": "24h",
        });
        if scene.action == PowerAction::Shutdown {
            spec["escalateAfter"] = json!("5m");
        }
        let conditions: Vec<Value> = self
            .ended
            .iter()
            .map(|well| {
                let kind = if *well { "Complete" } else { "Failed" };
                json!({
                    "type": kind, "status": "True", "reason": "Completed", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let annotations = self
            .note
            .as_ref()
            .map(|text| json!({COMMAND_ANNOTATION: text}));
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {
                "name": "c", "namespace": "shop", "uid": "uid", "annotations": annotations,
                "creationTimestamp": Timestamp::from_second(BASE).unwrap().to_string(),
            },
            "spec": spec,
            "status": {
                "account": PinnedAccount::of(None), "sent": self.sent, "conditions": conditions,
            },
        });
        serde_json::from_value(object).unwrap()
    }

    /// The server as the API server has it.
    fn server(&self) -> ServerFact {
        let mut server = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "shop", "uid": "server"},
            "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
            "status": {
                "uuid": machine(self.machine), "providerStatus": "delivered",
                "account": PinnedAccount::of(None),
                "order": {"cluster": "c", "uid": "server", "mark": "m", "epoch": 1, "attempt": "a",
                    "sendBy": "2026-01-01T00:00:00Z", "outcome": "Created"},
            },
        });
        if self.is_deleted {
            server["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        ServerFact::Found(Arc::new(serde_json::from_value(server).unwrap()))
    }

    fn facts(&self, scene: &Scene, process: usize) -> Facts {
        let me = &self.processes[process];
        let mut facts = Facts {
            subject: Subject {
                now: moment(self.now),
                acting_since: Duration::ZERO,
                first_seen: moment(me.started).mono,
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: AccountFacts::Found {
                    view: View::usable(),
                    terms: Terms::Own,
                },
                memory: Memory {
                    own: me.memory.clone(),
                    ..Memory::default()
                },
                object: Arc::new(self.object(scene)),
            },
            steady: at(self.now),
            server: self.server(),
            is_namespace_suspended: false,
            is_first: true,
        };
        let attempt = facts.open_attempt();
        let now = facts.subject.now.mono;
        facts
            .subject
            .memory
            .own
            .searches_for(attempt.as_deref(), now);
        facts
    }

    fn commands(&self) -> Vec<Command> {
        let all = self.made.iter().zip(1_u32..);
        let command = |(made, number): (&Made, u32)| Command {
            id: CommandId::parse(&format!("00000000-0000-4000-9000-{number:012}")).unwrap(),
            server: None,
            command: Some(command_of(made.action).as_str().into()),
            state: match made.is_over {
                true => CommandState::Finished,
                false => CommandState::Pending,
            },
            created_at: Timestamp::from_second(at(made.at)).ok(),
            updated_at: None,
        };
        all.map(command).collect()
    }

    fn make(&mut self, action: PowerAction) {
        self.made.push(Made {
            action,
            at: self.now,
            is_over: false,
        });
    }

    fn note_of(&mut self, process: usize, observation: Observation) {
        self.processes[process].memory.note(observation);
    }
}

impl Scene {
    fn go(&self, before: &State, chosen: Move) -> Option<State> {
        let mut state = before.clone();
        match chosen {
            Move::Tick => state.now += 1,
            Move::Pass(process) => self.pass(&mut state, process)?,
            Move::Write(process, fate) => write(&mut state, process, fate)?,
            Move::Look(process) => self.look(&mut state, process)?,
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
            Move::Person => {
                state.people -= 1;
                state.make(self.action);
            }
            Move::MakeUp => {
                state.people -= 1;
                state.version += 1;
                state.note = Some(made_up());
            }
            Move::Strip => {
                state.people -= 1;
                state.version += 1;
                state.note = None;
            }
            Move::Delete => state.is_deleted = true,
            Move::Rebind => state.machine = 2,
            Move::Note => state.is_release_noted = true,
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

    fn decided(&self, state: &State, process: usize) -> (Facts, Decision) {
        let mut facts = state.facts(self, process);
        if self.variant == Variant::Again {
            let object = Arc::make_mut(&mut facts.subject.object);
            let sent = &mut object.status.get_or_insert_default().sent;
            sent.retain(|record| record.outcome.is_some());
        }
        let decision = decide(&facts);
        (facts, decision)
    }

    fn pass(&self, state: &mut State, process: usize) -> Option<()> {
        let (facts, decision) = self.decided(state, process);
        state.processes[process].memory = facts.subject.memory.own.clone();
        let mono = facts.subject.now.mono;
        match &decision.effect {
            None => {
                let (status, _) = decision.status(&facts.subject, Timestamp::UNIX_EPOCH);
                let ended = ended(&status.conditions);
                if status.sent == state.sent && ended == state.ended {
                    return None;
                }
                state.sent = status.sent;
                state.ended = ended;
                state.version += 1;
            }
            Some(Effect::Send(new)) => {
                let commands = state.commands();
                if state.attempts == ATTEMPTS
                    || running(&commands, &facts.records(), at(state.now)).is_some()
                {
                    return None;
                }
                state.attempts += 1;
                let record = CommandRecord::open(CommandIntent {
                    uid: "uid".into(),
                    action: new.action,
                    machine: new.machine.clone(),
                    attempt: format!("a{}", state.attempts),
                    started_at: at(state.now),
                    send_by: at(state.now) + 30,
                    account: new.account.clone(),
                    listed: noted(&commands).unwrap(),
                });
                let mut records = facts.records();
                add(&mut records, record.clone());
                state.processes[process].sending = Some(Sending {
                    new: (**new).clone(),
                    record,
                    records,
                    base: state.version,
                    since: state.now,
                    stage: Stage::default(),
                    is_let: false,
                });
            }
            Some(Effect::Look(record)) => {
                let commands = state.commands();
                let found = commands
                    .iter()
                    .find(|c| Some(c.id.as_str()) == record.id.as_deref());
                let record = accepted(record, found?);
                state.note_of(process, Observation::Looked(record, mono));
            }
            Some(Effect::Search { record, .. }) => {
                let commands = state.commands();
                let intent = &record.intent;
                let found = since(&intent.listed, &commands, intent.action);
                let attempt = intent.attempt.clone();
                let observation = match found.as_slice() {
                    [] => Observation::NotListed(attempt, mono),
                    [one] => Observation::Looked(accepted(record, one), mono),
                    _ => Observation::Several(attempt, "several".into()),
                };
                state.note_of(process, observation);
            }
            Some(Effect::LetGo | Effect::Delete) => return None,
        }
        Some(())
    }

    /// The server as it is after the intent stands.
    fn look(&self, state: &mut State, process: usize) -> Option<()> {
        let sending = state.processes[process].sending.clone()?;
        let facts = state.facts(self, process);
        let is_let = self.variant == Variant::Unseen || may_send(&facts, &sending.new);
        let (began, now) = (moment(sending.since), moment(state.now));
        let by = sending.record.intent.send_by;
        if is_let && once::may_send(began, by, now, WINDOW) {
            state.processes[process].sending.as_mut()?.is_let = true;
        } else {
            close(state, process, sending.record);
        }
        Some(())
    }

    fn post(&self, state: &mut State, process: usize, fate: Fate) -> Option<()> {
        let Sending { new, record, .. } = state.processes[process].sending.take()?;
        let action = new.action;
        if state.posts.contains(&action) {
            state.broken = Some("sent twice");
        }
        if state.is_released {
            state.broken = Some("sent after the release");
        }
        if new.machine != machine(state.machine) {
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
                accepted(&record, state.commands().last()?)
            }
            Fate::Unanswered => {
                state.make(action);
                record
            }
            Fate::Late => {
                state.wire.push((action, state.now + 1));
                record
            }
            Fate::Lost => record,
        };
        state.note_of(process, Observation::Sent(known, mono));
        Some(())
    }
}

/// A note that bears the UID of the object, and that no operator wrote.
fn made_up() -> String {
    json!({
        "uid": "uid", "action": "PowerOff", "machine": machine(3), "attempt": "made-up",
        "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z", "listed": {},
        "account": {
            "kind": "ProviderAccount", "name": "default", "uid": "x", "lineage": "l", "connection": "c",
        },
    })
    .to_string()
}

fn ended(conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) -> Option<bool> {
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

fn close(state: &mut State, process: usize, record: CommandRecord) {
    state.processes[process].sending = None;
    let mono = moment(state.now).mono;
    state.note_of(process, Observation::Sent(unsent(record), mono));
}

/// One write of an intent, on the version that it rests on, and the read after it where the answer is lost.
fn write(state: &mut State, process: usize, fate: Fate) -> Option<()> {
    let mut sending = state.processes[process].sending.clone()?;
    let is_current = sending.base == state.version;
    if is_current && fate != Fate::Lost {
        state.version += 1;
        match sending.stage {
            Stage::WriteMetadata => {
                state.note = serde_json::to_string(&sending.record.intent).ok();
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
    if matches!(sending.stage, Stage::ReadMetadata | Stage::ReadStatus) {
        let text = serde_json::to_string(&sending.record.intent).ok();
        sending.stage = sending.stage.after(Reply::Shows {
            metadata: state.note == text,
            status: state.sent.last() == Some(&sending.record),
        });
    }
    match sending.stage {
        Stage::Closed(Closed::NotStarted) => state.processes[process].sending = None,
        Stage::Closed(Closed::NotSent) => close(state, process, sending.record),
        _ => state.processes[process].sending = Some(sending),
    }
    Some(())
}

const SAFE: &str = "no command is sent twice, nor to another's machine, nor after the release";

impl Model for Scene {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            version: 0,
            note: None,
            sent: Vec::new(),
            ended: None,
            machine: 1,
            is_deleted: false,
            is_release_noted: false,
            has_asked: false,
            is_released: false,
            made: Vec::new(),
            wire: Vec::new(),
            posts: Vec::new(),
            processes: [process(0), process(0)],
            attempts: 0,
            crashes: self.crashes,
            people: if self.has_people { 2 } else { 0 },
            broken: None,
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        if state.broken.is_some() {
            return;
        }
        // Between the last look and the socket nothing comes that another rule does not cover: no time, and no other machine.
        let is_let = |p: &Process| p.sending.as_ref().is_some_and(|sending| sending.is_let);
        let sends = state.processes.iter().any(is_let);
        let is_due = |(_, until): &(PowerAction, u8)| *until <= state.now;
        if state.now < TICKS && !sends && !state.wire.iter().any(is_due) {
            moves.push(Move::Tick);
        }
        moves.extend((0..state.wire.len()).map(Move::Arrive));
        let made = state.made.iter().enumerate();
        moves.extend(
            made.filter(|(_, made)| !made.is_over)
                .map(|(n, _)| Move::End(n)),
        );
        for (it, me) in state.processes.iter().enumerate() {
            if state.crashes > 0 && *me != process(state.now) {
                moves.push(Move::Crash(it));
            }
            match &me.sending {
                None => moves.push(Move::Pass(it)),
                Some(sending) if sending.is_let => {
                    let fates = [Fate::Done, Fate::Unanswered, Fate::Late, Fate::Lost];
                    moves.extend(fates.map(|fate| Move::Post(it, fate)));
                }
                Some(sending) if self.is_next(sending) => moves.push(Move::Look(it)),
                Some(_) => {
                    let fates = [Fate::Done, Fate::Unanswered, Fate::Lost];
                    moves.extend(fates.map(|fate| Move::Write(it, fate)));
                }
            }
        }
        if state.people > 0 {
            moves.extend([Move::Person, Move::MakeUp]);
            if state.note.is_some() {
                moves.push(Move::Strip);
            }
        }
        if self.rebinds && state.machine == 1 && !sends {
            moves.push(Move::Rebind);
        }
        if self.ends {
            moves.extend(self.release_moves(state));
        }
    }

    fn next_state(&self, state: &State, chosen: Move) -> Option<State> {
        self.go(state, chosen).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| state.broken.is_none()),
            Property::sometimes("it is done", |_, s: &State| s.ended == Some(true)),
            Property::sometimes("it fails", |_, s: &State| s.ended == Some(false)),
            Property::sometimes("all that may happen does", |scene: &Self, s: &State| {
                let is_off = s.posts.contains(&PowerAction::PowerOff);
                (s.is_released || !scene.ends)
                    && (is_off || scene.action != PowerAction::Shutdown)
                    && !s.posts.is_empty()
            }),
        ]
    }
}

impl Scene {
    /// Whether the writes are over.
    fn is_next(&self, sending: &Sending) -> bool {
        sending.stage == Stage::Send
            || self.variant == Variant::NoStatus && sending.stage == Stage::WriteStatus
    }

    /// The release: deleted, noted, asked for the commands, sent.
    fn release_moves(&self, state: &State) -> Vec<Move> {
        let is_early = self.variant == Variant::Early;
        let mut moves = Vec::new();
        if !state.is_deleted {
            moves.push(Move::Delete);
        } else if state.is_release_noted && state.has_asked && !state.is_released {
            moves.push(Move::Release);
        }
        if state.is_deleted && !state.is_release_noted {
            moves.push(Move::Note);
        }
        if !state.has_asked && (is_early || state.is_release_noted) {
            moves.push(Move::Ask);
        }
        moves
    }
}

/// How many states there are, or the way to what broke.
fn walk(scene: &Scene) -> Result<usize, Vec<Move>> {
    let checker = scene
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!("command model: {scene:?}: {states} states");
    let mut found = checker.discoveries();
    match found.remove(SAFE) {
        Some(path) => Err(path.into_actions()),
        None => {
            assert_eq!(found.len(), 3, "what may happen does: {:?}", found.keys());
            Ok(states)
        }
    }
}

const REBOOT: Scene = Scene {
    action: PowerAction::Reboot,
    ends: false,
    rebinds: false,
    has_people: false,
    crashes: 1,
    variant: Variant::Ships,
};

fn holds(scene: Scene) {
    match walk(&scene) {
        Ok(states) => assert!(states > 1000, "a model that hardly moves proves nothing"),
        Err(moves) => panic!("{scene:?}: {moves:?}"),
    }
}

fn breaks(scene: Scene) {
    let walked = walk(&scene);
    assert!(walked.is_err(), "{scene:?}: {walked:?}");
}

#[test]
fn no_command_is_sent_twice_whatever_crashes_or_is_lost() {
    holds(REBOOT);
}

#[test]
fn a_persons_command_and_a_note_that_was_made_up_make_it_send_none_twice() {
    holds(Scene {
        has_people: true,
        crashes: 0,
        ..REBOOT
    });
}

#[test]
fn a_shutdown_and_the_power_off_after_it_are_sent_once_each() {
    holds(Scene {
        action: PowerAction::Shutdown,
        crashes: 0,
        ..REBOOT
    });
}

#[test]
fn none_is_sent_once_the_release_was_nor_to_another_machine() {
    holds(Scene {
        ends: true,
        ..REBOOT
    });
    holds(Scene {
        rebinds: true,
        ..REBOOT
    });
}

#[test]
fn a_server_that_is_not_looked_at_after_the_intent_is_noticed() {
    let variant = Variant::Unseen;
    breaks(Scene {
        ends: true,
        variant,
        ..REBOOT
    });
    breaks(Scene {
        rebinds: true,
        variant,
        ..REBOOT
    });
}

#[test]
fn a_release_that_asks_for_commands_before_its_note_is_noticed() {
    breaks(Scene {
        ends: true,
        variant: Variant::Early,
        ..REBOOT
    });
}

#[test]
fn a_request_before_the_status_shows_it_is_noticed() {
    breaks(Scene {
        variant: Variant::NoStatus,
        ..REBOOT
    });
}

#[test]
fn one_that_is_sent_again_on_doubt_is_noticed() {
    breaks(Scene {
        variant: Variant::Again,
        ..REBOOT
    });
}
