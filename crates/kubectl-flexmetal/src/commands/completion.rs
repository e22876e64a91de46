//! `completion`: a script for a shell.

use crate::{
    context::GlobalArgs,
    exit::{Exit, PluginError},
    output::Printer,
    shell_completion,
};
use clap_complete::Shell;

/// Arguments of `completion`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

/// In all shells, a line that starts so is a comment.
const FOR_KUBECTL: &str = r#"
# `kubectl flexmetal` is completed by kubectl's own completion. It needs a link in the PATH:
#   ln -s "$(command -v kubectl-flexmetal)" /usr/local/bin/kubectl_complete-flexmetal
"#;

/// Prints the script. It needs no cluster.
pub fn run(global: &GlobalArgs, args: CompletionArgs) -> Result<Exit, PluginError> {
    let printer = Printer::new(global.output, global.quiet, global.no_color);
    let script = shell_completion::registration(&args.shell.to_string())?;
    printer.text(&(script + FOR_KUBECTL))?;
    Ok(Exit::Fine)
}
