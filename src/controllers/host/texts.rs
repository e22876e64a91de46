//! Reads the texts that an installation sends, right before the request. They are never stored.

use crate::controllers::{context::Process, values::ObjectValueError};
use api::{DedicatedHost, Reason, host::DedicatedHostSpec, references::ValueLocation};
use flexmetal_core::{explanation::Explanation, values::ValueSource};
use hosting_types::{SecretText, host::InstallParam};

/// The most bytes of a referenced script. The provider accepts bodies up to 1 MiB.
const LONGEST: usize = 65_536;
/// The most bytes of a kernel parameter's value, as in the schema.
const LONGEST_PARAM: usize = 2048;

/// The texts of an installation.
pub(super) struct Texts {
    /// The kernel parameters.
    pub(super) params: Vec<InstallParam>,
    /// The post-install script.
    pub(super) script: Option<SecretText>,
}

/// Reads the texts. Err: why the first missing one is not available; never contains the content.
pub(super) async fn read_texts(
    process: &Process,
    object: &DedicatedHost,
) -> Result<Texts, Explanation> {
    let spec = &object.spec;
    if spec.install.is_none() {
        let text = "spec.install was removed; set it to install the host";
        return Err(Explanation::stalled(Reason::InvalidSpec, text));
    }
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let wanted: Vec<_> = places(spec).collect();
    let mut values = process.values(namespace, &wanted).await.into_iter();
    let mut params = Vec::new();
    for (index, param) in spec.kernel_params().enumerate() {
        let field = format!("os.kernelParams[{index}]");
        let value = match (&param.value, &param.value_from) {
            (Some(value), _) => Some(SecretText::new(value.as_str())),
            (None, Some(at)) => Some(text(&field, next(at, &mut values))?.without_line_end()),
            (None, None) => None,
        };
        params.push(InstallParam {
            key: param.key.clone(),
            value,
        });
    }
    let script = match &spec.post_install_script {
        None => None,
        Some(source) => Some(match &source.value {
            Some(value) => SecretText::new(value.as_str()),
            None => {
                let at = source.value_from.as_ref();
                text("postInstallScript", at.and_then(|at| next(at, &mut values)))?
            }
        }),
    };
    Ok(Texts { params, script })
}

/// The referenced texts, in the order in which they are read.
fn places(spec: &DedicatedHostSpec) -> impl Iterator<Item = (ValueSource<'_>, usize)> {
    let params = spec.kernel_params();
    let params = params.filter_map(|p| place(p.value.as_deref(), p.value_from.as_ref()));
    let script = spec.post_install_script.iter();
    let script = script.filter_map(|s| place(s.value.as_deref(), s.value_from.as_ref()));
    let params = params.map(|place| (place, LONGEST_PARAM));
    params.chain(script.map(|place| (place, LONGEST)))
}

fn place<'a>(value: Option<&str>, place: Option<&'a ValueLocation>) -> Option<ValueSource<'a>> {
    place.filter(|_| value.is_none()).and_then(ValueSource::at)
}

/// The next value, if a value was requested for this location.
fn next<T>(at: &ValueLocation, values: &mut impl Iterator<Item = T>) -> Option<T> {
    ValueSource::at(at).and_then(|_| values.next())
}

fn text(
    field: &str,
    value: Option<Result<Vec<u8>, ObjectValueError>>,
) -> Result<SecretText, Explanation> {
    let invalid = |why: String| {
        let text = format!("spec.{field}: {why}");
        Explanation::stalled(Reason::InvalidSpec, text)
    };
    match value {
        Some(Ok(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(SecretText::referred_to(text)),
            Err(_) => Err(invalid(
                "the value it refers to is not UTF-8 text; put text there".to_owned(),
            )),
        },
        Some(Err(error)) if error.is_invalid() => Err(invalid(error.to_string())),
        Some(Err(error)) => {
            let text = format!("spec.{field}: {error}");
            Err(Explanation::missing(Reason::ReferenceNotFound, text))
        }
        None => Err(invalid("set value or valueFrom".to_owned())),
    }
}
