//! The fixed reasons of conditions, events, logs and metrics.

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

            /// Parses the reason of an existing condition.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
            }
        }
    };
}

reasons! {
    /// Nothing is left to send, or the condition does not apply.
    InSync,
    /// What the object declares exists.
    Available,
    /// The server is delivered and has an address.
    Delivered,
    /// The command was carried out.
    Completed,
    /// Nothing is known yet.
    Pending,
    /// The object waits for a permit, or for another command.
    Queued,
    /// An order is in progress, or its first checks are.
    Ordering,
    /// The server is ordered and not delivered yet, or has no address yet.
    Provisioning,
    /// Changes at the provider are in progress, or the deletion of the object is.
    Progressing,
    /// The server or host is being re-installed.
    Reinstalling,
    /// The release is in progress.
    Releasing,
    /// The first complete list of the account is not done yet, or is not trusted.
    WaitingForListing,
    /// A user suspended it: `suspend` of the object or of its account.
    Suspended,
    /// The operator runs with `--read-only`, so what the message names is not sent.
    ReadOnly,
    /// `managementPolicy: ObserveOnly` blocks changes that are needed.
    ObserveOnly,
    /// Deletion protection blocks the release or a re-installation.
    Protected,
    /// The release begins when its delay is over.
    ReleaseDelayed,
    /// The release limit of the account blocks the release.
    ReleaseLimited,
    /// `expiresAt` has passed.
    Expired,
    /// The spec was edited after the order, and the edits have no effect.
    PendingChanges,
    /// A field of the spec cannot be used, or the object does not decode.
    InvalidSpec,
    /// The account that the object names does not exist, or the operator of this namespace does not serve it.
    AccountNotFound,
    /// The account does not allow this namespace, or not what the object requests.
    NotAllowed,
    /// The account is not ready or does not answer; its own conditions have the reason.
    AccountNotReady,
    /// A referenced Secret, ConfigMap, SshKey, API key or key of a Secret does not exist.
    ReferenceNotFound,
    /// A referenced object is not ready.
    ReferenceNotReady,
    /// The account's key Secret has a value that is not a key.
    InvalidKey,
    /// The account's base URL or CA bundle cannot be used.
    InvalidEndpoint,
    /// The provider rejects the account's key.
    KeyRejected,
    /// The account's key or URL now leads to another account.
    AccountChanged,
    /// The hosting API does not answer, or answers with errors.
    ProviderUnreachable,
    /// The hosting API asks for fewer calls.
    RateLimited,
    /// The provider has no such server at this placement.
    NoStock,
    /// The provider's quota is used up.
    QuotaExceeded,
    /// A limit of the account object is reached.
    LimitReached,
    /// The provider refused the order.
    OrderRefused,
    /// The provider refuses a request of the operator.
    RequestRefused,
    /// It is not known whether an order created a server, or whether another request took effect.
    OutcomeUnknown,
    /// Live servers of a previous object of this name in a previous namespace exist, so none is ordered.
    ServerExists,
    /// The provider reports that provisioning failed.
    ProvisioningFailed,
    /// The delivery of the server takes longer than `provisioning.timeout`.
    ProvisioningTimeout,
    /// The server was released outside of this operator.
    ReleasedExternally,
    /// The provider does not list the recorded server or host.
    ServerNotFound,
    /// The server lacks its ownership tags.
    TagsMissing,
    /// What the object wants belongs to another object or cluster.
    OwnershipConflict,
    /// More than one live server has this object's tag.
    DuplicateServers,
    /// Another writer removes the finalizer of the object again and again.
    MetadataConflict,
    /// The name to be used belongs to another object.
    NameTaken,
    /// A list at the provider has as many entries as it can have, or more than the operator handles.
    TooManyEntries,
    /// A write to the API server keeps failing.
    WriteFailed,
    /// The check right before a change keeps failing.
    ChecksFailed,
    /// A command failed, or did not finish within its timeout.
    CommandFailed,
    /// The target of a command has changed, wants something else, or is being deleted.
    Superseded,
    /// The request may have been performed already: for an object that this one was copied or restored from, or by an
    /// operator whose record is lost.
    NotRepeated,
    /// The re-installation failed, or takes longer than its timeout.
    ReinstallFailed,
    /// The root password of the server is no longer available.
    PasswordMissed,
    /// Live servers have this cluster's tag, but no object owns them.
    OrphansFound,
    /// The object is still used by others.
    InUse,
    /// The addresses from which the operator calls the provider are not known.
    EgressUnknown,
    /// The whitelist would not admit the operator.
    EgressNotCovered,
    /// The provider does not store an entry as it was sent.
    EntryNotApplied,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
