//! `account`: whether the account can be used, and its password.

mod check;
mod password;

use crate::{
    context::PluginContext,
    exit::{Exit, PluginError},
};

/// Arguments of `account`.
#[derive(Clone, Debug, clap::Args)]
pub struct AccountCommandArgs {
    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum AccountCommand {
    /// Check URL, TLS, clock, key and what the key may read; whether it may write is not tested
    #[command(after_help = "A key that is in no Secret yet:
  FLEXMETAL_API_KEY=... kubectl flexmetal account check --base-url https://api.example.com")]
    Check(check::CheckArgs),
    /// Change or reset the password of the account at the provider
    Password(password::PasswordArgs),
}

/// Carries the subcommand out.
pub async fn run(context: &PluginContext, args: AccountCommandArgs) -> Result<Exit, PluginError> {
    match args.command {
        AccountCommand::Check(args) => check::run(context, args).await,
        AccountCommand::Password(args) => password::run(context, args).await,
    }
}
