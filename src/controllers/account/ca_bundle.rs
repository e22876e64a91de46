//! The CA bundle of an account: from its spec, or from the ConfigMap or Secret that the spec refers to. Those are read
//! by name and never listed or watched.

use crate::controllers::{context::Process, values::ObjectValueError};
use api::{
    account::{AccountSpec, CaBundleKind, CaBundleRef},
    account_sizes::{LARGEST_CA_BUNDLE, LONGEST_CA_BUNDLE},
    bounds::stored_size,
};
use flexmetal_core::{account::facts::BundleFact, values::ValueSource};
use hosting::check_ca_bundle;

/// A CA bundle, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bundle {
    /// The fact for decisions.
    pub(super) fact: BundleFact,
    /// The PEM text to trust. `None` if there is no bundle, or if it is not known.
    pub(super) pem: Option<Vec<u8>>,
}

impl Bundle {
    /// The bundle in the spec, if any.
    pub(super) fn in_spec(spec: &AccountSpec) -> Self {
        Self {
            fact: BundleFact::Known,
            pem: spec.ca_bundle.clone().map(String::into_bytes),
        }
    }

    pub(super) fn none(fact: BundleFact) -> Self {
        Self { fact, pem: None }
    }

    /// Whether the object could not be read.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.fact, BundleFact::Unread(_))
    }

    /// Falls back to the PEM text in use if the bundle is not known: a missing or emptied object must not block
    /// releases.
    pub(super) fn or_previous(self, previous: Option<Vec<u8>>) -> Self {
        match self.fact {
            BundleFact::Known => self,
            fact => Self {
                fact,
                pem: previous,
            },
        }
    }

    /// Whether the certificates to trust are known.
    pub(super) fn is_usable(&self) -> bool {
        self.fact == BundleFact::Known || self.pem.is_some()
    }
}

/// Reads the bundle that an account of this namespace refers to.
pub(super) async fn read_referenced_bundle(
    process: &Process,
    namespace: &str,
    of: &CaBundleRef,
) -> Bundle {
    let selector = of.selector();
    let source = match of.kind {
        CaBundleKind::ConfigMap => ValueSource::ConfigMap(&selector),
        CaBundleKind::Secret => ValueSource::Secret(&selector),
    };
    let key = &selector.key;
    match process.value(namespace, source, LONGEST_CA_BUNDLE).await {
        Ok(text) => {
            match usable(&text) {
                Ok(pem) => Bundle {
                    fact: BundleFact::Known,
                    pem: Some(pem.into_bytes()),
                },
                // No message contains text from the object.
                Err(why) => Bundle::none(BundleFact::Unusable(format!("key {key:?} {why}"))),
            }
        }
        Err(error) => Bundle::none(fact(&error)),
    }
}

fn fact(error: &ObjectValueError) -> BundleFact {
    match error {
        ObjectValueError::NoObject { .. } => BundleFact::NoObject,
        ObjectValueError::NoKey { .. } => BundleFact::NoKey,
        ObjectValueError::Unreadable { failure, .. } => {
            let why = failure.explain();
            BundleFact::Unread(match failure.code() {
                Some(403) => format!("{why} (grant the operator the verb get on it)"),
                _ => why,
            })
        }
        ObjectValueError::TooLong { .. } | ObjectValueError::Credentials { .. } => {
            BundleFact::Unusable(error.to_string())
        }
    }
}

/// The certificates in a PEM text, or why they cannot be used.
fn usable(text: &[u8]) -> Result<String, &'static str> {
    let pem = certificates(text);
    if check_ca_bundle(pem.as_bytes()).is_err() {
        return Err("has no readable certificates; put the PEM text of the root there");
    }
    // Status contains the PEM text unchanged.
    if stored_size(&pem) > LARGEST_CA_BUNDLE {
        return Err("has certificates in short lines; put them there in lines of 64 characters");
    }
    Ok(pem)
}

/// The certificates in a PEM text. Anything else, such as a private key, is dropped: status contains this text.
fn certificates(text: &[u8]) -> String {
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let (mut all, mut section) = (String::new(), None);
    for line in String::from_utf8_lossy(text).lines().map(str::trim) {
        if line.starts_with("-----BEGIN ") {
            section = (line == begin).then(String::new);
        }
        let Some(lines) = &mut section else { continue };
        lines.push_str(line);
        lines.push('\n');
        if line == end {
            all.push_str(lines);
            section = None;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_kept_from_pem_text() {
        let certificate = |body: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
        };
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let open = "-----BEGIN CERTIFICATE-----\nb3Blbg==\n";
        let (one, other) = (certificate("b25l"), certificate("b3RoZXI="));
        for text in [
            format!("# one\n{one}{key}{other}"),
            format!("{one}{open}{other}{key}"),
            format!("{one}{other}{open}{key}"),
            format!("{one}{other}").replace('\n', "\r\n"),
        ] {
            let kept = certificates(text.as_bytes());
            assert_eq!(kept, format!("{one}{other}"), "{text}");
        }
        assert_eq!(certificates(b"no certificate"), "");
    }

    #[test]
    fn certificates_in_too_many_short_lines_are_refused() {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let pem = own.cert.pem();
        let lines: Vec<&str> = pem.lines().collect();
        let [begin, body @ .., end] = &lines[..] else {
            panic!("{pem}")
        };
        let body = body.concat();
        // The same certificate repeated, with this many extra line breaks.
        let text = |breaks: usize| {
            let (mut text, mut left) = (String::new(), breaks);
            for _ in 0..9_000 / pem.len() {
                let (short, rest) = body.split_at(left.min(body.len() - 1));
                left -= short.len();
                let short: String = short.chars().flat_map(|letter| [letter, '\n']).collect();
                text.push_str(&format!("{begin}\n{short}{rest}\n{end}\n"));
            }
            text
        };
        let most = (LARGEST_CA_BUNDLE - stored_size(&text(0))) / 2;
        for breaks in [0, most] {
            assert_eq!(
                usable(text(breaks).as_bytes()),
                Ok(text(breaks)),
                "{breaks}"
            );
        }
        let larger = text(most + 1);
        assert!(larger.len() <= LONGEST_CA_BUNDLE, "it is read");
        let why = usable(larger.as_bytes()).unwrap_err();
        assert!(why.contains("lines of 64 characters"), "{why}");
    }

    #[test]
    fn previous_bundle_is_trusted_while_object_is_missing() {
        let previous = || Some(b"former".to_vec());
        let known = Bundle {
            fact: BundleFact::Known,
            pem: Some(b"new".to_vec()),
        };
        assert_eq!(known.clone().or_previous(previous()), known);
        let unusable = BundleFact::Unusable("no certificate".into());
        for fact in [BundleFact::NoObject, BundleFact::NoKey, unusable] {
            let gone = Bundle::none(fact);
            assert!(!gone.is_usable());
            let kept = gone.or_previous(previous());
            assert!(kept.is_usable() && kept.pem == previous());
        }
    }
}
