//! What a decision may ask for: one arm of `act` each.

use super::{outputs::DesiredOutput, reinstall::NewReinstall, sent_hashes::Hashes};
use api::{
    command::PowerAction, install::InstallRecord, order::OrderAccount, outputs::OutputRecord,
    root_password::Installed,
};
use hosting_types::Order;

/// An effect, or a read that costs a call. One arm of `act` performs each.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEffect {
    /// Take a permit, write the open record, send the order once.
    Order(Box<NewOrder>),
    /// Add or restore the finalizer.
    AddFinalizer,
    /// List the objects live, and add both tags to the server to adopt, unless another object has it.
    Claim {
        /// Which server.
        uuid: String,
    },
    /// Read the claimed server: remove the tags of others, or record it as the object's.
    Adopt {
        /// Which server.
        uuid: String,
    },
    /// Read the server.
    Read {
        /// Which server.
        uuid: String,
    },
    /// Add a tag to a server that a fresh read shows as this object's.
    AddTag {
        /// Which server.
        uuid: String,
        /// Which tag.
        tag: String,
    },
    /// Remove a tag from a server that a fresh read shows as this object's.
    RemoveTag {
        /// Which server.
        uuid: String,
        /// Which tag.
        tag: String,
    },
    /// Tag the server of a deleted object as retained.
    Retain {
        /// Which server.
        uuid: String,
    },
    /// Record that the release of this server begins or continues, and send it. After the record, Retain comes too
    /// late.
    Release {
        /// Which server.
        uuid: String,
    },
    /// Create the ServerCommand for a change of `spec.power`.
    Command {
        /// Its name, as recorded in status.
        name: String,
        /// Its action.
        action: PowerAction,
    },
    /// Record the re-installation, and send its request once.
    Reinstall(Box<NewReinstall>),
    /// Poll a re-installation, or search for its command.
    PollInstall {
        /// The re-installation.
        record: Box<InstallRecord>,
        /// How many pages of the server's commands may be read.
        pages: u32,
    },
    /// Write a ConfigMap or Secret of `spec.outputs`.
    WriteOutput(DesiredOutput),
    /// Record a ConfigMap or Secret as the object's, before it is created.
    RecordOutput(OutputRecord),
    /// Check whether a user deleted one of these ConfigMaps and Secrets, and then remove our finalizer from it.
    CheckDeletedOutputs(Vec<OutputRecord>),
    /// Check whether the Secret for a root password is free, or already has the password.
    FindPassword {
        /// Which installation.
        of: Installed,
        /// The Secret.
        secret: String,
    },
    /// Fetch the root password of a server, and store it.
    FetchPassword {
        /// Which installation.
        of: Installed,
        /// The Secret to store it in.
        secret: String,
    },
    /// Delete the Secret of a root password after its time.
    ForgetPassword {
        /// Which installation.
        of: Installed,
        /// Which Secret.
        secret: String,
    },
    /// Delete the object itself: it is past `spec.expiresAt`.
    Expire {
        /// That time, in seconds since 1970.
        at: i64,
    },
    /// Remove our finalizer from the outputs of the object, then from the object itself.
    RemoveFinalizer,
}

/// What an order is made of. The permit, the number and the tags are added when it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrder {
    /// The request, with the user's tags only.
    pub order: Order,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// The number of the order must exceed this.
    pub after: u32,
    /// Orders in a row with a lost answer that created no server, for the record.
    pub lost: u8,
    /// The same for orders that were cut off by the end of the process.
    pub cut: u8,
    /// How many orders in a row were refused or not sent.
    pub failures: i32,
    /// Token by which a user acknowledged it.
    pub acknowledgement: Option<String>,
    /// Hash of what the spec asks for.
    pub request_hash: String,
    /// Hashes of what the provider does not return.
    pub sent: Hashes,
    /// UIDs of the SshKey objects of its keys.
    pub key_uids: Vec<String>,
}
