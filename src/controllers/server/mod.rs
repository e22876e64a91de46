//! `BareMetalServer`: observe, decide, act, report.

pub mod decide;
pub mod facts;
pub mod mark;
pub mod memory;
