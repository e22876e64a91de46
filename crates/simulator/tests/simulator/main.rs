//! The simulator with unknown clients: random use against a model of it, any bytes
//! with a stored corpus, and requests that other clients really send.

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
