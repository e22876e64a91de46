//! The floor that all kinds stand on, against a real API server that misbehaves.

mod proxy;
mod refused_status;
mod swallowed;
