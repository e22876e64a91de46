//! A kernel parameter of a host's installation (2.17-5).

use std::fmt;

use crate::{
    secret::SecretText,
    server::{KernelParam, KernelParamBody},
};

/// A kernel parameter. Unlike in an order it may be a bare word, such as `quiet`; its value may contain a token to join
/// a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct InstallParam {
    /// The name, for example `siderolink.api`.
    pub key: String,
    /// The value; none for a bare word.
    pub value: Option<SecretText>,
}

impl fmt::Debug for InstallParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstallParam")
            .field("key", &self.key)
            .field("has_value", &self.value.is_some())
            .finish()
    }
}

impl From<KernelParam> for InstallParam {
    fn from(param: KernelParam) -> Self {
        Self {
            key: param.key,
            value: Some(param.value),
        }
    }
}

impl InstallParam {
    /// A parameter without a value.
    pub fn bare(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: None,
        }
    }

    /// As an entry of an array (2.17-5).
    pub(super) fn body(&self) -> KernelParamBody<'_> {
        KernelParamBody {
            key: &self.key,
            value: self.value.as_ref().map(SecretText::expose),
        }
    }

    /// As kernel command-line text (2.17-4).
    pub(super) fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={}", self.key, value.expose()),
            None => self.key.clone(),
        }
    }

    /// The value; empty if it has none.
    pub(super) fn as_given(&self) -> &str {
        self.value.as_ref().map_or("", SecretText::expose)
    }
}
