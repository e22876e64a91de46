//! Servers: ordered once, never lost, released for sure.

pub mod answers;
pub mod decide;
pub mod events;
pub mod facts;
pub mod install_memory;
pub mod memory;
pub mod observed;
pub mod on_record;
pub mod ownership;
pub mod password_memory;
pub mod refresh;
pub mod tag_changes;
