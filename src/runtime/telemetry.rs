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

/// Starts logging. `RUST_LOG` filters; default is `info`.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
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
