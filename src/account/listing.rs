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

/// Why a listing is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Incomplete {
    /// A page could not be had.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The list changed its order or length while it was read.
    #[error("the list of servers changed while it was read")]
    Shifted,
    /// A page was shorter than asked for, and yet more records follow: the API gives fewer at once.
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
    // Length of the page before, when it was short: then only an empty page may follow.
    let mut short: Option<usize> = None;
    for _ in 0..MOST_PAGES {
        let overlap = usize::from(!all.is_empty() && short.is_none());
        let start = u32::try_from(all.len() - overlap).map_err(|_| Incomplete::Endless)?;
        let got = page(Page::new(start, size)).await?;
        if let Some(before) = short {
            return match u32::try_from(before) {
                _ if got.is_empty() => Ok(all),
                Ok(length) if length > 1 => Err(Incomplete::Clamped(length)),
                _ => Err(Incomplete::Shifted),
            };
        }
        if got.is_empty() && all.is_empty() {
            return Ok(all);
        }
        if overlap == 1 && got.first().map(|s| &s.id) != all.last().map(|s| &s.id) {
            return Err(Incomplete::Shifted);
        }
        let length = got.len();
        for server in got.into_iter().skip(overlap) {
            if !ids.insert(server.id.clone()) {
                return Err(Incomplete::Shifted);
            }
            all.push(server);
        }
        if u32::try_from(length).is_ok_and(|l| l < size) {
            if end == End::ShortPage {
                return Ok(all);
            }
            short = Some(length);
        } else if length <= overlap {
            // Pages of one record cannot overlap and go on.
            return Err(Incomplete::Shifted);
        }
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
            location: String::new(),
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
        let (behind, _) = run(50, End::EmptyPage, 50, |call| {
            (0..if call < 3 { 120 } else { 121 }).collect()
        })
        .await;
        assert!(behind.is_err());
        // A list that repeats itself.
        let (twice, _) = run(50, End::EmptyPage, 50, |_| {
            (0..49).chain([48]).chain(0..60).collect()
        })
        .await;
        assert!(matches!(twice, Err(Incomplete::Shifted)));
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
