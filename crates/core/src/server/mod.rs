//! Servers: ordered once, never lost, released for sure.

pub mod answers;
pub mod decide;
pub mod facts;
pub mod install_memory;
pub mod memory;
pub mod observed;
pub mod on_record;
pub mod ownership;
pub mod password_memory;
pub mod recall;
pub mod steps;
pub mod tag_changes;
