//! `account password`: the password with which a user logs in at the provider. It comes from a prompt or from standard
//! input, and is printed nowhere.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    confirm::{ChangeArgs, prompt_error},
    context::Context,
    exit::{Exit, PluginError},
};
use hosting_types::{Error, SecretText};
use serde::Serialize;
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
    Change(ChangePasswordArgs),
    /// Have the provider mail a reset hash
    Reset(ResetPasswordArgs),
    /// Set a new password with the mailed hash
    Validate(ValidateArgs),
}

/// Arguments of `account password change`.
#[derive(Clone, Debug, clap::Args)]
struct ChangePasswordArgs {
    /// Read two lines from standard input: the present and the new password
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    account: AccountArgs,
}

/// Arguments of `account password reset`.
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

/// Arguments of `account password validate`.
#[derive(Clone, Debug, clap::Args)]
struct ValidateArgs {
    /// Read two lines from standard input: the mailed hash and the new password
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    account: AccountArgs,
}

/// A request, without its secrets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PasswordRequest {
    #[serde(rename = "baseURL")]
    base_url: String,
    /// Method and path.
    operation: &'static str,
    /// The fields of its body.
    fields: &'static [&'static str],
    /// What it does, for the question.
    #[serde(skip)]
    consequence: String,
}

/// Changes the password.
pub(super) async fn run(context: &Context, args: PasswordArgs) -> Result<Exit, PluginError> {
    match args.command {
        PasswordCommand::Change(args) => change(context, args).await,
        PasswordCommand::Reset(args) => reset(context, args).await,
        PasswordCommand::Validate(args) => validate(context, args).await,
    }
}

async fn change(context: &Context, args: ChangePasswordArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let request = PasswordRequest {
        base_url: client.base_url().to_string(),
        operation: "PUT /v3/account/password",
        fields: &["currentPassword", "newPassword"],
        consequence: format!(
            "The present password of the account at {} ends.",
            client.base_url()
        ),
    };
    if let Some(exit) = show_or_ask(context, args.change, &request)? {
        return Ok(exit);
    }
    let [current, new] = read_secrets(args.stdin, ["Present password", "New password"])?;
    let changed = client.change_password(&current, &new).await;
    changed.map_err(|error| {
        let is_wrong = matches!(&error, Error::AccessDenied(refusal) if refusal.status == 401);
        let act = match is_wrong {
            true => "change the password (the present password or the API key is wrong)",
            false => "change the password",
        };
        hosting_error(act, error)
    })?;
    context.printer.note("The password is changed");
    Ok(Exit::Fine)
}

async fn reset(context: &Context, args: ResetPasswordArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let address = &args.email_address;
    let request = PasswordRequest {
        base_url: client.base_url().to_string(),
        operation: "POST /v3/account/password/reset",
        fields: &["emailAddress"],
        consequence: format!("The provider mails a hash to {address} that can set a new password."),
    };
    if let Some(exit) = show_or_ask(context, args.change, &request)? {
        return Ok(exit);
    }
    let sent = client.reset_password(address).await;
    sent.map_err(|error| hosting_error("start the reset of the password", error))?;
    context.printer.note(&format!(
        "If {address} is the main address of the account, the provider mails a hash to it; then: kubectl flexmetal account password validate"
    ));
    Ok(Exit::Fine)
}

async fn validate(context: &Context, args: ValidateArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let request = PasswordRequest {
        base_url: client.base_url().to_string(),
        operation: "PUT /v3/account/password/reset/validate",
        fields: &["newPassword", "resetHash"],
        consequence: format!(
            "The present password of the account at {} ends.",
            client.base_url()
        ),
    };
    if let Some(exit) = show_or_ask(context, args.change, &request)? {
        return Ok(exit);
    }
    let [hash, new] = read_secrets(args.stdin, ["Mailed hash", "New password"])?;
    let set = client.validate_password_reset(&new, &hash).await;
    set.map_err(|error| {
        let act = match &error {
            Error::Forbidden { .. } => "set the password (the hash or the API key is wrong)",
            _ => "set the password",
        };
        hosting_error(act, error)
    })?;
    context.printer.note("The password is set");
    Ok(Exit::Fine)
}

/// Shows the request of a dry run, or asks. None: go on.
fn show_or_ask(
    context: &Context,
    change: ChangeArgs,
    request: &PasswordRequest,
) -> Result<Option<Exit>, PluginError> {
    if change.dry_run {
        let printer = &context.printer;
        match printer.is_for_people() {
            true => printer.text(&format!(
                "Would send {} with {} to {}. {}\n",
                request.operation,
                request.fields.join(" and "),
                request.base_url,
                request.consequence
            ))?,
            false => printer.data(request)?,
        }
        return Ok(Some(Exit::Attention));
    }
    match change.confirm(&request.consequence)? {
        true => Ok(None),
        false => {
            context.printer.note("Nothing was sent");
            Ok(Some(Exit::Error))
        }
    }
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
    let [first, new] = prompts;
    let first = dialoguer::Password::new().with_prompt(first);
    let first = first.interact().map_err(prompt_error)?;
    let new = dialoguer::Password::new()
        .with_prompt(new)
        .with_confirmation("The same again", "The two are not the same")
        .interact()
        .map_err(prompt_error)?;
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

    fn lines(input: &str) -> Option<[String; 2]> {
        let read = read_lines(input.as_bytes()).ok()?;
        Some(read.map(|text| text.expose().to_owned()))
    }

    #[test]
    fn standard_input_has_exactly_two_lines() {
        let both = Some(["old".to_owned(), " new one ".to_owned()]);
        assert_eq!(lines("old\n new one \n"), both);
        assert_eq!(lines("old\r\n new one "), both);
        for wrong in ["", "old", "old\n", "old\n\n", "\nnew\n", "a\nb\nc\n"] {
            assert_eq!(lines(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn errors_repeat_no_line() {
        let Err(error) = read_lines("secret-word\n".as_bytes()) else {
            panic!("one line is not enough");
        };
        assert!(!error.explain().contains("secret-word"));
    }
}
