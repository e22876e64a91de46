//! The accounts of the hosting API: [`Accounts`] is the registry, [`Account`] the handle of one object. Kubernetes is
//! not in here: the controllers bring keys and settings, and [`Users::enqueue`] requests reconciles.

// Lock order: registry entries, account object, session state, reservations. Under the locks of rate limiter, lists and
// refusals no other is taken. No lock is held while objects are enqueued.

mod handle;
mod limits;
mod lists;
mod memory_budget;
mod namespaces;
mod order_tags;
mod ordering;
mod owners;
mod pace;
mod polls;
mod rate_limiter;
mod reading;
mod registry;
mod schedule;
mod servers;
mod session;
mod settings;
mod users;

#[cfg(test)]
mod tests;

pub use handle::Account;
pub use ordering::{Denied, OrderPermit, OrderPermitAnswer};
pub use rate_limiter::{Caller, Permit, PermitAnswer, Rate};
pub use registry::{Accounts, Connection, Resolution};
pub use settings::AccountSettings;
pub use users::{Claims, EnqueueTarget, Users};
