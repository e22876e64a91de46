//! Logs on standard error, as text or JSON.

use clap::ValueEnum;
use std::io::{self, IsTerminal as _};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::filter_fn,
    fmt::{self, MakeWriter},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// The least severe level of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what the operator cannot work with.
    Error,
    /// Also what costs money or needs you.
    Warn,
    /// Also each step and each new reason of an object.
    #[default]
    Info,
    /// Also each call.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Without the errors of the API server's client: whoever calls it logs them, and a failed watch only once.
    fn make_filter(self) -> EnvFilter {
        let level = match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        };
        EnvFilter::new(format!("{level},{CLIENT}::builder=off"))
    }
}

/// Log target of the API server's client; its modules begin with it.
const CLIENT: &str = "kube_client::client";
/// Its modules that log no bodies: only CA bundles, certificates and the head of a request.
const WITHOUT_BODIES: [&str; 2] = ["::tls", "::builder"];

/// The API server's client logs the whole body of an answer that does not decode, which may be a Secret. No filter of a
/// user enables that, by any module, span or level.
fn has_no_body(metadata: &Metadata<'_>) -> bool {
    let Some(part) = metadata.target().strip_prefix(CLIENT) else {
        return true;
    };
    metadata.is_span() || *metadata.level() == Level::ERROR || WITHOUT_BODIES.contains(&part)
}

/// The subscriber that writes the log with this filter.
fn log<W>(
    format: LogFormat,
    wanted: EnvFilter,
    writer: W,
    has_colours: bool,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_ansi(has_colours);
    let layer = match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let layer = layer.with_filter(filter_fn(has_no_body));
    Box::new(tracing_subscriber::registry().with(wanted).with(layer))
}

/// Starts logging. `RUST_LOG` overrides the level.
pub fn start(level: LogLevel, format: LogFormat) {
    let wanted = EnvFilter::try_from_default_env().unwrap_or_else(|_| level.make_filter());
    let has_colours = io::stderr().is_terminal();
    // A second start in one process keeps the first.
    let _ = log(format, wanted, io::stderr, has_colours).try_init();
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, LazyLock, Mutex};
    use tracing::{Dispatch, subscriber::NoSubscriber};

    /// A log in memory.
    #[derive(Clone, Default)]
    pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl io::Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl CapturedLog {
        /// The log, and the subscriber that writes it.
        pub(crate) fn start(
            format: LogFormat,
            wanted: impl Into<EnvFilter>,
        ) -> (Self, Box<dyn Subscriber + Send + Sync>) {
            // While there is only one subscriber, tracing asks just the thread that meets an event first, and caches
            // its answer for all threads. With another one it asks all subscribers.
            static ANOTHER: LazyLock<Dispatch> =
                LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
            LazyLock::force(&ANOTHER);
            let written = Self::default();
            let writer = written.clone();
            let log = log(format, wanted.into(), move || writer.clone(), false);
            (written, log)
        }

        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn no_log_filter_shows_object_bodies() {
        for wanted in [
            "info",
            "trace",
            "kube_client=trace",
            "kube_client::client=trace",
            "[HTTP]=trace",
            "trace,kube_client::client[HTTP]=trace",
        ] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let (written, log) = CapturedLog::start(format, wanted);
                tracing::subscriber::with_default(log, || {
                    let span = tracing::error_span!("HTTP");
                    let _inside = span.enter();
                    tracing::warn!(target: "kube_client::client", "canary");
                    tracing::trace!(target: "kube_client::client::body", "canary");
                    tracing::warn!(target: "kube_client::client::another", "canary");
                    tracing::error!(target: "kube_client::client", "it failed");
                    tracing::warn!(target: "flexmetal_operator", "something else");
                });
                let text = written.text();
                assert!(!text.contains("canary"), "{wanted}: {text}");
            }
        }
        let (written, log) = CapturedLog::start(LogFormat::Text, "info");
        tracing::subscriber::with_default(log, || {
            tracing::error!(target: "kube_client::client", "it failed");
            tracing::warn!(target: "kube_client::client::tls", "failed to reload CA bundle");
            tracing::debug!(target: "kube_client::client::builder", "requesting");
            tracing::info!("something else");
        });
        let text = written.text();
        for expected in ["it failed", "failed to reload CA bundle", "something else"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("requesting"), "{text}");
    }

    #[test]
    fn level_hides_what_callers_log() {
        let level = LogLevel::Info.make_filter();
        let (written, log) = CapturedLog::start(LogFormat::Text, level);
        tracing::subscriber::with_default(log, || {
            tracing::error!(target: "flexmetal_operator::any", "failed anyway");
            tracing::error!(target: "kube_client::client::builder", "failed with error");
            tracing::debug!("sending release");
            tracing::info!("sending order");
        });
        let text = written.text();
        let hides = |line: &str| !text.contains(line);
        assert!(!hides("sending order") && !hides("failed anyway"), "{text}");
        assert!(
            hides("failed with error") && hides("sending release"),
            "{text}"
        );
    }
}
