//! Questions before something costs money or erases data.

use crate::exit::PluginError;
use std::io::IsTerminal as _;

/// `--dry-run` and `--yes` of every command that changes something.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ChangeArgs {
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

impl ChangeArgs {
    /// Asks whether to go on; `consequence` is one sentence about cost or loss. Without a terminal and without `--yes`
    /// it is an error. False: the user said no.
    pub fn confirm(self, consequence: &str) -> Result<bool, PluginError> {
        if self.yes {
            return Ok(true);
        }
        require_terminal(consequence)?;
        dialoguer::Confirm::new()
            .with_prompt(format!("{consequence} Continue?"))
            .default(false)
            .interact()
            .map_err(prompt_error)
    }

    /// Asks for a name to be typed, for what cannot be undone. False: another one was typed.
    pub fn confirm_by_name(self, consequence: &str, name: &str) -> Result<bool, PluginError> {
        if self.yes {
            return Ok(true);
        }
        require_terminal(consequence)?;
        let typed: String = dialoguer::Input::new()
            .with_prompt(format!("{consequence} Type {name} to continue"))
            .allow_empty(true)
            .interact_text()
            .map_err(prompt_error)?;
        Ok(typed.trim() == name)
    }
}

fn require_terminal(consequence: &str) -> Result<(), PluginError> {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return Ok(());
    }
    Err(PluginError::Usage(format!(
        "{consequence} There is no terminal to ask at: add --yes to do it, or --dry-run to see it"
    )))
}

/// An error of the terminal.
pub fn prompt_error(error: dialoguer::Error) -> PluginError {
    let dialoguer::Error::IO(error) = error;
    PluginError::Output(error)
}
