//! The SSH keys of an order, from where the spec says.

use crate::{
    controllers::{
        cause::Cause,
        context::Process,
        values::{ValueError, ValueSource},
    },
    kinds::{BareMetalServer, Reason, references::SshKeySource},
};

/// Why a key could not be had. Never holds the content.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("{place} is not one line of text; put one public key there")]
    NotOneLine { place: String },
    #[error("one of publicKey, uuid, secretKeyRef, configMapKeyRef must be set")]
    Nothing,
}

impl KeyError {
    fn cause(&self, index: usize) -> Cause {
        let message = format!("spec.sshKeys[{index}]: {self}");
        match self {
            Self::Value(_) => Cause::missing(Reason::ReferenceNotFound, message),
            Self::NotOneLine { .. } | Self::Nothing => {
                Cause::needs_person(Reason::InvalidSpec, message)
            }
        }
    }
}

/// Reads the keys.
///
/// # Errors
/// Why the first of them that is missing cannot be had.
pub(super) async fn read(
    process: &Process,
    object: &BareMetalServer,
) -> Result<Vec<String>, Cause> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut keys = Vec::new();
    for (index, source) in object.spec.ssh_keys.iter().enumerate() {
        let key = key(process, namespace, source).await;
        keys.push(key.map_err(|error| error.cause(index))?);
    }
    Ok(keys)
}

async fn key(
    process: &Process,
    namespace: &str,
    source: &SshKeySource,
) -> Result<String, KeyError> {
    if let Some(key) = &source.public_key {
        return one_line(|| "publicKey".into(), key.as_bytes());
    }
    if let Some(uuid) = &source.uuid {
        return Ok(uuid.clone());
    }
    let (place, selector) = match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(selector), _) => (ValueSource::Secret(selector), selector),
        (None, Some(selector)) => (ValueSource::ConfigMap(selector), selector),
        (None, None) => return Err(KeyError::Nothing),
    };
    let bytes = process.value(namespace, place).await?;
    let named = || {
        format!(
            "{} {}, key {:?},",
            place.kind(),
            selector.name,
            selector.key
        )
    };
    one_line(named, &bytes)
}

fn one_line(place: impl FnOnce() -> String, bytes: &[u8]) -> Result<String, KeyError> {
    let line = std::str::from_utf8(bytes).map(str::trim).ok();
    line.filter(|l| !l.is_empty() && !l.contains(['\n', '\r']))
        .map(str::to_owned)
        .ok_or_else(|| KeyError::NotOneLine { place: place() })
}
