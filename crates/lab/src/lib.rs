//! The lab: a real Kubernetes control plane on this computer, for tests, benchmarks and the demo. Not part of the
//! product. The program `lab` starts it, and tests use [`rig`].

mod bench;
mod browser;
mod conformance;
mod control_plane;
mod credentials;
mod demo;
mod flags;
mod folder;
mod kubectl;
mod load;
mod page;
mod ports;
mod product;
mod programs;
mod results;
mod supervisor;

pub mod commands;
pub mod rig;

/// An error with its causes, in one line.
fn explain_error(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
