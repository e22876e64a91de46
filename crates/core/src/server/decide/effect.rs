//! What a decision may ask for: one arm of `act` each.

use super::{fence::TagProof, outputs::Output, reinstall::NewInstall, sent::Hashes};
use api::{
    account::KnownServer,
    command::PowerAction,
    install::InstallRecord,
    names::RETAINED_PREFIX,
    order::{OrderAccount, OrderNote},
    outputs::OutputRecord,
    root_password::Installed,
};
use hosting_types::Order;
use std::time::Duration;

/// An effect, or a look that costs a call. Each is carried out by one arm of `act`.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Take a permit, start a new epoch in metadata and status, send the order once.
    Order(Box<NewOrder>),
    /// Write the order annotation, and the finalizer with it: of a machine that was found, or with the outcome
    /// of an order that made none.
    WriteNote(Box<OrderNote>),
    /// The same for a machine that only its marks show to be this object's, once a read right before shows that as well.
    Claim {
        /// Which machine.
        uuid: String,
        /// What is written.
        note: Box<OrderNote>,
    },
    /// Put back the order annotation and the finalizer, which something took off.
    PutBack(Box<OrderNote>),
    /// Put the finalizer on, before a machine of an earlier object is taken over.
    HoldObject,
    /// Look for an order of unknown outcome beside the listing that does not show it.
    LookForOrder(LookUp),
    /// Read the machine.
    Read {
        /// Which.
        uuid: String,
        /// Start of the newest proof listing, with control, that does not show it.
        not_listed: Option<Duration>,
    },
    /// Put a tag on a machine that a fresh read shows to be this object's.
    AddTag {
        /// Which machine.
        uuid: String,
        /// Which tag.
        tag: String,
        /// What the fresh read must show.
        when: TagProof,
    },
    /// Take a tag off a machine that a fresh read shows to be this object's.
    RemoveTag {
        /// Which machine.
        uuid: String,
        /// Which tag.
        tag: String,
        /// What the fresh read must show.
        when: TagProof,
    },
    /// Record that the release of this machine begins, and release it. From the record on, Retain comes too late.
    BeginRelease {
        /// Which machine.
        uuid: String,
    },
    /// Release a machine whose release was recorded before.
    Release {
        /// Which machine.
        uuid: String,
    },
    /// Release a machine that the provider could not deliver, of an object that lives and wants another one.
    ReleaseFailed {
        /// Which machine.
        uuid: String,
    },
    /// Create the ServerCommand that a change of `spec.power` came to.
    Command {
        /// Its name, as status notes it.
        name: String,
        /// What it does.
        action: PowerAction,
    },
    /// Note that the machine is installed again, and send the request once.
    Reinstall(Box<NewInstall>),
    /// Look how far a re-installation is, or for the command by which it goes on.
    LookAtInstall {
        /// The re-installation.
        record: Box<InstallRecord>,
        /// So many pages of the machine's commands are allowed for.
        pages: u32,
    },
    /// Bring a ConfigMap or Secret that `spec.outputs` names to hold what it should.
    WriteOutput(Output),
    /// Put on record that the object has this ConfigMap or Secret, before it is created.
    RecordOutput(OutputRecord),
    /// Look whether somebody deleted one of these ConfigMaps and Secrets, and take our finalizer off it then.
    CheckDeletedOutputs(Vec<OutputRecord>),
    /// Look whether the Secret for a root password is free, or holds it already.
    FindPassword {
        /// Of which installation.
        of: Installed,
        /// The Secret.
        secret: String,
    },
    /// Ask for the root password of a machine, and store it.
    FetchPassword {
        /// Of which installation.
        of: Installed,
        /// The Secret that it goes into.
        secret: String,
    },
    /// Delete the Secret with a root password, whose time is over.
    ForgetPassword {
        /// Of which installation.
        of: Installed,
        /// Which Secret.
        secret: String,
    },
    /// Delete the object itself: it is past `spec.expiresAt`, in seconds since 1970.
    Expire {
        /// That moment.
        at: i64,
    },
    /// Take our finalizer off the outputs of the object, and then off the object itself: the end.
    LetGo,
}

impl Effect {
    /// Whether this lets a machine stay at the provider for good, by policy.
    pub fn lets_stay(&self) -> bool {
        matches!(self, Self::AddTag { tag, .. } if tag.starts_with(RETAINED_PREFIX))
    }
}

/// What an order is made of; the permit, the epoch and the tags come with the start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    /// The request, with the user's tags only.
    pub order: Order,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// The epoch must exceed this.
    pub after_epoch: i64,
    /// How many epochs in a row, up to this one, had an unknown outcome.
    pub unknown_before: i32,
    /// How many attempts in a row were refused or not sent.
    pub failures: i32,
    /// Hash of what the spec asks for.
    pub request_hash: String,
    /// Hashes of what the provider does not give back.
    pub sent: Hashes,
}

/// Look-ups for an order of unknown outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct LookUp {
    /// The attempt.
    pub attempt: String,
    /// Its order tag.
    pub order_tag: String,
    /// A live machine without an order mark that may be this order's.
    pub suspect: Option<String>,
    /// A machine that the listing shows, and whose tag must be shown as well.
    pub control: KnownServer,
    /// Start of the listing that goes with it.
    pub proof_began: Duration,
}
