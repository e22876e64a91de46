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
    /// Nothing is left to send; or what the condition speaks of is not the case.
    InSync,
    /// What the object declares is there.
    Available,
    /// The server is delivered and has an address.
    Delivered,
    /// The command was carried out.
    Completed,
    /// Nothing is known yet.
    Pending,
    /// The object waits for its turn, or for another command.
    Queued,
    /// An order is under way, or its first checks are.
    Ordering,
    /// The server is ordered and not delivered yet, or has no address yet.
    Provisioning,
    /// Changes at the provider are under way, or the end of the object is.
    Progressing,
    /// The server or host is being installed again.
    Reinstalling,
    /// The release is under way.
    Releasing,
    /// The first complete list of the account is not done yet, or is not believed.
    WaitingForListing,
    /// A user stopped it: `suspend` of the object or of its account.
    Suspended,
    /// `managementPolicy: ObserveOnly` holds what would have to be sent.
    ObserveOnly,
    /// Deletion protection holds the release, or a re-installation.
    Protected,
    /// The release begins when its delay is over.
    ReleaseDelayed,
    /// The release limit of the account holds the release.
    ReleaseLimited,
    /// `expiresAt` is over.
    Expired,
    /// The spec was edited after the order, and nothing acts on the edits.
    PendingChanges,
    /// A field of the spec cannot be used, or the object does not decode.
    InvalidSpec,
    /// The account that the object names does not exist, or the operator of this namespace does not serve it.
    AccountNotFound,
    /// The account does not allow this namespace, or does not allow it what the object asks for.
    NotAllowed,
    /// The account is not ready or does not answer; its own conditions say why.
    AccountNotReady,
    /// A Secret, ConfigMap, SshKey, API key or key of a Secret that is referred to does not exist.
    ReferenceNotFound,
    /// An object that is referred to is not ready.
    ReferenceNotReady,
    /// The account's key Secret holds something that is not a key.
    InvalidKey,
    /// The account's base URL or CA bundle cannot be used.
    InvalidEndpoint,
    /// The provider rejects the account's key.
    KeyRejected,
    /// The account's key or URL now leads to another account.
    AccountChanged,
    /// The hosting API cannot be reached, or answers with errors.
    ProviderUnreachable,
    /// The hosting API asks for fewer calls.
    RateLimited,
    /// The provider has no server of this kind at this place.
    NoStock,
    /// The provider's quota is used up.
    QuotaExceeded,
    /// A limit of the account object is reached.
    LimitReached,
    /// The provider refused the order.
    OrderRefused,
    /// The provider refuses what the operator asks.
    RequestRefused,
    /// It is not known whether an order made a server, or whether another request has had its effect.
    OutcomeUnknown,
    /// Servers of an object of this name in an earlier namespace of this name are live, so no other one is ordered.
    ServerExists,
    /// The provider says that provisioning failed.
    ProvisioningFailed,
    /// The delivery of the server takes longer than `provisioning.timeout`.
    ProvisioningTimeout,
    /// Somebody released the server outside this operator.
    ReleasedExternally,
    /// The recorded server or host cannot be found at the provider.
    ServerNotFound,
    /// The server lacks the tags that say whose it is.
    TagsMissing,
    /// What the object wants belongs to another object or cluster.
    OwnershipConflict,
    /// More than one live server has this object's tag.
    DuplicateServers,
    /// Something takes the finalizer off the object again and again.
    MetadataConflict,
    /// The name that is to be used belongs to something else.
    NameTaken,
    /// A list at the provider has as many entries as it can have, or more than the operator judges.
    TooManyEntries,
    /// A write to the API server keeps failing.
    WriteFailed,
    /// The check right before a change keeps failing.
    ChecksFailed,
    /// A command failed, or was not done within its time.
    CommandFailed,
    /// The target of a command is another one by now, wants something else, or is being deleted.
    Superseded,
    /// What was asked for may have been done already, for an object of which this one is a copy or was restored, or by an
    /// operator whose record is lost.
    NotRepeated,
    /// The re-installation failed, or takes longer than its timeout.
    ReinstallFailed,
    /// The root password of the server cannot be had any more.
    PasswordMissed,
    /// Live servers have this cluster's tag and no object claims them.
    OrphansFound,
    /// The object is still used by others.
    InUse,
    /// It is not known from which addresses the operator calls the provider.
    EgressUnknown,
    /// The whitelist would not admit the operator.
    EgressNotCovered,
    /// The provider does not keep an entry as it was sent.
    EntryNotApplied,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
