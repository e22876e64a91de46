//! The texts of an installation that its log may repeat: the script and the kernel parameters.

use crate::{
    context::{Context, api_error},
    exit::PluginError,
};
use api::{
    DedicatedHost,
    references::{KeySelector, ValueLocation},
};
use hosting_types::SecretText;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

/// The texts of an object.
#[derive(Default)]
pub(super) struct SecretTexts {
    /// Those that are masked.
    pub(super) known: Vec<SecretText>,
    /// Why one is not known, so that nothing can be masked. None: all are known.
    pub(super) unknown: Option<String>,
}

impl SecretTexts {
    /// Reads the texts by the caller's rights. A text that is missing or may not be read is no error.
    pub(super) async fn read(context: &Context, object: &DedicatedHost) -> Self {
        let script = object.spec.post_install_script.as_ref();
        let script = script.map(|it| (it.value.as_deref(), it.value_from.as_ref()));
        let params = object.spec.kernel_params();
        let params = params.map(|it| (it.value.as_deref(), it.value_from.as_ref()));
        let mut texts = Self::default();
        for (value, location) in script.into_iter().chain(params) {
            // A short value of a kernel parameter is a switch.
            let value = value.filter(|value| value.len() >= SHORTEST);
            texts.known.extend(value.map(SecretText::new));
            let Some(location) = location else { continue };
            match read_location(context, location).await {
                Ok(Some(text)) => texts.known.push(text),
                Ok(None) => {
                    texts.unknown = Some("the object or key that has it is missing".to_owned());
                }
                Err(error) => texts.unknown = Some(error.explain()),
            }
        }
        texts
    }
}

/// The shortest value that is masked.
const SHORTEST: usize = 8;

async fn read_location(
    context: &Context,
    location: &ValueLocation,
) -> Result<Option<SecretText>, PluginError> {
    let act = |kind: &str, of: &KeySelector| {
        let namespace = &context.namespace;
        format!("read {kind} {namespace}/{}", of.name)
    };
    if let Some(of) = &location.secret_key_ref {
        let found = context.api::<Secret>().get_opt(&of.name).await;
        let found = found.map_err(|error| api_error(act("Secret", of), error))?;
        let data = found.and_then(|secret| secret.data);
        let bytes = data.and_then(|mut data| data.remove(&of.key));
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        return Ok(text.map(SecretText::new));
    }
    let Some(of) = &location.config_map_key_ref else {
        return Ok(None);
    };
    let found = context.api::<ConfigMap>().get_opt(&of.name).await;
    let found = found.map_err(|error| api_error(act("ConfigMap", of), error))?;
    let text = found
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove(&of.key));
    Ok(text.map(SecretText::new))
}
