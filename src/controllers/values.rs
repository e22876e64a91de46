//! The only place that reads values from Secrets and ConfigMaps: by name, only when a reconcile needs them, never by
//! list or watch. No error contains a value.

use super::{
    context::Process,
    writes::{ApiServerError, bounded},
};
use api::{
    names::{API_KEY_SECRET, SERVICE_ACCOUNT_TOKEN},
    references::{KeySelector, ValueLocation, is_object_name},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use std::{collections::BTreeMap, fmt, sync::Arc};
use tokio::sync::Semaphore;

/// Reads at once: each may return 1 MiB and takes several times as much while it is decoded.
static AT_ONCE: Semaphore = Semaphore::const_new(3);

/// Content of an object.
struct Content {
    /// The type of a Secret.
    secret_type: Option<String>,
    /// The values by key.
    entries: BTreeMap<String, Vec<u8>>,
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug)]
pub enum ValueSource<'a> {
    /// A key of a Secret.
    Secret(&'a KeySelector),
    /// A key of a ConfigMap.
    ConfigMap(&'a KeySelector),
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

    fn selector(&self) -> &KeySelector {
        match self {
            Self::Secret(selector) | Self::ConfigMap(selector) => selector,
        }
    }

    /// Whether both are in the same object.
    fn is_in_same_object(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.selector().name == other.selector().name
    }

    /// Picks the value from the content of its object.
    fn pick(
        &self,
        content: &Result<Option<Content>, Arc<ApiServerError>>,
        most: usize,
    ) -> Result<Vec<u8>, ValueError> {
        let content = match content {
            Ok(Some(content)) => content,
            Ok(None) => return Err(self.no_object()),
            Err(failure) => {
                return Err(ValueError::Unreadable {
                    kind: self.kind(),
                    name: self.selector().name.clone(),
                    failure: Arc::clone(failure),
                });
            }
        };
        match content.entries.get(&self.selector().key) {
            None => Err(self.no_key()),
            Some(value) if value.len() > most => Err(ValueError::TooLong {
                place: self.to_string(),
                bytes: value.len(),
                most,
            }),
            Some(value) => Ok(value.clone()),
        }
    }

    /// Does the same for a value that a server may receive: none from a Secret with credentials.
    fn pick_sendable(
        &self,
        content: &Result<Option<Content>, Arc<ApiServerError>>,
        most: usize,
    ) -> Result<Vec<u8>, ValueError> {
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

    fn no_object(&self) -> ValueError {
        let KeySelector { name, key } = self.selector();
        ValueError::NoObject {
            kind: self.kind(),
            name: name.clone(),
            key: key.clone(),
        }
    }

    fn no_key(&self) -> ValueError {
        let KeySelector { name, key } = self.selector();
        ValueError::NoKey {
            kind: self.kind(),
            name: name.clone(),
            key: key.clone(),
        }
    }
}

/// Why a value could not be read. Never contains the value.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
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
        failure: Arc<ApiServerError>,
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

impl ValueError {
    /// Whether a user has to change the value.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::TooLong { .. } | Self::Credentials { .. })
    }
}

impl Process {
    /// Reads one value of at most this many bytes that no server receives.
    pub async fn value(
        &self,
        namespace: &str,
        source: ValueSource<'_>,
        most: usize,
    ) -> Result<Vec<u8>, ValueError> {
        let content = self.content(namespace, source).await.map_err(Arc::new);
        source.pick(&content, most)
    }

    /// Reads values that a server may receive, each of at most this many bytes, in this order. Each object is read
    /// once, so that values from the same object are consistent.
    pub async fn values(
        &self,
        namespace: &str,
        wanted: &[(ValueSource<'_>, usize)],
    ) -> Vec<Result<Vec<u8>, ValueError>> {
        let mut values: Vec<_> = wanted.iter().map(|_| None).collect();
        for (first, (object, _)) in wanted.iter().enumerate() {
            if values[first].is_some() {
                continue;
            }
            let content = self.content(namespace, *object).await.map_err(Arc::new);
            for (value, (source, most)) in values.iter_mut().zip(wanted) {
                if source.is_in_same_object(object) {
                    *value = Some(source.pick_sendable(&content, *most));
                }
            }
        }
        values.into_iter().flatten().collect()
    }

    /// Reads the content of a source's object. `None` if the object does not exist.
    async fn content(
        &self,
        namespace: &str,
        source: ValueSource<'_>,
    ) -> Result<Option<Content>, ApiServerError> {
        let name = &source.selector().name;
        match source {
            ValueSource::Secret(_) => {
                let secret = self.secret(namespace, name).await?;
                Ok(secret.map(|secret| {
                    let data = secret.data.unwrap_or_default().into_iter();
                    Content {
                        secret_type: secret.type_,
                        entries: data.map(|(key, bytes)| (key, bytes.0)).collect(),
                    }
                }))
            }
            ValueSource::ConfigMap(_) => {
                if !is_object_name(name) {
                    return Ok(None);
                }
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                // The semaphore is never closed.
                let _permit = AT_ONCE.acquire().await;
                let map = bounded(api.get_opt(name)).await?;
                Ok(map.map(|map| {
                    // kubectl stores what is not UTF-8 text in `binaryData`.
                    let data = map.data.unwrap_or_default().into_iter();
                    let binary = map.binary_data.unwrap_or_default().into_iter();
                    let binary = binary.map(|(key, bytes)| (key, bytes.0));
                    Content {
                        secret_type: None,
                        entries: data
                            .map(|(k, v)| (k, v.into_bytes()))
                            .chain(binary)
                            .collect(),
                    }
                }))
            }
        }
    }

    /// Reads a whole Secret, for an account's key. `None` if it does not exist.
    ///
    /// # Errors
    /// The error of the API server.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Secret>, ApiServerError> {
        if !is_object_name(name) {
            return Ok(None);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let _permit = AT_ONCE.acquire().await;
        bounded(api.get_opt(name)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controllers::api_server_tests::{Answer, TestApiServer},
        runtime::telemetry::{LogFormat, tests::CapturedLog},
    };
    use serde_json::json;

    #[test]
    fn what_is_missing_is_named() {
        let map = KeySelector {
            name: "keys".into(),
            key: "id.pub".into(),
        };
        assert_eq!(
            ValueSource::ConfigMap(&map).no_object().to_string(),
            r#"ConfigMap keys does not exist. Create it with the key "id.pub""#
        );
        assert_eq!(
            ValueSource::Secret(&map).no_key().to_string(),
            r#"Secret keys has no key "id.pub". Add it"#
        );
    }

    #[tokio::test]
    async fn config_map_binary_data_is_read() {
        let map = json!({
            "metadata": {"name": "m"}, "data": {"text": "one"}, "binaryData": {"binary": "dHdv"},
        });
        let floor = TestApiServer::start([Answer::Says(200, map)]).await;
        let places = ["text", "binary"].map(|key| KeySelector {
            name: "m".into(),
            key: key.into(),
        });
        let wanted = [0, 1].map(|n| (ValueSource::ConfigMap(&places[n]), 9));
        let values = floor.ctx.values("n", &wanted).await;
        let values: Vec<_> = values.into_iter().map(Result::unwrap).collect();
        assert_eq!(values, [b"one", b"two"]);
    }

    #[tokio::test]
    async fn undecodable_secret_never_appears_in_logs() {
        let (written, log) = CapturedLog::start(LogFormat::Text, "trace");
        let _loud = tracing::subscriber::set_default(log);
        let undecodable =
            json!({"metadata": {"name": "s"}, "data": {"apiKey": {"canary-41f0": 1}}});
        let floor = TestApiServer::start([Answer::Says(200, undecodable)]).await;
        let failure = floor.ctx.secret("n", "s").await.unwrap_err();
        assert!(
            matches!(failure, ApiServerError::Undecodable),
            "{failure:?}"
        );
        let text = written.text();
        assert!(text.contains("TRACE"), "the log is not at its loudest");
        assert!(!text.contains("canary"), "{text}");
    }
}
