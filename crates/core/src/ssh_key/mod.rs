//! SshKey objects: SSH keys stored at the provider.

pub mod decide;
pub mod facts;
pub mod memory;
