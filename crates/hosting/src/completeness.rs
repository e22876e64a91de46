//! A list at once, and what it is worth: complete, or some records and the
//! reason why there are no more.

use futures::{Stream, stream};

use super::error::Error;
use super::listing::Listing;

/// Why a list is not complete.
#[derive(Debug, thiserror::Error)]
pub enum Gap {
    /// A page could not be had.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The list changed while it was read.
    #[error("the list changed while it was read")]
    Shifted,
    /// One record came twice.
    #[error("the list shows one record twice")]
    Repeated,
    /// A page was shorter than others, and yet more records follow.
    #[error("the list goes on behind a short page")]
    Short,
    /// A page had more records than were asked for, so nobody knows which part
    /// of the list it was.
    #[error("the hosting API gives more records at once than it was asked for")]
    Oversized,
    /// The API gives one record at a time, so that pages cannot overlap.
    #[error("the hosting API gives single records where a page was asked for")]
    NoOverlap,
    /// What leads to the next page is good no more (4.8-3).
    #[error("the PAGE-TOKEN expired before the next page was asked for")]
    Expired,
    /// It does not end.
    #[error("the list does not end")]
    Endless,
    /// Somebody went on reading behind a gap.
    #[error("the list was given up before")]
    GivenUp,
}

/// All records of a list: nothing was missed, as far as the API can be asked.
///
/// That is no more than the API's own word. A list without records above all
/// proves nothing by itself: an API that has lost its memory for a moment, or
/// looks at another account, gives the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete<T>(Vec<T>);

impl<T> Complete<T> {
    /// The records, in the API's order.
    pub fn records(&self) -> &[T] {
        &self.0
    }

    /// The records, in the API's order.
    pub fn into_records(self) -> Vec<T> {
        self.0
    }
}

/// Some records of a list. What is not among them may be there all the same.
#[derive(Debug, thiserror::Error)]
#[error("the list is not complete")]
pub struct Incomplete<T: std::fmt::Debug> {
    /// What was seen, each record once; those of the page that showed the gap
    /// are among them.
    pub seen: Vec<T>,
    /// Why there is no more.
    #[source]
    pub gap: Gap,
}

impl<'a, T: Send + 'a> Listing<'a, T> {
    /// The pages as a stream. A stream that ends without an error was of a
    /// complete list; an error is its last item.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<T>, Gap>> + Send + 'a {
        stream::unfold(Some(self), async |listing| {
            let mut listing = listing?;
            match listing.next_page().await {
                Ok(Some(page)) => Some((Ok(page), Some(listing))),
                Ok(None) => None,
                Err(gap) => Some((Err(gap), None)),
            }
        })
    }

    /// Reads up to a page that is shorter than asked for. Saves the last
    /// request, and proves nothing: there may be more behind.
    pub async fn glance(mut self) -> Result<Vec<T>, Gap> {
        let mut seen = Vec::new();
        while !self.may_be_over() {
            seen.extend(self.step().await?);
        }
        Ok(seen)
    }
}

impl<'a, T: std::fmt::Debug + Send + 'a> Listing<'a, T> {
    /// Reads the whole list.
    ///
    /// # Errors
    ///
    /// [`Incomplete`] holds what was seen, and why it is not all.
    pub async fn collect(mut self) -> Result<Complete<T>, Incomplete<T>> {
        let mut seen = Vec::new();
        loop {
            match self.next_page().await {
                Ok(Some(page)) => seen.extend(page),
                Ok(None) => return Ok(Complete(seen)),
                Err(gap) => {
                    seen.append(&mut self.rest);
                    return Err(Incomplete { seen, gap });
                }
            }
        }
    }
}
