//! Models of power commands, re-installations and whitelist changes, explored over the shipped decision code under
//! every interleaving of faults. The server order has its own model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program: a failure is the message"
)]

mod command;
mod install;
mod interner;
mod whitelist;

use std::time::Instant;

/// The time at which a walk starts.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing in this program pauses the time, and it has no tokio"
)]
fn now() -> Instant {
    Instant::now()
}
