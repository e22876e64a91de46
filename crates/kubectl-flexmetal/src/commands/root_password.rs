//! `root-password`: where the root password of a Windows server is, and on request the password.

use crate::{
    account_client::{self, AccountArgs, hosting_error, is_forbidden},
    ages,
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    output::{OutputForm, without_nulls},
    server_owners::locate_server,
};
use api::{BareMetalServer, root_password::Installed};
use hosting_types::{Error, SecretText};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Arguments of `root-password`.
#[derive(Clone, Debug, clap::Args)]
pub struct RootPasswordArgs {
    /// BareMetalServer
    #[arg(conflicts_with_all = ["account", "cluster_account"])]
    name: String,
    /// Print the password itself: from its Secret, or else from the hosting API
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// Prints where the password is, or the password.
pub async fn run(context: &PluginContext, args: RootPasswordArgs) -> Result<Exit, PluginError> {
    let server: BareMetalServer = context.get(&args.name).await?;
    let printer = &context.printer;
    if !args.show {
        let secret = stored_in(&server);
        match printer.form {
            OutputForm::Json | OutputForm::Yaml => printer.data(&build_record(&server))?,
            OutputForm::Name => {
                let line = secret.map(|name| format!("secret/{name}\n"));
                printer.text(&line.unwrap_or_default())?;
            }
            _ => printer.text(&format!("{}\n", describe_place(&server, ages::now())))?,
        }
        return Ok(Exit::Fine);
    }
    let password = match stored_in(&server) {
        Some(secret) => read_stored(context, &server, secret).await?,
        None => ask_provider(context, &server, &args.account).await?,
    };
    printer.warn("warning: this prints a secret, the root password of the server");
    let password = password.expose();
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(&json!({"password": password}))?,
        _ => printer.text(&format!("{password}\n"))?,
    }
    Ok(Exit::Fine)
}

/// The Secret that has the password of the last installation.
fn stored_in(server: &BareMetalServer) -> Option<&str> {
    let password = server.status.as_ref()?.root_password.as_ref()?;
    let is_there = password.stored_at.is_some() && password.deleted_at.is_none();
    let secret = password.secret_ref.as_ref().filter(|_| is_there)?;
    Some(&secret.name)
}

/// Where the password is, and until when. Never the password.
fn build_record(server: &BareMetalServer) -> Value {
    let status = server.status.as_ref();
    let password = status.and_then(|status| status.root_password.as_ref());
    without_nulls(json!({
        "server": server.name_any(), "namespace": server.namespace(), "secret": stored_in(server),
        "availableUntil": password.map(|it| &it.available_until),
        "deletesAt": password.and_then(|it| it.deletes_at.as_ref()),
    }))
}

fn describe_place(server: &BareMetalServer, now: Timestamp) -> String {
    let status = server.status.as_ref();
    let password = status.and_then(|status| status.root_password.as_ref());
    let until = password.map(|password| password.available_until.0);
    let live = match until.filter(|until| *until > now) {
        Some(until) => format!("; the provider has it until {until}, to print it, add --show"),
        None => String::new(),
    };
    match (stored_in(server), password) {
        (Some(secret), password) => {
            let namespace = server.namespace().unwrap_or_default();
            let end = password.and_then(|password| password.deletes_at.as_ref());
            let end = end.map_or_else(String::new, |at| format!(" until {}", at.0));
            format!("In Secret {namespace}/{secret}{end}, key password; to print it, add --show")
        }
        (None, Some(password)) if password.deleted_at.is_some() => {
            format!("Not stored any more: its Secret was deleted by rootPassword.ttl{live}")
        }
        (None, Some(_)) => format!("Not stored yet{live}"),
        (None, None) if server.spec.root_password.is_some() => {
            "Not stored yet: no installation of the server is known".to_owned()
        }
        (None, None) => {
            "Not stored: set spec.rootPassword of the server (Windows only), or ask the provider with --show within 24 hours after the installation".to_owned()
        }
    }
}

async fn read_stored(
    context: &PluginContext,
    server: &BareMetalServer,
    name: &str,
) -> Result<SecretText, PluginError> {
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
    last.and_then(|(installed, _)| find_password(&found, &installed))
        .ok_or_else(|| {
            PluginError::Other(format!(
                "Secret {namespace}/{name} does not have the password of the last installation"
            ))
        })
}

/// The password in a Secret, if it belongs to this installation.
fn find_password(secret: &Secret, installed: &Installed) -> Option<SecretText> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let is_of_it = text("installation")? == installed.label()
        && text("uuid")?.eq_ignore_ascii_case(&installed.server);
    text("password").filter(|_| is_of_it).map(SecretText::new)
}

async fn ask_provider(
    context: &PluginContext,
    server: &BareMetalServer,
    account: &AccountArgs,
) -> Result<SecretText, PluginError> {
    let (id, account) = locate_server(server, account)?;
    let client = account_client::connect(context, &account).await?;
    client.root_password(&id).await.map_err(|error| match error {
        Error::NotFound(_) => PluginError::Other(format!(
            "the provider has no root password of server {id}: only Windows servers have one, for 24 hours after an installation"
        )),
        error => hosting_error(format!("read the root password of server {id}"), error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::uuid;

    /// A server whose password is known by the changes of these fields.
    fn server(password: Option<Value>) -> BareMetalServer {
        let root_password = password.map(|fields| {
            let mut status = json!({
                "installedAt": "2026-11-29T00:00:00Z", "availableUntil": "2026-11-30T00:00:00Z",
            });
            for (name, value) in fields.as_object().unwrap() {
                status[name] = value.clone();
            }
            status
        });
        serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "win", "namespace": "a"}, "spec": {},
            "status": {"uuid": uuid(1), "rootPassword": root_password},
        }))
        .unwrap()
    }

    fn place(password: Option<Value>) -> String {
        describe_place(&server(password), "2026-11-29T04:00:00Z".parse().unwrap())
    }

    #[test]
    fn place_is_the_secret_while_it_is_there() {
        let mut stored =
            json!({"storedAt": "2026-11-29T00:05:00Z", "secretRef": {"name": "win-password"}});
        let found = place(Some(stored.clone()));
        assert!(
            found.starts_with("In Secret a/win-password, key"),
            "{found}"
        );
        let record = build_record(&server(Some(stored.clone())));
        assert_eq!(record["secret"], "win-password");
        stored["deletedAt"] = json!("2026-11-29T03:00:00Z");
        let found = place(Some(stored));
        assert!(found.contains("ttl; the provider has it until"), "{found}");
    }

    #[test]
    fn provider_is_named_while_it_has_password() {
        let found = place(Some(json!({})));
        let start = "Not stored yet; the provider has it until 2026-11-30";
        assert!(found.starts_with(start), "{found}");
        let late = json!({"availableUntil": "2026-11-29T03:59:59Z"});
        assert_eq!(place(Some(late)), "Not stored yet");
        assert!(place(None).contains("spec.rootPassword"));
    }

    #[test]
    fn password_is_of_the_last_installation() {
        let found = |label: &str, of: u8, revision| {
            let data = [
                ("password", "pw"),
                ("installation", label),
                ("uuid", &uuid(of)),
            ];
            let data = data.map(|(key, text)| {
                let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
                (key.to_owned(), bytes)
            });
            let secret = Secret {
                data: Some(data.into()),
                ..Secret::default()
            };
            let server = uuid(1);
            find_password(&secret, &Installed { server, revision }).is_some()
        };
        assert!(found("first", 1, None) && found("revision 2", 1, Some(2)));
        assert!(!found("first", 1, Some(2)), "of an earlier installation");
        assert!(!found("first", 2, None), "of a former server");
    }
}
