//! Everything that needs a real API server. One program, so that one control
//! plane serves the whole run; each test works in a namespace of its own.

// clippy.toml allows these inside test functions; here all of it is test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports by printing"
)]

mod chart;
mod cluster;
mod control_plane;
mod crash;
mod crds;
mod deadline;
mod demo;
mod docs;
mod laboratory;
mod rig;
mod whole;

// The parts of the benchmark that calculate, for the sake of their own tests:
// cargo runs none of an example.
#[allow(dead_code, reason = "used by the example `lab`")]
#[path = "../lab/bench/audit.rs"]
mod audit;
#[allow(dead_code, reason = "used by the example `lab`")]
#[path = "../lab/bench/floor.rs"]
mod floor;
