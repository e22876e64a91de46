//! Logs on standard error, as text for people or JSON for machines.

use clap::ValueEnum;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{EnvFilter, fmt, util::SubscriberInitExt as _};

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// The client of the API server warns of an answer that does not decode with all of its body, and
/// that may be a Secret. No filter of a user brings that back.
fn without_bodies(filter: EnvFilter) -> EnvFilter {
    match "kube_client::client=error".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// Starts logging. `RUST_LOG` filters; default is `info`.
pub fn start(format: LogFormat) {
    let wanted = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let filter = without_bodies(wanted);
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    // A second start in one process keeps the first.
    let _ = match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_filter_brings_the_bodies_of_objects_into_the_log() {
        for wanted in [
            "info",
            "trace",
            "kube_client=trace",
            "kube_client::client=trace",
        ] {
            let filter = without_bodies(EnvFilter::new(wanted)).to_string();
            assert!(filter.contains("kube_client::client=error"), "{filter}");
            assert!(!filter.contains("kube_client::client=trace"), "{filter}");
        }
    }
}
