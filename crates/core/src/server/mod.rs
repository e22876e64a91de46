//! BareMetalServer objects: facts, memory and decisions. I/O is not in here.

pub mod answers;
pub mod decide;
pub mod events;
pub mod facts;
pub mod install_memory;
pub mod installation;
pub mod memory;
pub mod observed;
pub mod password_memory;
pub mod protocol_facts;
pub mod recorded;
pub mod refresh;
pub mod tag_changes;
