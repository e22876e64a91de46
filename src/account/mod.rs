//! One live account of the hosting API: credentials, shared snapshot, call budget, breaker, sweep.

pub mod view;
