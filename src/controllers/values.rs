//! The only place that reads values from Secrets and ConfigMaps: by name, only when a reconcile needs them, never by
//! list or watch. No error contains a value.

use super::{
    context::Process,
    writes::{ApiServerError, bounded},
};
use api::references::is_object_name;
use flexmetal_core::values::{Content, ValueSource};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Reads at once: each may return 1 MiB and takes several times as much while it is decoded.
static AT_ONCE: Semaphore = Semaphore::const_new(3);

/// Why a value could not be read.
pub type ObjectValueError = flexmetal_core::values::ValueError<Arc<ApiServerError>>;

impl Process {
    /// Reads one value of at most this many bytes that no server receives.
    pub async fn value(
        &self,
        namespace: &str,
        source: ValueSource<'_>,
        most: usize,
    ) -> Result<Vec<u8>, ObjectValueError> {
        let content = self.content(namespace, source).await.map_err(Arc::new);
        source.pick(&content, most)
    }

    /// Reads values that a server may receive, each of at most this many bytes, in this order. Each object is read
    /// once, so that values from the same object are consistent.
    pub async fn values(
        &self,
        namespace: &str,
        wanted: &[(ValueSource<'_>, usize)],
    ) -> Vec<Result<Vec<u8>, ObjectValueError>> {
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
                Ok(secret.map(Content::from))
            }
            ValueSource::ConfigMap(_) => {
                if !is_object_name(name) {
                    return Ok(None);
                }
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                // The semaphore is never closed.
                let _permit = AT_ONCE.acquire().await;
                let map = bounded(api.get_opt(name)).await?;
                Ok(map.map(Content::from))
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
    use api::references::KeySelector;
    use serde_json::json;

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
