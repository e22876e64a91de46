//! `account password`: the password with which a user logs in at the provider. It comes from a prompt or from standard
//! input, and is printed nowhere.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    confirm::{ChangeArgs, prompt_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    object_changes::NOTHING_DONE,
};
use hosting_types::{Error, SecretText};
use serde_json::json;
use std::io::{BufRead, IsTerminal as _};

/// Arguments of `account password`.
#[derive(Clone, Debug, clap::Args)]
pub struct PasswordArgs {
    #[command(subcommand)]
    command: PasswordCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum PasswordCommand {
    /// Change the password
    Change(SetPasswordArgs),
    /// Have the provider mail a reset hash
    Reset(ResetPasswordArgs),
    /// Set a new password with the mailed hash
    Validate(SetPasswordArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct SetPasswordArgs {
    /// Read two lines from standard input: the present password or the mailed hash, and the new password
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct ResetPasswordArgs {
    /// Main e-mail address of the account
    #[arg(value_name = "EMAIL")]
    email_address: String,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    account: AccountArgs,
}

/// Changes the password.
pub(super) async fn run(context: &PluginContext, args: PasswordArgs) -> Result<Exit, PluginError> {
    match args.command {
        PasswordCommand::Change(args) => set(context, args, false).await,
        PasswordCommand::Reset(args) => reset(context, args).await,
        PasswordCommand::Validate(args) => set(context, args, true).await,
    }
}

/// Sets the password, by the present one or by the mailed hash.
async fn set(
    context: &PluginContext,
    args: SetPasswordArgs,
    by_hash: bool,
) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let (operation, field, prompt) = match by_hash {
        true => (
            "PUT /v3/account/password/reset/validate",
            "resetHash",
            "Mailed hash",
        ),
        false => (
            "PUT /v3/account/password",
            "currentPassword",
            "Present password",
        ),
    };
    let base_url = client.base_url();
    let consequence = format!("The present password of the account at {base_url} ends.");
    let fields = [field, "newPassword"];
    if let Some(exit) = show_or_ask(context, args.change, operation, &fields, &consequence)? {
        return Ok(exit);
    }
    let [first, new] = read_secrets(args.stdin, [prompt, "New password"])?;
    let set = match by_hash {
        true => client.validate_password_reset(&new, &first).await,
        false => client.change_password(&first, &new).await,
    };
    set.map_err(|error| {
        let is_wrong = match &error {
            Error::Forbidden { .. } => by_hash,
            Error::AccessDenied(refusal) => refusal.status == 401 && !by_hash,
            _ => false,
        };
        let act = match is_wrong {
            true => format!("set the password (the {field} or the API key is wrong)"),
            false => "set the password".to_owned(),
        };
        hosting_error(act, error)
    })?;
    context.printer.inform("The password is set");
    Ok(Exit::Fine)
}

async fn reset(context: &PluginContext, args: ResetPasswordArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let (address, operation) = (&args.email_address, "POST /v3/account/password/reset");
    let consequence =
        format!("The provider mails a hash to {address} that can set a new password.");
    let fields = ["emailAddress"];
    if let Some(exit) = show_or_ask(context, args.change, operation, &fields, &consequence)? {
        return Ok(exit);
    }
    let sent = client.reset_password(address).await;
    sent.map_err(|error| hosting_error("start the reset of the password", error))?;
    context.printer.inform(&format!(
        "If {address} is the main address of the account, the provider mails a hash to it; then: kubectl flexmetal account password validate"
    ));
    Ok(Exit::Fine)
}

/// Shows the request of a dry run, or asks. None: go on.
fn show_or_ask(
    context: &PluginContext,
    change: ChangeArgs,
    operation: &str,
    fields: &[&str],
    consequence: &str,
) -> Result<Option<Exit>, PluginError> {
    let printer = &context.printer;
    if change.dry_run {
        match printer.is_table() {
            true => printer.text(&format!(
                "Would send {operation} with {}. {consequence}\n",
                fields.join(" and "),
            ))?,
            false => printer.data(&json!({"operation": operation, "fields": fields}))?,
        }
        return Ok(Some(Exit::Attention));
    }
    if change.confirm(consequence)? {
        return Ok(None);
    }
    printer.inform(NOTHING_DONE);
    Ok(Some(Exit::Error))
}

/// Two secrets, the second of which is new: from standard input, or from prompts that show nothing of them.
fn read_secrets(from_stdin: bool, prompts: [&str; 2]) -> Result<[SecretText; 2], PluginError> {
    if from_stdin {
        return read_lines(std::io::stdin().lock());
    }
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(PluginError::Usage(
            "there is no terminal to ask for passwords at: add --stdin".into(),
        ));
    }
    let [first, new] = prompts.map(|prompt| dialoguer::Password::new().with_prompt(prompt));
    let first = first.interact().map_err(prompt_error)?;
    let new = new.with_confirmation("The same again", "The two are not the same");
    let new = new.interact().map_err(prompt_error)?;
    Ok([first, new].map(SecretText::new))
}

/// Exactly two lines, without their line ends.
fn read_lines(input: impl BufRead) -> Result<[SecretText; 2], PluginError> {
    let lines: Result<Vec<String>, _> = input.lines().take(3).collect();
    let lines: Result<[String; 2], _> = lines?.try_into();
    match lines {
        Ok(lines) if lines.iter().all(|line| !line.is_empty()) => Ok(lines.map(SecretText::new)),
        _ => Err(PluginError::Usage(
            "standard input must have two lines that are not empty".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_has_exactly_two_lines() {
        let lines = |input: &str| {
            let read = read_lines(input.as_bytes()).ok()?;
            Some(read.map(|text| text.expose().to_owned()))
        };
        let both = Some(["old".to_owned(), " new one ".to_owned()]);
        assert_eq!(lines("old\n new one \n"), both);
        assert_eq!(lines("old\r\n new one "), both);
        for wrong in ["", "old", "old\n", "old\n\n", "\nnew\n", "a\nb\nc\n"] {
            assert_eq!(lines(wrong), None, "{wrong:?}");
        }
    }
}
