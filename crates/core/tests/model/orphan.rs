//! The release of a machine that no object claims, against an object that is made to take it on: every interleaving of
//! two operators that both act, crashes, calls that arrive late, clocks that differ, and a person's object at any moment.
//!
//! What is judged is the machine: no release may reach one that an object has taken on. The deciding code ships: what
//! is noted on a fresh account, when the note ends, what speaks of a machine, and the last look before the DELETE.

use crate::real::control_server;
use api::{
    Policies,
    account::{AccountSpec, AccountStatus},
    brake::ReleaseBrake,
    interval::Interval,
    orphan::{Orphan, OrphanRelease},
    references::AccountKind,
    timing::TimingInForce,
};
use flexmetal_core::{
    account::{
        decide::{
            next_key::Keys,
            orphan_release::{Start, is_in_time, is_unchanged, note, speaks_of, start},
        },
        facts::{Facts, SecretFact},
        key::AccountKey,
        marks,
        orphan_memory::OrphanMemory,
        terms::Terms,
    },
    account_facts::LiveAccount,
    mark::ClusterId,
    moment::Moment,
    patience::Patience,
    request::Asked,
    server::decide::fence::may_take_on,
};
use hosting_types::{Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::{collections::BTreeSet, sync::LazyLock, time::Duration};

const CLUSTER: &str = "0123456789abcdef";
const MACHINE: &str = "00000000-0000-4000-8000-000000000001";
const BASE: i64 = 1_790_000_000;
/// Seconds of one tick.
const TICK: i64 = 30;
/// Within this time of the note a release is sent, and within it of its own look a machine is taken on.
const WINDOW: Duration = Duration::from_secs(30);
/// A call that was sent arrives within so many ticks.
const ON_THE_WAY: u8 = 1;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// None: what ships.
    Ships,
    /// An object takes a machine on without a look at the account.
    Blind,
    /// All objects are listed before the release is on record, and not after.
    Early,
    /// The note ends with the last moment at which a release may be sent, and not the grace period later.
    Brief,
    /// The release is sent whenever its turn comes.
    Late,
}

/// Where a process is with the release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Releasing {
    Idle,
    /// The account was read at this moment of the process, in this version; all objects were looked at.
    Read(i64, u8, bool),
    /// The note stands, for what was read at this moment; all objects were looked at again.
    Noted(i64, OrphanNote, bool),
}

/// A note: its last moment, and the number of its attempt.
type OrphanNote = (i64, u8);

/// Where a process is with an object that names the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Taking {
    Idle,
    /// The account let it, at this moment of the process.
    Let(i64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    releasing: Releasing,
    taking: Taking,
    /// The note whose release this process knows the end of.
    ended: Option<OrphanNote>,
}

/// A call on its way, and the last tick in which it arrives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Call {
    Release(u8),
    Mark(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    version: u8,
    note: Option<OrphanNote>,
    has_object: bool,
    is_marked: bool,
    is_released: bool,
    calls: Vec<Call>,
    processes: [Process; 2],
    crashes: u8,
    broken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    Tick,
    Create,
    Crash(usize),
    Read(usize),
    Look(usize),
    Note(usize),
    Send(usize),
    Clear(usize),
    Ask(usize),
    Take(usize),
    Arrive(usize),
}

#[derive(Clone, Debug)]
struct Scene {
    /// How far the clock of the second process is ahead, in ticks.
    ahead: i64,
    variant: Variant,
}

/// The machine, with the mark of an object that is gone.
static LOST: LazyLock<Server> = LazyLock::new(|| {
    let mark = marks::mark(CLUSTER, "shop", "gone", "uid-gone");
    Server {
        id: ServerId::parse(MACHINE).unwrap(),
        tags: vec![
            marks::cluster_tag(CLUSTER),
            format!("fmo-order:{mark}00000001"),
        ],
        status: ServerStatus::Delivered,
        ..control_server(0)
    }
});

impl Scene {
    fn wall(&self, state: &State, process: usize) -> i64 {
        let ahead = if process == 1 { self.ahead } else { 0 };
        BASE + (i64::from(state.now) + ahead) * TICK
    }

    fn moment(&self, state: &State, process: usize) -> Moment {
        Moment {
            mono: Duration::from_secs(u64::from(state.now) * TICK.unsigned_abs()),
            wall: self.wall(state, process),
        }
    }

    /// What a process reads of the account.
    fn facts(&self, state: &State, process: usize) -> Facts {
        let at = |second: i64| Time(Timestamp::from_second(second).unwrap());
        let release = |(send_by, attempt): OrphanNote| OrphanRelease {
            uuid: MACHINE.into(),
            attempt: attempt.to_string(),
            send_by: at(send_by),
        };
        let since = json!({ "uuid": MACHINE, "hostname": "gone", "since": at(BASE - 1_000_000) });
        let line: Orphan = serde_json::from_value(since).unwrap();
        let spec = json!({ "apiKeySecretRef": { "name": "key" } });
        let spec: AccountSpec = serde_json::from_value(spec).unwrap();
        let now = Duration::from_secs(1_000_000);
        Facts {
            now,
            wall: self.wall(state, process),
            key: AccountKey::named(AccountKind::ProviderAccount, Some("shop"), "default"),
            meta: ObjectMeta::default(),
            spec: AccountSpec {
                release_brake: Some(ReleaseBrake {
                    max_releases: 9,
                    window: Interval::seconds(3600),
                }),
                ..spec
            },
            timing: TimingInForce {
                absence_grace_period: Interval::seconds(60),
                ..TimingInForce::default()
            },
            status: AccountStatus {
                orphans: vec![line],
                orphan_release: state.note.map(release),
                ..AccountStatus::default()
            },
            secret_namespace: "shop".into(),
            keys: Keys::default(),
            secret: SecretFact::Missing,
            endpoint: Ok(()),
            users: None,
            used_by: Vec::new(),
            named_users: Vec::new(),
            figures_are_due: false,
            secret_is_shared: false,
            connected: true,
            in_force: None,
            on_record: None,
            missed_since: None,
            open_elsewhere: false,
            used_before: false,
            fresh_word: String::new(),
            report: None,
            failed: None,
            patience: Patience::default(),
            releases_after: Some(Duration::from_secs(3600)),
            cluster: ClusterId::parse(CLUSTER).unwrap(),
            is_namespace_suspended: Some(false),
            orphan_memory: OrphanMemory {
                since: [(MACHINE.to_owned(), Duration::ZERO)].into(),
                ended: state.processes[process]
                    .ended
                    .map(|note| (release(note), true)),
                ..OrphanMemory::default()
            },
            orphans_of_living: BTreeSet::new(),
            asked: Asked::default(),
            is_only_account: true,
        }
    }

    fn go(&self, before: &State, chosen: Move) -> Option<State> {
        let mut state = before.clone();
        match chosen {
            Move::Tick => state.now += 1,
            Move::Create => state.has_object = true,
            Move::Crash(process) => {
                state.crashes -= 1;
                state.processes[process] = idle();
            }
            Move::Read(process) => {
                // The first look at all objects, so that what is not sent is not counted.
                let is_spoken_of = self.is_spoken_of(&state);
                if is_spoken_of {
                    return None;
                }
                let looked = self.variant == Variant::Early;
                let read = Releasing::Read(self.wall(&state, process), state.version, looked);
                state.processes[process].releasing = read;
            }
            Move::Note(process) => self.note(&mut state, process)?,
            Move::Look(process) => self.look(&mut state, process)?,
            Move::Send(process) => self.send(&mut state, process)?,
            Move::Clear(process) => {
                let facts = self.facts(&state, process);
                let (until, _) = state.note?;
                let is_brief = self.variant == Variant::Brief && facts.wall >= until;
                if note(&facts).is_some() && !is_brief {
                    return None;
                }
                state.note = None;
                state.version += 1;
            }
            Move::Ask(process) => {
                let live = LiveAccount {
                    uid: String::new(),
                    lineage: None,
                    defaults: Policies::default(),
                    is_namespace_suspended: false,
                    terms: Terms::Own,
                    releasing: state.note.map(|_| MACHINE.into()),
                };
                let is_let = may_take_on(&live, MACHINE) || self.variant == Variant::Blind;
                if !is_let || !state.has_object {
                    return None;
                }
                state.processes[process].taking = Taking::Let(self.wall(&state, process));
            }
            Move::Take(process) => {
                let Taking::Let(since) = state.processes[process].taking else {
                    return None;
                };
                state.processes[process].taking = Taking::Idle;
                // It is late, or a read right before shows another machine.
                if self.wall(&state, process) >= since + TICK || state.is_released {
                    return Some(state);
                }
                state.calls.push(Call::Mark(state.now + ON_THE_WAY));
                state.calls.sort_unstable();
            }
            Move::Arrive(index) => match state.calls.remove(index) {
                Call::Release(_) => {
                    state.broken |= state.is_marked;
                    state.is_released = true;
                }
                Call::Mark(_) => state.is_marked |= !state.is_released,
            },
        }
        Some(state)
    }

    fn is_spoken_of(&self, state: &State) -> bool {
        let cluster = ClusterId::parse(CLUSTER).unwrap();
        let meta = ObjectMeta {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            uid: Some("uid-web".into()),
            ..ObjectMeta::default()
        };
        let text = json!({ "spec": { "externalID": MACHINE } }).to_string();
        state.has_object && speaks_of(&cluster, &meta, &text, &LOST)
    }

    /// The note is written on the version that was read, or not at all.
    fn note(&self, state: &mut State, process: usize) -> Option<()> {
        let Releasing::Read(since, version, looked) = state.processes[process].releasing else {
            return None;
        };
        let facts = self.facts(state, process);
        let begun = start(&facts, &LOST, "", WINDOW);
        state.processes[process].releasing = Releasing::Idle;
        if let Start::Note(release, _) = begun
            && version == state.version
        {
            // Each version of the account has one writer.
            let noted = (release.send_by.0.as_second(), state.version);
            state.note = Some(noted);
            state.version += 1;
            let noted = Releasing::Noted(since, noted, looked);
            state.processes[process].releasing = noted;
        }
        Some(())
    }

    /// All objects are listed live.
    fn look(&self, state: &mut State, process: usize) -> Option<()> {
        let Releasing::Noted(since, send_by, false) = state.processes[process].releasing else {
            return None;
        };
        state.processes[process].releasing = match self.is_spoken_of(state) {
            false => Releasing::Noted(since, send_by, true),
            true => {
                state.processes[process].ended = Some(send_by);
                Releasing::Idle
            }
        };
        Some(())
    }

    /// The machine is read once more, and the release sent.
    fn send(&self, state: &mut State, process: usize) -> Option<()> {
        let Releasing::Noted(since, send_by, true) = state.processes[process].releasing else {
            return None;
        };
        state.processes[process].releasing = Releasing::Idle;
        let now = self.moment(state, process);
        let ago = u64::try_from(now.wall - since).unwrap();
        let since = Moment {
            mono: now.mono - Duration::from_secs(ago),
            wall: since,
        };
        let mut record = LOST.clone();
        if state.is_marked {
            record.tags.push(format!("fmo-order:{}", "a".repeat(32)));
        }
        let window = match self.variant {
            Variant::Late => Duration::MAX,
            _ => WINDOW,
        };
        let may_send = is_unchanged(&LOST, &record) && is_in_time(since, now, window);
        if state.is_released || !may_send {
            state.processes[process].ended = Some(send_by);
            return Some(());
        }
        state.calls.push(Call::Release(state.now + ON_THE_WAY));
        state.calls.sort_unstable();
        Some(())
    }
}

fn idle() -> Process {
    Process {
        releasing: Releasing::Idle,
        taking: Taking::Idle,
        ended: None,
    }
}

/// No release reaches a machine that an object has taken on.
const SAFE: &str = "no release of what was taken on";
/// Most writes of the account.
const WRITES: u8 = 4;
/// Most ticks of a walk.
const MOST: u8 = 5;

impl Model for Scene {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            version: 0,
            note: None,
            has_object: false,
            is_marked: false,
            is_released: false,
            calls: Vec::new(),
            processes: [idle(), idle()],
            crashes: 1,
            broken: false,
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        // Nothing can go wrong any more with a machine that is gone.
        if state.broken || state.is_released {
            return;
        }
        // What must arrive by now arrives before time goes on.
        let is_due = |call: &Call| match call {
            Call::Release(until) | Call::Mark(until) => *until == state.now,
        };
        if state.now < MOST && !state.calls.iter().any(is_due) {
            moves.push(Move::Tick);
        }
        if !state.has_object {
            moves.push(Move::Create);
        }
        moves.extend((0..state.calls.len()).map(Move::Arrive));
        for process in 0..2 {
            let me = &state.processes[process];
            if state.crashes > 0 && *me != idle() {
                moves.push(Move::Crash(process));
            }
            match me.releasing {
                Releasing::Idle if state.note.is_none() && state.version < WRITES => {
                    moves.push(Move::Read(process));
                }
                Releasing::Idle => {}
                Releasing::Read(..) => moves.push(Move::Note(process)),
                Releasing::Noted(_, _, false) => moves.push(Move::Look(process)),
                Releasing::Noted(_, _, true) => moves.push(Move::Send(process)),
            }
            if state.note.is_some() {
                moves.push(Move::Clear(process));
            }
            // What takes on shares nothing with what releases, so one process is enough for it: the one whose clock is off.
            let is_marking = state.calls.iter().any(|call| matches!(call, Call::Mark(_)));
            if process == 1 && state.has_object && !state.is_marked && !is_marking {
                let next = match me.taking {
                    Taking::Idle => Move::Ask(process),
                    Taking::Let(_) => Move::Take(process),
                };
                moves.push(next);
            }
        }
    }

    fn next_state(&self, state: &State, chosen: Move) -> Option<State> {
        self.go(state, chosen).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| !state.broken),
            Property::sometimes("it is released", |_, state: &State| state.is_released),
            Property::sometimes("it is taken on", |_, state: &State| state.is_marked),
        ]
    }
}

/// How many states there are, or the way to what broke.
fn walk(scene: &Scene) -> Result<usize, Vec<Move>> {
    let checker = scene
        .clone()
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!("orphan model: {scene:?}: {states} states");
    let mut found = checker.discoveries();
    match found.remove(SAFE) {
        Some(path) => Err(path.into_actions()),
        None => {
            assert_eq!(
                found.len(),
                2,
                "it is released, and taken on, in some state"
            );
            Ok(states)
        }
    }
}

#[test]
fn no_release_reaches_a_machine_that_an_object_has_taken_on() {
    for ahead in [0, 1] {
        let variant = Variant::Ships;
        let walked = walk(&Scene { ahead, variant });
        match walked {
            Ok(states) => assert!(states > 1000, "a model that hardly moves proves nothing"),
            Err(moves) => panic!("{ahead} ahead: {moves:?}"),
        }
    }
}

#[test]
fn whoever_takes_on_without_a_look_at_the_account_is_noticed() {
    breaks(Variant::Blind);
}

#[test]
fn a_list_of_objects_from_before_the_note_is_noticed() {
    breaks(Variant::Early);
}

#[test]
fn a_note_that_ends_too_soon_is_noticed() {
    breaks(Variant::Brief);
}

#[test]
fn a_release_that_is_sent_late_is_noticed() {
    breaks(Variant::Late);
}

fn breaks(variant: Variant) {
    let walked = walk(&Scene { ahead: 0, variant });
    assert!(walked.is_err(), "{variant:?}: {walked:?}");
}
