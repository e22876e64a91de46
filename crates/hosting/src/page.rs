//! One page of a listing by `RANGED-DATA`, and the `PAGE-TOKEN` of the next one.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::host::Host;

/// One page of a listing (the header `RANGED-DATA`, 8-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    start: u32,
    results: u32,
}

impl Page {
    /// The most records that the API gives at once.
    pub const MOST: u32 = 50;

    /// A page from the zero-based index `start` with `results` records;
    /// `results` is brought into 1 to 50. A client that asks for more gets 50
    /// and takes the full page for the last one.
    pub fn new(start: u32, results: u32) -> Self {
        Self {
            start,
            results: results.clamp(1, Self::MOST),
        }
    }

    /// The first page, of the full size.
    pub fn first() -> Self {
        Self::new(0, Self::MOST)
    }

    /// The page of the same size that starts at `start`.
    pub fn at(self, start: u32) -> Self {
        Self { start, ..self }
    }

    /// The zero-based index of the first record.
    pub fn start(self) -> u32 {
        self.start
    }

    /// How many records are asked for, 1 to 50.
    pub fn results(self) -> u32 {
        self.results
    }

    /// The value of the header.
    pub fn header(self) -> String {
        format!("start={},results={}", self.start, self.results)
    }
}

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

    /// A token that was just received, and `now` by the clock of `expires`; `None`
    /// for a text that is too long or empty.
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

    /// Whether it has expired. Counted from its arrival, so that a wrong clock on
    /// this side does not matter.
    pub(crate) fn is_expired(&self) -> bool {
        self.good_until.is_some_and(|until| Instant::now() >= until)
    }

    pub(super) fn header(&self) -> &str {
        &self.text
    }
}

/// Which part of the list of hosts to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCursor {
    /// A range of records.
    Range(Page),
    /// Where an earlier answer said that it goes on (4.8-3).
    Token(PageToken),
}

/// A part of the list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPage {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Where the list goes on, if the answer said so.
    pub next: Option<PageToken>,
}
