//! The simulator met by anybody: random use against a model of it, any bytes
//! with a kept corpus, and the requests of other clients as they really come.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

mod bodies;
mod model;
mod traffic;
mod wire;
