//! The world of the model, as small as possible: objects, servers, requests in flight, processes.

use flexmetal_core::protocol::{
    AccountId, AcknowledgedActions, ObjectUid, ProtocolMemory, ProtocolOrder, ProtocolOutcome,
    Release, ServerId, ServerPhase,
};
use std::time::Duration;

/// Time in ticks of [`TICK`] seconds.
pub type Tick = u8;
/// Seconds of one tick. An order is sent within one tick, and a request is in flight for at most one.
pub const TICK: u64 = 30;
/// Unix time of tick 0.
pub const BASE: i64 = 1_790_000_000;
/// Number of object names.
pub const SLOTS: usize = 2;
/// Maximum number of servers; no scene needs more.
pub const SERVERS: usize = 4;
/// Maximum number of order tags on a server.
pub const TAGS: usize = 3;

pub fn span(ticks: Tick) -> Duration {
    Duration::from_secs(TICK) * u32::from(ticks)
}

pub fn unix(now: Tick) -> i64 {
    BASE + i64::from(now) * 30
}

pub fn id(server: usize) -> ServerId {
    ServerId(server as u128)
}

pub fn index(id: ServerId) -> usize {
    usize::try_from(id.0).unwrap()
}

/// The owner in an order tag: a name, and the UID of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    pub name: u8,
    pub namespace: u8,
}

/// One `BareMetalServer` at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Obj {
    pub uid: u8,
    pub owner: Owner,
    pub version: u8,
    pub deleting: bool,
    pub finalizer: bool,
    pub order: Option<ProtocolOrder>,
    pub release: Option<Release>,
    pub names: Option<u8>,
    pub retain: bool,
    /// A failed server is replaced.
    pub replace: bool,
    /// A server that a user released is replaced.
    pub reorder: bool,
    pub acknowledged: AcknowledgedActions,
}

impl Obj {
    pub fn uid(&self) -> ObjectUid {
        ObjectUid(u128::from(self.uid))
    }

    /// The record, if it belongs to this object.
    pub fn record(&self) -> Option<ProtocolOrder> {
        self.order.filter(|order| order.uid == self.uid())
    }

    /// The recorded server.
    pub fn has(&self) -> Option<usize> {
        match self.record()?.outcome {
            ProtocolOutcome::Created(server) => Some(index(server)),
            _ => None,
        }
    }
}

/// One server at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Srv {
    pub state: ServerPhase,
    pub account: u8,
    pub created: Tick,
    pub cluster: bool,
    pub foreign: bool,
    pub tags: [Option<(Owner, u32)>; TAGS],
    pub kept: bool,
    /// The true owner: who ordered or adopted it. No rule reads this field or the ones below.
    pub owner: Owner,
    /// It was retained when its object was deleted.
    pub stays: bool,
    /// A user permitted another order next to it.
    pub second_allowed: bool,
    /// A user removed tags.
    pub stripped: bool,
}

impl Srv {
    /// A live server without order tags; this is its true owner.
    pub fn new(owner: Owner, account: u8, created: Tick) -> Self {
        Self {
            state: ServerPhase::Live,
            account,
            created,
            cluster: true,
            foreign: false,
            tags: [None; TAGS],
            kept: false,
            owner,
            stays: false,
            second_allowed: false,
            stripped: false,
        }
    }

    pub fn is_live(&self) -> bool {
        self.state == ServerPhase::Live
    }

    pub fn has_tag(&self, owner: Owner) -> bool {
        self.tags.iter().flatten().any(|(it, _)| *it == owner)
    }

    pub fn put(&mut self, owner: Owner, seq: u32) {
        if !self.has_tag(owner)
            && let Some(free) = self.tags.iter_mut().find(|tag| tag.is_none())
        {
            *free = Some((owner, seq));
            self.tags.sort_unstable();
        }
    }

    pub fn take_off(&mut self, owner: Owner) {
        for tag in &mut self.tags {
            tag.take_if(|(it, _)| *it == owner);
        }
        self.tags.sort_unstable();
    }
}

/// A request that its sender no longer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    Post {
        owner: Owner,
        seq: u32,
        account: u8,
        sent: Tick,
    },
    Delete {
        server: u8,
        uid: u8,
        sent: Tick,
    },
    Tag {
        server: u8,
        change: Change,
        sent: Tick,
    },
    /// The open record, sent to the API server.
    Write {
        slot: u8,
        version: u8,
        order: ProtocolOrder,
    },
}

/// A change of a server's tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Own(Owner, u32),
    Off(Owner),
    Kept(bool),
}

/// The next step of a process for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    Idle,
    /// The open record was written, or the write has an unknown outcome.
    Send {
        order: ProtocolOrder,
        is_sure: bool,
    },
    Change {
        server: u8,
        change: Change,
        since: Tick,
    },
    Write {
        uid: u8,
        version: u8,
        order: Option<ProtocolOrder>,
    },
    RemoveFinalizer {
        uid: u8,
        version: u8,
    },
    /// The release is recorded. Next: read the server.
    ReadServer {
        server: u8,
        uid: u8,
        send_by: Tick,
        release: Release,
    },
    Delete {
        server: u8,
        uid: u8,
        send_by: Tick,
    },
}

/// A server as a process saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub at: Tick,
    pub server: Srv,
    pub listed: bool,
}

/// A process that considers itself leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub since: Tick,
    /// Objects with this UID or a higher one were created after it became leader.
    pub newer: u8,
    pub cache: [Option<Obj>; SLOTS],
    pub uids: [Option<u8>; SLOTS],
    pub memory: [ProtocolMemory; SLOTS],
    pub task: [Task; SLOTS],
    pub seen: [Option<Seen>; SERVERS],
    /// When the newest list of the cluster tag began, and whether it shows the known server.
    pub list: Option<(Tick, bool)>,
    pub whole: Option<(Tick, bool)>,
    /// The account of the key in use; none if no key is accepted.
    pub key: Option<u8>,
}

impl Process {
    pub fn new(world: &World) -> Self {
        Self {
            since: world.now,
            newer: world.uids,
            cache: world.objects,
            uids: [None; SLOTS],
            memory: [ProtocolMemory::default(); SLOTS],
            task: [Task::Idle; SLOTS],
            seen: [None; SERVERS],
            list: None,
            whole: None,
            key: None,
        }
    }
}

/// A promise that an action broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    SecondPost,
    OrderDespiteOwn,
    OrderDespitePrevious,
    ForeignDelete,
    KeptDelete,
    LivingDelete,
    Dropped,
    /// An object switched from its live server to another one.
    Turned,
    TakenFromOthers,
}

/// Faults and user actions, each with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    Crash,
    /// An answer of the provider is lost: before the effect, after it, or the effect comes later.
    Lost,
    /// The same for the API server.
    LostWrite,
    Refuse,
    LateList,
    EmptyList,
    /// A complete list leaves one server out.
    Omit,
    /// A read returns 404 for an existing server.
    Miss,
    Wipe,
    StripFinalizer,
    /// A user removes tags of a server at the provider.
    Portal,
    ReleaseOutside,
    Fail,
    Flap,
    Delete,
    /// The policy changes to Retain, or back.
    Edit,
    /// A deleted object is applied again under its name.
    Apply,
    /// The same, with status and finalizer from a backup.
    Restore,
    /// The namespace is recreated, and its objects are applied.
    Namespace,
    /// The object with the other name is applied: it names the first server, or is a copy.
    Name,
    /// etcd is restored to its state when the budget was first spent.
    Etcd,
    Word,
    Key,
    AccountWord,
}

/// Number of kinds of faults.
pub const FAULTS: usize = 24;

/// The operator's account object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    pub id: u64,
    /// The account of the key in its Secret.
    pub leads: u8,
    /// The account of the last accepted key.
    pub accepted: u8,
    /// The account for which this ID was created. No rule reads it.
    pub made_for: u8,
    /// A user acknowledges that another key has the same account, or a new one.
    pub same: bool,
    pub new: bool,
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Tick,
    pub objects: [Option<Obj>; SLOTS],
    pub namespace: u8,
    pub uids: u8,
    pub nonces: u8,
    pub servers: [Option<Srv>; SERVERS],
    /// The servers some ticks ago, oldest first: a late list shows these.
    pub before: Vec<[Option<Srv>; SERVERS]>,
    pub wire: Vec<Wire>,
    pub processes: Vec<Process>,
    pub account: Account,
    /// Every sent POST, by owner and sequence number.
    pub posts: Vec<(Owner, u32)>,
    /// The objects in a backup of etcd.
    pub etcd: Option<[Option<Obj>; SLOTS]>,
    /// The objects in a backup of their manifests.
    pub backup: [Option<Obj>; SLOTS],
    pub budget: [u8; FAULTS],
    pub broken: Option<Broken>,
}

impl World {
    pub fn has(&self, fault: Fault) -> bool {
        self.budget[fault as usize] > 0
    }

    pub fn spend(&mut self, fault: Fault) {
        let left = &mut self.budget[fault as usize];
        *left = left.saturating_sub(1);
    }

    pub fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    pub fn account_id(&self) -> AccountId {
        AccountId(self.account.id)
    }

    /// Writes an object if it still has the version that was read. Returns the object after the write.
    pub fn write(
        &mut self,
        slot: usize,
        (uid, version): (u8, u8),
        change: impl FnOnce(&mut Obj),
    ) -> Option<Obj> {
        let found = self.objects[slot].filter(|o| (o.uid, o.version) == (uid, version))?;
        let mut object = found;
        change(&mut object);
        if object != found {
            object.version += 1;
        }
        let is_gone = object.deleting && !object.finalizer;
        self.objects[slot] = (!is_gone).then_some(object);
        Some(object)
    }

    /// Adds a server, if a slot is free.
    pub fn add_server(&mut self, server: Srv) -> Option<usize> {
        let free = self.servers.iter().position(Option::is_none)?;
        self.servers[free] = Some(server);
        Some(free)
    }

    /// Whether an order of this owner may still arrive.
    pub fn is_under_way(&self, owner: Owner) -> bool {
        let mut wire = self.wire.iter();
        wire.any(|wire| matches!(wire, Wire::Post { owner: it, .. } if *it == owner))
    }

    /// The live servers whose true owner is this one.
    pub fn live_of(&self, owner: Owner) -> impl Iterator<Item = usize> + '_ {
        let servers = self.servers.iter().enumerate();
        servers.filter_map(move |(index, server)| {
            let server = server.as_ref()?;
            (server.is_live() && server.owner == owner).then_some(index)
        })
    }
}
