//! The contract table: rows of `docs/hosting-api.md` as cases over HTTP, with
//! raw requests and no client of ours in between.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

mod access;
mod acts;
mod acts_access;
mod acts_commands;
mod acts_hosts;
mod acts_lists;
mod acts_orders;
mod acts_servers;
mod calls;
mod catalogue;
mod choices;
mod commands;
mod crash;
mod edges;
mod hosts;
mod installs;
mod orders;
mod page;
mod password;
mod quota;
mod ranges;
mod rig;
mod servers;
mod sweep;
mod tags;
mod walk;

use std::collections::BTreeSet;
use std::io::Write;

/// The rows that each file has a case for.
const CASES: &[&[&str]] = &[
    access::COVERED,
    calls::COVERED,
    catalogue::COVERED,
    commands::COVERED,
    edges::COVERED,
    hosts::COVERED,
    installs::COVERED,
    orders::COVERED,
    password::COVERED,
    quota::COVERED,
    ranges::COVERED,
    servers::COVERED,
    sweep::COVERED,
    tags::COVERED,
];

/// Rows that speak about readers, machines or the world outside of the API:
/// no request to the API can show whether they hold.
const NOT_SERVED: &[&str] = &[
    "1-2", "1-6", "1-12", "2.8-11", "2.9-7", "2.10-3", "2.17-14", "2.17-16", "3.1-4", "5-7", "6-1",
    "9-3", "9-4",
];

#[test]
fn contract_every_row_has_a_case() {
    let ids: BTreeSet<&str> = page::rows().map(|row| row.id).collect();
    let covered: BTreeSet<&str> = CASES.iter().copied().flatten().copied().collect();
    let excused: BTreeSet<&str> = NOT_SERVED.iter().copied().collect();
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
        "contract: {} rows, {} with a case, {} not for a server",
        ids.len(),
        covered.len(),
        excused.len(),
    );
    assert_eq!(ids.len(), page::rows().count(), "an id stands twice");
    assert!(missing.is_empty(), "rows without a case: {missing:?}");
    assert!(
        stale.is_empty(),
        "rows with a case and an excuse: {stale:?}"
    );
    assert!(unknown.is_empty(), "no such rows: {unknown:?}");
}
