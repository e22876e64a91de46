//! All tests that need a real API server. They are one program, so that one control plane serves
//! the whole run. Each test works in its own namespace.

// clippy.toml allows these inside test functions. All code here is test code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports by printing"
)]

mod chart;
mod cluster_faults;
mod conformance;
mod control_plane;
mod control_plane_programs;
mod crash;
mod crds;
mod demo;
mod docs;
mod end_to_end;
mod lab_program;
mod test_rig;
