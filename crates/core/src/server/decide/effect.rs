//! What a decision may ask for: one arm of `act` each.

use super::{outputs::DesiredOutput, reinstall::NewReinstall, sent_hashes::Hashes};
use api::{
    command::PowerAction, install::InstallRecord, order::OrderAccount, outputs::OutputRecord,
    root_password::Installed,
};
use hosting_types::Order;

/// An effect, or a look that costs a call. Each is carried out by one arm of `act`.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEffect {
    /// Take a permit, write the open record, send the order once.
    Order(Box<NewOrder>),
    /// Put the finalizer on, or back.
    AddFinalizer,
    /// List the objects live, and put both tags on a server that the object takes, unless another object has it.
    Claim {
        /// Which server.
        uuid: String,
    },
    /// Read the server that was claimed: take the tags of others off, or record that it is the object's.
    Adopt {
        /// Which server.
        uuid: String,
    },
    /// Read the server.
    Read {
        /// Which.
        uuid: String,
    },
    /// Put a tag on a server that a fresh read shows to be this object's.
    AddTag {
        /// Which server.
        uuid: String,
        /// Which tag.
        tag: String,
    },
    /// Take a tag off a server that a fresh read shows to be this object's.
    RemoveTag {
        /// Which server.
        uuid: String,
        /// Which tag.
        tag: String,
    },
    /// Put the tag of retained servers on the server of a deleted object.
    Retain {
        /// Which server.
        uuid: String,
    },
    /// Record that the release of this server begins or goes on, and release it. From the record on, Retain comes too late.
    Release {
        /// Which server.
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
    Reinstall(Box<NewReinstall>),
    /// Look how far a re-installation is, or for the command by which it goes on.
    PollInstall {
        /// The re-installation.
        record: Box<InstallRecord>,
        /// So many pages of the machine's commands are allowed for.
        pages: u32,
    },
    /// Bring a ConfigMap or Secret that `spec.outputs` names to hold what it should.
    WriteOutput(DesiredOutput),
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
    RemoveFinalizer,
}

/// What an order is made of; the permit, the number and the tags come with the start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    /// The request, with the user's tags only.
    pub order: Order,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// The number of the order must exceed this.
    pub after: u32,
    /// Counts of orders in a row that made no server, for the record.
    pub lost: u8,
    /// As above.
    pub cut: u8,
    /// How many orders in a row were refused or not sent.
    pub failures: i32,
    /// Token by which a user acknowledged it.
    pub acknowledgement: Option<String>,
    /// Hash of what the spec asks for.
    pub request_hash: String,
    /// Hashes of what the provider does not give back.
    pub sent: Hashes,
    /// UIDs of the SshKey objects of its keys.
    pub key_uids: Vec<String>,
}
