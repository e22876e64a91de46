//! Dedicated hosts.

pub mod decide;
pub mod facts;
