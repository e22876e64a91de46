//! The program `lab`; see [`lab`].

use std::process::ExitCode;

// Single-threaded on purpose: Linux binds a child's death signal to the thread that started it, and the main thread
// lives as long as the program.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    lab::commands::run().await
}
