//! One operator process: what it has seen, what it remembers, what it is in the middle of.

use super::{real, world::*};
use api::Reason;
use flexmetal_core::once::Stage;

/// What a process is in the middle of, for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    Idle,
    /// An effect was decided on this object as seen.
    Act {
        effect: u32,
        object: Obj,
        /// Whether the kind was being deleted when it was decided.
        kind_deleting: bool,
    },
    /// At this stage of an order.
    Attempt(Stage, OpenAttempt),
    /// Has looked at the clock; only where the configuration lets a process freeze here.
    Frozen(OpenAttempt),
    /// About to put an order's tag on a machine, as it was decided at this tick.
    Mark {
        effect: u32,
        object: Obj,
        since: Tick,
        /// The machine was read.
        is_read: bool,
    },
    /// About to send a DELETE on a record read at this tick.
    Delete {
        machine: u8,
        since: Tick,
        object: Obj,
        record: Machine,
    },
}

/// An attempt that this pass has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenAttempt {
    pub record: RecordA,
    /// The status that tells of it.
    pub status: StatusA,
    pub since: Tick,
    /// The connection that the order was permitted on.
    pub connection: Connection,
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

/// What a process has in force of the account object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SettingsA {
    /// The account was used by another process when this one gained its lease.
    pub used_before: bool,
    pub lineage: Option<u8>,
    pub known: u8,
    /// Why no object may change state; index into `Reason::ALL`.
    pub block: Option<u8>,
    pub no_orders: bool,
    /// What the release limit of the account has counted, and whether it holds.
    pub release_limit: Option<(u8, bool)>,
    /// Start of the first listing over the connection that showed no machine on record.
    pub missed: Option<Tick>,
}

impl SettingsA {
    /// Nothing is known of the account yet.
    fn unread(used_before: bool) -> Self {
        Self {
            used_before,
            lineage: None,
            known: 0,
            block: Some(real::reason_number(Reason::Pending)),
            no_orders: false,
            release_limit: None,
            missed: None,
        }
    }
}

/// Most objects of a configuration.
pub const SLOTS: usize = 2;

/// One operator process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub started: Tick,
    /// Since when it holds the lease; None: it watches only.
    pub acting: Option<Tick>,
    /// What it has taken up of key and URL.
    pub connection: Connection,
    /// The key is refused.
    pub blocked: bool,
    /// What it has made of the account object.
    pub settings: SettingsA,
    pub proof: Option<ProofA>,
    pub seen: [Option<Machine>; MOST_MACHINES],
    /// The machine without an order mark that the list of all showed, made with the proof listing. One
    /// is all that the bounds allow.
    pub bare: Option<(u8, Machine)>,
    pub cache: [Option<Obj>; SLOTS],
    /// When it first saw this object.
    pub first_seen: [Tick; SLOTS],
    /// The object was absent from a listing that began after the lease was gained.
    pub newcomer: [bool; SLOTS],
    /// Interned memories.
    pub memory: [u32; SLOTS],
    pub task: [Task; SLOTS],
}

impl Process {
    /// A process that starts now and knows nothing.
    pub fn fresh(
        now: Tick,
        used_before: bool,
        objects: &[Option<Obj>; SLOTS],
        connection: Connection,
    ) -> Self {
        Self {
            started: now,
            acting: Some(now),
            connection,
            blocked: false,
            settings: SettingsA::unread(used_before),
            proof: None,
            seen: [None; MOST_MACHINES],
            bare: None,
            cache: *objects,
            first_seen: [now; SLOTS],
            newcomer: [false; SLOTS],
            memory: [0; SLOTS],
            task: [Task::Idle; SLOTS],
        }
    }

    /// Takes up another key or URL: what was seen over the former one is not shown over it.
    pub fn connect(&mut self, connection: Connection) {
        self.connection = connection;
        self.settings.missed = None;
        self.blocked = false;
        self.proof = None;
        self.seen = [None; MOST_MACHINES];
        self.bare = None;
    }

    /// Another one has the lease: this one makes no more calls, but for what it is in the middle of.
    pub fn stand_by(&mut self) {
        self.connect(self.connection);
        self.acting = None;
        self.settings = SettingsA::unread(true);
    }

    /// Gains the lease. Everything is listed once more, and what is there is not new.
    pub fn gain(&mut self, now: Tick, connection: Connection, used_before: bool) {
        self.connect(connection);
        self.acting = Some(now);
        self.settings.used_before = used_before;
        self.newcomer = [false; SLOTS];
    }
}
