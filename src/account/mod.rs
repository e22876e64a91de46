//! One live account of the hosting API: credentials, shared snapshot, call
//! budget, breaker, sweep.
//!
//! [`Accounts`] knows the account objects. Each [`Account`] is a handle of one
//! object; objects with the same base URL and key stand on one live
//! account, so they share what is seen, what may be called and what may be
//! ordered. Nothing here knows Kubernetes: the controllers bring keys in and
//! take wake-ups out.

pub mod claims;
pub mod marks;
pub mod orphans;
pub mod view;

mod breaker;
mod budget;
mod handle;
mod key;
mod known;
mod live;
mod orders;
mod pace;
mod registry;
mod rounds;
mod snapshot;
mod stock;
mod wake;

#[cfg(test)]
mod tests;

pub use breaker::Contact;
pub use budget::{Lane, Rate};
pub use claims::Claims;
pub use handle::{Account, Counts, OrderPermit, Turn};
pub use key::AccountKey;
pub use known::{Identity, identity};
pub use orders::Denied;
pub use registry::{Accounts, Connection, Installation, Resolution, Standing};
pub use wake::Wake;
