//! Reads what a server is installed with from the sources in spec: when an order needs it, and once after each edit.

use super::ssh_keys;
use crate::controllers::{
    context::Process,
    values::{ValueError, ValueSource},
};
use api::{
    BareMetalServer, Reason,
    installation::{Encoding, TextSource},
    references::ValueLocation,
    server::BareMetalServerSpec,
};
use flexmetal_core::{
    explanation::Explanation,
    server::{decide::sent_hashes, facts::Installation},
};
use hosting_types::{
    SecretText,
    server::{KernelParam, UserData},
};

/// The most bytes of one referenced text. The provider accepts bodies up to 1 MiB, and many may be in flight at once.
const LONGEST: usize = 65_536;
/// The most bytes of a kernel parameter's value, as in the schema.
const LONGEST_PARAM: usize = 2048;

/// Why a text is not available. Never contains the content.
#[derive(Debug, thiserror::Error)]
enum TextError {
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("{place} is not UTF-8 text. Put text there, base64 for other data")]
    NotText { place: String },
    #[error("set value or valueFrom")]
    Nothing,
}

impl TextError {
    fn explanation(&self, field: &str) -> Explanation {
        let message = format!("spec.{field}: {self}");
        match self {
            Self::Value(error) if !error.is_invalid() => {
                Explanation::missing(Reason::ReferenceNotFound, message)
            }
            _ => Explanation::stalled(Reason::InvalidSpec, message),
        }
    }
}

/// What was read, and which fields could not be read.
#[derive(Default)]
pub(super) struct Parts {
    /// What was read; a field that could not be read is empty.
    pub(super) installation: Installation,
    /// The fields below `spec` that could not be read, each with the reason.
    pub(super) missing: Vec<(&'static str, Explanation)>,
}

impl Parts {
    /// The installation, or why its first missing part is not available.
    pub(super) fn whole(mut self) -> Result<Installation, Explanation> {
        match self.missing.is_empty() {
            true => Ok(self.installation),
            false => Err(self.missing.swap_remove(0).1),
        }
    }

    fn take<T>(&mut self, field: &'static str, read: Result<T, Explanation>) -> Option<T> {
        read.map_err(|explanation| self.missing.push((field, explanation)))
            .ok()
    }
}

/// Reads all of it, for the account with this ID.
pub(super) async fn read_installation(
    process: &Process,
    object: &BareMetalServer,
    account_id: Option<&str>,
) -> Parts {
    let spec = &object.spec;
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let wanted: Vec<_> = ssh_keys::places(spec).chain(places(spec)).collect();
    let mut values = process.values(namespace, &wanted).await.into_iter();
    let mut parts = Parts::default();

    let keys = ssh_keys::read_keys(process, object, account_id, &mut values);
    parts.installation.ssh_keys = parts.take(sent_hashes::KEYS, keys).unwrap_or_default();
    let params = spec.kernel_params().enumerate();
    let params = params.map(|(index, param)| {
        let text = text(
            param.value.as_deref(),
            param.value_from.as_ref(),
            &mut values,
        );
        let text =
            text.map_err(|error| error.explanation(&format!("{}[{index}]", sent_hashes::PARAMS)))?;
        Ok(KernelParam {
            key: param.key.clone(),
            value: text.without_line_end(),
        })
    });
    // Each parameter takes its value from `values`, even after an error.
    let params: Vec<Result<KernelParam, Explanation>> = params.collect();
    let params = params.into_iter().collect::<Result<Vec<_>, _>>();
    parts.installation.kernel_params = parts.take(sent_hashes::PARAMS, params).unwrap_or_default();
    if let Some(source) = &spec.post_install_script {
        let script = text_of(source, &mut values);
        let script = script.map_err(|error| error.explanation(sent_hashes::SCRIPT));
        parts.installation.post_install_script = parts.take(sent_hashes::SCRIPT, script);
    }
    if let Some(data) = &spec.user_data {
        let is_base64 = data.encoding == Some(Encoding::Base64);
        let read = text_of(&data.data, &mut values);
        let read = read.map_err(|error| error.explanation("userData.data"));
        parts.installation.user_data = parts.take(sent_hashes::DATA, read).map(|text| UserData {
            // A file with base64 ends with a line break, which is not part of the data.
            data: if is_base64 {
                text.without_line_end()
            } else {
                text
            },
            is_base64,
        });
    }
    parts
}

/// The referenced texts, in the order in which they are read.
fn places(spec: &BareMetalServerSpec) -> impl Iterator<Item = (ValueSource<'_>, usize)> {
    let params = spec.kernel_params();
    let params = params.filter_map(|p| place(p.value.as_deref(), p.value_from.as_ref()));
    let data = spec.user_data.as_ref().map(|data| &data.data);
    let texts = spec.post_install_script.iter().chain(data);
    let texts = texts.filter_map(|text| place(text.value.as_deref(), text.value_from.as_ref()));
    let params = params.map(|place| (place, LONGEST_PARAM));
    params.chain(texts.map(|place| (place, LONGEST)))
}

fn place<'a>(value: Option<&str>, place: Option<&'a ValueLocation>) -> Option<ValueSource<'a>> {
    place.filter(|_| value.is_none()).and_then(ValueSource::at)
}

fn text_of(source: &TextSource, values: &mut Values) -> Result<SecretText, TextError> {
    text(source.value.as_deref(), source.value_from.as_ref(), values)
}

/// The values that were read, in the order of the request.
pub(super) type Values = std::vec::IntoIter<Result<Vec<u8>, ValueError>>;

/// An inline text, or the next of the referenced ones.
fn text(
    value: Option<&str>,
    location: Option<&ValueLocation>,
    values: &mut Values,
) -> Result<SecretText, TextError> {
    if let Some(text) = value {
        return Ok(SecretText::new(text));
    }
    let place = place(value, location).ok_or(TextError::Nothing)?;
    let bytes = values.next().ok_or(TextError::Nothing)??;
    let text = String::from_utf8(bytes).map_err(|_| TextError::NotText {
        place: place.to_string(),
    })?;
    Ok(SecretText::referred_to(text))
}
