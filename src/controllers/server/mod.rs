//! `BareMetalServer`: observe, decide, act, report.
//!
//! A reconcile is a short row of passes. Each pass gathers facts, decides, and carries out at most
//! one effect; what the effect brought to light is a fact of the next pass. The first decision
//! without an effect is written to status, and the row ends.

pub mod act;
pub mod decide;
pub mod facts;
pub mod mark;
pub mod memory;
pub mod objects;
pub mod observe;
pub mod orders;
pub mod report;
mod run;
mod undecodable;
pub mod writes;

pub use objects::Objects;
pub use run::{Context, Watched, run};
