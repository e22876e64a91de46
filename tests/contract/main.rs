//! The contract table: rows of `docs/hosting-api.md` as cases over HTTP, with
//! raw requests and no client of ours in between.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

mod access;
mod crash;
mod edges;
mod machines;
mod records;
mod rig;
mod walk;

use std::collections::BTreeSet;
use std::io::Write;

/// Rows that speak about readers, machines or the world outside of the API:
/// no request to the API can show whether they hold.
const NOT_SERVED: &[&str] = &[
    "1-2", "1-6", "1-12", "1-16", "2.6-11", "2.6-19", "2.7-11", "2.7-12", "2.7-19", "2.8-9",
    "2.8-11", "2.9-7", "2.10-3", "2.15-6", "2.15-10", "2.17-14", "2.17-15", "2.17-16", "3.1-4",
    "3.1-14", "5-5", "6-1", "7-7", "7-8", "7-10", "8-9", "8-10", "8-13", "9-3",
];

/// Rows that have no case yet. One that gets a case has to leave this list,
/// and a new row of the page is not on it.
const WAITING: &str = include_str!("waiting.txt");

fn ids() -> BTreeSet<&'static str> {
    let page = include_str!("../../docs/hosting-api.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let firsts = rows.filter_map(|row| row.split(" |").next());
    firsts
        .filter(|id| {
            let parts = id.split_once('-');
            let number = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.')
            };
            parts.is_some_and(|(section, row)| number(section) && number(row))
        })
        .collect()
}

#[test]
fn contract_every_row_has_a_case() {
    let ids = ids();
    let covered: BTreeSet<&str> = [
        records::COVERED,
        machines::COVERED,
        access::COVERED,
        edges::COVERED,
    ]
    .into_iter()
    .flatten()
    .copied()
    .collect();
    let waiting: BTreeSet<&str> = WAITING.split_whitespace().collect();
    let not_served: BTreeSet<&str> = NOT_SERVED.iter().copied().collect();
    let excused: BTreeSet<&str> = waiting.union(&not_served).copied().collect();
    let missing: Vec<_> = ids
        .iter()
        .filter(|id| !covered.contains(*id) && !excused.contains(*id))
        .collect();
    let stale: Vec<_> = covered.intersection(&excused).collect();
    let unknown: Vec<_> = covered
        .union(&excused)
        .filter(|id| !ids.contains(*id))
        .collect();
    // Straight to the terminal, so that it is seen without --nocapture.
    let _ = writeln!(
        std::io::stderr(),
        "contract: {} rows, {} with a case, {} not for a server, {} waiting",
        ids.len(),
        covered.len(),
        not_served.len(),
        waiting.len(),
    );
    assert!(missing.is_empty(), "rows without a case: {missing:?}");
    assert!(
        stale.is_empty(),
        "rows with a case and an excuse: {stale:?}"
    );
    assert!(unknown.is_empty(), "no such rows: {unknown:?}");
}
