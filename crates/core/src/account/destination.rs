//! Where the API key of an account goes: where its Secret says. With a URL in the spec only, a user without access to
//! Secrets could send any key anywhere.

use api::names::{API_KEY_SECRET, BASE_URL_DATA_KEY};
use hosting_types::BaseUrl;

/// The URL that gets the key, or why none does. `is_listed`: whether an administrator allows the URL of the spec
/// without one in the Secret. `secret`: the Secret in words.
///
/// # Errors
/// The Secret names no URL, or another one than the spec.
pub fn choose_destination(
    spec: Option<BaseUrl>,
    declared: Option<BaseUrl>,
    is_listed: impl FnOnce(&BaseUrl) -> bool,
    secret: &str,
) -> Result<BaseUrl, String> {
    match (spec, declared) {
        (Some(spec), Some(declared)) if spec != declared => Err(format!(
            "spec.baseURL is another URL than {BASE_URL_DATA_KEY:?} of {secret}; the Secret decides where its key may be sent. Make them equal, or remove spec.baseURL"
        )),
        (_, Some(declared)) => Ok(declared),
        (Some(spec), None) if is_listed(&spec) => Ok(spec),
        (_, None) => Err(format!(
            "{secret} has no key {BASE_URL_DATA_KEY:?}; its API key is not sent anywhere. Add the base URL of the hosting API, such as https://HOST, to this Secret of type {API_KEY_SECRET}"
        )),
    }
}
