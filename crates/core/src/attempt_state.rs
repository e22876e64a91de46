//! A request that is sent at most once: its intent goes to metadata and to status, then one send follows. Only the
//! reconcile that wrote the intent may send; to all others the outcome of an open attempt is unknown.

use crate::moment::Moment;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What the reconcile that starts an attempt does next. Its [`Reply`] leads to the next state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttemptState {
    /// Write the intent to metadata with the resource version of a fresh GET, so that the write fails if the object
    /// changed since the decision.
    #[default]
    WriteMetadata,
    /// The answer to that write was lost: read the object. Continue only if it shows this very attempt.
    ReadMetadata,
    /// Write the same intent to status with the resource version that the first write returned. If one copy is
    /// stripped, the other one still proves the attempt.
    WriteStatus,
    /// The answer to that write was lost: read the object. It must show the attempt in metadata and in status.
    ReadStatus,
    /// Both writes are confirmed: check the clocks, and send once.
    Send,
    /// This attempt sends nothing, now or ever.
    Closed(Closed),
}

/// How an attempt ended before anything was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// Nothing was started: another writer was first, so no intent of this attempt is stored.
    NotStarted,
    /// The intent is stored or may still arrive, and only the reconcile that wrote it could have sent it. The caller
    /// records the attempt as not sent, by its nonce.
    NotSent,
}

/// The result of the write or read that the state asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The write was done.
    Done,
    /// The write was refused: another writer was first, or the object is gone.
    Stale,
    /// No answer, or an unclear one. The write may be done, or may still arrive.
    Unknown,
    /// The read shows this very attempt, by its nonce, in these places.
    Shows {
        /// In metadata.
        metadata: bool,
        /// In status.
        status: bool,
    },
}

impl AttemptState {
    /// The next state. A reply that does not fit the state confirms nothing and closes the attempt.
    #[must_use]
    pub fn after(self, reply: Reply) -> Self {
        use Closed::{NotSent, NotStarted};
        match (self, reply) {
            (Self::WriteMetadata, Reply::Done)
            | (Self::ReadMetadata, Reply::Shows { metadata: true, .. }) => Self::WriteStatus,
            (Self::WriteMetadata, Reply::Stale) => Self::Closed(NotStarted),
            (Self::WriteMetadata, Reply::Unknown) => Self::ReadMetadata,
            (Self::WriteStatus, Reply::Done)
            | (
                Self::ReadStatus,
                Reply::Shows {
                    metadata: true,
                    status: true,
                },
            ) => Self::Send,
            (Self::WriteStatus, Reply::Unknown) => Self::ReadStatus,
            (
                Self::WriteMetadata | Self::ReadMetadata | Self::WriteStatus | Self::ReadStatus,
                _,
            ) => Self::Closed(NotSent),
            // Reads and writes change nothing here; the answer to the send is an outcome.
            (Self::Send | Self::Closed(_), _) => self,
        }
    }
}

/// Whether an attempt may still be sent, checked right before the send: within `window` by the monotonic clock, and by
/// the wall clock until `send_by`, unless that went back. The window ends long before absence counts.
pub fn may_send(since: Moment, send_by: i64, now: Moment, window: Duration) -> bool {
    now.elapsed_since(since.mono) < window && now.wall <= send_by && now.wall >= since.wall
}
