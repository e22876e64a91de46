//! One operator process: what it has seen, what it remembers, what it is in the middle of.

use super::world::*;
use flexmetal_operator::controllers::once::Stage;

/// What a process is in the middle of, for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    Idle,
    /// An effect was decided on this object as seen.
    Act {
        effect: u32,
        object: Obj,
    },
    /// At this stage of an order.
    Attempt(Stage, OpenAttempt),
    /// Has looked at the clock; only where the configuration lets a process freeze here.
    Frozen(OpenAttempt),
    /// About to send a DELETE on a record read at this tick.
    Delete {
        machine: u8,
        since: Tick,
        object: Obj,
    },
}

/// An attempt that this pass has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenAttempt {
    pub record: RecordA,
    /// The status that tells of it.
    pub status: StatusA,
    pub since: Tick,
    /// The version that the next write rests on; 0 where none follows.
    pub version: u8,
}

/// A complete listing that a process made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProofA {
    pub began: Tick,
    /// Bit set of machines shown.
    pub shown: u8,
    pub control: bool,
}

/// Most objects of a configuration.
pub const SLOTS: usize = 2;

/// One operator process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub started: Tick,
    pub used_before: bool,
    pub blocked: bool,
    pub proof: Option<ProofA>,
    pub seen: [Option<Machine>; MOST_MACHINES],
    /// The machine without an order mark that the list of all showed, made with the proof listing. One
    /// is all that the bounds allow.
    pub bare: Option<(u8, Machine)>,
    pub cache: [Option<Obj>; SLOTS],
    /// Interned memories.
    pub memory: [u32; SLOTS],
    pub task: [Task; SLOTS],
}

impl Process {
    /// A process that starts now and knows nothing.
    pub fn fresh(now: Tick, used_before: bool, objects: &[Option<Obj>; SLOTS]) -> Self {
        Self {
            started: now,
            used_before,
            blocked: false,
            proof: None,
            seen: [None; MOST_MACHINES],
            bare: None,
            cache: *objects,
            memory: [0; SLOTS],
            task: [Task::Idle; SLOTS],
        }
    }
}
