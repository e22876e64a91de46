//! The CA bundle of an account: from its spec, or from the ConfigMap or Secret that the spec names, which is read by name
//! and never listed or watched.

use crate::controllers::{
    context::Process,
    values::{ValueError, ValueSource},
};
use api::account::{AccountSpec, CaBundleKind, CaBundleRef};
use flexmetal_core::account::facts::BundleFact;

/// Most bytes of a bundle, as of the one in the spec: the roots of the system are trusted anyway.
const MOST: usize = 32_768;

/// A CA bundle, as far as it is known.
#[derive(Clone)]
pub(super) struct Bundle {
    /// What a decision may know.
    pub(super) fact: BundleFact,
    /// Its PEM text; None: there is none, or it is not known.
    pub(super) pem: Option<Vec<u8>>,
}

impl Bundle {
    /// The one in the spec, if any.
    pub(super) fn in_spec(spec: &AccountSpec) -> Self {
        Self {
            fact: BundleFact::Known,
            pem: spec.ca_bundle.clone().map(String::into_bytes),
        }
    }

    pub(super) fn none(fact: BundleFact) -> Self {
        Self { fact, pem: None }
    }
}

/// Reads the bundle that an account of this namespace names.
pub(super) async fn read(process: &Process, namespace: &str, of: &CaBundleRef) -> Bundle {
    let selector = of.selector();
    let source = match of.kind {
        CaBundleKind::ConfigMap => ValueSource::ConfigMap(&selector),
        CaBundleKind::Secret => ValueSource::Secret(&selector),
    };
    let read = process.values(namespace, &[(source, MOST)]).await;
    match read.into_iter().next() {
        Some(Ok(pem)) => Bundle {
            fact: BundleFact::Known,
            pem: Some(pem),
        },
        Some(Err(error)) => Bundle::none(fact(&error)),
        None => Bundle::none(BundleFact::NoObject),
    }
}

fn fact(error: &ValueError) -> BundleFact {
    match error {
        ValueError::NoObject { .. } => BundleFact::NoObject,
        ValueError::NoEntry { .. } => BundleFact::NoKey,
        ValueError::Unreadable { failure, .. } => {
            let why = failure.explain();
            BundleFact::Unread(match failure.code() {
                Some(403) => format!("{why} (grant the operator the verb get on it)"),
                _ => why,
            })
        }
        ValueError::TooLong { .. } => BundleFact::Unusable(error.to_string()),
    }
}
