//! `ssh-keys`: all public keys that the account stores.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    ages,
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use flexmetal_core::public_key::PublicKey;
use hosting_types::ssh_key::SshKey;
use jiff::Timestamp;
use serde::Serialize;

/// Arguments of `ssh-keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct SshKeysArgs {
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SshKeyRow {
    uuid: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    public_key: String,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip)]
    age: String,
}

impl Row for SshKeyRow {
    const COLUMNS: &'static [Column] = &[
        column("UUID"),
        column("NAME"),
        column("KEY"),
        column("AGE"),
        wide("FINGERPRINT"),
        wide("PUBLIC KEY"),
    ];

    fn cells(&self) -> Vec<String> {
        let mut words = self.public_key.split_whitespace();
        vec![
            self.uuid.clone(),
            self.name.clone(),
            words.next().unwrap_or("unreadable").to_owned(),
            self.age.clone(),
            self.fingerprint.clone().unwrap_or_default(),
            self.public_key.trim().to_owned(),
        ]
    }

    fn name(&self) -> String {
        self.uuid.clone()
    }
}

/// Prints the keys.
pub async fn run(context: &Context, args: SshKeysArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let keys = client.ssh_keys().await;
    let keys = keys.map_err(|error| hosting_error("list the SSH keys of the account", error))?;
    let rows = build_rows(keys, ages::now());
    context
        .printer
        .rows(&rows, "The account stores no SSH keys")?;
    Ok(Exit::Fine)
}

/// The rows by name.
fn build_rows(mut keys: Vec<SshKey>, now: Timestamp) -> Vec<SshKeyRow> {
    keys.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    let rows = keys.into_iter().map(|key| {
        let parsed = PublicKey::parse(key.public_key.as_bytes()).ok();
        let created = key.created_at.map(Timestamp::from_second);
        SshKeyRow {
            uuid: key.id.to_string(),
            name: key.name,
            fingerprint: parsed.map(|key| key.fingerprint().as_str().to_owned()),
            // A private key that somebody stored by mistake is shown nowhere.
            public_key: match key.public_key.contains("PRIVATE KEY") {
                true => String::new(),
                false => key.public_key,
            },
            age: match created {
                Some(Ok(created)) => ages::age(created, now),
                _ => String::new(),
            },
            created_at: key.created_at,
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::SshKeyId;

    const PUBLIC: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me";

    fn key(name: &str, public_key: &str) -> SshKey {
        SshKey {
            id: SshKeyId::parse("00000000-0000-4000-8000-000000000001").unwrap(),
            name: name.into(),
            public_key: public_key.into(),
            created_at: Some(0),
        }
    }

    #[test]
    fn keys_have_the_fingerprint_that_ssh_keygen_shows() {
        let now = Timestamp::from_second(86_400 * 3).unwrap();
        let rows = build_rows(vec![key("web", PUBLIC), key("admin", "")], now);
        assert_eq!(rows[0].cells()[1..4], ["admin", "unreadable", "3d"]);
        assert_eq!(rows[0].fingerprint, None);
        assert_eq!(rows[1].cells()[2], "ssh-ed25519");
        let fingerprint = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA";
        assert_eq!(rows[1].fingerprint.as_deref(), Some(fingerprint));
    }

    #[test]
    fn a_private_key_is_not_printed() {
        let text = "-----BEGIN OPENSSH PRIVATE KEY-----";
        let rows = build_rows(vec![key("mistake", text)], Timestamp::UNIX_EPOCH);
        let shown = serde_json::to_string(&rows).unwrap() + &rows[0].cells().concat();
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
}
