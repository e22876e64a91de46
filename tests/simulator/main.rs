//! The simulator under use that nobody planned.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

mod model;
