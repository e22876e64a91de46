//! The library of `flexmetal-operator`: it reads, writes and calls. The crate `flexmetal-core` decides. Dependencies go
//! one way: `controllers`, `account`, `runtime`. See `docs/contributing/architecture.md`.

pub mod account;
pub mod controllers;
pub mod operator;
pub mod runtime;

#[cfg(test)]
mod dependency_rules;
