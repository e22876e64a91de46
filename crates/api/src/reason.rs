//! The fixed words that say why: one set for conditions, events, logs and metrics.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $word:ident),+ $(,)?) => {
        /// Why an object is in its condition. Each reason has an entry in the troubleshooting page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $($(#[$doc])* $word),+ }

        impl Reason {
            /// Every reason, for documentation and tests.
            pub const ALL: &'static [Reason] = &[$(Reason::$word),+];

            /// The name as it appears in conditions, events and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$word => stringify!($word)),+ }
            }

            /// Reads the word of a condition that was written before.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
            }
        }
    };
}

reasons! {
    /// The machine is delivered and has an address.
    Delivered,
    /// The machine is delivered and has an address, and is only looked at.
    Observed,
    /// `managementPolicy: ObserveOnly` holds what would have to be sent.
    ObserveOnly,
    /// The machine that `externalID` names is being taken on.
    Adopting,
    /// An order is under way, or its first checks are.
    Ordering,
    /// The machine is ordered and not delivered yet.
    Provisioning,
    /// Delivered, but no address is known yet.
    WaitingForAddress,
    /// The provider says that provisioning failed.
    ProvisioningFailed,
    /// The delivery of the machine takes longer than `provisioning.timeout`.
    ProvisioningTimeout,
    /// Somebody released the machine outside this operator.
    ReleasedExternally,
    /// The recorded machine cannot be found at the provider.
    MachineNotFound,
    /// The machine lacks the marks that say whose it is.
    MarksMissing,
    /// The order annotation, or what the object wants of its account, belongs to another object or cluster.
    OwnershipConflict,
    /// Something takes finalizer or order annotation off the object again and again.
    MetadataContested,
    /// The name of a ConfigMap or Secret that is to be written belongs to somebody else, or to nobody.
    OutputNotOwned,
    /// The root password of the machine is stored, or was.
    PasswordStored,
    /// The root password of the machine is not stored yet.
    PasswordPending,
    /// The root password of the machine cannot be had any more.
    PasswordMissed,
    /// The machine has as many tags as it can have and the operator needs one more, or too many for those of the spec.
    TagLimit,
    /// More than one live machine bears this object's mark.
    DuplicateServers,
    /// It is not known whether an order made a machine, or whether another request has had its effect.
    OutcomeUnknown,
    /// The provider refused the order.
    OrderRefused,
    /// The order never left this process.
    OrderNotSent,
    /// A field of the spec cannot be used.
    InvalidSpec,
    /// The object does not decode: it was stored by another version, or written past the schema.
    Undecodable,
    /// The account that the object names does not exist.
    AccountNotFound,
    /// The account is one of the cluster, which the operator of this namespace does not serve.
    AccountNotServed,
    /// The account does not allow this namespace.
    NamespaceNotAllowed,
    /// The cluster account does not allow this namespace what the object asks for.
    NotAllowed,
    /// The account is not ready; its own conditions say why.
    AccountNotReady,
    /// The account's key Secret, or the key in it, does not exist.
    SecretNotFound,
    /// The account's key Secret holds something that is not a key.
    InvalidKey,
    /// The account's base URL or CA bundle cannot be used.
    InvalidEndpoint,
    /// The provider rejects the account's key.
    KeyRejected,
    /// The account's key or URL now leads to another account.
    AccountChanged,
    /// A referenced Secret or ConfigMap, or a key in it, or an SshKey does not exist.
    ReferenceNotFound,
    /// The provider's quota is used up.
    QuotaExceeded,
    /// The provider has no machine of this kind at this place.
    NoStock,
    /// A limit of the account object is reached.
    LimitReached,
    /// The hosting API cannot be reached, or answers with errors.
    ProviderUnreachable,
    /// The hosting API asks for fewer calls.
    RateLimited,
    /// The first complete listing of the account is not done yet.
    WaitingForListing,
    /// `suspend` holds the object: its own, or its account's default.
    Suspended,
    /// The spec was edited after the order, and nothing acts on the edits.
    PendingChanges,
    /// The machine's tags are not those of the spec yet; they are being changed.
    TagsDiffer,
    /// The last exchange with the provider worked and nothing is left to send.
    InSync,
    /// The release is under way.
    Releasing,
    /// The release is done.
    Released,
    /// `expiresAt` is over.
    Expired,
    /// Deletion protection holds the release.
    Protected,
    /// The release begins when its delay is over.
    ReleaseDelayed,
    /// A ServerCommand for the machine may be under way; its release waits for that.
    CommandRunning,
    /// The release limit of the account holds the release.
    ReleaseHeld,
    /// The provider does not take the release yet.
    WaitingForProvider,
    /// The failed machine cannot be released yet.
    FailedNotReleased,
    /// The machine stays by policy, or an entry of a whitelist so that nobody is locked out.
    Retained,
    /// The key works.
    KeyAccepted,
    /// Nothing is known yet.
    Pending,
    /// The account works.
    AccountReady,
    /// Machines bear this cluster's mark and no object claims them.
    OrphansFound,
    /// Every marked machine is claimed.
    NoOrphans,
    /// Orphans are not checked: not all namespaces are watched, or no complete listing was compared yet.
    NotChecked,
    /// The object is still used by others.
    InUse,
    /// Machines are kept of earlier objects of this namespace and name, so no other one is ordered.
    RetainedMachine,
    /// Writes to the API server keep failing.
    WriteFailed,
    /// The provider refuses what the operator asks.
    RequestRefused,
    /// The check right before a change keeps failing.
    ChecksFailed,
    /// All is well and nothing is under way.
    Settled,
    /// The stored key that a server names is not stored yet.
    KeyNotStored,
    /// What the object declares is at the provider.
    Available,
    /// Changes at the provider are under way.
    Progressing,
    /// The name that the object shall get at the provider belongs to something else there.
    NameTaken,
    /// It is not known from which addresses the operator calls the provider.
    EgressUnknown,
    /// The whitelist would not admit the operator.
    EgressNotCovered,
    /// The whitelist admits the operator.
    EgressCovered,
    /// The provider does not keep an entry as it was sent.
    EntryNotKept,
    /// The account has no such API key.
    ApiKeyNotFound,
    /// The list has more entries than the operator judges.
    ListTooLong,
    /// The command was carried out.
    Completed,
    /// The provider says that the command failed.
    CommandFailed,
    /// The command was not done within its time.
    CommandTimeout,
    /// Another command for the same machine goes first.
    Queued,
    /// The server takes no command now.
    ServerNotReady,
    /// The server is being deleted.
    ServerEnding,
    /// The server wants something else by now.
    Superseded,
    /// What was asked for may have been done already, for an object of which this one is a copy or was restored, or by an
    /// operator whose record is lost.
    NotRepeated,
    /// The machine is installed with what the spec says.
    Installed,
    /// The spec says something else than the machine is installed with, and only a re-installation changes that.
    ReinstallRequired,
    /// The machine is being installed again.
    Reinstalling,
    /// The provider says that the re-installation failed.
    ReinstallFailed,
    /// The re-installation takes longer than `provisioning.timeout`.
    ReinstallTimeout,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
