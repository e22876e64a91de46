//! What a server is installed with, read by the caller's own rights. Contains secrets, which no output shows.

use super::facts::PlannedObjects;
use crate::{
    account_client::is_forbidden,
    context::{Context, api_error},
    exit::PluginError,
};
use api::{
    BareMetalServer, Reason,
    installation::{Encoding, TextSource},
    names::{API_KEY_SECRET, SERVICE_ACCOUNT_TOKEN},
    references::{KeySelector, SshKeySource, ValueLocation},
};
use flexmetal_core::{
    explanation::Explanation,
    public_key::PublicKey,
    server::{
        decide::sent_hashes,
        facts::{Installation, ServerKey, account_of},
    },
    stored_keys::KeyLookup,
};
use hosting_types::{
    SecretText,
    server::{KernelParam, UserData},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use std::collections::{BTreeMap, HashMap};

/// Stands for a key that the caller may not read.
const UNREAD_KEY: &str = "00000000-0000-0000-0000-000000000000";
/// Stands for a text that the caller may not read. As a script it has a shebang.
const UNREAD_TEXT: &str = "#!/bin/sh\n";

/// What was read.
pub struct ReadInstallation {
    /// The installation, or why it is not complete.
    pub installation: Result<Installation, Explanation>,
    /// The fields below `spec` that the caller may not read, and that the plan assumes to be valid.
    pub unread: Vec<&'static str>,
    /// The right that is missing for them.
    pub assumptions: Vec<String>,
}

/// Reads the sources of a server's spec. `lookups`: its named keys, in their order.
pub async fn read_installation(
    context: &Context,
    planned: &PlannedObjects,
    object: &BareMetalServer,
    lookups: &[KeyLookup],
) -> Result<ReadInstallation, PluginError> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let mut values = Values {
        context,
        planned,
        namespace,
        objects: HashMap::new(),
        assumptions: Vec::new(),
    };
    let mut unread = Vec::new();
    let installation = read_parts(&mut values, object, lookups, &mut unread).await?;
    unread.dedup();
    Ok(ReadInstallation {
        installation,
        unread,
        assumptions: values.assumptions,
    })
}

/// The outer error ends the plan; the inner one is a result of it.
async fn read_parts(
    values: &mut Values<'_>,
    object: &BareMetalServer,
    lookups: &[KeyLookup],
    unread: &mut Vec<&'static str>,
) -> Result<Result<Installation, Explanation>, PluginError> {
    let spec = &object.spec;
    let mut installation = Installation::default();
    let mut lookups = lookups.iter();
    for (index, source) in spec.ssh_keys.iter().enumerate() {
        let field = format!("spec.sshKeys[{index}]");
        let key = match named_or_inline_key(source, &mut lookups, object, &field) {
            Some(key) => key,
            None => match values.read(source_of_key(source), &field).await? {
                Ok(Value::Read(bytes)) => parse_key(&bytes, &field),
                Ok(Value::Unread) => {
                    unread.push(sent_hashes::KEYS);
                    Ok(plain_key(UNREAD_KEY))
                }
                Err(explanation) => Err(explanation),
            },
        };
        match key {
            Ok(key) => installation.ssh_keys.push(key),
            Err(explanation) => return Ok(Err(explanation)),
        }
    }
    for (index, param) in spec.kernel_params().enumerate() {
        let field = format!("spec.{}[{index}]", sent_hashes::PARAMS);
        let source = (param.value.as_deref(), param.value_from.as_ref());
        let value = match values.text(source, &field).await? {
            Ok((text, is_read)) => {
                unread.extend((!is_read).then_some(sent_hashes::PARAMS));
                // The stand-in for a text is no value of a parameter.
                if is_read {
                    text
                } else {
                    SecretText::new("unread")
                }
            }
            Err(explanation) => return Ok(Err(explanation)),
        };
        installation.kernel_params.push(KernelParam {
            key: param.key.clone(),
            value: value.without_line_end(),
        });
    }
    if let Some(source) = &spec.post_install_script {
        match values.text_of(source, "spec.postInstallScript").await? {
            Ok((text, is_read)) => {
                unread.extend((!is_read).then_some(sent_hashes::SCRIPT));
                installation.post_install_script = Some(text);
            }
            Err(explanation) => return Ok(Err(explanation)),
        }
    }
    if let Some(data) = &spec.user_data {
        let is_base64 = data.encoding == Some(Encoding::Base64);
        match values.text_of(&data.data, "spec.userData.data").await? {
            Ok((text, is_read)) => {
                unread.extend((!is_read).then_some(sent_hashes::DATA));
                installation.user_data = Some(UserData {
                    is_base64: is_base64 && is_read,
                    data: if is_base64 {
                        text.without_line_end()
                    } else {
                        text
                    },
                });
            }
            Err(explanation) => return Ok(Err(explanation)),
        }
    }
    Ok(Ok(installation))
}

/// The key of an SshKey or of the spec itself. None: it is in a Secret or ConfigMap.
fn named_or_inline_key<'a>(
    source: &SshKeySource,
    lookups: &mut impl Iterator<Item = &'a KeyLookup>,
    object: &BareMetalServer,
    field: &str,
) -> Option<Result<ServerKey, Explanation>> {
    if let Some(name) = source.named() {
        return Some(find_stored_key(name, lookups.next(), object, field));
    }
    if let Some(key) = &source.public_key {
        return Some(parse_key(key.as_bytes(), field));
    }
    source.uuid.as_deref().map(|uuid| Ok(plain_key(uuid)))
}

fn find_stored_key(
    name: &str,
    lookup: Option<&KeyLookup>,
    object: &BareMetalServer,
    field: &str,
) -> Result<ServerKey, Explanation> {
    let here = account_of(object);
    match lookup {
        Some(KeyLookup::Ready(stored)) if stored.account == here => Ok(ServerKey {
            sent: stored.uuid.clone(),
            known_by: format!("stored:{}", stored.fingerprint),
            object: Some(stored.uid.clone()),
        }),
        Some(KeyLookup::Ready(_)) => Err(Explanation::stalled(
            Reason::InvalidSpec,
            format!("{field}: SshKey {name} is of another account. Name a key of the same account"),
        )),
        Some(KeyLookup::Missing) | None => Err(Explanation::missing(
            Reason::ReferenceNotFound,
            format!("{field}: SshKey {name} does not exist in this namespace. Create it"),
        )),
        Some(KeyLookup::Ending) => Err(Explanation::missing(
            Reason::ReferenceNotFound,
            format!("{field}: SshKey {name} is being deleted. Name another one"),
        )),
        Some(KeyLookup::NotReady(why)) => Err(Explanation::waits(
            Reason::ReferenceNotReady,
            format!("{field}: SshKey {name} is not stored yet; {why}"),
        )),
        Some(KeyLookup::NotKnown) => Err(Explanation::waits(
            Reason::ReferenceNotReady,
            format!("{field}: SshKey {name} cannot be read"),
        )),
    }
}

fn plain_key(sent: &str) -> ServerKey {
    ServerKey {
        sent: sent.to_owned(),
        known_by: sent.to_owned(),
        object: None,
    }
}

fn parse_key(bytes: &[u8], field: &str) -> Result<ServerKey, Explanation> {
    match PublicKey::parse(bytes) {
        Ok(key) => Ok(plain_key(&key.line())),
        Err(why) => {
            let text = format!("{field}: {why}");
            Err(Explanation::stalled(Reason::InvalidSpec, text))
        }
    }
}

fn source_of_key(source: &SshKeySource) -> Option<Source<'_>> {
    let secret = source.secret_key_ref.as_ref().map(Source::Secret);
    secret.or(source.config_map_key_ref.as_ref().map(Source::ConfigMap))
}

fn source_at(location: &ValueLocation) -> Option<Source<'_>> {
    let secret = location.secret_key_ref.as_ref().map(Source::Secret);
    secret.or(location.config_map_key_ref.as_ref().map(Source::ConfigMap))
}

/// Where a value is.
#[derive(Clone, Copy)]
enum Source<'a> {
    Secret(&'a KeySelector),
    ConfigMap(&'a KeySelector),
}

impl Source<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Secret(_) => "Secret",
            Self::ConfigMap(_) => "ConfigMap",
        }
    }

    fn selector(&self) -> &KeySelector {
        match self {
            Self::Secret(selector) | Self::ConfigMap(selector) => selector,
        }
    }
}

/// A value, unless the caller may not read it.
enum Value {
    Read(Vec<u8>),
    Unread,
}

/// A Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// It does not exist.
    Missing,
    /// The caller may not read it.
    Unread,
    /// Its values. `secret_type` of a Secret.
    Found {
        /// The type of a Secret.
        secret_type: Option<String>,
        /// The values by key.
        values: BTreeMap<String, Vec<u8>>,
    },
}

impl Content {
    /// The content of a Secret.
    pub fn of_secret(secret: Secret) -> Self {
        let mut values: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let data = secret.data.unwrap_or_default().into_iter();
        values.extend(data.map(|(key, bytes)| (key, bytes.0)));
        // A manifest may have this field; the API server merges it.
        let texts = secret.string_data.unwrap_or_default().into_iter();
        values.extend(texts.map(|(key, text)| (key, text.into_bytes())));
        Self::Found {
            secret_type: secret.type_,
            values,
        }
    }

    /// The content of a ConfigMap.
    pub fn of_config_map(map: ConfigMap) -> Self {
        let mut values: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let texts = map.data.unwrap_or_default().into_iter();
        values.extend(texts.map(|(key, text)| (key, text.into_bytes())));
        let data = map.binary_data.unwrap_or_default().into_iter();
        values.extend(data.map(|(key, bytes)| (key, bytes.0)));
        Self::Found {
            secret_type: None,
            values,
        }
    }
}

/// Reads each Secret and ConfigMap once.
struct Values<'a> {
    context: &'a Context,
    planned: &'a PlannedObjects,
    namespace: &'a str,
    objects: HashMap<(&'static str, String), Content>,
    assumptions: Vec<String>,
}

impl Values<'_> {
    async fn text_of(
        &mut self,
        source: &TextSource,
        field: &str,
    ) -> Result<Result<(SecretText, bool), Explanation>, PluginError> {
        let source = (source.value.as_deref(), source.value_from.as_ref());
        self.text(source, field).await
    }

    /// A text, and whether it was read.
    async fn text(
        &mut self,
        (value, location): (Option<&str>, Option<&ValueLocation>),
        field: &str,
    ) -> Result<Result<(SecretText, bool), Explanation>, PluginError> {
        if let Some(text) = value {
            return Ok(Ok((SecretText::new(text), true)));
        }
        let read = self.read(location.and_then(source_at), field).await?;
        Ok(read.and_then(|value| match value {
            Value::Unread => Ok((SecretText::new(UNREAD_TEXT), false)),
            Value::Read(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok((SecretText::referred_to(text), true)),
                Err(_) => Err(Explanation::stalled(
                    Reason::InvalidSpec,
                    format!("{field}: the value is not UTF-8 text. Use base64 for other data"),
                )),
            },
        }))
    }

    async fn read(
        &mut self,
        source: Option<Source<'_>>,
        field: &str,
    ) -> Result<Result<Value, Explanation>, PluginError> {
        let Some(source) = source else {
            let text = format!("{field}: no value is set");
            return Ok(Err(Explanation::stalled(Reason::InvalidSpec, text)));
        };
        let content = self.content(source).await?;
        Ok(pick_value(content, source, field))
    }

    async fn content(&mut self, source: Source<'_>) -> Result<Content, PluginError> {
        let (kind, name) = (source.kind(), &source.selector().name);
        let place = (kind, name.clone());
        if let Some(known) = self.objects.get(&place) {
            return Ok(known.clone());
        }
        let namespace = self.namespace;
        let content = match self.planned.find_content(kind, namespace, name) {
            Some(planned) => planned,
            None => {
                let read = match source {
                    Source::Secret(_) => {
                        let found = self.context.api_in::<Secret>(namespace).get_opt(name).await;
                        found.map(|found| found.map(Content::of_secret))
                    }
                    Source::ConfigMap(_) => {
                        let maps = self.context.api_in::<ConfigMap>(namespace);
                        let found = maps.get_opt(name).await;
                        found.map(|found| found.map(Content::of_config_map))
                    }
                };
                let read = read
                    .map_err(|error| api_error(format!("read {kind} {namespace}/{name}"), error));
                match read {
                    Ok(found) => found.unwrap_or(Content::Missing),
                    Err(error) if is_forbidden(&error) => {
                        self.assumptions.push(format!(
                            "{kind} {name} is valid; needs \"get\" on {}s in namespace {namespace} to check it",
                            kind.to_ascii_lowercase()
                        ));
                        Content::Unread
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        self.objects.insert(place, content.clone());
        Ok(content)
    }
}

fn pick_value(content: Content, source: Source<'_>, field: &str) -> Result<Value, Explanation> {
    let (kind, KeySelector { name, key }) = (source.kind(), source.selector());
    let missing = |what: &str| {
        let text = format!("{field}: {kind} {name} {what}");
        Err(Explanation::missing(Reason::ReferenceNotFound, text))
    };
    match content {
        Content::Unread => Ok(Value::Unread),
        Content::Missing => missing(&format!("does not exist. Create it with the key {key:?}")),
        Content::Found {
            secret_type: Some(secret_type),
            ..
        } if [API_KEY_SECRET, SERVICE_ACCOUNT_TOKEN].contains(&secret_type.as_str()) => {
            let text = format!(
                "{field}: {kind} {name} has type {secret_type}, which is not sent to servers. Refer to another Secret"
            );
            Err(Explanation::stalled(Reason::InvalidSpec, text))
        }
        Content::Found { mut values, .. } => match values.remove(key) {
            Some(value) => Ok(Value::Read(value)),
            None => missing(&format!("has no key {key:?}. Add it")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flexmetal_core::stored_keys::StoredKey;
    use serde_json::json;

    fn selector() -> KeySelector {
        KeySelector {
            name: "boot".into(),
            key: "script".into(),
        }
    }

    fn secret(of: serde_json::Value) -> Content {
        Content::of_secret(serde_json::from_value(of).unwrap())
    }

    fn picked(content: Content) -> Result<Option<Vec<u8>>, Explanation> {
        let selector = selector();
        let picked = pick_value(content, Source::Secret(&selector), "spec.postInstallScript");
        picked.map(|value| match value {
            Value::Read(bytes) => Some(bytes),
            Value::Unread => None,
        })
    }

    #[test]
    fn values_come_from_data_and_string_data() {
        let data = secret(json!({"data": {"script": "b25l"}}));
        assert_eq!(picked(data), Ok(Some(b"one".to_vec())));
        let text = secret(json!({"stringData": {"script": "two"}}));
        assert_eq!(picked(text), Ok(Some(b"two".to_vec())));
        assert_eq!(picked(Content::Unread), Ok(None));
    }

    #[test]
    fn missing_value_is_named_and_credentials_are_refused() {
        let explain = |content| picked(content).unwrap_err();
        let gone = explain(Content::Missing);
        assert_eq!(gone.reason, Reason::ReferenceNotFound);
        assert!(
            gone.message.contains("Secret boot does not exist"),
            "{gone:?}"
        );
        let other = explain(secret(json!({"data": {"a": "b25l"}})));
        assert!(other.message.contains("has no key \"script\""), "{other:?}");
        let key = explain(secret(
            json!({"type": API_KEY_SECRET, "data": {"script": "b25l"}}),
        ));
        assert_eq!(key.reason, Reason::InvalidSpec);
    }

    #[test]
    fn stored_key_of_another_account_is_not_sent() {
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a"}, "spec": {},
        }))
        .unwrap();
        let mut stored = StoredKey {
            uid: "uid-1".into(),
            uuid: UNREAD_KEY.into(),
            fingerprint: "SHA256:a".into(),
            account: account_of(&server),
            account_id: "l1".into(),
        };
        let find = |stored: &StoredKey| {
            let lookup = KeyLookup::Ready(stored.clone());
            find_stored_key("ops", Some(&lookup), &server, "spec.sshKeys[0]")
        };
        assert_eq!(find(&stored).unwrap().sent, UNREAD_KEY);
        stored.account.name = "other".into();
        assert_eq!(find(&stored).unwrap_err().reason, Reason::InvalidSpec);
        let missing = find_stored_key("ops", None, &server, "spec.sshKeys[0]").unwrap_err();
        assert_eq!(missing.reason, Reason::ReferenceNotFound);
    }
}
