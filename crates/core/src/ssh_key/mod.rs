//! Stored SSH keys.

pub mod decide;
pub mod facts;
pub mod memory;
