//! The shared watch and write code against a real API server that misbehaves.

mod hanging_relists;
pub(crate) mod proxy;
mod refused_status;
pub(crate) mod rules;
pub(crate) mod tunnels;
