//! One folder per kind, each in the same shape: observe, decide, act, report.
//! Beside them the few things that all kinds share.

pub mod account;
pub mod backoff;
pub mod events;
pub mod server;
pub mod status;
pub mod streams;
