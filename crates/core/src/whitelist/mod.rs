//! The whitelist of an API key.

pub mod decide;
pub mod facts;
pub mod memory;
