//! The accounts of the hosting API: credentials, snapshot, turns among the calls, breaker, orphan scan, slow lists.
//!
//! [`Accounts`] knows the account objects. Each [`Account`] is a handle of one object, which has one session at its
//! base URL, whatever its key. Nothing here knows Kubernetes: the controllers bring keys in, and
//! are told by [`Users::wake`] who should look again.
//!
//! Locks are taken in this order: the registry's entries, an account object,
//! the state of its session. Turns, lists and refusals have a lock each, under which
//! no other is taken. The reservations of an account object come last. None is held while anybody is woken.

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
mod resolution;
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
pub use registry::{Accounts, Connection};
pub use resolution::Resolution;
pub use settings::AccountSettings;
pub use users::{Claims, EnqueueTarget, Users};
