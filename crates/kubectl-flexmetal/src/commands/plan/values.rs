//! Reads the values that a spec takes from Secrets and ConfigMaps, by the caller's own rights. No output shows them.

use super::{facts::Gatherer, manifests::PlanItem};
use crate::{context::api_error, exit::PluginError};
use flexmetal_core::values::{Content, ValueError, ValueSource};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use std::fmt;

/// A value, or why it cannot be read.
pub type ReadValue = Result<Vec<u8>, ValueError<fmt::Error>>;

/// Kind, namespace and name.
pub type ContentPlace = (&'static str, String, String);

impl Gatherer<'_> {
    /// The values of these sources.
    pub async fn read_values(
        &mut self,
        namespace: &str,
        wanted: &[(ValueSource<'_>, usize)],
    ) -> Result<Vec<ReadValue>, PluginError> {
        let mut values = Vec::with_capacity(wanted.len());
        for (source, most) in wanted {
            let name = source.selector().name.clone();
            let place = (source.kind(), namespace.to_owned(), name);
            if !self.contents.contains_key(&place)
                && let Some(content) = self.read_content(*source, namespace).await?
            {
                self.contents.insert(place.clone(), content);
            }
            let content = Ok(self.contents.get(&place).cloned());
            values.push(source.pick_sendable(&content, *most));
        }
        Ok(values)
    }

    async fn read_content(
        &self,
        source: ValueSource<'_>,
        namespace: &str,
    ) -> Result<Option<Content>, PluginError> {
        let (kind, name) = (source.kind(), &source.selector().name);
        let read = match source {
            ValueSource::Secret(_) => {
                let secrets = self.context.api_in::<Secret>(namespace);
                secrets.get_opt(name).await.map(|it| it.map(Content::from))
            }
            ValueSource::ConfigMap(_) => {
                let maps = self.context.api_in::<ConfigMap>(namespace);
                maps.get_opt(name).await.map(|it| it.map(Content::from))
            }
        };
        read.map_err(|error| api_error(format!("read {kind} {namespace}/{name}"), error))
    }
}

/// The content of a Secret or ConfigMap of the plan.
pub fn find_content(item: &PlanItem) -> Option<(ContentPlace, Content)> {
    let body = item.body.clone();
    let (kind, content) = match item.plan.kind.as_str() {
        "Secret" => {
            let secret: Secret = serde_json::from_value(body).ok()?;
            ("Secret", secret.into())
        }
        "ConfigMap" => {
            let map: ConfigMap = serde_json::from_value(body).ok()?;
            ("ConfigMap", map.into())
        }
        _ => return None,
    };
    let namespace = item.plan.namespace.clone()?;
    Some(((kind, namespace, item.plan.name.clone()), content))
}
