//! The library behind `flexmetal-operator`.
//!
//! Arrows point one way: `controllers` use `account`, `account` uses the client
//! `hosting` (a crate of its own), and all of them use `kinds` and `runtime`.
//! See `docs/architecture.md` for the way of one object through the code.

pub mod account;
pub mod controllers;
pub mod operator;
pub mod runtime;

#[cfg(test)]
mod arrows;
