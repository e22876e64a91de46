//! An act that must happen at most once: its intent, its fence, its outcome.
//!
//! The intent is written twice, to metadata and to status, and both writes must be known to stand
//! before the act is sent. Whoever meets an attempt that it did not start itself treats the outcome
//! as unknown, so only the pass that wrote the intent may send, once, and not for long. This file is
//! the machine of that pass, as pure functions: the pass does what the [`Stage`] asks for, says what
//! it [`Reply`], and gets the next stage. The order of a server is the first user.

use crate::moment::Moment;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What the pass that starts an attempt does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttemptState {
    /// Write the intent to metadata, on the resource version of a fresh GET: nothing may have changed
    /// since it was decided that the act is due.
    #[default]
    WriteMetadata,
    /// The answer to that write was lost: read the object. Only if it shows this very attempt does
    /// the pass go on.
    ReadMetadata,
    /// Write the same intent to status, on the resource version that the first write returned: either
    /// trace alone proves the attempt if the other one is stripped.
    WriteStatus,
    /// The answer to that write was lost: read the object. It must show the attempt in both places.
    ReadStatus,
    /// Both writes are confirmed: look at the clocks, and send, once.
    Send,
    /// Nothing is sent by this attempt, now or ever.
    Closed(Closed),
}

/// How an attempt ended before anything was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// Nothing was started: somebody else wrote first, so no intent of this attempt stands anywhere.
    NotStarted,
    /// The intent stands, or may still arrive, and only the pass that wrote it could have sent: the
    /// attempt is recorded as not sent, by its nonce.
    NotSent,
}

/// The result of the write or the read that the stage asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The write was done.
    Done,
    /// The write was refused: somebody else wrote in between, or the object is gone.
    Stale,
    /// No answer, or one that says nothing; a write may have been done, or may still arrive.
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
    /// The stage that follows. What does not answer the stage confirms nothing and closes the attempt.
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
            // No result of a read or write leads away from here; the answer is an outcome.
            (Self::Send | Self::Closed(_), _) => self,
        }
    }
}

/// Whether an attempt may still be sent, looked at right before the send: by the monotonic clock for
/// a window since its start, and by the wall clock that others read, which must not have been turned
/// back since. The window ends long before anybody believes that the act never arrived.
pub fn may_send(since: Moment, send_by: i64, now: Moment, window: Duration) -> bool {
    now.since(since.mono) < window && now.wall <= send_by && now.wall >= since.wall
}

/// How an attempt ended, as far as its sender knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptAnswer {
    /// It was done, and the proof of it is in the answer.
    Done,
    /// It was certainly not done: refused, and why.
    Refused(String),
    /// It was certainly not done: it never left this process, and why.
    NotSent(String),
    /// Everything else. It is looked for, and never repeated blind.
    Unknown,
}

/// The known outcome of an attempt, which ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// Done.
    Done,
    /// Refused.
    Refused,
    /// Not sent.
    NotSent,
}

/// What the record of an attempt says from its answer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    /// The outcome; none while it is not known.
    pub outcome: Option<AttemptOutcome>,
    /// Unix second of the outcome.
    pub outcome_at: Option<i64>,
    /// The outcome in words, where it needs some.
    pub message: Option<String>,
    /// How many attempts in a row made nothing, which sets the pace of the next.
    pub failures: i32,
}

impl AttemptAnswer {
    /// What is recorded of this answer. `failures` attempts before this one made nothing.
    pub fn entry(self, failures: i32, now: i64) -> AttemptResult {
        let closed = |outcome, message, failures| AttemptResult {
            outcome: Some(outcome),
            outcome_at: Some(now),
            message,
            failures,
        };
        match self {
            Self::Done => closed(AttemptOutcome::Done, None, 0),
            Self::Refused(why) => closed(
                AttemptOutcome::Refused,
                Some(why),
                failures.saturating_add(1),
            ),
            Self::NotSent(why) => closed(
                AttemptOutcome::NotSent,
                Some(why),
                failures.saturating_add(1),
            ),
            Self::Unknown => AttemptResult {
                outcome: None,
                outcome_at: None,
                message: None,
                failures,
            },
        }
    }
}
