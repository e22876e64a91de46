//! The operations of the API as methods of the client: one file for each resource.

mod capacity;
mod catalogue;
mod command;
mod health;
mod host;
mod password;
mod quota;
mod server;
mod ssh_key;
mod tag;
mod usage;
mod whitelist;
