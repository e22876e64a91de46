//! The world of a re-installation: the object at the API server, two processes, the provider and the user. States are
//! small; large values are interned and referenced by number.

use super::super::interner::Interner;
use api::install::{InstallHistory, InstallRecord};
use flexmetal_core::{
    moment::Moment,
    server::{decide::NewReinstall, memory::ServerMemory},
};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

pub(super) const BASE: i64 = 1_790_000_000;
/// Seconds of one tick. Nothing begun before it is sent after it, and sent requests have arrived.
pub(super) const TICK: i64 = 600;
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// Maximum number of commands that the provider creates in a walk.
pub(super) const MOST_MADE: usize = 6;
/// The highest revision plus one.
pub(super) const REVISIONS: usize = 4;

pub(super) static STATUSES: LazyLock<Interner<InstallHistory, Arc<InstallHistory>>> =
    LazyLock::new(Interner::default);
pub(super) static ATTEMPTS: LazyLock<Interner<Attempt, Arc<Attempt>>> =
    LazyLock::new(Interner::default);
pub(super) static MEMORIES: LazyLock<Interner<ServerMemory, Arc<ServerMemory>>> =
    LazyLock::new(Interner::default);
/// Keyed by revision and generation, the only inputs here.
pub(super) static REQUESTS: LazyLock<Interner<(u8, u8), NewReinstall>> =
    LazyLock::new(Interner::default);

pub(super) fn status(status: InstallHistory) -> u32 {
    STATUSES.put(status, |status| Arc::new(status.clone()))
}

pub(super) fn memory(memory: ServerMemory) -> u32 {
    MEMORIES.put(memory, |memory| Arc::new(memory.clone()))
}

pub(super) fn attempt(attempt: Attempt) -> u32 {
    ATTEMPTS.put(attempt, |attempt| Arc::new(attempt.clone()))
}

/// An attempt whose intent is being written or is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) record: InstallRecord,
    pub(super) known: InstallHistory,
    /// Number of the request.
    pub(super) new: u32,
    /// When it began: the tick, and the attempt's number.
    pub(super) since: (u8, u8),
    /// Whether the object was protected when the intent was made.
    pub(super) was_protected: bool,
}

/// The content of the object's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Said {
    /// Nothing: a user removed it.
    Lost,
    /// The server, and the re-installations with this number.
    Installs(u32),
}

/// The object without its version: reads and writes record whether they use the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Object {
    pub(super) revision: u8,
    pub(super) generation: u8,
    pub(super) is_protected: bool,
    pub(super) is_deleting: bool,
    pub(super) is_begun: bool,
    pub(super) said: Said,
}

/// The current step of a process. `is_newest`: the object is unchanged since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Task {
    Idle,
    /// A re-installation was decided. Next: read the object again.
    Start(u32),
    /// The object was read. Next: check server and commands.
    CheckBeforeIntent {
        number: u8,
        since: u8,
        new: u32,
        object: Object,
        is_newest: bool,
    },
    /// Next: write the intent.
    Intend {
        attempt: u32,
        is_newest: bool,
    },
    /// The intent is written. Next: check for running commands.
    Ask(u32),
    /// No command runs. Next: read the object once more.
    GetObjectAgain(u32),
    /// Next: send the request.
    Send(u32),
    /// A release was decided. Next: record it.
    Release,
    RecordRelease {
        is_newest: bool,
    },
    /// A retention was decided. Next: add the tag, then remove the finalizer.
    Retain,
    TagRetained {
        since: u8,
    },
    LetGo {
        is_newest: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Process {
    pub(super) memory: u32,
    pub(super) task: Task,
    /// The object as it was last seen, and whether that version is the newest.
    pub(super) view: Object,
    pub(super) sees_newest: bool,
}

/// A command of the server. `revision`: the revision that the operator sent it for; 0: a user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Made {
    pub(super) revision: u8,
    pub(super) at: u8,
    pub(super) state: Progress,
}

impl Made {
    /// Whether it may end now.
    pub(super) fn may_end(self, now: u8, is_quick: bool) -> bool {
        self.state == Progress::Pending && (self.at < now || is_quick)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    Pending,
    Finished,
    Failed,
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    pub(super) revision: u8,
    pub(super) was_protected: bool,
}

/// A ServerCommand: recorded, then the server is read, then the command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Power {
    None,
    Requested,
    Recorded,
    Let,
    Sent,
    Over,
}

impl Power {
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, Self::Recorded | Self::Let | Self::Sent)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u8,
    /// None: it is gone, and its server may belong to another owner.
    pub(super) object: Option<Object>,
    pub(super) is_retained: bool,
    pub(super) processes: [Process; 2],
    pub(super) made: [Option<Made>; MOST_MADE],
    pub(super) wire: [Option<Wire>; 2],
    pub(super) power: Power,
    /// Number of wipes by the operator, by revision.
    pub(super) wiped: [u8; REVISIONS],
    /// Number of started attempts.
    pub(super) attempts: u8,
    pub(super) edits: u8,
    pub(super) crashes: u8,
    pub(super) user_installs: u8,
    pub(super) strips: u8,
    pub(super) restores: u8,
    pub(super) broken: Option<&'static str>,
}

/// The fate of a write or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    Done,
    /// Done, and the answer is lost.
    Unanswered,
    /// It never arrives, and there is no answer.
    Lost,
    /// Still in flight, and the answer is lost.
    Late,
    /// The provider refuses for good.
    Refused,
    /// The provider answers 409 and does nothing.
    Conflict,
    /// The provider rejects the key for a moment.
    Denied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Move {
    Tick,
    /// A reconcile: decides, and does the first step.
    Pass(usize),
    /// The next step of its task.
    Step(usize, Fate),
    /// Its watch shows the object.
    See(usize),
    Crash(usize),
    Arrive(usize),
    End(usize, Progress),
    Portal,
    Edit,
    Protect,
    Delete,
    Strip,
    Restore,
    Power,
}

pub(super) fn wall(tick: u8) -> i64 {
    BASE + i64::from(tick) * TICK
}

/// The moment in a tick. `number` prevents that two attempts begin in the same second.
pub(super) fn moment(tick: u8, number: u8) -> Moment {
    let since = u64::from(tick) * TICK.unsigned_abs() + u64::from(number);
    Moment {
        wall: wall(tick) + i64::from(number),
        mono: Duration::from_secs(100_000 + since),
    }
}

impl State {
    /// Writes the object. No process has the newest version then.
    pub(super) fn write(&mut self, object: Option<Object>) {
        self.object = object;
        for process in &mut self.processes {
            process.sees_newest = false;
            match &mut process.task {
                Task::CheckBeforeIntent { is_newest, .. }
                | Task::Intend { is_newest, .. }
                | Task::RecordRelease { is_newest }
                | Task::LetGo { is_newest } => *is_newest = false,
                _ => {}
            }
        }
    }

    /// Records that this process has read or written the object.
    pub(super) fn seen(&mut self, it: usize) {
        if let Some(object) = self.object {
            self.processes[it].view = object;
            self.processes[it].sees_newest = true;
        }
    }

    /// Executes a request of ours.
    pub(super) fn wipe(&mut self, wire: Wire) {
        let Wire {
            revision,
            was_protected,
        } = wire;
        self.make(revision);
        let wiped = &mut self.wiped[usize::from(revision)];
        *wiped += 1;
        if *wiped > 1 {
            self.broken = Some("wiped twice for one revision");
        }
        if revision <= 1 {
            self.broken = Some("wiped for what was there at first sight");
        }
        if was_protected {
            self.broken = Some("wiped although protected since before the intent");
        }
        match self.object {
            None => self.broken = Some("wiped when it was not the object's"),
            Some(object) if object.is_begun => self.broken = Some("wiped after the note"),
            Some(_) => {}
        }
    }

    pub(super) fn make(&mut self, revision: u8) {
        if let Some(free) = self.made.iter_mut().find(|made| made.is_none()) {
            *free = Some(Made {
                revision,
                at: self.now,
                state: Progress::Pending,
            });
        }
    }

    /// Whether a request of ours is in flight, or about to be.
    pub(super) fn is_sending(&self) -> bool {
        let sends = |p: &Process| matches!(p.task, Task::Send(_));
        self.wire.iter().any(Option::is_some) || self.processes.iter().any(sends)
    }

    /// Whether a re-installation runs that its record calls open.
    pub(super) fn is_installing(&self) -> bool {
        let said = self.object.map(|object| object.said);
        let Some(Said::Installs(number)) = said else {
            return false;
        };
        let runs = |m: &Made| m.revision > 0 && m.state == Progress::Pending;
        STATUSES.get(number).unfinished().is_some() && self.made.iter().flatten().any(runs)
    }
}
