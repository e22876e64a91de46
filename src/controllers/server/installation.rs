//! What a machine is installed with, from where the spec says. Read when an order needs it, and once for each edit
//! afterwards; never on every pass.

use super::{facts::Installation, ssh_keys};
use crate::{
    controllers::{
        cause::Cause,
        context::Process,
        values::{ValueError, ValueSource},
    },
    kinds::{BareMetalServer, Reason, references::ValueLocation},
};
use hosting::{
    SecretText,
    server::{KernelParam, UserData},
};

/// The most bytes of one text that lies elsewhere. The provider takes no body of more than a MiB, and many may be on
/// their way at once.
const LONGEST: usize = 65_536;

/// Why a text could not be had. Never holds the content.
#[derive(Debug, thiserror::Error)]
enum TextError {
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(
        "{place} has {bytes} bytes, more than {LONGEST}; shorten it, or have the machine fetch the rest"
    )]
    TooLong { place: String, bytes: usize },
    #[error("{place} is no text in UTF-8; put text there, base64 for other data")]
    NotText { place: String },
    #[error("one of value and valueFrom must be set")]
    Nothing,
}

impl TextError {
    fn cause(&self, field: &str) -> Cause {
        let message = format!("spec.{field}: {self}");
        match self {
            Self::Value(_) => Cause::missing(Reason::ReferenceNotFound, message),
            Self::TooLong { .. } | Self::NotText { .. } | Self::Nothing => {
                Cause::needs_person(Reason::InvalidSpec, message)
            }
        }
    }
}

/// Reads all of it, for the account of this lineage.
///
/// # Errors
/// Why the first part that is missing cannot be had.
pub(super) async fn read(
    process: &Process,
    object: &BareMetalServer,
    lineage: Option<&str>,
) -> Result<Installation, Cause> {
    let spec = &object.spec;
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let text = async |field: String, value: &Option<String>, place: &Option<ValueLocation>| {
        let text = text(process, namespace, value.as_ref(), place.as_ref()).await;
        text.map_err(|error| error.cause(&field))
    };
    let mut installation = Installation {
        ssh_keys: ssh_keys::read(process, object, lineage).await?,
        ..Installation::default()
    };
    for (index, param) in spec.os.kernel_params.iter().enumerate() {
        let field = format!("os.kernelParams[{index}]");
        let value = text(field, &param.value, &param.value_from).await?;
        installation.kernel_params.push(KernelParam {
            key: param.key.clone(),
            value: without_line_end(&value),
        });
    }
    if let Some(script) = &spec.post_install_script {
        let script = text(
            "postInstallScript".into(),
            &script.value,
            &script.value_from,
        )
        .await?;
        installation.post_install_script = Some(script);
    }
    if let Some(data) = &spec.user_data {
        let is_base64 = data.is_base64.unwrap_or(false);
        let source = &data.data;
        let text = text("userData.data".into(), &source.value, &source.value_from).await?;
        // A file with base64 ends with a line end, which is no part of it.
        let data = if is_base64 {
            without_line_end(&text)
        } else {
            text
        };
        installation.user_data = Some(UserData { data, is_base64 });
    }
    Ok(installation)
}

/// A text that is given, or lies where it is said.
async fn text(
    process: &Process,
    namespace: &str,
    value: Option<&String>,
    place: Option<&ValueLocation>,
) -> Result<SecretText, TextError> {
    if let Some(text) = value {
        return Ok(SecretText::new(text));
    }
    let place = place.and_then(ValueSource::at).ok_or(TextError::Nothing)?;
    let bytes = process.value(namespace, place).await?;
    if bytes.len() > LONGEST {
        return Err(TextError::TooLong {
            place: place.to_string(),
            bytes: bytes.len(),
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| TextError::NotText {
        place: place.to_string(),
    })?;
    Ok(SecretText::new(text))
}

/// Editors and `echo` add one.
fn without_line_end(text: &SecretText) -> SecretText {
    let text = text.expose();
    let text = text.strip_suffix('\n').unwrap_or(text);
    SecretText::new(text.strip_suffix('\r').unwrap_or(text))
}
