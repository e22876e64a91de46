//! `root-password`: where the root password of a Windows server is, and on request the password.

use crate::{
    account_client::{self, AccountArgs, hosting_error, is_forbidden},
    ages,
    context::{Context, api_error},
    exit::{Exit, PluginError},
    output::OutputForm,
    server_objects::locate_server,
};
use api::{
    BareMetalServer,
    root_password::{Installed, RootPasswordStatus},
};
use hosting_types::{Error, SecretText};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::Serialize;

/// Arguments of `root-password`.
#[derive(Clone, Debug, clap::Args)]
pub struct RootPasswordArgs {
    /// BareMetalServer
    #[arg(conflicts_with_all = ["account", "cluster_account"])]
    name: String,
    /// Print the password itself
    #[arg(long)]
    show: bool,
    /// Ask the hosting API, which has it for 24 hours after an installation
    #[arg(long, requires = "show")]
    live: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// Key of the Secret with the password.
const PASSWORD: &str = "password";
/// Key of the Secret with the installation that the password is of.
const INSTALLATION: &str = "installation";

/// Key of the Secret with the UUID of the server.
const UUID: &str = "uuid";

/// Where the password is. Never the password.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PasswordPlace {
    namespace: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletes_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_until: Option<String>,
    #[serde(skip)]
    words: String,
}

#[derive(Serialize)]
struct ShownPassword<'a> {
    uuid: &'a str,
    password: &'a str,
}

/// Prints where the password is, or the password.
pub async fn run(context: &Context, args: RootPasswordArgs) -> Result<Exit, PluginError> {
    let server: BareMetalServer = context.get(&args.name).await?;
    if !args.show {
        return print_place(context, &find_place(&server, ages::now()));
    }
    let (id, account) = locate_server(&server, &args.account)?;
    let password = match args.live {
        true => {
            let client = account_client::connect(context, &account).await?;
            client.root_password(&id).await.map_err(|error| match error {
                Error::NotFound(_) => PluginError::Other(format!(
                    "the provider has no root password of server {id}: only Windows servers have one, for 24 hours after an installation"
                )),
                error => hosting_error(format!("read the root password of server {id}"), error),
            })?
        }
        false => read_stored(context, &server).await?,
    };
    context
        .printer
        .warn("warning: this prints a secret, the root password of the server");
    match context.printer.form {
        OutputForm::Json | OutputForm::Yaml => context.printer.data(&ShownPassword {
            uuid: id.as_str(),
            password: password.expose(),
        })?,
        _ => context.printer.text(&format!("{}\n", password.expose()))?,
    }
    Ok(Exit::Fine)
}

fn print_place(context: &Context, place: &PasswordPlace) -> Result<Exit, PluginError> {
    match context.printer.form {
        OutputForm::Json | OutputForm::Yaml => context.printer.data(place)?,
        OutputForm::Name => {
            let secret = place.secret.as_ref().map(|name| format!("secret/{name}\n"));
            context.printer.text(&secret.unwrap_or_default())?;
        }
        _ => context.printer.text(&format!("{}\n", place.words))?,
    }
    Ok(Exit::Fine)
}

/// The Secret that has the password of the last installation.
fn stored_in(server: &BareMetalServer) -> Option<(&RootPasswordStatus, &str)> {
    let password = server.status.as_ref()?.root_password.as_ref()?;
    let is_there = password.stored_at.is_some() && password.deleted_at.is_none();
    let secret = password.secret_ref.as_ref().filter(|_| is_there)?;
    Some((password, &secret.name))
}

fn find_place(server: &BareMetalServer, now: Timestamp) -> PasswordPlace {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let status = server.status.as_ref();
    let password = status.and_then(|status| status.root_password.as_ref());
    let until = password.map(|password| password.available_until.0);
    let live = match until {
        Some(until) if until > now => format!(
            "; the provider has it until {until}: kubectl flexmetal root-password {name} -n {namespace} --show --live"
        ),
        _ => String::new(),
    };
    let stored = stored_in(server);
    let words = match (stored, password) {
        (Some((stored, secret)), _) => {
            let end = stored.deletes_at.as_ref();
            let end = end.map(|at| format!(" until {}", at.0)).unwrap_or_default();
            format!(
                "In Secret {namespace}/{secret}{end}, key {PASSWORD}; to print it, add --show"
            )
        }
        (None, Some(password)) if password.deleted_at.is_some() => {
            format!("Not stored any more: its Secret was deleted by rootPassword.ttl{live}")
        }
        (None, Some(_)) => format!("Not stored yet{live}"),
        (None, None) if server.spec.root_password.is_some() => {
            "Not stored yet: no installation of the server is known".to_owned()
        }
        (None, None) => {
            "Not stored: set spec.rootPassword of the server (Windows only), or ask the provider with --show --live within 24 hours after the installation".to_owned()
        }
    };
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    PasswordPlace {
        secret: stored.map(|(_, secret)| secret.to_owned()),
        stored_at: text(stored.and_then(|(stored, _)| Some(stored.stored_at.as_ref()?.0))),
        deletes_at: text(stored.and_then(|(stored, _)| Some(stored.deletes_at.as_ref()?.0))),
        available_until: text(until),
        namespace,
        server: name,
        words,
    }
}

async fn read_stored(
    context: &Context,
    server: &BareMetalServer,
) -> Result<SecretText, PluginError> {
    let Some((_, name)) = stored_in(server) else {
        return Err(PluginError::Other(format!(
            "no Secret has the root password of {}. {}",
            server.name_any(),
            find_place(server, ages::now()).words
        )));
    };
    let namespace = &context.namespace;
    let found = context.api::<Secret>().get(name).await.map_err(|error| {
        let error = api_error(format!("read Secret {namespace}/{name}"), error);
        match is_forbidden(&error) {
            true => PluginError::NotAllowed(format!(
                "the root password in Secret {namespace}/{name} cannot be read: needs \"get\" on secrets in namespace {namespace}"
            )),
            false => error,
        }
    })?;
    let last = server.status.as_ref().and_then(Installed::last);
    password_of(&found, last.map(|(installed, _)| installed).as_ref()).ok_or_else(|| {
        PluginError::Other(format!(
            "Secret {namespace}/{name} does not have the password of the last installation"
        ))
    })
}

/// The password in a Secret, if it is that of this installation.
fn password_of(secret: &Secret, installed: Option<&Installed>) -> Option<SecretText> {
    let (data, installed) = (secret.data.as_ref()?, installed?);
    let is_of_it = data.get(INSTALLATION)?.0 == installed.label().as_bytes()
        && data
            .get(UUID)?
            .0
            .eq_ignore_ascii_case(installed.server.as_bytes());
    let password = data.get(PASSWORD).filter(|_| is_of_it)?;
    let password = String::from_utf8(password.0.clone()).ok()?;
    Some(SecretText::new(password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_objects::tests::uuid;
    use serde_json::{Value, json};

    fn server(root_password: Value) -> BareMetalServer {
        let mut object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "win", "namespace": "a"}, "spec": {},
            "status": {"uuid": uuid(1)},
        });
        if !root_password.is_null() {
            object["status"]["rootPassword"] = root_password;
        }
        serde_json::from_value(object).unwrap()
    }

    fn place(root_password: Value) -> PasswordPlace {
        let now = "2026-11-29T04:00:00Z".parse().unwrap();
        find_place(&server(root_password), now)
    }

    fn times() -> Value {
        json!({"installedAt": "2026-11-29T00:00:00Z", "availableUntil": "2026-11-30T00:00:00Z"})
    }

    fn stored() -> Value {
        let mut stored = times();
        stored["storedAt"] = json!("2026-11-29T00:05:00Z");
        stored["secretRef"] = json!({"name": "win-password"});
        stored
    }

    #[test]
    fn place_names_the_secret_while_it_is_there() {
        let found = place(stored());
        assert_eq!(found.secret.as_deref(), Some("win-password"));
        assert!(found.words.starts_with("In Secret a/win-password, key"));
        let mut deleted = stored();
        deleted["deletedAt"] = json!("2026-11-29T03:00:00Z");
        let found = place(deleted);
        assert_eq!(found.secret, None);
        assert!(found.words.contains("ttl"), "{}", found.words);
    }

    #[test]
    fn place_says_while_the_provider_has_the_password() {
        let found = place(times());
        assert!(
            found
                .words
                .starts_with("Not stored yet; the provider has it until 2026-11-30"),
            "{}",
            found.words
        );
        let mut late = times();
        late["availableUntil"] = json!("2026-11-29T03:59:59Z");
        assert_eq!(place(late).words, "Not stored yet");
        assert!(place(Value::Null).words.contains("spec.rootPassword"));
    }

    #[test]
    fn password_is_of_the_last_installation() {
        let secret = |installation: &str, number: u8| -> Secret {
            let bytes = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
            Secret {
                data: Some(
                    [
                        (PASSWORD.to_owned(), bytes("pw")),
                        (INSTALLATION.to_owned(), bytes(installation)),
                        (UUID.to_owned(), bytes(&uuid(number))),
                    ]
                    .into(),
                ),
                ..Secret::default()
            }
        };
        let installed = |revision| Installed {
            server: uuid(1),
            revision,
        };
        let found = |label: &str, revision| {
            password_of(&secret(label, 1), Some(&installed(revision)))
                .map(|password| password.expose().to_owned())
        };
        assert_eq!(found("first", None).as_deref(), Some("pw"));
        assert_eq!(found("first", Some(2)), None);
        assert_eq!(found("revision 2", Some(2)).as_deref(), Some("pw"));
        assert!(password_of(&secret("first", 1), None).is_none());
        // A former server of the object.
        assert!(password_of(&secret("first", 2), Some(&installed(None))).is_none());
    }
}
