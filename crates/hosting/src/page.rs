//! Where the list of hosts goes on: a page, or the `PAGE-TOKEN` of an answer.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use hosting_types::{Page, host::Host};

/// The token of the next page of hosts (4.8-3). Its text is opaque.
#[derive(Debug, Clone, Eq)]
pub struct PageToken {
    text: String,
    good_until: Option<Instant>,
}

/// A token is its text.
impl PartialEq for PageToken {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl PageToken {
    /// The longest token that is sent back, in bytes.
    const LONGEST: usize = 4096;

    /// A token that was just received, and `now` by the clock of `expires`; `None` for a text that is too long or
    /// empty.
    pub(super) fn new(text: &str, expires: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let left = expires.map(|expires| {
            // A date in the past means: expired.
            Duration::try_from(expires.duration_since(now)).unwrap_or_default()
        });
        let fits = (1..=Self::LONGEST).contains(&text.len());
        fits.then(|| Self {
            text: text.to_owned(),
            good_until: left.and_then(|left| Instant::now().checked_add(left)),
        })
    }

    /// Whether it has expired, counted from its arrival, so that a wrong clock in this process does not matter.
    pub(crate) fn is_expired(&self) -> bool {
        self.good_until.is_some_and(|until| Instant::now() >= until)
    }

    pub(super) fn header(&self) -> &str {
        &self.text
    }
}

/// Which part of the list of hosts to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCursor {
    /// A range of records.
    Range(Page),
    /// The token of an earlier answer (4.8-3).
    Token(PageToken),
}

/// A part of the list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPage {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The token of the next part, if the answer has one.
    pub next: Option<PageToken>,
}
