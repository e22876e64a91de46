//! What a program may count about its calls: which operation, how it ended, how long it took. No identifier is in it.

use std::time::Duration;

use http::Method;

/// The fixed words of the API's paths. Any other segment is an identifier, a tag or a key.
const WORDS: [&str; 30] = [
    "account",
    "apiKey",
    "capacity",
    "commands",
    "commit",
    "flexMetal",
    "health",
    "host",
    "install",
    "installLog",
    "instanceTypes",
    "location",
    "lshw",
    "operatingsystem",
    "os",
    "password",
    "plans",
    "quota",
    "reset",
    "restart",
    "rootPassword",
    "servers",
    "sshKey",
    "start",
    "stop",
    "tag",
    "tags",
    "usage",
    "validate",
    "whitelist",
];

/// Receives each call when it has ended.
pub trait CallObserver: Send + Sync {
    /// A call has ended.
    fn observe(&self, call: &ObservedCall);
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedCall {
    /// Method and path without identifiers, such as `GET flexMetal/servers/{}`.
    pub operation: String,
    /// Status of the answer, if one came.
    pub status: Option<u16>,
    /// `Done`, or the category of the error ([`hosting_types::Error::category`]).
    pub outcome: &'static str,
    /// From the start of the call to the end of its answer.
    pub elapsed: Duration,
}

/// Method and path without identifiers. A variable segment never stands before a fixed one of its own words, so an
/// identifier that equals a word shows nothing but the word.
pub(super) fn operation(method: &Method, path: &[&str]) -> String {
    let segments = path.iter().map(|segment| match WORDS.contains(segment) {
        true => *segment,
        false => "{}",
    });
    let segments: Vec<&str> = segments.collect();
    format!("{method} {}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_show_no_identifier() {
        let uuid = "0b2c4f5e-1111-4222-8333-444455556666";
        for (path, expected) in [
            (
                &["flexMetal", "servers", uuid][..],
                "GET flexMetal/servers/{}",
            ),
            (
                &["flexMetal", "servers", uuid, "tag", "secret-project"],
                "GET flexMetal/servers/{}/tag/{}",
            ),
            (
                &["account", "apiKey", "the-key", "whitelist", "17"],
                "GET account/apiKey/{}/whitelist/{}",
            ),
        ] {
            assert_eq!(operation(&Method::GET, path), expected);
        }
    }

    #[test]
    fn words_are_sorted_and_each_is_there_once() {
        assert!(WORDS.is_sorted_by(|one, next| one < next));
    }
}
