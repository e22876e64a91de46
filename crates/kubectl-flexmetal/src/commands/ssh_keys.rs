//! `ssh-keys`: all public keys that the account stores.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text, time},
};
use flexmetal_core::public_key::PublicKey;
use hosting_types::ssh_key::{SshKey, is_private_key};
use serde_json::{Value, json};

/// Arguments of `ssh-keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct SshKeysArgs {
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("UUID", "uuid"),
    field("NAME", "name"),
    field("FINGERPRINT", "fingerprint")
        .absent("unreadable")
        .wide(),
    field("AGE", "createdAt").age(),
    field("PUBLIC KEY", "publicKey").wide(),
];

/// Prints the keys.
pub async fn run(context: &PluginContext, args: SshKeysArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let keys = client.ssh_keys().await;
    let mut keys = keys.map_err(|it| hosting_error("list the SSH keys of the account", it))?;
    keys.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    let records = keys.iter().map(build_record).collect();
    let none = "The account stores no SSH keys";
    context.printer.records(FIELDS, records, none)?;
    Ok(Exit::Fine)
}

fn build_record(key: &SshKey) -> Value {
    let parsed = PublicKey::parse(key.public_key.as_bytes()).ok();
    // A private key that somebody stored by mistake is shown nowhere.
    let shown = match is_private_key(&key.public_key) {
        true => "",
        false => key.public_key.trim(),
    };
    json!({
        "uuid": key.id.to_string(),
        "name": key.name,
        "fingerprint": parsed.map(|key| key.fingerprint().as_str().to_owned()),
        "publicKey": text(shown),
        "createdAt": time(key.created_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::SshKeyId;

    fn record(public_key: &str) -> Value {
        build_record(&SshKey {
            id: SshKeyId::parse("00000000-0000-4000-8000-000000000001").unwrap(),
            name: "web".into(),
            public_key: public_key.into(),
            created_at: Some(0),
        })
    }

    #[test]
    fn keys_have_the_fingerprint_that_ssh_keygen_shows() {
        let public =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me";
        let fingerprint = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA";
        assert_eq!(record(public)["fingerprint"], fingerprint);
        assert_eq!(record("")["fingerprint"], Value::Null);
    }

    #[test]
    fn private_key_is_not_printed() {
        let shown = record("-----BEGIN OPENSSH PRIVATE KEY-----").to_string();
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
}
