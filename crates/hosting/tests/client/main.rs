//! The client against the simulator over HTTP: every operation with its good
//! answer, its error answers and every fault, and no secret in any text.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test program: what is not as expected ends it, and checks take what a call gave"
)]

mod asked;
mod calls;
mod canaries;
mod cases;
mod checks;
mod circumstances;
mod errors;
mod faults;
mod happy;
mod later;
mod lists;
mod logs;
mod operations;
mod page;
mod program;
mod reply;
mod rig;
mod scene;
mod secrets;
mod unsent;
mod verdict;
