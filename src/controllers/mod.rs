//! One folder per kind, each in the same shape: observe, decide, act, report.

pub mod server;
