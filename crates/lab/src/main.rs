//! The laboratory as a program; see [`lab`].

use std::process::ExitCode;

// One thread on purpose: Linux ties the death signal of a child to the thread
// that started it, and the main thread lives as long as the program.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    lab::commands::run().await
}
