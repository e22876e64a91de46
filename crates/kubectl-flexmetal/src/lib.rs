//! The kubectl plugin: questions about paid servers, and one-off acts. `cli` says what can be typed, each file below
//! `commands` does one of the commands.

mod account_client;
mod ages;
pub mod cli;
mod cluster_identity;
mod commands;
mod confirm;
mod context;
mod exit;
mod fields;
mod json_reference;
mod object_changes;
mod object_wait;
mod objects;
mod operator_deployment;
mod output;
mod reference;
mod server_manifests;
mod server_owners;
mod shell_completion;
mod sizes;

pub use exit::Exit;
pub use json_reference::page as json_reference_page;
pub use reference::page as reference_page;

use anstream::eprintln;
use clap::Parser as _;
use std::{io::Write as _, process::ExitCode};

/// Parses the arguments of this process and carries them out.
pub async fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let shell = std::env::var_os(shell_completion::SHELL_VARIABLE);
    if let Some(answer) = shell_completion::answer(&args, shell.as_deref()) {
        // The shell may be gone.
        let _ = std::io::stdout().write_all(&answer);
        return Exit::Fine.into();
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // The answer to --help and --version is printed this way, too.
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Fine
            };
            return exit.into();
        }
    };
    match commands::run(cli).await {
        Ok(exit) => exit.into(),
        Err(error) => {
            report_error(&error);
            error.exit().into()
        }
    }
}

#[allow(clippy::print_stderr, reason = "errors of a command-line program")]
fn report_error(error: &exit::PluginError) {
    eprintln!("error: {}", output::without_controls(&error.explain()));
}
