//! The lower bounds for any client, computed from the events of the run.

use std::time::Duration;

/// One server's life, in virtual Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) ordered: f64,
    pub(crate) delivered: Option<f64>,
    pub(crate) releasing: Option<f64>,
    pub(crate) released: Option<f64>,
}

/// Records on one page of the hosting API.
const PAGE: usize = 50;
/// POST, one GET before the DELETE (to check the owner), DELETE.
pub(crate) const CALLS_PER_LIFE: usize = 3;
/// Orders per second, and burst of orders, of one account: the defaults of `src/account/rate_limiter/bucket.rs`.
const ORDERS_PER_SECOND: f64 = 20.0;
const ORDERS_AT_ONCE: f64 = 40.0;

/// Fewest pages that show every change if polled every `interval` (virtual seconds). Each poll reads the pages of the
/// servers that changed since the poll before, and at least one page.
pub(crate) fn count_changing_pages(spans: &[(f64, f64)], interval: f64) -> usize {
    let first = spans
        .iter()
        .map(|span| span.0)
        .fold(f64::INFINITY, f64::min);
    let last = spans
        .iter()
        .map(|span| span.1)
        .fold(f64::NEG_INFINITY, f64::max);
    let mut pages = 0;
    let mut before = first;
    while before < last {
        let now = before + interval;
        let moving = spans
            .iter()
            .filter(|(begin, end)| *begin <= now && *end > before)
            .count();
        pages += moving.div_ceil(PAGE).max(1);
        before = now;
    }
    pages
}

/// Time limit of a phase in which each server needs `calls` of the account's budget: three times what the budget
/// allows, plus the longest time of one server.
pub(crate) fn phase_timeout(servers: u32, calls: u32) -> Duration {
    /// Start, delivery or release of one server, and the last polls.
    const ONE: Duration = Duration::from_secs(240);
    let seconds = 3.0 * f64::from(servers) * f64::from(calls) / ORDERS_PER_SECOND;
    ONE + Duration::from_secs_f64(seconds)
}

/// Time spans from order to delivery, of every server.
pub(crate) fn deliveries(lives: &[Life]) -> Vec<(f64, f64)> {
    let spans = lives.iter();
    spans
        .filter_map(|life| Some((life.ordered, life.delivered?)))
        .collect()
}

/// Time spans from the DELETE to the end of the release, of every server.
pub(crate) fn releases(lives: &[Life]) -> Vec<(f64, f64)> {
    let spans = lives.iter();
    spans
        .filter_map(|life| Some((life.releasing?, life.released?)))
        .collect()
}

/// Real seconds from the first order to the last delivery if the orders are sent in the same sequence, as fast as the
/// budget allows.
pub(crate) fn until_delivered(lives: &[Life], clock_speed: f64) -> f64 {
    let mut spans = deliveries(lives);
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut bound = 0.0_f64;
    let mut sent = 0.0_f64;
    for (ordered, delivered) in spans {
        sent += 1.0;
        let permitted = ((sent - ORDERS_AT_ONCE) / ORDERS_PER_SECOND).max(0.0);
        bound = bound.max(permitted + (delivered - ordered) / clock_speed);
    }
    bound
}

/// Most reads in `window` if polled every `still` and scanned for orphans every `scan` (real seconds). A poll reads one
/// page per 50 servers, and a scan one more. Started intervals count in full.
pub(crate) fn poll_budget(servers: usize, window: f64, still: f64, scan: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "pages of a benchmark, far below 2^52"
    )]
    let pages = servers.div_ceil(PAGE) as f64;
    // Pages overlap by one record, to detect a list that shifts.
    let overlapping = pages * 50.0 / 49.0;
    (window / still).ceil() * overlapping.ceil() + (window / scan).ceil() * (pages + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_poll_costs_the_changed_pages() {
        // 60 servers for 25 s, polled every 10 s: three polls, two pages each.
        assert_eq!(count_changing_pages(&[(0.0, 25.0); 60], 10.0), 6);
        // A server that is done before the second poll is not read again.
        let spans = [vec![(0.0, 5.0); 10], vec![(0.0, 25.0); 50]].concat();
        assert_eq!(count_changing_pages(&spans, 10.0), 4);
        assert_eq!(count_changing_pages(&[], 10.0), 0);
    }

    #[test]
    fn orders_beyond_the_burst_wait_for_the_budget() {
        let life = |ordered| Life {
            ordered,
            delivered: Some(ordered + 100.0),
            releasing: None,
            released: None,
        };
        let lives: Vec<Life> = (0..60).map(|n| life(f64::from(n))).collect();
        // The 60th may go after (60 - 40) / 20 = 1 s, and takes 100 s / 10.
        assert!((until_delivered(&lives, 10.0) - 11.0).abs() < 1e-9);
    }
}
