//! The world of the model, as small as it can be: objects, machines, requests on the wire, processes.
//!
//! Everything is `Copy` or a short list of such, so that a state is cheap to clone and to hash. What
//! the deciding code reads is built from it on the fly, in [`super::real`].

pub use super::process::*;
use api::server::OrderOutcome;

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
    /// It asks for the other host name.
    pub renamed: bool,
    /// Lineage and connection of the account that it goes to.
    pub account: Option<(u8, Connection)>,
}

/// The order annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoteA {
    pub intent: IntentA,
    /// How it ended without a machine.
    pub outcome: Option<OrderOutcome>,
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
    /// A user acknowledged its outcome.
    pub acknowledged: bool,
    /// The token by which it was ordered: a number of [`real::TEXTS`](super::real::TEXTS).
    pub token: u32,
}

/// A status, as far as anything is decided by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatusA {
    pub order: Option<RecordA>,
    pub uuid: Option<u8>,
    /// The machine that it names is not live any more.
    pub over: bool,
    pub ready: Option<ReadyA>,
    pub stalled: bool,
    /// Machines that another one was ordered in the place of, and whether they failed.
    pub replaced: [Option<(u8, bool)>; 2],
    /// What waits for an acknowledgement, and what was acted on: a number of [`real::LISTS`](super::real::LISTS).
    pub asked: u32,
}

/// The condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyA {
    pub on: bool,
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
    pub note: Option<NoteA>,
    /// The machine whose release is on record in the status.
    pub begun: Option<u8>,
    /// The tokens that a user gave: a number of [`real::TEXTS`](super::real::TEXTS).
    pub given: u32,
    /// Bit set of the machines that a token stood for which a user gave for this very object. No decision reads it.
    pub beside: u8,
    pub retain: bool,
    pub suspend: bool,
    pub renamed: bool,
    /// The machine that it names.
    pub names: Option<u8>,
    /// That machine is only looked at.
    pub observe: bool,
    /// Ticks before its release may begin; they count from its creation, by which it is deleted in the model.
    pub delay: Tick,
    /// Its machine is replaced when it failed, or somebody else released it.
    pub replaces: bool,
    /// When it ends by itself; 0: never.
    pub expires: Tick,
    pub status: Option<StatusA>,
}

impl Obj {
    /// The machine that it has on record.
    pub fn has(&self) -> Option<u8> {
        let status = self.status?;
        let order = status.order.filter(|order| order.intent.who == self.who)?;
        status
            .uuid
            .filter(|_| order.outcome == Some(OrderOutcome::Created))
    }
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
    /// The provider's account that it stands in.
    pub account: u8,
    /// Order tags: object and epoch.
    pub marks: [Option<(Who, i16)>; MOST_MARKS],
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
    /// Failed, it may come to life before this tick.
    pub flaps_until: Tick,
    /// It has the other host name.
    pub renamed: bool,
    /// A user acknowledged that another one is ordered beside it.
    pub named: bool,
    /// It was there before the objects.
    pub brought: bool,
}

/// The owner of a machine that has none.
pub const NOBODY: Who = Who {
    slot: u8::MAX,
    life: 0,
};
/// Most order tags on a machine.
pub const MOST_MARKS: usize = 3;

impl Machine {
    pub fn is_live(&self) -> bool {
        matches!(self.life, Life::Provisioning | Life::Delivered)
    }
    /// An earlier object of this name left it behind, and it is paid for.
    pub fn is_kept_of(&self, slot: usize) -> bool {
        self.is_live() && self.retained && usize::from(self.owner.slot) == slot
    }
    pub fn bears(&self, who: Who) -> bool {
        self.marks.iter().flatten().any(|(w, _)| *w == who)
    }
}

/// The account object, as far as its status says where it leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccountA {
    pub endpoint: Option<Connection>,
    pub lineage: Option<u8>,
    /// Bit set of the provider's accounts whose control machine it remembers.
    pub known: u8,
    /// How many lineages there were.
    pub lineages: u8,
    /// What waits for an acknowledgement, and what was acted on: a number of [`real::LISTS`](super::real::LISTS).
    pub asked: u32,
    /// The tokens that a user gave: a number of [`real::TEXTS`](super::real::TEXTS).
    pub given: u32,
    /// Its release limit lets one release begin, with what it has counted.
    pub release_limit: Option<ReleaseLimitA>,
}

/// What the release limit of an account has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReleaseLimitA {
    /// Bit set of machines.
    pub counted: u8,
    pub blocked: bool,
    /// How often a user acknowledged what was held.
    pub words: u8,
    /// Bit set of the machines whose release has begun.
    pub begun: u8,
}

/// The objects as they were, and whether the account's status showed then that it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OlderA {
    pub objects: [Option<Obj>; SLOTS],
    pub used: bool,
}

/// A base URL with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Connection {
    First,
    /// Another key of the same account.
    Rotated,
    /// Another account.
    Other,
}

impl Connection {
    pub const ALL: [Self; 3] = [Self::First, Self::Rotated, Self::Other];

    /// The account that it leads to.
    pub fn account(self) -> u8 {
        u8::from(self == Self::Other)
    }
}

/// A request whose sender does not wait for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    Post {
        intent: IntentA,
        /// The account that it goes to.
        account: u8,
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
    SuspendedDelete,
    ClosedPutBack,
    KindReleased,
    EarlyRelease,
    Beside,
    NamedOrder,
    Observed,
    LiveReleased,
    EarlyExpiry,
    ExpiredOrder,
    OverReleaseLimit,
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
    /// Another key or URL.
    Connect,
    /// The lease changes hands.
    Lease,
    /// The kind is deleted, with all its objects.
    KindDeleted,
    /// A user acknowledges a new key or URL.
    AcknowledgeAccount,
    /// Somebody takes the identifier of the machine out of a status.
    ClearUuid,
    /// The manifest is applied once more, as it is kept elsewhere: without what the operator wrote.
    ApplyAgain,
    /// A user acknowledges that another machine is ordered beside those that are kept.
    OrderAnother,
    /// A machine that failed comes to life after all.
    Flap,
    /// A user acknowledges the releases that the release limit holds.
    Word,
    /// The first listing of a process is older than what the one before it knew.
    Older,
}

/// How many kinds of fault there are.
pub const FAULTS: usize = 28;

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Tick,
    pub objects: [Option<Obj>; SLOTS],
    /// The annotation of an object as a backup has it, and how many lives its name had.
    pub backup: [Option<NoteA>; SLOTS],
    /// The tokens that stand in the manifest of a name.
    pub manifest: [u32; SLOTS],
    pub lives: [u8; SLOTS],
    pub machines: Vec<Machine>,
    pub wire: Vec<Wire>,
    pub mood: Mood,
    pub processes: Vec<Process>,
    pub attempts: u8,
    /// Every POST that was sent, by object and epoch.
    pub posts: Vec<(Who, i16)>,
    /// Where the account object leads to now, as its Secret says.
    pub connection: Connection,
    /// The account object.
    pub account: AccountA,
    /// The kind has a deletionTimestamp.
    pub kind_deleting: bool,
    /// What an API server that is behind would still show.
    pub older: Option<OlderA>,
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
    /// What a listing shows now.
    pub fn shown(&self) -> OlderA {
        OlderA {
            objects: self.objects,
            used: self.account.is_used(),
        }
    }
    /// Whether an object lives.
    pub fn lives(&self, who: Who) -> bool {
        let mut objects = self.objects.iter().flatten();
        objects.any(|o| o.who == who)
    }
    pub fn has(&self, fault: Fault) -> bool {
        self.budget[fault as usize] > 0
    }
}
