//! The floor that all kinds stand on, against a real API server that misbehaves.

pub(crate) mod proxy;
mod refused_status;
pub(crate) mod rules;
mod swallowed;
pub(crate) mod tunnels;
