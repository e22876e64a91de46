//! The world of the model, as small as it can be: objects, machines, requests on the wire, processes.
//!
//! Everything is `Copy` or a short list of such, so that a state is cheap to clone and to hash. What
//! the deciding code reads is built from it on the fly, in [`super::real`].

pub use super::process::*;
use flexmetal_operator::kinds::server::OrderOutcome;

/// Time in ticks of [`TICK`] seconds.
pub type Tick = u8;
/// Seconds of one tick.
pub const TICK: i64 = 10;
/// Absence grace period in ticks. The send window, the way of a request and the listing lag are one tick each.
pub const GRACE: Tick = 3;
/// Wall time of tick 0.
pub const BASE: i64 = 1_790_000_000;
/// Most machines at once; no configuration needs more.
pub const MOST_MACHINES: usize = 4;

/// An object's identity: its name (slot), and which life of that name it is (UID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    pub slot: u8,
    pub life: u8,
}

/// The intent of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntentA {
    pub who: Who,
    /// Seconds after [`BASE`], as `send_by`.
    pub epoch: i16,
    pub send_by: i16,
    /// Which nonce; [`ADOPTED`] for none.
    pub attempt: u8,
    pub unknown_before: u8,
}

/// The nonce of an intent that only a machine's tags tell of.
pub const ADOPTED: u8 = u8::MAX;

/// An order in status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordA {
    pub intent: IntentA,
    pub outcome: Option<OrderOutcome>,
    /// Seconds after [`BASE`]; kept only where the pace of the next order depends on it.
    pub settled: i16,
    pub failures: u8,
}

/// A status, as far as anything is decided by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatusA {
    pub order: Option<RecordA>,
    pub uuid: Option<u8>,
    pub ready: Option<ReadyA>,
    pub stalled: bool,
}

/// The condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyA {
    pub on: bool,
    /// Seconds after [`BASE`] of the last change; kept only while there is no order.
    pub since: i16,
    /// Index into `Reason::ALL`.
    pub reason: u8,
}

/// One `BareMetalServer` at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Obj {
    pub who: Who,
    pub version: u8,
    pub created: Tick,
    pub deleting: bool,
    pub finalizer: bool,
    pub note: Option<IntentA>,
    pub begun: Option<u8>,
    /// The epoch that a person says made no machine.
    pub acknowledged: Option<i16>,
    pub retain: bool,
    pub suspend: bool,
    pub renamed: bool,
    pub status: Option<StatusA>,
}

/// State of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    Provisioning,
    Delivered,
    Failed,
    Releasing,
    Released,
}

/// One machine at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Order tags: object and epoch.
    pub marks: [Option<(Who, i16)>; 2],
    pub cluster: bool,
    pub retained: bool,
    pub life: Life,
    pub delivered: bool,
    pub created: Tick,
    /// Whose it truly is: who ordered it, or who took it over.
    pub owner: Who,
    /// Somebody outside took marks away.
    pub stripped: bool,
    /// The policy was Retain when the machine was tagged so.
    pub by_policy: bool,
    /// It is failed, and the provider said no to its release.
    pub refused: bool,
}

impl Machine {
    pub fn is_live(&self) -> bool {
        matches!(self.life, Life::Provisioning | Life::Delivered)
    }
    pub fn bears(&self, who: Who) -> bool {
        self.marks.iter().flatten().any(|(w, _)| *w == who)
    }
}

/// A request whose sender does not wait for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    Post {
        intent: IntentA,
        sent: Tick,
    },
    Delete {
        machine: u8,
        by: Who,
        sent: Tick,
    },
    /// A write of the intent to the API server.
    Intent {
        slot: u8,
        version: u8,
        intent: IntentA,
    },
}

/// How the provider answers at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mood {
    Normal,
    /// 401 or 403 to everything.
    Denied,
    /// Every listing is empty and every look-up a clean 404, as another account would answer.
    Blank,
}

/// A rule that an action broke; what a state shows by itself is in [`super::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    SecondPost,
    ForeignDelete,
    Dropped,
    LateRetain,
}

/// The things that may go wrong or be done by people, each with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    Crash,
    /// A provider answer lost: before the effect, or the effect comes later.
    Lost,
    /// The same with a 5xx.
    ServerError,
    /// An API server answer lost: before, after, or the write arrives later.
    LostWrite,
    Refuse,
    LateListing,
    Blank,
    Deny,
    StripNote,
    StripStatus,
    StripTags,
    Fail,
    ReleasedOutside,
    Delete,
    Edit,
    Copy,
    Restore,
    Acknowledge,
}

/// How many kinds of fault there are.
pub const FAULTS: usize = 18;

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Tick,
    pub objects: [Option<Obj>; SLOTS],
    /// The annotation of an object as a backup has it, and how many lives its name had.
    pub backup: [Option<IntentA>; SLOTS],
    pub lives: [u8; SLOTS],
    pub machines: Vec<Machine>,
    pub wire: Vec<Wire>,
    pub mood: Mood,
    pub processes: Vec<Process>,
    pub attempts: u8,
    /// Every POST that was sent, by object and epoch.
    pub posts: Vec<(Who, i16)>,
    /// Some process has used the account before, as its status shows.
    pub used: bool,
    pub budget: [u8; FAULTS],
    pub broken: Option<Broken>,
}

impl World {
    /// Takes one of a budget; false when it is used up.
    pub fn spend(&mut self, fault: Fault) -> bool {
        let left = &mut self.budget[fault as usize];
        let some = *left > 0;
        *left = left.saturating_sub(1);
        some
    }
    pub fn has(&self, fault: Fault) -> bool {
        self.budget[fault as usize] > 0
    }
}
