//! Whole lists, page by page, so that what was missed on the way is noticed
//! (section 8 of `docs/hosting-api.md`).
//!
//! Nothing in an answer tells how long a list is (8-9), how it is ordered, or
//! how many records the API gives at most. So pages overlap by one record: the
//! first of a page must be the last of the page before, or the list has shifted
//! meanwhile. A list ends at an empty page behind its last record, and at
//! nothing else.

use std::collections::HashSet;

use futures::future::BoxFuture;
use futures::{Stream, stream};

use super::error::Error;
use super::page::{Page, PageToken};

pub use super::completeness::{Complete, Gap, Incomplete};

/// The most requests for one list.
const MOST_PAGES: usize = 5000;

/// The most records of one list: they are all kept in memory.
const MOST_RECORDS: usize = 100_000;

/// What to ask for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Range(Page),
    Token(PageToken),
}

/// What came.
pub(super) struct Batch<T> {
    pub(super) records: Vec<T>,
    pub(super) next: Option<PageToken>,
}

impl<T> From<Vec<T>> for Batch<T> {
    fn from(records: Vec<T>) -> Self {
        Self {
            records,
            next: None,
        }
    }
}

type Fetch<'a, T> = Box<dyn FnMut(Ask) -> BoxFuture<'a, Result<Batch<T>, Error>> + Send + 'a>;

/// Tells the records of a list apart. Gets the zero-based place as well, for
/// those that have nothing else of their own.
pub(super) type Identity<T> = fn(&T, usize) -> String;

/// A list that is being read.
///
/// Read it with [`Listing::next_page`], as a stream, or at once with
/// [`Listing::collect`].
pub struct Listing<'a, T> {
    fetch: Fetch<'a, T>,
    identity: Identity<T>,
    seen: HashSet<String>,
    /// The new records of a page that showed a gap.
    rest: Vec<T>,
    last: Option<String>,
    size: u32,
    /// The most records that came at once.
    longest: u32,
    asked: usize,
    at: At,
}

/// How far a listing is.
enum At {
    /// The next page begins with the last record that was seen, if any.
    Overlap,
    /// The last page was shorter than asked for: an empty one must follow. If
    /// it does not, the API gives at most this many at once.
    Short(u32),
    /// The API says where to go on.
    Token(PageToken),
    Complete,
    GivenUp,
}

impl<'a, T: Send + 'a> Listing<'a, T> {
    pub(super) fn new(
        identity: Identity<T>,
        fetch: impl FnMut(Ask) -> BoxFuture<'a, Result<Batch<T>, Error>> + Send + 'a,
    ) -> Self {
        Self {
            fetch: Box::new(fetch),
            identity,
            seen: HashSet::new(),
            rest: Vec::new(),
            last: None,
            size: Page::MOST,
            longest: 0,
            asked: 0,
            at: At::Overlap,
        }
    }

    /// Asks for pages of this size, 2 to 50; 50 is the default.
    #[must_use]
    pub fn with_page_size(mut self, size: u32) -> Self {
        self.size = size.clamp(2, Page::MOST);
        self
    }

    /// The next records that were not seen before, or `None` at the end of a
    /// list that is complete. One call may make more than one request.
    ///
    /// # Errors
    ///
    /// [`Gap`] where the list is not complete. It stays so: further calls give
    /// [`Gap::GivenUp`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<T>>, Gap> {
        let result = self.advance().await;
        if result.is_err() {
            self.at = At::GivenUp;
        }
        result
    }

    async fn advance(&mut self) -> Result<Option<Vec<T>>, Gap> {
        loop {
            let ask = match &self.at {
                At::Complete => return Ok(None),
                At::GivenUp => return Err(Gap::GivenUp),
                // To send it would be worse than useless: its empty answer
                // would pass for the end.
                At::Token(token) if token.is_expired() => return Err(Gap::Expired),
                At::Token(token) => Ask::Token(token.clone()),
                At::Overlap => self.range(usize::from(self.last.is_some()))?,
                At::Short(_) => self.range(0)?,
            };
            if self.asked == MOST_PAGES {
                return Err(Gap::Endless);
            }
            self.asked += 1;
            let most = match &ask {
                Ask::Range(page) => page.results() as usize,
                // How many a token leads to is up to the API.
                Ask::Token(_) => usize::MAX,
            };
            let batch = (self.fetch)(ask).await?;
            if batch.records.len() > most {
                return Err(self.broken(Gap::Oversized, batch.records));
            }
            let news = match std::mem::replace(&mut self.at, At::GivenUp) {
                At::Token(token) => self.follow(Some(&token), batch)?,
                At::Short(most) => self.behind_the_end(most, batch.records)?,
                _ if batch.next.is_some() => self.follow(None, batch)?,
                _ => self.overlapping(batch.records)?,
            };
            if !news.is_empty() {
                return Ok(Some(news));
            }
        }
    }

    fn range(&self, overlap: usize) -> Result<Ask, Gap> {
        let start = u32::try_from(self.seen.len().saturating_sub(overlap));
        let start = start.map_err(|_| Gap::Endless)?;
        Ok(Ask::Range(Page::new(start, self.size)))
    }

    /// A page that the API leads from or to by a token. Such a list ends where
    /// no token comes; an empty page with a new one is no end.
    fn follow(&mut self, from: Option<&PageToken>, batch: Batch<T>) -> Result<Vec<T>, Gap> {
        if from.is_none() && self.last.is_some() {
            // It began as a list of ranges.
            return Err(self.broken(Gap::Shifted, batch.records));
        }
        self.at = match batch.next {
            Some(token) if from == Some(&token) => {
                return Err(self.broken(Gap::Endless, batch.records));
            }
            Some(token) => At::Token(token),
            None => At::Complete,
        };
        self.keep(batch.records)
    }

    /// A page behind the end, as the page before was short.
    fn behind_the_end(&mut self, most: u32, records: Vec<T>) -> Result<Vec<T>, Gap> {
        if records.is_empty() {
            self.at = At::Complete;
            return Ok(records);
        }
        if most < self.longest {
            return Err(self.broken(Gap::Short, records));
        }
        // The API gives fewer at once than it was asked for. This page is
        // asked for again, small enough to overlap.
        if most < 2 {
            return Err(self.broken(Gap::NoOverlap, records));
        }
        self.size = most;
        self.at = At::Overlap;
        Ok(Vec::new())
    }

    fn overlapping(&mut self, mut records: Vec<T>) -> Result<Vec<T>, Gap> {
        let came = u32::try_from(records.len()).unwrap_or(u32::MAX);
        self.longest = self.longest.max(came);
        match &self.last {
            None if records.is_empty() => {
                self.at = At::Complete;
                return Ok(records);
            }
            None => {}
            Some(last) => {
                let place = self.seen.len().saturating_sub(1);
                let first = records.first().map(|it| (self.identity)(it, place));
                if first.as_ref() != Some(last) {
                    return Err(self.broken(Gap::Shifted, records));
                }
                records.remove(0);
            }
        }
        self.at = if came < self.size {
            At::Short(came)
        } else {
            At::Overlap
        };
        self.keep(records)
    }

    fn keep(&mut self, records: Vec<T>) -> Result<Vec<T>, Gap> {
        let came = records.len();
        let news = self.news(records);
        let gap = if news.len() < came {
            Gap::Repeated
        } else if self.seen.len() > MOST_RECORDS {
            Gap::Endless
        } else {
            return Ok(news);
        };
        self.rest = news;
        Err(gap)
    }

    /// A gap, on a page that has records all the same.
    fn broken(&mut self, gap: Gap, records: Vec<T>) -> Gap {
        self.rest = self.news(records);
        gap
    }

    /// What was not seen before.
    fn news(&mut self, records: Vec<T>) -> Vec<T> {
        let mut news = Vec::with_capacity(records.len());
        for record in records {
            let identity = (self.identity)(&record, self.seen.len());
            if self.seen.insert(identity.clone()) {
                self.last = Some(identity);
                news.push(record);
            }
        }
        news
    }

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
