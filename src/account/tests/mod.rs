//! The session over a fake provider, under paused time.

mod answers;
mod breaker;
mod broken_lists;
mod incarnations;
mod limits;
mod lists;
mod order_tags;
mod orphans;
mod pages;
mod polls;
mod provider;
mod rig;
mod searches;
mod secrecy;
mod simulated;
mod succession;
mod turns;
mod users;
