//! What must happen at most once, under every interleaving of faults, over the deciding code that ships: power commands,
//! re-installations and changes of a whitelist. The order of a server has a model of its own.
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

/// The time at which a walk begins.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing in this program pauses the time, and it has no tokio"
)]
fn now() -> Instant {
    Instant::now()
}
