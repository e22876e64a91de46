//! The base of end-to-end tests: control plane, simulator, operator and objects. Each test has its own world.
//! Dropping a value ends what it started.

// clippy.toml allows these inside test functions, and this whole module is for tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking and reports by printing"
)]

pub mod cluster;
pub mod deadline;

mod kstatus;
mod objects;
mod operator;
mod program;
mod simulator;
mod world;

pub use cluster::{Cluster, ClusterAccess, cluster};
pub use deadline::eventually;
pub use kstatus::{Kstatus, condition, health};
pub use objects::Things;
pub use operator::{Operator, Start, endpoint};
pub use program::{Program, program};
pub use simulator::{Fault, Simulator};
pub use world::{QUICK_GRACE_PERIOD, World, WorldOptions, install_kinds, quick_timing, server};
