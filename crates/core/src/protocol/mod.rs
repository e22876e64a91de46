//! The order and release protocol of one `BareMetalServer`: decides what happens next. A model check walks all its
//! rules.
//!
//! Pure functions over small plain data, without conditions, messages or limits. The caller says whether an order may
//! start and what a deletion does now, and turns the step into an effect. `docs/contributing/protocol.md` names every
//! rule and its purpose; `tests/protocol` walks them.
//!
//! - [`memory`]: what one process knows of one object.
//! - [`missing`]: the recorded server is not shown: is it gone (R2)?
//! - [`order`]: no server is recorded: may one be ordered (O1 to O4)?
//! - [`resolve`]: an open record: find its server, or confirm that it has none (O5).
//! - [`adopt`]: the one procedure by which a server becomes the object's (A2).
//! - [`release`]: the object is deleted, or its failed server is replaced (R1 to R5).

pub mod adopt;
pub mod memory;
pub mod missing;
pub mod order;
pub mod release;
pub mod resolve;

pub use memory::{OrdersInFlight, ProtocolMemory};
use std::time::Duration;

/// A server at the provider, by its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub u128);

/// An object, by its UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectUid(pub u128);

/// An account at the provider, by the account ID that the operator gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountId(pub u64);

/// The object's record of its order, in its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolOrder {
    /// UID of the object that ordered. A record with another UID does not count.
    pub uid: ObjectUid,
    /// Number of the order: Unix seconds, greater than the previous number.
    pub seq: u32,
    /// Nonce: only the process that drew it sends the order.
    pub nonce: u64,
    /// Time in Unix seconds after which the order is not sent any more.
    pub send_by: i64,
    /// The account to which it is sent.
    pub account: AccountId,
    /// How it ended.
    pub outcome: ProtocolOutcome,
    /// The answer was lost.
    pub answer_lost: bool,
    /// Orders in a row that were confirmed absent after a lost answer.
    pub lost: u8,
    /// Orders in a row that were confirmed absent after the process that sent them was cut off.
    pub cut: u8,
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolOutcome {
    /// Not known.
    Open,
    /// This server is the object's.
    Created(ServerId),
    /// The provider refused the order.
    Refused,
    /// It never left the operator.
    NotSent,
    /// It made no server: confirmed by complete lists, or acknowledged.
    Absent,
    /// The object is adopting this server.
    Adopting(ServerId),
}

impl ProtocolOutcome {
    /// The recorded server: the object's, or the one that it is adopting.
    pub fn server(self) -> Option<ServerId> {
        match self {
            Self::Created(server) | Self::Adopting(server) => Some(server),
            Self::Open | Self::Refused | Self::NotSent | Self::Absent => None,
        }
    }
}

impl ProtocolOrder {
    /// Whether it is known that the order made no server, or that its server is recorded.
    pub fn is_closed(&self) -> bool {
        !matches!(
            self.outcome,
            ProtocolOutcome::Open | ProtocolOutcome::Adopting(_)
        )
    }

    /// The same order with this outcome. An answer resets the counts of lost orders.
    #[must_use]
    pub fn with(self, outcome: ProtocolOutcome) -> Self {
        let (lost, cut) = match outcome {
            ProtocolOutcome::Created(_) | ProtocolOutcome::Refused => (0, 0),
            _ => (self.lost, self.cut),
        };
        Self {
            outcome,
            lost,
            cut,
            ..self
        }
    }
}

/// The object's record of its release, in its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// UID of the object that releases.
    pub uid: ObjectUid,
    /// The server that is released.
    pub server: ServerId,
    /// Time in Unix seconds after which no DELETE is sent until it is renewed.
    pub send_by: i64,
    /// The object was being deleted. A record that was made to replace a failed server does not count for a later
    /// deletion.
    pub deleting: bool,
}

/// State of a server, as far as the protocol distinguishes states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerPhase {
    /// Any other state.
    Live,
    /// The provider could not deliver it.
    Failed,
    /// It is being released.
    Releasing,
    /// It is released.
    Released,
}

/// One server as last shown, from the point of view of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolServer {
    /// Its UUID.
    pub id: ServerId,
    /// Its state.
    pub state: ServerPhase,
    /// When it was created, in Unix seconds.
    pub created: i64,
    /// It has the tag of this cluster.
    pub has_cluster_tag: bool,
    /// It has the tag of another cluster.
    pub has_other_cluster: bool,
    /// The highest number in its order tags of this owner.
    pub own_seq: Option<u32>,
    /// It has an order tag of this namespace and name with another namespace UID.
    pub is_of_previous_namespace: bool,
    /// It has an order tag of another owner.
    pub has_other_owner: bool,
    /// It has an order tag of another namespace.
    pub has_other_namespace: bool,
    /// It has the tag of retained servers.
    pub is_retained: bool,
    /// It has the host name that the object asks for, and no order tag.
    pub is_untagged_namesake: bool,
    /// When it was shown, by the monotonic clock.
    pub seen: Duration,
}

impl ProtocolServer {
    /// Whether it is billed and can be of use.
    pub fn is_live(&self) -> bool {
        self.state == ServerPhase::Live
    }

    /// Whether it has an order tag of this owner and of no other.
    pub fn is_sole(&self) -> bool {
        self.own_seq.is_some() && !self.has_other_owner
    }
}

/// A complete list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListSummary {
    /// When it began, by the monotonic clock.
    pub began: Duration,
    /// Whether it shows a server that it must show.
    pub known: KnownServerCheck,
}

/// Whether a list shows a known server: a live one that another object of the account recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KnownServerCheck {
    /// It shows one.
    Shown,
    /// There are some, and it shows none: the list does not count.
    NotShown,
    /// No known server exists.
    NoneExists,
}

/// Times that an administrator sets, and those that follow from how a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolTimes {
    /// How long to wait for what may be in flight.
    pub grace: Duration,
    /// Time between two lists for an order whose outcome is not known.
    pub check: Duration,
    /// The same for an object that waits for a user.
    pub idle: Duration,
    /// How long a new leader waits instead of the grace period, if only a restored etcd or a user could hide an order
    /// from it.
    pub restart: Duration,
    /// How long a request that was just started can still arrive: twice the time in which one is sent. Two reads that
    /// together confirm something are this far apart, and so are the tagging of a server and the last read of it.
    pub flight_time: Duration,
}

/// The object, as this process last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolObject {
    /// Its UID.
    pub uid: ObjectUid,
    /// It has our finalizer.
    pub finalizer: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Its record of an order, perhaps with the UID of another object.
    pub order: Option<ProtocolOrder>,
    /// Its record of a release, perhaps with the UID of another object.
    pub release: Option<Release>,
    /// The server that `spec.externalID` names.
    pub external: Option<ServerId>,
    /// What its deletion does now.
    pub end: DeletionAction,
    /// What happens after its recorded server ended.
    pub after: EndedServerAction,
    /// What a user acknowledged of its present situation.
    pub acknowledged: AcknowledgedActions,
}

/// What the deletion of an object does now, by its policies, delay and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeletionAction {
    /// Nothing yet.
    Wait,
    /// The server is retained.
    Retain,
    /// The server is released.
    Release,
}

/// What happens when the recorded server of a living object failed or was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndedServerAction {
    /// Nothing.
    Wait,
    /// Another one is ordered in its place; one that failed is released first.
    Replace,
}

/// What a user acknowledged of the present situation of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AcknowledgedActions {
    /// Order another server although previous ones are shown live.
    pub order_another: bool,
    /// Adopt this server.
    pub adopt: Option<ServerId>,
    /// Assume that there is no server.
    pub assume_absent: bool,
}

/// The input of one decision.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolView<'a> {
    /// The time by the monotonic clock.
    pub now: Duration,
    /// The time in Unix seconds.
    pub unix: i64,
    /// When this process became leader, by the monotonic clock.
    pub leader_since: Duration,
    /// The times in force.
    pub times: ProtocolTimes,
    /// The object.
    pub object: ProtocolObject,
    /// What this process knows of it.
    pub memory: &'a ProtocolMemory,
    /// The servers that concern it, as last shown.
    pub servers: &'a [ProtocolServer],
    /// Servers that another object has recorded as its own.
    pub recorded_elsewhere: &'a [ServerId],
    /// Servers with an order tag of another object that exists.
    pub owned_elsewhere: &'a [ServerId],
    /// The newest complete list of all servers with the tag of this cluster.
    pub cluster_list: Option<ListSummary>,
    /// The newest complete list of the whole account.
    pub account_list: Option<ListSummary>,
    /// That list shows the recorded server, or the one that is being adopted.
    pub is_listed: bool,
    /// The account ID.
    pub account: AccountId,
    /// Only servers of this namespace may be adopted: the account serves several.
    pub is_shared: bool,
}

/// What the object does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolStep {
    /// Only wait.
    Wait(Wait),
    /// Nothing: the recorded server is the object's, and all tags are as they should be.
    Reconcile(ServerId),
    /// Add the finalizer, or put it back.
    AddFinalizer,
    /// Remove the finalizer.
    RemoveFinalizer,
    /// Start an order: write its open record, then send one POST.
    Order {
        /// The number of the order is greater than this.
        after: u32,
        /// The count in the new record.
        lost: u8,
        /// The count in the new record.
        cut: u8,
    },
    /// Write this record; none: remove it.
    Record(Option<ProtocolOrder>),
    /// Remove the record of a release: its server became live.
    ForgetRelease,
    /// List the objects live, then put both tags on the server, unless another object has it.
    Claim(ServerId),
    /// Read the claimed server; [`adopt::finish`] decides what follows.
    Finish(ServerId),
    /// Read the recorded server.
    Read(ServerId),
    /// Add the retained tag to the server.
    Retain(ServerId),
    /// Remove the retained tag from the server.
    Unretain(ServerId),
    /// Record the release with a new latest time, read the server, and if [`release::may_delete`] allows it, send one
    /// DELETE by that time.
    Release(ServerId),
}

/// Why an object waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Why.
    pub why: WaitReason,
    /// The object wants a list that begins after this moment.
    pub list: Option<WantedList>,
    /// The object is decided again by this moment, whatever else happens.
    pub until: Option<Duration>,
}

/// A list that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WantedList {
    /// Of the whole account.
    pub whole: bool,
    /// It begins after this moment by the monotonic clock, which may be in the future.
    pub after: Duration,
}

/// Why an object waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Waits for a list.
    WaitingForList,
    /// An order of the previous process may still arrive.
    Restarted,
    /// An order may be in flight without a record of it.
    MayBeUnderWay,
    /// The outcome of the recorded order is not known.
    OutcomeUnknown,
    /// Lists do not show the servers that they must show.
    ListIncomplete,
    /// No known server exists that lists must show: a user has to acknowledge that there is no server.
    NoKnownServer,
    /// This server has no tag and may be the object's: a user has to acknowledge that it is not.
    UntaggedServer(ServerId),
    /// Servers of a previous object of this name are live: a user has to decide what to do.
    ServerExists,
    /// So many orders failed in a row that a user has to acknowledge the last one.
    OrdersFailed,
    /// The record is of another account: a user has to acknowledge that there is no server.
    OtherAccount,
    /// Tags were put on, and a process that has not seen them yet may still change tags.
    Settling,
    /// The server to adopt is not shown.
    ServerNotFound(ServerId),
    /// The server to adopt is not live.
    NotLive(ServerId, ServerPhase),
    /// The server to adopt, or the recorded one, also belongs to another object.
    Conflict(ServerId),
    /// The server to adopt has the tag of another cluster.
    OtherCluster(ServerId),
    /// The server to adopt is of another namespace.
    OtherNamespace(ServerId),
    /// The recorded server lost the order tag of its owner.
    TagsMissing(ServerId),
    /// The recorded server is not shown, and it is not certain yet that it is gone.
    Missing(ServerId),
    /// The recorded server is gone by all reads and lists: a user may acknowledge that.
    Gone(ServerId),
    /// The recorded server ended, and nothing follows.
    Ended(ServerPhase),
    /// The deletion waits, for a reason that the caller knows.
    Deletion,
    /// A release is in flight.
    Releasing,
}

impl WaitReason {
    /// Whether a user has to act: the wait does not end by itself.
    pub fn is_blocked(self) -> bool {
        match self {
            Self::WaitingForList
            | Self::Restarted
            | Self::MayBeUnderWay
            | Self::OutcomeUnknown
            | Self::Settling
            | Self::Missing(_)
            | Self::Releasing => false,
            Self::ListIncomplete
            | Self::NoKnownServer
            | Self::UntaggedServer(_)
            | Self::ServerExists
            | Self::OrdersFailed
            | Self::OtherAccount
            | Self::ServerNotFound(_)
            | Self::NotLive(..)
            | Self::Conflict(_)
            | Self::OtherCluster(_)
            | Self::OtherNamespace(_)
            | Self::TagsMissing(_)
            | Self::Gone(_)
            | Self::Ended(_)
            | Self::Deletion => true,
        }
    }

    /// The wait as a step.
    pub fn step(self) -> ProtocolStep {
        ProtocolStep::Wait(Wait {
            why: self,
            list: None,
            until: None,
        })
    }

    /// The wait as a step that ends at this moment at the latest.
    pub fn until(self, until: Duration) -> ProtocolStep {
        ProtocolStep::Wait(Wait {
            why: self,
            list: None,
            until: Some(until),
        })
    }

    /// The wait as a step that wants a list begun after this moment.
    pub fn after_list(self, after: Duration, whole: bool) -> ProtocolStep {
        ProtocolStep::Wait(Wait {
            why: self,
            list: Some(WantedList { whole, after }),
            until: None,
        })
    }
}

/// Decides what the object does next.
pub fn decide(view: &ProtocolView<'_>) -> ProtocolStep {
    let object = &view.object;
    if object.deleting && !object.finalizer {
        // The API server accepts no new finalizer on it, and the object disappears without us.
        return WaitReason::Deletion.step();
    }
    let Some(order) = view.order() else {
        return match object.deleting {
            true => release::without_server(view, None),
            false => order::without_server(view, None),
        };
    };
    if !object.finalizer {
        return ProtocolStep::AddFinalizer;
    }
    if let Some(answer) = view.memory.answer_to(&order) {
        return ProtocolStep::Record(Some(answer));
    }
    let made_none = matches!(
        order.outcome,
        ProtocolOutcome::Refused | ProtocolOutcome::NotSent | ProtocolOutcome::Absent
    );
    if order.account != view.account && !made_none {
        return missing::of_other_account(view, &order);
    }
    match order.outcome {
        ProtocolOutcome::Open => resolve::resolve(view, &order),
        ProtocolOutcome::Adopting(server) => adopt::proceed(view, server),
        ProtocolOutcome::Created(server) if object.deleting => release::release(view, server),
        ProtocolOutcome::Created(server) => order::reconcile_server(view, &order, server),
        _ if object.deleting => release::without_server(view, Some(&order)),
        _ => order::without_server(view, Some(&order)),
    }
}

impl ProtocolView<'_> {
    /// The object's record of its order.
    pub fn order(&self) -> Option<ProtocolOrder> {
        self.object
            .order
            .filter(|order| order.uid == self.object.uid)
    }

    /// The object's record of the release of this server, for what it does now: its deletion, or a replacement.
    pub fn release_of(&self, server: ServerId) -> Option<Release> {
        let release = self.object.release?;
        let is_it = release.uid == self.object.uid && release.server == server;
        (is_it && release.deleting == self.object.deleting).then_some(release)
    }

    /// A server, as last shown.
    pub fn server(&self, id: ServerId) -> Option<&ProtocolServer> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// The live server with the own order tag: the one with this number, else the oldest.
    pub fn own_live(&self, seq: Option<u32>) -> Option<&ProtocolServer> {
        self.oldest_own(seq, |_| true)
    }

    /// The oldest live server with the own order tag that was not retained.
    pub fn own_live_not_retained(&self) -> Option<&ProtocolServer> {
        self.oldest_own(None, |server| !server.is_retained)
    }

    fn oldest_own(
        &self,
        seq: Option<u32>,
        counts: impl Fn(&ProtocolServer) -> bool,
    ) -> Option<&ProtocolServer> {
        let own = self.servers.iter();
        let own =
            own.filter(|server| server.is_live() && server.own_seq.is_some() && counts(server));
        own.min_by_key(|server| {
            (
                seq.is_none() || server.own_seq != seq,
                server.created,
                server.id,
            )
        })
    }

    /// Whether a live server of a previous object of this name is shown.
    pub fn has_previous_server(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| {
            server.is_live() && server.is_of_previous_namespace && server.own_seq.is_none()
        })
    }

    /// An untagged server that may be the object's.
    pub fn suspect(&self) -> Option<ServerId> {
        let servers = self.servers.iter();
        let found = servers.filter(|server| server.is_live() && server.is_untagged_namesake);
        found.map(|server| server.id).min()
    }

    /// Whether another object has this server: by its record, or by its tag if the server has no own tag.
    pub fn is_taken(&self, server: &ProtocolServer) -> bool {
        let is_owned = server.own_seq.is_none() && self.owned_elsewhere.contains(&server.id);
        is_owned || self.recorded_elsewhere.contains(&server.id)
    }

    /// The moment after which a list counts: this process leads, and has seen the record.
    pub fn seen_since(&self) -> Duration {
        self.memory.unchanged_since().max(self.leader_since)
    }
}
