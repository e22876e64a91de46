//! Where the API key of an account may be sent, and which URLs this operator may call. Pure.

use crate::controllers::allowed_endpoints::AllowedEndpoints;
use flexmetal_core::account::destination::choose_destination;
use hosting_types::{BaseUrl, BaseUrlError};

/// The base URL that the key Secret declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Not known: the Secret was not read, does not exist, or has another type.
    Unknown,
    /// The Secret has no base URL.
    Nothing,
    /// The base URL is invalid. Its text is dropped: it may have up to 1 MiB.
    Unusable(BaseUrlError),
    /// The base URL is valid.
    To(BaseUrl),
}

/// Where the key may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Only to this URL.
    To(BaseUrl),
    /// Nowhere, with the reason and the remedy.
    Nowhere(String),
    /// The Secret's base URL is not known. The spec allows this URL, or any if it has none.
    Unknown(Option<BaseUrl>),
}

impl Destination {
    /// Decides from spec and Secret. `secret` is the Secret's name for messages.
    pub fn from_spec_and_secret(
        spec: Option<&str>,
        declared: &Declared,
        secret: &str,
        endpoints: &AllowedEndpoints,
    ) -> Self {
        let spec = match spec.map(|text| endpoints.judge(text)).transpose() {
            Ok(spec) => spec,
            Err(why) => return Self::Nowhere(format!("spec.{why}")),
        };
        let declared = match declared {
            Declared::Unknown => return Self::Unknown(spec),
            Declared::Nothing => None,
            Declared::Unusable(why) => return Self::Nowhere(format!("{secret}: {why}")),
            Declared::To(base_url) => match endpoints.permit(base_url.clone()) {
                Ok(base_url) => Some(base_url),
                Err(why) => return Self::Nowhere(format!("{secret}: {why}")),
            },
        };
        choose_destination(spec, declared, |_| endpoints.is_listed(), secret)
            .map_or_else(Self::Nowhere, Self::To)
    }

    /// Whether a connection to this URL may stay in use.
    pub fn permits(&self, base_url: &str) -> bool {
        match self {
            Self::To(only) => only.as_str() == base_url,
            Self::Nowhere(_) => false,
            // The Secret cannot be read; the last good key stays in use for releases.
            Self::Unknown(spec) => spec.as_ref().is_none_or(|only| only.as_str() == base_url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "https://one.example.com";
    const OTHER: &str = "https://other.example.com";
    const LOCAL: &str = "http://10.0.0.1:8480";

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).unwrap()
    }

    fn to(text: &str) -> Declared {
        match BaseUrl::parse_bytes(text.as_bytes()) {
            Ok(base_url) => Declared::To(base_url),
            Err(why) => Declared::Unusable(why),
        }
    }

    fn judge_destination(spec: Option<&str>, declared: &Declared, allowed: &[&str]) -> Destination {
        let endpoints = AllowedEndpoints::new(allowed.iter().map(|text| url(text)).collect(), None);
        Destination::from_spec_and_secret(spec, declared, "Secret n/api", &endpoints)
    }

    #[test]
    fn key_is_sent_only_where_its_secret_says() {
        let there = Destination::To(url(ONE));
        assert_eq!(judge_destination(None, &to(ONE), &[]), there);
        assert_eq!(judge_destination(Some(ONE), &to(ONE), &[]), there);
        // Another spelling of the same URL, with a trailing newline.
        assert_eq!(
            judge_destination(
                Some("HTTPS://one.example.com:443/"),
                &to("https://one.example.com/\n"),
                &[]
            ),
            there
        );
    }

    /// Each case: base URLs of spec and Secret, the allowed URLs, and parts of the message.
    #[test]
    fn everything_else_is_nowhere_and_says_why() {
        type DestinationCase<'a> = (Option<&'a str>, Declared, &'a [&'a str], &'a [&'a str]);
        let local = "--allowed-base-url";
        let cases: &[DestinationCase] = &[
            (
                Some(OTHER),
                to(ONE),
                &[],
                &["spec.baseURL", "Secret n/api", "Make them equal"],
            ),
            (
                Some(OTHER),
                to(ONE),
                &[ONE, OTHER],
                &["spec.baseURL", "Make them equal"],
            ),
            (
                Some(ONE),
                Declared::Nothing,
                &[],
                &["Secret n/api", "\"baseURL\"", "Add"],
            ),
            (
                None,
                Declared::Nothing,
                &[],
                &["Secret n/api", "\"baseURL\"", "Add"],
            ),
            (
                None,
                Declared::Nothing,
                &[ONE],
                &["Secret n/api", "\"baseURL\"", "Add"],
            ),
            (
                None,
                to(""),
                &[],
                &["Secret n/api: baseURL", "absolute URL"],
            ),
            (
                None,
                to(&format!("{ONE}/{}", "x".repeat(1024))),
                &[],
                &["Secret n/api: baseURL", "more than 1024 bytes as stored"],
            ),
            (
                None,
                to("https://me:pw@one.example.com"),
                &[],
                &["user information"],
            ),
            (Some("ftp://x"), to(ONE), &[], &["spec.baseURL", "scheme"]),
            (
                Some("ftp://x"),
                Declared::Unknown,
                &[],
                &["spec.baseURL", "scheme"],
            ),
            (None, to(LOCAL), &[], &["plain http", local]),
            (None, to("https://10.0.0.1"), &[], &["not public", local]),
            (
                Some("https://127.1"),
                Declared::Unknown,
                &[],
                &["spec.baseURL", "not public", local],
            ),
            // With a list, only listed URLs, public or not.
            (
                None,
                to(ONE),
                &[OTHER],
                &["Secret n/api: baseURL", "may call only", ONE, OTHER, local],
            ),
            (
                Some(ONE),
                Declared::Nothing,
                &[OTHER],
                &["spec.baseURL", "may call only", local],
            ),
            (
                Some(ONE),
                to(ONE),
                &[&format!("{ONE}/x")],
                &["may call only"],
            ),
        ];
        for (spec, declared, allowed, words) in cases {
            match judge_destination(*spec, declared, allowed) {
                Destination::Nowhere(why) => {
                    for word in *words {
                        assert!(why.contains(word), "{word:?} is not in {why:?}");
                    }
                    assert!(!why.contains("pw"), "{why}");
                }
                other => panic!("{spec:?} {declared:?} {allowed:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn allowed_private_url_works_from_secret_or_spec() {
        let there = Destination::To(url(LOCAL));
        assert_eq!(judge_destination(None, &to(LOCAL), &[ONE, LOCAL]), there);
        assert_eq!(
            judge_destination(Some(LOCAL), &Declared::Nothing, &[LOCAL]),
            there
        );
    }

    #[test]
    fn lost_secret_keeps_connection_if_spec_agrees() {
        let unknown = |spec| judge_destination(spec, &Declared::Unknown, &[]);
        assert!(unknown(None).permits(ONE));
        assert!(unknown(Some(ONE)).permits(ONE));
        assert!(!unknown(Some(OTHER)).permits(ONE));
        assert!(judge_destination(None, &to(ONE), &[]).permits(ONE));
        for (spec, declared) in [
            (None, to(OTHER)),
            (Some(OTHER), to(ONE)),
            (Some(ONE), to(OTHER)),
            (None, Declared::Nothing),
            (Some(ONE), Declared::Nothing),
        ] {
            assert!(
                !judge_destination(spec, &declared, &[]).permits(ONE),
                "{spec:?} {declared:?}"
            );
        }
    }
}
