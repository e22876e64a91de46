//! The library behind `flexmetal-operator`.
//!
//! It reads, writes and calls. What is decided, and from what, is the crate
//! `flexmetal-core`; arrows point one way: `controllers` use `account`,
//! `account` uses the client `hosting`, and both use `runtime`.
//! See `docs/contributing/architecture.md` for the way of one object through the code.

pub mod account;
pub mod controllers;
pub mod operator;
pub mod runtime;

#[cfg(test)]
mod dependency_rules;
