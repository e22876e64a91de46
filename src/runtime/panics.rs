//! A panic ends the process, with its cause in the log: the state in memory is not certain any more. Without this,
//! tokio would continue without the task that panicked, and the process would look healthy.

use std::panic::PanicHookInfo;

/// Maximum characters of a cause: it may quote what was read.
const MOST_CAUSE_CHARS: usize = 500;

/// Ends the process at the first panic of any thread or task, in every build profile.
pub fn end_the_process() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(cause = explain(panic), location, "process panicked");
        std::process::abort();
    }));
}

fn explain(panic: &PanicHookInfo<'_>) -> String {
    let text = panic.payload_as_str().unwrap_or("no message");
    text.chars().take(MOST_CAUSE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::telemetry::{self, LogFormat, LogLevel};
    use std::{process::Command, time::Duration};

    /// Set for the process that has to panic.
    const CHILD: &str = "TEST_OF_PANICS_CHILD";

    /// This test runs itself in another process, which panics.
    #[tokio::test]
    async fn task_panic_ends_the_process_with_reason() {
        if std::env::var_os(CHILD).is_some() {
            telemetry::start(LogLevel::Info, LogFormat::Json);
            end_the_process();
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async { panic!("reason {}", "x".repeat(1000)) });
            // Nothing joins the task.
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        let name = "runtime::panics::tests::task_panic_ends_the_process_with_reason";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, "1")
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        assert!(!child.status.success(), "{:?}", child.status);
        let log = String::from_utf8_lossy(&child.stderr);
        let line = log.lines().find(|line| line.contains("process panicked"));
        let line: serde_json::Value = serde_json::from_str(line.expect(&log)).unwrap();
        let cause = line["cause"].as_str().unwrap();
        assert!(
            cause.starts_with("reason x") && cause.len() == MOST_CAUSE_CHARS,
            "{cause}"
        );
        assert!(
            line["location"].as_str().unwrap().contains("panics.rs"),
            "{line}"
        );
    }
}
