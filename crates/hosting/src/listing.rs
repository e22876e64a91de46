//! Reads whole lists page by page, and notices records that were missed (section 8 of
//! `docs/contributing/hosting-api.md`).
//!
//! Answers give no length (8-9), no order and no page limit, so pages overlap by one record: if the first record of a
//! page is not the last of the page before, the list has shifted. Only an empty page after the last record ends a list.
//! A list of more records than fit is [`ListGap::TooMany`]; [`Listing::leaving_out`] leaves finished records out and still
//! reads to the end.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use futures::future::BoxFuture;
use futures::{Stream, stream};

use super::page::PageToken;
use hosting_types::{
    list::{Complete, Incomplete, ListGap, MOST_OVER, MOST_RECORDS},
    page::Page,
};

/// The most requests for one list.
const MOST_PAGES: usize = 5000;

/// In a growing list, a page shorter than this is the end, not the API's limit.
const LEAST_CLAMP: u32 = 10;

/// What to request next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Range(Page),
    Token(PageToken),
}

/// One answer.
pub(super) struct ListingPage<T> {
    pub(super) records: Vec<T>,
    pub(super) next: Option<PageToken>,
}

impl<T> From<Vec<T>> for ListingPage<T> {
    fn from(records: Vec<T>) -> Self {
        Self {
            records,
            next: None,
        }
    }
}

type Fetch<'a, T> =
    Box<dyn FnMut(Ask) -> BoxFuture<'a, Result<ListingPage<T>, ListGap>> + Send + 'a>;

/// The identity of a record; its zero-based position if it has none.
pub(super) type RecordIdFn<T> = fn(&T, usize) -> String;

/// A list that is being read: by [`Listing::next_page`], as a stream, or at once by [`Listing::collect`].
pub struct Listing<'a, T> {
    fetch: Fetch<'a, T>,
    identity: RecordIdFn<T>,
    seen: HashSet<u128>,
    /// How many records came, without the overlaps.
    came: usize,
    /// Whether a record may come twice, and the first that did.
    repeats: bool,
    repeated: Option<String>,
    /// The keys of the identities' hashes. In a long list, identities as texts take more memory than the records.
    digests: [RandomState; 2],
    /// The new records of a page that showed a gap.
    pub(super) rest: Vec<T>,
    last: Option<u128>,
    size: u32,
    /// The known limit: the most records that the API returned for a larger request.
    limit: u32,
    /// Which records are over.
    over: Option<fn(&T) -> bool>,
    /// Which records do not fit into the caller's memory budget.
    outside: Option<fn(&T) -> bool>,
    /// How many records are kept, and how many of them are over.
    kept: usize,
    kept_over: usize,
    /// How many were left out.
    pub(super) left_out: usize,
    /// The most records of one page.
    longest: u32,
    asked: usize,
    /// Whether the list may grow at its end while it is read.
    growing: bool,
    /// A page after the end had records, so the next page must have some too.
    more: bool,
    at: ListingPosition,
}

/// How far a listing is.
enum ListingPosition {
    /// The next page starts with the last record that was seen, if any.
    Overlap,
    /// The last page was shorter than requested: an empty one must follow. If not, the API returns at most this many at
    /// a time.
    Short(u32),
    /// The API gave the token of the next page.
    Token(PageToken),
    Complete,
    GivenUp,
}

impl<'a, T: Send + 'a> Listing<'a, T> {
    pub(super) fn new(
        identity: RecordIdFn<T>,
        fetch: impl FnMut(Ask) -> BoxFuture<'a, Result<ListingPage<T>, ListGap>> + Send + 'a,
    ) -> Self {
        Self {
            fetch: Box::new(fetch),
            identity,
            seen: HashSet::new(),
            came: 0,
            repeats: false,
            repeated: None,
            digests: Default::default(),
            rest: Vec::new(),
            last: None,
            size: Page::MOST,
            limit: Page::MOST,
            over: None,
            outside: None,
            kept: 0,
            kept_over: 0,
            left_out: 0,
            longest: 0,
            asked: 0,
            growing: false,
            more: false,
            at: ListingPosition::Overlap,
        }
    }

    /// Requests pages of this size, 2 to 50; 50 is the default.
    #[must_use]
    pub fn with_page_size(mut self, size: u32) -> Self {
        self.size = size.clamp(2, Page::MOST);
        self
    }

    /// The API returned at most this many records at a time before. A page of this size counts as full, and the list
    /// goes on with that size, until a page has more: so a valid limit costs no call.
    #[must_use]
    pub fn with_known_limit(mut self, limit: u32) -> Self {
        self.limit = limit.clamp(2, Page::MOST);
        self
    }

    /// Which records are over. Beyond [`MOST_OVER`] these are read, so the list is complete, but not kept.
    /// [`Complete::left_out`] gives their number.
    #[must_use]
    pub fn leaving_out(mut self, over: fn(&T) -> bool) -> Self {
        self.over = Some(over);
        self
    }

    /// Which records are always left out: the caller, who fetches the pages, had no memory for them.
    #[must_use]
    pub fn without(mut self, outside: fn(&T) -> bool) -> Self {
        self.outside = Some(outside);
        self
    }

    /// Reads on if records follow a short page, since the list grows at its end while servers are ordered. Pages still
    /// overlap, and an empty page is still the end. Without this it is [`ListGap::Short`].
    #[must_use]
    pub fn growing(mut self) -> Self {
        self.growing = true;
        self
    }

    /// The next new records, or `None` at the end of a complete list. May make several requests. [`ListGap`]: the list is
    /// not complete; further calls return [`ListGap::GivenUp`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<T>>, ListGap> {
        let result = self.advance().await;
        if result.is_err() {
            self.at = ListingPosition::GivenUp;
        }
        result
    }

    async fn advance(&mut self) -> Result<Option<Vec<T>>, ListGap> {
        while !matches!(self.at, ListingPosition::Complete) {
            let news = self.step().await?;
            if !news.is_empty() {
                return Ok(Some(news));
            }
        }
        Ok(None)
    }

    /// Whether the last page was shorter than requested.
    pub(super) fn may_be_over(&self) -> bool {
        matches!(
            self.at,
            ListingPosition::Short(_) | ListingPosition::Complete
        )
    }

    /// Makes one request, and returns its new records.
    pub(super) async fn step(&mut self) -> Result<Vec<T>, ListGap> {
        let ask = match &self.at {
            ListingPosition::Complete => return Ok(Vec::new()),
            ListingPosition::GivenUp => return Err(ListGap::GivenUp),
            // Not sent: its empty answer would look like the end.
            ListingPosition::Token(token) if token.is_expired() => return Err(ListGap::Expired),
            ListingPosition::Token(token) => Ask::Token(token.clone()),
            ListingPosition::Overlap => self.range(usize::from(self.last.is_some()))?,
            ListingPosition::Short(_) => self.range(0)?,
        };
        if self.asked == MOST_PAGES {
            return Err(ListGap::Endless);
        }
        self.asked += 1;
        let most = match &ask {
            Ask::Range(page) => page.results() as usize,
            // The API decides how many records follow a token.
            Ask::Token(_) => usize::MAX,
        };
        let batch = (self.fetch)(ask).await?;
        if batch.records.len() > most {
            return Err(self.broken(ListGap::Oversized, batch.records));
        }
        match std::mem::replace(&mut self.at, ListingPosition::GivenUp) {
            ListingPosition::Token(token) => self.follow(Some(&token), batch),
            ListingPosition::Short(most) => self.behind_the_end(most, batch.records),
            _ if batch.next.is_some() => self.follow(None, batch),
            _ => self.overlapping(batch.records),
        }
    }

    fn range(&self, overlap: usize) -> Result<Ask, ListGap> {
        let start = u32::try_from(self.came.saturating_sub(overlap));
        let start = start.map_err(|_| ListGap::Endless)?;
        Ok(Ask::Range(Page::new(start, self.size)))
    }

    /// A page by token, or with one. Such a list ends at a page without a token; an empty page with a new token is not
    /// the end.
    fn follow(
        &mut self,
        from: Option<&PageToken>,
        batch: ListingPage<T>,
    ) -> Result<Vec<T>, ListGap> {
        if from.is_none() && self.last.is_some() {
            // It started as a list of ranges.
            return Err(self.broken(ListGap::Shifted, batch.records));
        }
        self.at = match batch.next {
            Some(token) if from == Some(&token) => {
                return Err(self.broken(ListGap::Endless, batch.records));
            }
            Some(token) => ListingPosition::Token(token),
            None => ListingPosition::Complete,
        };
        self.accept_records(batch.records)
    }

    /// A page after the end, because the page before was short.
    fn behind_the_end(&mut self, most: u32, records: Vec<T>) -> Result<Vec<T>, ListGap> {
        if records.is_empty() {
            self.at = ListingPosition::Complete;
            return Ok(records);
        }
        if !self.growing && (most < self.longest || most < 2) {
            return Err(self.broken(self.cannot_go_on(), records));
        }
        // Requests this page again with an overlap, and small enough if the API returns fewer at a time than requested.
        if most == self.longest && (!self.growing || most >= LEAST_CLAMP) {
            self.size = most;
        }
        self.more = true;
        self.at = ListingPosition::Overlap;
        Ok(Vec::new())
    }

    /// Records follow a short page, and no page shows them after the others.
    fn cannot_go_on(&self) -> ListGap {
        match self.longest {
            1 => ListGap::NoOverlap,
            _ => ListGap::Short,
        }
    }

    fn overlapping(&mut self, mut records: Vec<T>) -> Result<Vec<T>, ListGap> {
        let came = u32::try_from(records.len()).unwrap_or(u32::MAX);
        self.longest = self.longest.max(came);
        match &self.last {
            None if records.is_empty() => {
                self.at = ListingPosition::Complete;
                return Ok(records);
            }
            None => {}
            Some(last) => {
                let place = self.seen.len().saturating_sub(1);
                let first = records.first().map(|it| self.digest(it, place));
                if first.as_ref() != Some(last) {
                    return Err(self.broken(ListGap::Shifted, records));
                }
                records.remove(0);
                if std::mem::take(&mut self.more) && records.is_empty() {
                    return Err(self.cannot_go_on());
                }
            }
        }
        let is_at_limit = came == self.limit && came == self.longest;
        if came < self.size && is_at_limit {
            self.size = came;
        }
        self.at = match came < self.size {
            true => ListingPosition::Short(came),
            false => ListingPosition::Overlap,
        };
        self.accept_records(records)
    }

    fn accept_records(&mut self, records: Vec<T>) -> Result<Vec<T>, ListGap> {
        self.came += records.len();
        let mut news = self.new_records(records);
        if !self.repeats
            && let Some(record) = self.repeated.take()
        {
            self.rest = news;
            return Err(ListGap::Repeated(record));
        }
        news.retain(|record| self.fits(record));
        self.kept += news.len();
        if self.kept <= MOST_RECORDS {
            return Ok(news);
        }
        self.rest = news;
        Err(ListGap::TooMany)
    }

    /// Whether a record is kept.
    fn fits(&mut self, record: &T) -> bool {
        if self.outside.is_some_and(|is_outside| is_outside(record)) {
            self.left_out += 1;
            return false;
        }
        if !self.over.is_some_and(|is_over| is_over(record)) {
            return true;
        }
        let fits = self.kept_over < MOST_OVER;
        match fits {
            true => self.kept_over += 1,
            false => self.left_out += 1,
        }
        fits
    }

    /// A gap, on a page that nevertheless has records.
    fn broken(&mut self, gap: ListGap, records: Vec<T>) -> ListGap {
        self.rest = self.new_records(records);
        gap
    }

    /// Two records count as one if all 128 bits agree. The hash keys are secret, so no API can construct such records.
    fn digest(&self, record: &T, place: usize) -> u128 {
        let identity = (self.identity)(record, place);
        let [high, low] = &self.digests;
        u128::from(high.hash_one(&identity)) << 64 | u128::from(low.hash_one(&identity))
    }

    /// The records that were not seen before.
    fn new_records(&mut self, records: Vec<T>) -> Vec<T> {
        let mut news = Vec::with_capacity(records.len());
        for record in records {
            let place = self.seen.len();
            let digest = self.digest(&record, place);
            self.last = Some(digest);
            if self.seen.insert(digest) {
                news.push(record);
            } else if self.repeated.is_none() {
                self.repeated = Some((self.identity)(&record, place));
            }
        }
        news
    }
}

impl<'a, T: Send + 'a> Listing<'a, T> {
    /// The pages as a stream. Without an error at the end, the list was complete.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<T>, ListGap>> + Send + 'a {
        stream::unfold(Some(self), async |listing| {
            let mut listing = listing?;
            match listing.next_page().await {
                Ok(Some(page)) => Some((Ok(page), Some(listing))),
                Ok(None) => None,
                Err(gap) => Some((Err(gap), None)),
            }
        })
    }

    /// Reads up to a page that is shorter than requested. Saves the last request, but confirms nothing: more records
    /// may follow, and one may come twice.
    pub async fn read_to_short_page(mut self) -> Result<Vec<T>, ListGap> {
        self.repeats = true;
        let mut seen = Vec::new();
        while !self.may_be_over() {
            seen.extend(self.step().await?);
        }
        Ok(seen)
    }
}

impl<'a, T: std::fmt::Debug + Send + 'a> Listing<'a, T> {
    /// Reads the whole list. [`Incomplete`]: what was seen, and why it is not all.
    pub async fn collect(mut self) -> Result<Complete<T>, Incomplete<T>> {
        let mut seen = Vec::new();
        loop {
            match self.next_page().await {
                Ok(Some(page)) => seen.extend(page),
                Ok(None) => {
                    return Ok(Complete::new(seen, self.left_out));
                }
                Err(gap) => {
                    seen.append(&mut self.rest);
                    return Err(Incomplete { seen, gap });
                }
            }
        }
    }
}
