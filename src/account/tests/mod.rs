//! The session over a fake provider, under paused time.

mod answers;
mod breaker;
mod broken_lists;
mod key_switch;
mod limits;
mod lists;
mod order_tags;
mod orphans;
mod pages;
mod permits;
mod polls;
mod provider;
mod recreated_objects;
mod rig;
mod searches;
mod secrecy;
mod simulated;
mod users;
