//! Accounts: what the operator knows of one, and what it decides for it.

pub mod decide;
pub mod destination;
pub mod facts;
pub mod key;
pub mod key_state;
pub mod operator;
pub mod order_limits;
pub mod order_supply;
pub mod order_tags;
pub mod orphan_scan;
pub mod ownership_tags;
pub mod priority;
pub mod recheck_interval;
pub mod recorded;
pub mod report;
pub mod terms;
pub mod usage;
pub mod view;

#[cfg(test)]
pub(crate) mod tests;
