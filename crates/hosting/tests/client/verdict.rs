//! How a failed call must look to the caller.

use crate::{
    operations::{Kind, Operation},
    reply::{End, Reply},
};

/// What the caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) category: &'static str,
    pub(crate) status: Option<u16>,
    /// Whether the same call may simply succeed later. After an unknown outcome, only an idempotent call may be
    /// repeated.
    pub(crate) retryable: bool,
    /// Whether it may have been done anyway.
    pub(crate) doubtful: bool,
}

/// The request was sent and no complete answer came.
pub(crate) const INTERRUPTED: Verdict = Verdict {
    category: "Interrupted",
    status: None,
    retryable: true,
    doubtful: true,
};

pub(crate) const UNDECODABLE: Verdict = Verdict {
    category: "UndecodableAnswer",
    status: Some(200),
    retryable: true,
    doubtful: true,
};

pub(crate) const TOO_LARGE: Verdict = Verdict {
    category: "AnswerTooLarge",
    status: None,
    retryable: false,
    doubtful: true,
};

impl Verdict {
    /// Section 7 of the API's page: the meaning of a status.
    pub(crate) fn for_status(status: u16) -> Self {
        let (category, retryable, doubtful) = match status {
            401 => ("AccessDenied", false, false),
            403 => ("Forbidden", false, false),
            404 => ("NotFound", false, false),
            429 => ("RateLimited", true, false),
            400 | 405 | 413 | 415 | 422 => ("Refused", false, false),
            408 | 409 | 423 | 425 => ("Refused", true, true),
            500..=599 => ("ServerError", true, true),
            402..=499 => ("Refused", false, true),
            _ => ("UnexpectedAnswer", false, true),
        };
        Self {
            category,
            status: Some(status),
            retryable,
            doubtful,
        }
    }

    /// Compares a reply with it.
    pub(crate) fn judge(&self, operation: Operation, reply: &Reply, what: &str) {
        let text = &reply.text;
        let expected = match (operation.kind(), self.doubtful) {
            (Kind::Order, true) => End::Unknown,
            (Kind::Order, false) if self.status.is_none() => End::NotSent,
            (Kind::Order, false) => End::Refused,
            _ => End::Failed,
        };
        assert_eq!(reply.end, expected, "{operation:?}, {what}: {text}");
        assert_eq!(
            reply.may_have_taken_effect(),
            self.doubtful,
            "{operation:?}, {what}: {text}"
        );
        let Some(error) = &reply.error else {
            // An unknown order gives its reason only in words.
            if let Some(status) = self.status.filter(|status| *status >= 300) {
                assert!(text.contains(&format!("status {status}")), "{what}: {text}");
            }
            return;
        };
        let found = Self {
            category: error.category(),
            status: error.status(),
            retryable: error.is_retryable_as_is(),
            doubtful: error.may_have_taken_effect(),
        };
        let category = match (self.status, operation.call_name()) {
            (Some(403), "quota_usage" | "servers") => "AccessDenied",
            _ => self.category,
        };
        let wanted = Self {
            category,
            retryable: self.retryable && (!self.doubtful || operation.is_idempotent()),
            ..*self
        };
        assert_eq!(found, wanted, "{operation:?}, {what}: {text}");
    }
}
