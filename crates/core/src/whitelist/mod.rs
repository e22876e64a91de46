//! IpWhitelist objects: the whitelists of API keys.

pub mod decide;
pub mod facts;
pub mod memory;
