//! The contract table: rows of `docs/contributing/hosting-api.md` as cases over HTTP, with
//! raw requests and no client of ours in between.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

mod access;
mod acts;
mod bodies;
mod calls;
mod catalogue;
mod choices;
mod commands;
mod crash;
mod edges;
mod envelope;
mod flags;
mod hosts;
mod installs;
mod inventory;
mod limits;
mod listings;
mod machines;
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
    bodies::COVERED,
    calls::COVERED,
    catalogue::COVERED,
    commands::COVERED,
    edges::COVERED,
    envelope::COVERED,
    hosts::COVERED,
    installs::COVERED,
    inventory::COVERED,
    limits::COVERED,
    listings::COVERED,
    machines::COVERED,
    orders::COVERED,
    password::COVERED,
    quota::COVERED,
    ranges::COVERED,
    servers::COVERED,
    sweep::COVERED,
    tags::COVERED,
];

/// Rows that speak about readers, machines or the world outside of the API:
/// no request to the API can show whether they hold. Plain http (1-19) is a
/// rule for clients, disks and network (2.8-17, 2.8-18) are inside of the
/// machine, and fields without a known name (2.20-24) cannot be looked for.
const NOT_SERVED: &[&str] = &[
    "1-2", "1-6", "1-12", "1-19", "2.8-11", "2.8-17", "2.8-18", "2.9-7", "2.10-3", "2.17-14",
    "2.17-16", "2.20-24", "3.1-4", "5-7", "6-1", "9-3", "9-4",
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
