//! Reading a list page by page, so that what was missed on the way is noticed.
//!
//! Pages overlap by one record: the first record of a page must be the last of
//! the page before. A list that shifted in between breaks that, and is worth
//! nothing as a whole. How the API orders its lists is not documented, so
//! nothing rests on an order.

use crate::hosting::{Error, Page, Server, ServerId};
use std::{collections::HashSet, future::Future, sync::Arc};

/// Most pages of one listing: a quarter of a million records.
const MOST_PAGES: usize = 5000;

/// Shorter pages are no limit of the API but the end of a list that grows.
const LEAST_CLAMP: u32 = 10;

/// Why a listing is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Incomplete {
    /// A page could not be had.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The list changed its order or length while it was read.
    #[error("the list of servers changed while it was read")]
    Shifted,
    /// Page after page was shorter than asked for, and yet more records followed: the API gives no
    /// more than this at once. To be read again in pages of that size, which costs half the calls.
    #[error("the hosting API gives fewer records at once than it was asked for")]
    Clamped(u32),
    /// It does not end.
    #[error("the list of servers does not end")]
    Endless,
}

/// Where a listing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At a page that is shorter than asked for. Cheap, and no proof of anything.
    ShortPage,
    /// At an empty page.
    EmptyPage,
}

/// Reads a list in pages of `size` records.
pub(crate) async fn read<F, P>(
    size: u32,
    end: End,
    mut page: F,
) -> Result<Vec<Arc<Server>>, Incomplete>
where
    F: FnMut(Page) -> P,
    P: Future<Output = Result<Vec<Arc<Server>>, Error>>,
{
    let mut all: Vec<Arc<Server>> = Vec::new();
    let mut ids: HashSet<ServerId> = HashSet::new();
    // After a short page only an empty one proves the end. It is asked for without an overlap, so
    // what it shows, if it shows something, is asked for again with one: the list has grown meanwhile,
    // or the API gives fewer records at once.
    let mut at_end = false;
    let mut last_short = None;
    for _ in 0..MOST_PAGES {
        let overlap = usize::from(!all.is_empty() && !at_end);
        let start = u32::try_from(all.len() - overlap).map_err(|_| Incomplete::Endless)?;
        let got = page(Page::new(start, size)).await?;
        if got.is_empty() && overlap == 0 {
            return Ok(all);
        }
        if std::mem::take(&mut at_end) {
            continue;
        }
        if overlap == 1 && got.first().map(|s| &s.id) != all.last().map(|s| &s.id) {
            return Err(Incomplete::Shifted);
        }
        let length = u32::try_from(got.len()).map_err(|_| Incomplete::Endless)?;
        for server in got.into_iter().skip(overlap) {
            if !ids.insert(server.id.clone()) {
                return Err(Incomplete::Shifted);
            }
            all.push(server);
        }
        if length >= size {
            continue;
        }
        if end == End::ShortPage {
            return Ok(all);
        }
        if length >= LEAST_CLAMP && last_short == Some(length) {
            return Err(Incomplete::Clamped(length));
        }
        last_short = Some(length);
        at_end = true;
    }
    Err(Incomplete::Endless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosting::ServerStatus;
    use std::cell::RefCell;

    fn server(number: usize) -> Arc<Server> {
        let id = format!("00000000-0000-4000-8000-{number:012x}");
        Arc::new(Server {
            id: ServerId::parse(&id).unwrap(),
            name: format!("s{number}"),
            status: ServerStatus::Delivered,
            status_message: String::new(),
            location_id: None,
            location: String::new(),
            instance_type_id: None,
            instance_type: String::new(),
            os_slug: String::new(),
            addresses: vec![],
            tags: vec![],
            created_at: None,
            delivered_at: None,
            released_at: None,
            contract_id: None,
        })
    }

    /// Reads a list that `at` gives for each request; returns the starts asked for as well.
    async fn run(
        size: u32,
        end: End,
        clamp: usize,
        at: impl Fn(usize) -> Vec<usize>,
    ) -> (Result<Vec<Arc<Server>>, Incomplete>, Vec<u32>) {
        let starts = RefCell::new(Vec::new());
        let result = read(size, end, |page| {
            let list = at(starts.borrow().len());
            starts.borrow_mut().push(page.start());
            let most = (page.results() as usize).min(clamp);
            let got = list
                .into_iter()
                .skip(page.start() as usize)
                .take(most)
                .map(server)
                .collect();
            std::future::ready(Ok(got))
        })
        .await;
        (result, starts.into_inner())
    }

    #[tokio::test]
    async fn every_length_is_read_whole() {
        for n in (0..=210).chain([490, 491, 492]) {
            let (proof, starts) = run(50, End::EmptyPage, 50, |_| (0..n).collect()).await;
            assert_eq!(proof.unwrap().len(), n);
            assert_eq!(*starts.last().unwrap() as usize, n, "ends at an empty page");
            let (poll, starts) = run(50, End::ShortPage, 50, |_| (0..n).collect()).await;
            assert_eq!(poll.unwrap().len(), n);
            assert!(starts.len() <= n / 49 + 1);
        }
    }

    #[tokio::test]
    async fn a_hundred_and_twenty_take_three_pages() {
        let (_, starts) = run(50, End::ShortPage, 50, |_| (0..120).collect()).await;
        assert_eq!(starts, [0, 49, 98]);
    }

    #[tokio::test]
    async fn a_record_that_goes_or_comes_meanwhile_makes_it_worthless() {
        for (end, n) in [(End::EmptyPage, 120), (End::ShortPage, 120)] {
            let (gone, _) = run(50, end, 50, |call| {
                (0..n).filter(|i| call == 0 || *i != 3).collect()
            })
            .await;
            assert!(matches!(gone, Err(Incomplete::Shifted)));
            let (came, _) = run(50, end, 50, |call| {
                (if call == 0 { 1 } else { 0 }..n).collect()
            })
            .await;
            assert!(matches!(came, Err(Incomplete::Shifted)));
        }
        // A list that repeats itself.
        let (twice, _) = run(50, End::EmptyPage, 50, |_| {
            (0..49).chain([48]).chain(0..60).collect()
        })
        .await;
        assert!(matches!(twice, Err(Incomplete::Shifted)));
    }

    #[tokio::test]
    async fn a_list_that_grows_at_its_end_is_read_on() {
        for calls in [3, 4, 5] {
            let (grown, _) = run(50, End::EmptyPage, 50, |call| {
                (0..if call < calls { 120 } else { 140 }).collect()
            })
            .await;
            assert!([120, 140].contains(&grown.unwrap().len()));
        }
        // With each call one more, for a while.
        let (growing, _) = run(50, End::EmptyPage, 50, |call| {
            (0..60 + call.min(30)).collect()
        })
        .await;
        assert_eq!(growing.unwrap().len(), 90);
    }

    #[tokio::test]
    async fn an_empty_page_in_the_middle_is_no_end() {
        let (result, _) = run(50, End::EmptyPage, 50, |call| {
            (0..if call == 1 { 0 } else { 120 }).collect()
        })
        .await;
        assert!(matches!(result, Err(Incomplete::Shifted)));
    }

    #[tokio::test]
    async fn a_smaller_page_limit_is_found_out() {
        let (first, _) = run(50, End::EmptyPage, 25, |_| (0..60).collect()).await;
        assert!(matches!(first, Err(Incomplete::Clamped(25))));
        let (second, _) = run(25, End::EmptyPage, 25, |_| (0..60).collect()).await;
        assert_eq!(second.unwrap().len(), 60);
    }

    #[tokio::test]
    async fn an_error_on_any_page_spoils_it() {
        let result = read(50, End::EmptyPage, |page| {
            std::future::ready(if page.start() == 0 {
                Ok((0..50).map(server).collect())
            } else {
                Err(Error::TooLarge { cap: 1 })
            })
        })
        .await;
        assert!(matches!(result, Err(Incomplete::Failed(_))));
    }
}
