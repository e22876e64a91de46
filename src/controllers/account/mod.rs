//! The controller of `ProviderAccount` and `ClusterProviderAccount`.
//!
//! One loop for each object: observe (the object, its Secret, how the live
//! account stands), decide, put into force, act (finalizers), report. The
//! Secret is read by name and never listed or watched, so it is read again
//! every quarter of a minute, and every two seconds while its repair is
//! awaited.
//!
//! Account and Secret bear a finalizer for as long as a server uses them:
//! without the key nothing could be released. So a namespace can be deleted
//! whole: account and Secret wait until the servers are gone.

pub mod decide;
pub mod facts;
pub mod object;

mod observe;
mod pass;
mod report;
mod run;
mod secret;
mod writes;

#[cfg(test)]
mod tests;

pub use run::{Context, run};
