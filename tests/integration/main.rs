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
mod control_plane;
mod crash;
mod crds;
mod demo;
mod docs;
mod floor;
mod laboratory;
mod rehearsal;
mod tasks;
mod whole;
