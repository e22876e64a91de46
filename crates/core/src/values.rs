//! Values that a spec takes from Secrets and ConfigMaps. No error contains a value.

use api::{
    names::{API_KEY_SECRET, SERVICE_ACCOUNT_TOKEN},
    references::{KeySelector, ValueLocation},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use std::{collections::BTreeMap, error::Error, fmt};

/// Where a value is stored.
#[derive(Clone, Copy, Debug)]
pub enum ValueSource<'a> {
    /// A key of a Secret.
    Secret(&'a KeySelector),
    /// A key of a ConfigMap.
    ConfigMap(&'a KeySelector),
}

/// Content of a Secret or ConfigMap.
#[derive(Clone)]
pub struct Content {
    /// The type of a Secret.
    secret_type: Option<String>,
    /// The values by key.
    entries: BTreeMap<String, Vec<u8>>,
}

impl From<Secret> for Content {
    fn from(secret: Secret) -> Self {
        let data = secret.data.unwrap_or_default().into_iter();
        // Only a manifest has this field.
        let texts = secret.string_data.unwrap_or_default().into_iter();
        Self {
            secret_type: secret.type_,
            entries: data
                .map(|(key, bytes)| (key, bytes.0))
                .chain(texts.map(|(key, text)| (key, text.into_bytes())))
                .collect(),
        }
    }
}

impl From<ConfigMap> for Content {
    fn from(map: ConfigMap) -> Self {
        // kubectl stores what is not UTF-8 text in `binaryData`.
        let data = map.data.unwrap_or_default().into_iter();
        let binary = map.binary_data.unwrap_or_default().into_iter();
        Self {
            secret_type: None,
            entries: data
                .map(|(key, text)| (key, text.into_bytes()))
                .chain(binary.map(|(key, bytes)| (key, bytes.0)))
                .collect(),
        }
    }
}

impl fmt::Display for ValueSource<'_> {
    /// Names the key and its object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeySelector { name, key } = self.selector();
        write!(f, "Key {key:?} of {} {name}", self.kind())
    }
}

impl<'a> ValueSource<'a> {
    /// The source at this location. `None` if the location names none, which the schema rejects.
    pub fn at(place: &'a ValueLocation) -> Option<Self> {
        match (&place.secret_key_ref, &place.config_map_key_ref) {
            (Some(selector), _) => Some(Self::Secret(selector)),
            (None, Some(selector)) => Some(Self::ConfigMap(selector)),
            (None, None) => None,
        }
    }

    /// Secret or ConfigMap.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Secret(_) => "Secret",
            Self::ConfigMap(_) => "ConfigMap",
        }
    }

    /// Name and key.
    pub fn selector(&self) -> &'a KeySelector {
        match self {
            Self::Secret(selector) | Self::ConfigMap(selector) => selector,
        }
    }

    /// Whether both are in the same object.
    pub fn is_in_same_object(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.selector().name == other.selector().name
    }

    /// Picks the value from the content of its object.
    ///
    /// # Errors
    /// Why there is none of at most this many bytes.
    pub fn pick<E: Error + Clone + 'static>(
        &self,
        content: &Result<Option<Content>, E>,
        most: usize,
    ) -> Result<Vec<u8>, ValueError<E>> {
        let KeySelector { name, key } = self.selector().clone();
        let kind = self.kind();
        let content = match content {
            Ok(Some(content)) => content,
            Ok(None) => return Err(ValueError::NoObject { kind, name, key }),
            Err(failure) => {
                return Err(ValueError::Unreadable {
                    kind,
                    name,
                    failure: failure.clone(),
                });
            }
        };
        match content.entries.get(&key) {
            None => Err(ValueError::NoKey { kind, name, key }),
            Some(value) if value.len() > most => Err(ValueError::TooLong {
                place: self.to_string(),
                bytes: value.len(),
                most,
            }),
            Some(value) => Ok(value.clone()),
        }
    }

    /// Does the same for a value that a server may receive: none from a Secret with credentials.
    ///
    /// # Errors
    /// Why there is none of at most this many bytes.
    pub fn pick_sendable<E: Error + Clone + 'static>(
        &self,
        content: &Result<Option<Content>, E>,
        most: usize,
    ) -> Result<Vec<u8>, ValueError<E>> {
        if let Ok(Some(content)) = content
            && let Some(secret_type) = content.secret_type.as_deref()
            && [API_KEY_SECRET, SERVICE_ACCOUNT_TOKEN].contains(&secret_type)
        {
            return Err(ValueError::Credentials {
                name: self.selector().name.clone(),
                secret_type: secret_type.to_owned(),
            });
        }
        self.pick(content, most)
    }
}

/// Why a value could not be read. Never contains the value.
#[derive(Debug, thiserror::Error)]
pub enum ValueError<E: Error + 'static> {
    /// The object does not exist.
    #[error("{kind} {name} does not exist. Create it with the key {key:?}")]
    NoObject {
        /// Secret or ConfigMap.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The missing key.
        key: String,
    },
    /// The object has no such key.
    #[error("{kind} {name} has no key {key:?}. Add it")]
    NoKey {
        /// Secret or ConfigMap.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The missing key.
        key: String,
    },
    /// The API server did not return the object.
    #[error("{kind} {name} cannot be read")]
    Unreadable {
        /// Secret or ConfigMap.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The error.
        #[source]
        failure: E,
    },
    /// The value is longer than its use allows.
    #[error("{place} has {bytes} bytes, more than {most}. Shorten it")]
    TooLong {
        /// Where the value is stored.
        place: String,
        /// Its length.
        bytes: usize,
        /// The maximum length.
        most: usize,
    },
    /// The Secret contains credentials, which no server receives.
    #[error(
        "Secret {name} has type {secret_type}, which is not sent to servers. Refer to another Secret"
    )]
    Credentials {
        /// Its name.
        name: String,
        /// Its type.
        secret_type: String,
    },
}

impl<E: Error + 'static> ValueError<E> {
    /// Whether a user has to change the value.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::TooLong { .. } | Self::Credentials { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Picked = Result<Vec<u8>, ValueError<fmt::Error>>;

    fn pick(content: Option<Content>) -> Picked {
        let selector = KeySelector {
            name: "keys".into(),
            key: "id.pub".into(),
        };
        ValueSource::Secret(&selector).pick(&Ok(content), 9)
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(
            pick(None).unwrap_err().to_string(),
            r#"Secret keys does not exist. Create it with the key "id.pub""#
        );
        let empty = Content::from(Secret::default());
        assert_eq!(
            pick(Some(empty)).unwrap_err().to_string(),
            r#"Secret keys has no key "id.pub". Add it"#
        );
    }

    #[test]
    fn texts_of_a_manifest_count() {
        let secret: Secret =
            serde_json::from_value(json!({"stringData": {"id.pub": "one"}})).unwrap();
        assert_eq!(pick(Some(secret.into())).unwrap(), b"one");
    }
}
