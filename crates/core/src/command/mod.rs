//! Power commands, each sent at most once.

pub mod adoption;
pub mod decide;
pub mod facts;
pub mod running;
