//! What the operator decides: pure functions over facts, without I/O, clock or randomness. A folder is a kind with its
//! facts and its decision; several kinds share the files next to the folders.

pub mod account;
pub mod acknowledgement;
pub mod attempt_state;
pub mod backoff;
pub mod cluster_id;
pub mod command;
pub mod explanation;
pub mod host;
pub mod host_record;
pub mod last_error;
pub mod moment;
pub mod owner;
pub mod ownership;
pub mod power;
pub mod protocol;
pub mod provider_commands;
pub mod public_key;
pub mod read_only;
pub mod reconcile;
pub mod reconcile_request;
pub mod reference_grace;
pub mod report;
pub mod requeue;
pub mod resolved_account;
pub mod restore_backoff;
pub mod server;
pub mod server_commands;
pub mod ssh_key;
pub mod stored_keys;
pub mod tag;
pub mod values;
pub mod whitelist;
pub mod wording;

#[cfg(test)]
mod readings;
#[cfg(test)]
mod sizes;

pub use backoff::Backoff;
pub use moment::Moment;
