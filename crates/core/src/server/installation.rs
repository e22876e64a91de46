//! What a server is installed with, from the sources in spec and the values that they name.

mod ssh_keys;

use super::{decide::sent_hashes, facts::Installation};
use crate::{
    explanation::Explanation,
    stored_keys::KeyLookup,
    values::{ValueError, ValueSource},
};
use api::{
    BareMetalServer, Reason,
    installation::{Encoding, TextSource},
    references::ValueLocation,
    server::BareMetalServerSpec,
};
use hosting_types::{
    SecretText,
    server::{KernelParam, UserData},
};
use std::error::Error;

/// The most bytes of one referenced text. The provider accepts bodies up to 1 MiB, and many may be in flight at once.
const LONGEST: usize = 65_536;
/// The most bytes of a kernel parameter's value, as in the schema.
const LONGEST_PARAM: usize = 2048;

/// Why a text is not available. Never contains the content.
#[derive(Debug, thiserror::Error)]
enum TextError<E: Error + 'static> {
    #[error(transparent)]
    Value(#[from] ValueError<E>),
    #[error("{place} is not UTF-8 text. Put text there, base64 for other data")]
    NotText { place: String },
    #[error("set value or valueFrom")]
    Nothing,
}

impl<E: Error + 'static> TextError<E> {
    /// `path`: below `spec`.
    fn missing(&self, field: &'static str, path: &str) -> MissingField {
        let message = format!("spec.{path}: {self}");
        MissingField {
            field,
            explanation: match self {
                Self::Value(error) if !error.is_invalid() => {
                    Explanation::missing(Reason::ReferenceNotFound, message)
                }
                _ => Explanation::stalled(Reason::InvalidSpec, message),
            },
        }
    }
}

/// A field that could not be read.
#[derive(Debug)]
pub struct MissingField {
    /// Its name below `spec`.
    pub field: &'static str,
    /// Why.
    pub explanation: Explanation,
}

/// What was read, and which fields could not be read.
#[derive(Default)]
pub struct InstallationParts {
    /// What was read; a field that could not be read is empty.
    pub installation: Installation,
    /// The fields that could not be read.
    pub missing: Vec<MissingField>,
}

impl InstallationParts {
    /// Reads all of it. `named`: the named keys, in their order. `values`: those of [`list_sources`], in its order.
    pub fn from_values<E: Error + 'static>(
        object: &BareMetalServer,
        named: Vec<KeyLookup>,
        values: impl IntoIterator<Item = Result<Vec<u8>, ValueError<E>>>,
    ) -> Self {
        let spec = &object.spec;
        let values = &mut values.into_iter();
        let mut parts = Self::default();
        let keys = ssh_keys::read_keys(object, named, values);
        parts.installation.ssh_keys = parts.take(keys).unwrap_or_default();
        let params = spec.kernel_params().enumerate();
        let params = params.map(|(index, param)| {
            let text = read_text(param.value.as_deref(), param.value_from.as_ref(), values);
            let path = || format!("{}[{index}]", sent_hashes::PARAMS);
            let text = text.map_err(|error| error.missing(sent_hashes::PARAMS, &path()))?;
            Ok(KernelParam {
                key: param.key.clone(),
                value: text.without_line_end(),
            })
        });
        // Each parameter takes its value from `values`, even after an error.
        let params: Vec<Result<KernelParam, MissingField>> = params.collect();
        let params = params.into_iter().collect::<Result<Vec<_>, _>>();
        parts.installation.kernel_params = parts.take(params).unwrap_or_default();
        if let Some(source) = &spec.post_install_script {
            let field = sent_hashes::SCRIPT;
            let script = read_source(source, values).map_err(|error| error.missing(field, field));
            parts.installation.post_install_script = parts.take(script);
        }
        if let Some(data) = &spec.user_data {
            let is_base64 = data.encoding == Some(Encoding::Base64);
            let read = read_source(&data.data, values);
            let read = read.map_err(|error| error.missing(sent_hashes::DATA, "userData.data"));
            parts.installation.user_data = parts.take(read).map(|text| UserData {
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

    /// The installation, or why its first missing part is not available.
    ///
    /// # Errors
    /// Why its first missing part is not available.
    pub fn whole(mut self) -> Result<Installation, Explanation> {
        match self.missing.is_empty() {
            true => Ok(self.installation),
            false => Err(self.missing.swap_remove(0).explanation),
        }
    }

    fn take<T>(&mut self, read: Result<T, MissingField>) -> Option<T> {
        read.map_err(|missing| self.missing.push(missing)).ok()
    }
}

/// The values that the spec takes from Secrets and ConfigMaps, each with the most bytes that it may have.
pub fn list_sources(spec: &BareMetalServerSpec) -> impl Iterator<Item = (ValueSource<'_>, usize)> {
    let params = spec.kernel_params();
    let params = params.filter_map(|p| find_source(p.value.as_deref(), p.value_from.as_ref()));
    let data = spec.user_data.as_ref().map(|data| &data.data);
    let texts = spec.post_install_script.iter().chain(data);
    let texts =
        texts.filter_map(|text| find_source(text.value.as_deref(), text.value_from.as_ref()));
    let params = params.map(|source| (source, LONGEST_PARAM));
    ssh_keys::list_sources(spec)
        .chain(params)
        .chain(texts.map(|source| (source, LONGEST)))
}

fn find_source<'a>(
    value: Option<&str>,
    location: Option<&'a ValueLocation>,
) -> Option<ValueSource<'a>> {
    location
        .filter(|_| value.is_none())
        .and_then(ValueSource::at)
}

fn read_source<E: Error + 'static>(
    source: &TextSource,
    values: &mut impl Iterator<Item = Result<Vec<u8>, ValueError<E>>>,
) -> Result<SecretText, TextError<E>> {
    read_text(source.value.as_deref(), source.value_from.as_ref(), values)
}

/// An inline text, or the next of the referenced ones.
fn read_text<E: Error + 'static>(
    value: Option<&str>,
    location: Option<&ValueLocation>,
    values: &mut impl Iterator<Item = Result<Vec<u8>, ValueError<E>>>,
) -> Result<SecretText, TextError<E>> {
    if let Some(text) = value {
        return Ok(SecretText::new(text));
    }
    let source = find_source(value, location).ok_or(TextError::Nothing)?;
    let bytes = values.next().ok_or(TextError::Nothing)??;
    let text = String::from_utf8(bytes).map_err(|_| TextError::NotText {
        place: source.to_string(),
    })?;
    Ok(SecretText::referred_to(text))
}
