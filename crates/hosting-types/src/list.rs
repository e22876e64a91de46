//! A list that is complete, or some of its records and the reason why there are no more.

use super::error::Error;
use std::fmt::{self, Debug, Write as _};

/// The most records of one list that are kept in memory.
pub const MOST_RECORDS: usize = 100_000;

/// The most kept records that are over, if a caller lets such records be left out.
pub const MOST_OVER: usize = 50_000;

/// About how much memory the records of a list take, in bytes.
pub fn list_size(list: &[impl Debug]) -> usize {
    list.iter().map(record_size).sum()
}

/// About how much memory a record takes, in bytes: the length of its `Debug` text, and 128 for a list and a map. Not
/// for types whose `Debug` leaves fields out.
pub fn record_size(record: &impl Debug) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(128);
    // `Length` returns no error.
    let _ = write!(length, "{record:?}");
    length.0
}

/// Why a list is not complete.
#[derive(Debug, thiserror::Error)]
pub enum ListGap {
    /// A page could not be read.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The list changed while it was read.
    #[error("the list changed while it was read")]
    Shifted,
    /// One record came twice.
    #[error("the list shows {0} twice; ask the provider to list it once")]
    Repeated(String),
    /// A page was shorter than others, yet more records follow.
    #[error("the list continues after a short page")]
    Short,
    /// A page had more records than requested, so its part of the list is unknown.
    #[error("the hosting API returns more records on a page than requested")]
    Oversized,
    /// The API gives one record at a time, so that pages cannot overlap.
    #[error("the hosting API returns single records where a page was requested")]
    NoOverlap,
    /// The token of the next page has expired (4.8-3).
    #[error("the PAGE-TOKEN expired before the next page was requested")]
    Expired,
    /// The list does not end.
    #[error("the list does not end")]
    Endless,
    /// The list has more records than are kept in memory.
    #[error(
        "the list has more than {} records, the most that the operator reads",
        MOST_RECORDS
    )]
    TooMany,
    /// The list takes more memory than the caller has for it.
    #[error("the list needs more memory than the operator has free for this account")]
    OverMemoryBudget,
    /// The caller went on reading after a gap.
    #[error("an earlier page could not be read")]
    GivenUp,
}

/// All records of a list, as far as the API's answers show. An empty list confirms nothing by itself: an API with
/// temporarily lost data, or another account, gives the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete<T> {
    records: Vec<T>,
    left_out: usize,
}

impl<T> Complete<T> {
    /// All records of a list that was read to its end, and how many more were left out.
    pub fn new(records: Vec<T>, left_out: usize) -> Self {
        Self { records, left_out }
    }

    /// The records, in the API's order.
    pub fn records(&self) -> &[T] {
        &self.records
    }

    /// How many records were read and left out, as the caller asked.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The records, in the API's order.
    pub fn into_records(self) -> Vec<T> {
        self.records
    }
}

/// Some records of a list. More may exist.
#[derive(Debug, thiserror::Error)]
#[error("the list is not complete")]
pub struct Incomplete<T: std::fmt::Debug> {
    /// What was seen, each record once, including those of the page with the gap.
    pub seen: Vec<T>,
    /// Why there are no more.
    #[source]
    pub gap: ListGap,
}
