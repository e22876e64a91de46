//! Whole lists, from an API that shifts, repeats, shortens and fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::{FutureExt, TryStreamExt};
use proptest::prelude::*;
use serde_json::json;

use super::script::{Script, answer};
use crate::{
    listing::{Ask, Listing, ListingPage},
    page::PageToken,
};
use hosting_types::{
    HostId,
    list::{Complete, Incomplete, ListGap},
};

fn number(record: &usize, _: usize) -> String {
    record.to_string()
}

type Read = Result<Complete<usize>, Incomplete<usize>>;
type Starts = Arc<Mutex<Vec<u32>>>;

/// A list of numbers that `at` returns for each request. `most` is the most records that the API returns at a time.
/// Also returns the requested starts.
fn list<'a>(
    most: usize,
    at: impl Fn(usize) -> Vec<usize> + Send + 'a,
) -> (Listing<'a, usize>, Starts) {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let asked = starts.clone();
    let listing = Listing::new(number, move |ask| {
        let Ask::Range(page) = ask else {
            panic!("no token was given");
        };
        let list = at(asked.lock().unwrap().len());
        asked.lock().unwrap().push(page.start());
        let size = most.min(page.results() as usize);
        let page: Vec<_> = list
            .into_iter()
            .skip(page.start() as usize)
            .take(size)
            .collect();
        async move { Ok(page.into()) }.boxed()
    });
    (listing, starts)
}

async fn collect_list(
    most: usize,
    size: u32,
    at: impl Fn(usize) -> Vec<usize> + Send,
) -> (Read, Vec<u32>) {
    let (listing, starts) = list(most, at);
    let read = listing.with_page_size(size).collect().await;
    let starts = starts.lock().unwrap().clone();
    (read, starts)
}

fn gap(read: Read) -> ListGap {
    read.unwrap_err().gap
}

#[tokio::test]
async fn list_of_any_length_ends_at_empty_page() {
    for most in [2, 3, 25, 50] {
        for length in (0..=60).chain([99, 100, 101, 148]) {
            let (read, starts) = collect_list(most, 50, |_| (0..length).collect()).await;
            let all: Vec<_> = (0..length).collect();
            assert_eq!(read.unwrap().into_records(), all, "{most} {length}");
            assert_eq!(*starts.last().unwrap() as usize, length, "{most} {length}");
            let (growing, starts) = list(most, |_| (0..length).collect());
            assert_eq!(growing.growing().collect().await.unwrap().records(), all);
            assert_eq!(*starts.lock().unwrap().last().unwrap() as usize, length);
        }
    }
}

#[tokio::test]
async fn a_glance_ends_at_a_short_page() {
    for length in (0..=210).chain([490, 491, 492]) {
        let (listing, starts) = list(50, |_| (0..length).collect());
        let seen = listing.read_to_short_page().await.unwrap();
        assert_eq!(seen, (0..length).collect::<Vec<_>>());
        let pages = length.saturating_sub(1) / 49 + 1;
        assert_eq!(starts.lock().unwrap().len(), pages, "{length}");
    }
    let (listing, _) = list(50, |call| (usize::from(call > 0)..120).collect());
    assert!(matches!(
        listing.read_to_short_page().await,
        Err(ListGap::Shifted)
    ));
}

#[tokio::test]
async fn growing_list_is_read_to_its_end() {
    for calls in [3, 4, 5] {
        let length = |call| 120 + 20 * usize::from(call >= calls);
        let (grown, _) = list(50, |call| (0..length(call)).collect());
        let grown = grown.growing().collect().await.unwrap();
        assert!([120, 140].contains(&grown.records().len()));
    }
    // One more with each call, for a while; the first ones are few.
    for few in [1, 2, 11, 60] {
        let (growing, starts) = list(50, |call| (0..few + call.min(30)).collect());
        let growing = growing.growing().collect().await.unwrap();
        assert_eq!(growing.records().len(), few + 30);
        assert!(starts.lock().unwrap().len() < 40, "{few}");
    }
    // The client does not follow it forever.
    let (shown, _) = list(50, |call| (0..61 - call % 2).collect());
    assert!(matches!(
        gap(shown.growing().collect().await),
        ListGap::Short
    ));
    let (single, _) = list(1, |_| (0..3).collect());
    let single = gap(single.growing().collect().await);
    assert!(matches!(single, ListGap::NoOverlap));
}

#[tokio::test]
async fn a_list_that_changes_meanwhile_is_incomplete() {
    // One record goes and one comes, before the part that was read.
    let (gone, _) = collect_list(50, 50, |call| (usize::from(call > 0)..120).collect()).await;
    assert!(matches!(gap(gone), ListGap::Shifted));
    let (came, _) = collect_list(50, 50, |call| (usize::from(call == 0)..120).collect()).await;
    assert!(matches!(gap(came), ListGap::Shifted));
    // All records vanish: an empty page in the middle is not the end.
    let (emptied, _) = collect_list(50, 50, |call| {
        (0..if call == 0 { 120 } else { 0 }).collect()
    })
    .await;
    let emptied = emptied.unwrap_err();
    assert_eq!(emptied.seen.len(), 50);
    assert!(matches!(emptied.gap, ListGap::Shifted));
    // The list repeats itself.
    let (twice, _) = collect_list(50, 50, |_| (0..60).chain(0..60).collect()).await;
    assert!(matches!(gap(twice), ListGap::Repeated(_)));
    // The list goes on after a short page.
    let (short, _) = collect_list(50, 50, |call| {
        (0..if call == 1 { 70 } else { 120 }).collect()
    })
    .await;
    assert!(matches!(gap(short), ListGap::Short));
}

#[tokio::test]
async fn glance_reads_past_a_repeated_record() {
    for twice in [0, 49, 50, 98, 110] {
        let all: Vec<usize> = (0..=twice).chain(twice..120).collect();
        let (listing, _) = list(50, move |_| all.clone());
        let seen = listing.read_to_short_page().await.unwrap();
        assert_eq!(seen, (0..120).collect::<Vec<_>>(), "{twice}");
    }
}

#[tokio::test]
async fn pages_of_one_record_cannot_be_read() {
    let (single, _) = collect_list(1, 50, |_| (0..3).collect()).await;
    assert!(matches!(gap(single), ListGap::NoOverlap));
    let (alone, _) = collect_list(1, 50, |_| vec![7]).await;
    assert_eq!(alone.unwrap().records(), [7]);
}

#[tokio::test]
async fn endless_list_is_abandoned() {
    let mut start = 0;
    let listing = Listing::new(number, move |_| {
        let page: Vec<usize> = (start..start + 50).collect();
        start += 49;
        async move { Ok(page.into()) }.boxed()
    });
    let incomplete = listing.collect().await.unwrap_err();
    assert!(matches!(incomplete.gap, ListGap::TooMany));
}

#[tokio::test]
async fn stream_ends_at_its_first_gap() {
    let shrinking = || {
        let mut length = 60;
        Listing::new(number, move |ask| {
            let Ask::Range(page) = ask else {
                panic!("no token was given");
            };
            let page: Vec<usize> = (page.start() as usize..length).take(50).collect();
            length = 0;
            async move { Ok(page.into()) }.boxed()
        })
    };
    let mut stream = Box::pin(shrinking().into_stream());
    assert_eq!(stream.try_next().await.unwrap().unwrap().len(), 50);
    assert!(matches!(stream.try_next().await, Err(ListGap::Shifted)));
    assert!(matches!(stream.try_next().await, Ok(None)));

    let mut listing = shrinking();
    listing.next_page().await.unwrap();
    assert!(matches!(listing.next_page().await, Err(ListGap::Shifted)));
    assert!(matches!(listing.next_page().await, Err(ListGap::GivenUp)));
}

#[tokio::test]
async fn records_of_the_gap_page_are_returned() {
    // 0 to 49, then a page that begins with 51: the overlap is gone, and yet there are new records.
    let (shifted, _) = collect_list(50, 50, |call| {
        (if call == 0 { 0..60 } else { 2..62 }).collect()
    })
    .await;
    let shifted = shifted.unwrap_err();
    assert!(matches!(shifted.gap, ListGap::Shifted));
    assert_eq!(shifted.seen, (0..50).chain(51..62).collect::<Vec<_>>());
    let (repeated, _) = collect_list(50, 50, |_| (0..60).chain([5, 60]).collect()).await;
    let repeated = repeated.unwrap_err();
    assert!(matches!(repeated.gap, ListGap::Repeated(_)));
    assert_eq!(repeated.seen, (0..=60).collect::<Vec<_>>());
    let (short, _) = collect_list(50, 50, |call| {
        (0..if call == 1 { 70 } else { 120 }).collect()
    })
    .await;
    assert_eq!(short.unwrap_err().seen, (0..120).collect::<Vec<_>>());
}

#[tokio::test]
async fn oversized_page_is_refused() {
    let listing = Listing::new(number, |_| {
        async { Ok((0..51).collect::<Vec<usize>>().into()) }.boxed()
    });
    let incomplete = listing.collect().await.unwrap_err();
    assert!(matches!(incomplete.gap, ListGap::Oversized));
    assert_eq!(incomplete.seen.len(), 51);
}

#[tokio::test]
async fn list_keeps_a_maximum_of_records() {
    let pages = AtomicUsize::new(0);
    let listing = Listing::new(number, move |_| {
        let page = pages.fetch_add(1, Ordering::Relaxed);
        let token = PageToken::new(&page.to_string(), None, jiff::Timestamp::UNIX_EPOCH);
        // The first page has the requested size, the others the API's.
        let size = if page == 0 { 50 } else { 10_000 };
        let records = (page * 10_000..page * 10_000 + size).collect();
        async move {
            Ok(ListingPage {
                records,
                next: token,
            })
        }
        .boxed()
    });
    let incomplete = listing.collect().await.unwrap_err();
    assert!(matches!(incomplete.gap, ListGap::TooMany));
    assert_eq!(incomplete.seen.len(), 100_050);
}

#[tokio::test]
async fn equal_lines_of_a_log_are_two_entries() {
    let entry = json!({"issueDescription": "again"});
    let page = |entries: &[&serde_json::Value]| Ok(answer(200, json!(entries).to_string()));
    let (client, _) = Script::client(vec![page(&[&entry, &entry]), page(&[])]);
    let log = client.all_of_install_log(HostId(1)).collect().await;
    assert_eq!(log.unwrap().records().len(), 2);
    // Over more than one page, they overlap as others do.
    let full = vec![&entry; 50];
    let (client, _) = Script::client(vec![page(&full), page(&full[..2]), page(&[])]);
    let log = client.all_of_install_log(HostId(1)).collect().await;
    assert_eq!(log.unwrap().records().len(), 51);
}

proptest! {
    /// For any pages: no panic, no record twice, and complete only if the last page was empty.
    #[test]
    fn any_pages_are_read(
        pages in prop::collection::vec(prop::collection::vec(0usize..30, 0..6), 1..12),
        growing: bool,
    ) {
        let left = Arc::new(Mutex::new(pages.into_iter()));
        let last = Arc::new(Mutex::new(None));
        let (source, seen) = (left.clone(), last.clone());
        let listing = Listing::new(number, move |_| {
            let page = source.lock().unwrap().next().unwrap_or_default();
            *seen.lock().unwrap() = Some(page.len());
            async move { Ok(ListingPage::from(page)) }.boxed()
        });
        let listing = listing.with_page_size(4);
        let listing = if growing { listing.growing() } else { listing };
        let read = futures::executor::block_on(listing.collect());
        let records = match &read {
            Ok(all) => {
                prop_assert_eq!(*last.lock().unwrap(), Some(0));
                all.records()
            }
            Err(incomplete) => &incomplete.seen,
        };
        let mut sorted = records.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), records.len());
    }
}

/// A list of `length` numbers, in pages of 50.
fn numbers<'a>(length: usize) -> Listing<'a, usize> {
    Listing::new(number, move |ask| {
        let Ask::Range(page) = ask else {
            panic!("no token was given");
        };
        let start = page.start() as usize;
        let end = length.min(start + page.results() as usize);
        let page: Vec<usize> = (start..end).collect();
        async move { Ok(page.into()) }.boxed()
    })
}

#[tokio::test]
async fn complete_list_may_omit_finished_records() {
    let length = 150_000;
    let read = numbers(length).leaving_out(|n| n % 3 > 0).collect().await;
    let all = read.unwrap();
    assert_eq!(all.left_out(), 100_000 - hosting_types::list::MOST_OVER);
    assert_eq!(all.records().len() + all.left_out(), length);
    let present = all.records().iter().filter(|n| **n % 3 == 0).count();
    assert_eq!(present, length / 3, "nothing else is left out");
    // Without that, or with more than fits anyway, it is an error.
    assert!(matches!(
        gap(numbers(length).collect().await),
        ListGap::TooMany
    ));
    let rarely = numbers(length).leaving_out(|n| n % 100 == 0);
    assert!(matches!(gap(rarely.collect().await), ListGap::TooMany));
}

#[tokio::test]
async fn known_limit_costs_no_call_until_exceeded() {
    for (most, known, length, calls) in [
        (25, 25, 120, 6),
        (50, 25, 120, 4),
        (25, 25, 25, 3),
        (50, 25, 20, 2),
        // The last page is as long as the previous limit, but short anyway.
        (50, 22, 120, 4),
    ] {
        let (listing, starts) = list(most, |_| (0..length).collect());
        let read = listing.with_known_limit(known).growing().collect().await;
        assert_eq!(read.unwrap().records().len(), length);
        assert_eq!(
            starts.lock().unwrap().len(),
            calls,
            "{most} {known} {length}"
        );
    }
}
