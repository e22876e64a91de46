//! The world of a re-installation: the object as the API server has it, two processes, the provider, and what else may
//! happen to the machine. Small values; what is large stands in tables and is named by a number.

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
/// Seconds of one tick: nothing that was begun before it is sent after it, and what was sent has arrived.
pub(super) const TICK: i64 = 600;
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// Most commands that the provider makes in a walk.
pub(super) const MOST_MADE: usize = 6;
/// One more than the highest revision.
pub(super) const REVISIONS: usize = 4;

pub(super) static STATUSES: LazyLock<Interner<InstallHistory, Arc<InstallHistory>>> =
    LazyLock::new(Interner::default);
pub(super) static ATTEMPTS: LazyLock<Interner<Attempt, Arc<Attempt>>> =
    LazyLock::new(Interner::default);
pub(super) static MEMORIES: LazyLock<Interner<ServerMemory, Arc<ServerMemory>>> =
    LazyLock::new(Interner::default);
/// By revision and generation, on which alone it depends here.
pub(super) static REQUESTS: LazyLock<Interner<(u8, u8), NewReinstall>> =
    LazyLock::new(Interner::default);

pub(super) fn status(status: InstallHistory) -> u32 {
    STATUSES.put(status.clone(), || Arc::new(status))
}

pub(super) fn memory(memory: ServerMemory) -> u32 {
    MEMORIES.put(memory.clone(), || Arc::new(memory))
}

pub(super) fn attempt(attempt: Attempt) -> u32 {
    ATTEMPTS.put(attempt.clone(), || Arc::new(attempt))
}

/// An attempt whose intent is being written, or was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) record: InstallRecord,
    pub(super) known: InstallHistory,
    /// Of the request.
    pub(super) new: u32,
    /// When it began: the tick, and its number.
    pub(super) since: (u8, u8),
    /// The object was protected when the intent was made.
    pub(super) was_protected: bool,
}

/// What the object's status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Said {
    /// Nothing: somebody took it off.
    Lost,
    /// The machine, and of re-installations what stands under this number.
    Installs(u32),
}

/// The object, without its version: a write or a read notes whether what it rests on is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Object {
    pub(super) revision: u8,
    pub(super) generation: u8,
    pub(super) is_protected: bool,
    pub(super) is_deleting: bool,
    pub(super) is_begun: bool,
    pub(super) said: Said,
}

/// What a process is in the middle of. `is_newest`: nobody has written the object since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Task {
    Idle,
    /// A re-installation was decided: the object is read again next.
    Start(u32),
    /// It was: machine and commands are next.
    CheckBeforeIntent {
        number: u8,
        since: u8,
        new: u32,
        object: Object,
        is_newest: bool,
    },
    /// The intent is written next.
    Intend {
        attempt: u32,
        is_newest: bool,
    },
    /// It stands: are commands under way?
    Ask(u32),
    /// None is: the object is read once more next.
    GetObjectAgain(u32),
    /// The request goes out.
    Send(u32),
    /// A release was decided; then, its note is written.
    Release,
    RecordRelease {
        is_newest: bool,
    },
    /// That the machine stays was decided; then, its tag is put on; then the finalizer goes.
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
    /// What it has seen of the object, and whether that is the newest.
    pub(super) view: Object,
    pub(super) sees_newest: bool,
}

/// A command of the machine. `revision`: of the wish that the operator sent it for; 0: a person's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Made {
    pub(super) revision: u8,
    pub(super) at: u8,
    pub(super) state: Progress,
}

impl Made {
    /// Whether it may come to its end.
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

/// A request that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    pub(super) revision: u8,
    pub(super) was_protected: bool,
}

/// A ServerCommand: noted, then the server is read, then it is sent.
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
    /// None: it is gone, and its machine is somebody else's or nobody's.
    pub(super) object: Option<Object>,
    pub(super) is_retained: bool,
    pub(super) processes: [Process; 2],
    pub(super) made: [Option<Made>; MOST_MADE],
    pub(super) wire: [Option<Wire>; 2],
    pub(super) power: Power,
    /// So many wipes by the operator, by revision.
    pub(super) wiped: [u8; REVISIONS],
    /// Attempts that were begun.
    pub(super) attempts: u8,
    pub(super) edits: u8,
    pub(super) crashes: u8,
    pub(super) user_installs: u8,
    pub(super) strips: u8,
    pub(super) restores: u8,
    pub(super) broken: Option<&'static str>,
}

/// What becomes of a write or of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    Done,
    /// Done, and the answer is lost.
    Unanswered,
    /// It never arrives, and nobody is told.
    Lost,
    /// On its way still, and the answer is lost.
    Late,
    /// The provider says that it will not.
    Refused,
    /// It says 409 and does nothing.
    Conflict,
    /// It does not take the key for a moment.
    Denied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Move {
    Tick,
    /// A pass: decides, and does what takes one step.
    Pass(usize),
    /// The next step of what it is in the middle of.
    Step(usize, Fate),
    /// Its watch shows it the object.
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

/// `number`: no two attempts begin in the same second.
pub(super) fn moment(tick: u8, number: u8) -> Moment {
    let since = u64::from(tick) * TICK.unsigned_abs() + u64::from(number);
    Moment {
        wall: wall(tick) + i64::from(number),
        mono: Duration::from_secs(100_000 + since),
    }
}

impl State {
    /// Somebody has written the object: what others rest on is not the newest any more.
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

    /// This process has read or written the object.
    pub(super) fn seen(&mut self, it: usize) {
        if let Some(object) = self.object {
            self.processes[it].view = object;
            self.processes[it].sees_newest = true;
        }
    }

    /// A request of ours is carried out.
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

    /// Whether a request of ours is on its way, or about to be.
    pub(super) fn is_sending(&self) -> bool {
        let sends = |p: &Process| matches!(p.task, Task::Send(_));
        self.wire.iter().any(Option::is_some) || self.processes.iter().any(sends)
    }

    /// Whether one runs that its record calls open.
    pub(super) fn is_installing(&self) -> bool {
        let said = self.object.map(|object| object.said);
        let Some(Said::Installs(number)) = said else {
            return false;
        };
        let runs = |m: &Made| m.revision > 0 && m.state == Progress::Pending;
        STATUSES.get(number).open().is_some() && self.made.iter().flatten().any(runs)
    }
}
