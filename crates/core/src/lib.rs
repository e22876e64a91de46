//! What the operator decides, and from what: pure functions over facts.
//!
//! A folder is a kind, with its facts and its decision; a file beside them is what several kinds share.
//! Nothing here reads or writes, knows the time or draws lots: what happens outside is gathered by the
//! operator, handed in as facts, and carried out as the effect that was decided.

pub mod account;
pub mod account_facts;
pub mod acknowledgement;
pub mod again;
pub mod backoff;
pub mod cause;
pub mod command;
pub mod contest;
pub mod host;
pub mod host_record;
pub mod machine_commands;
pub mod mark;
pub mod moment;
pub mod once;
pub mod owner;
pub mod ownership;
pub mod pass;
pub mod patience;
pub mod power;
pub mod protocol;
pub mod public_key;
pub mod report;
pub mod request;
pub mod server;
pub mod server_commands;
pub mod ssh_key;
pub mod stored_keys;
pub mod tag;
pub mod trouble;
pub mod whitelist;
pub mod wording;

#[cfg(test)]
mod readings;
#[cfg(test)]
mod sizes;

pub use backoff::Backoff;
pub use moment::Moment;
