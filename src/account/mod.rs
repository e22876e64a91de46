//! The accounts of the hosting API: [`Accounts`] is the registry, [`Account`] the handle of one object. Kubernetes is
//! not in here: the controllers bring keys and settings, and [`Users::enqueue`] requests reconciles.

// Lock order: registry entries, account object, session state, reservations. Under the locks of rate limiter, lists and
// refusals no other is taken. No lock is held while objects are enqueued.

mod account_reads;
mod gauges;
mod handle;
mod limits;
mod lists;
mod memory_budget;
mod namespace_labels;
mod order_permits;
mod order_tag_cleanup;
mod poll_plan;
mod polls;
mod rate_limiter;
mod registry;
mod schedule;
mod server_owners;
mod servers;
mod session;
mod settings;
mod usage;
mod users;

#[cfg(test)]
mod tests;

pub use handle::Account;
pub use order_permits::{Denied, OrderPermit, OrderPermitAnswer};
pub use rate_limiter::{Caller, Permit, PermitAnswer, Rate};
pub use registry::{Accounts, Connection, Resolution};
pub use settings::AccountSettings;
pub use users::{Claims, EnqueueTarget, Users};
