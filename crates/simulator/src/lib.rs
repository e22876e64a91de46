//! The hosting API as a server: a state machine over virtual time, its routes, faults and ledger.
//!
//! Written from the API's description alone; it shares no type with
//! [`the client of the API`], so that one misreading cannot hide in both.
//!
//! The path of a request: `serve` reads it from the socket, `exchange`
//! writes it into the `ledger`, asks `faults` what goes wrong with it, checks
//! the key, and passes it to `routes`; those check it with `rules` and change
//! `state`. The `control` routes, on a port of their own, drive the clock, set
//! faults and show what happened.

mod accounts;
mod answer;
mod catalogue;
mod clock;
mod control;
mod direct;
mod exchange;
mod faults;
mod invariants;
mod journal;
mod keys;
mod ledger;
mod options;
mod page;
mod profile;
mod roster;
mod routes;
mod rules;
mod serve;
mod start;
mod state;
mod strangers;
mod wire;
mod world;

#[cfg(test)]
mod tests;

pub use accounts::InvalidAccounts;
pub use catalogue::InvalidCatalogue;
pub use direct::Direct;
pub use exchange::Broken;
pub use journal::StateFileError;
pub use options::{ClockMode, Delivery, InvalidOption, Options, Profile};
pub use profile::UnknownSwitch;
pub use start::{Running, StartError, start};
