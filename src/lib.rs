//! The library behind `flexmetal-operator`.
//!
//! Arrows point one way: `controllers` use `account`, `account` uses `hosting`,
//! and all of them use `kinds`. The `simulator` shares no type with `hosting`:
//! it is written from the API's description, so that one mistake cannot hide
//! in both. See `docs/architecture.md` for the way of one object through the code.

pub mod account;
pub mod controllers;
pub mod hosting;
pub mod kinds;
pub mod runtime;
pub mod simulator;
