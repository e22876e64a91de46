//! Identifiers that are used in paths.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A text that is not a UUID in its usual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a UUID is needed here, such as 01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f")]
pub struct InvalidUuid;

/// Whether a text is a UUID of 36 characters, and so safe as a path segment.
pub fn is_uuid(text: &str) -> bool {
    value(text).is_some()
}

fn value(text: &str) -> Option<uuid::Uuid> {
    // The parser also accepts forms without hyphens, in braces and with a prefix; the length leaves only one.
    let is_usual = text.len() == 36;
    is_usual.then(|| uuid::Uuid::try_parse(text).ok()).flatten()
}

/// Whether two texts are the same identifier: case does not matter.
pub fn is_same_uuid(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

macro_rules! uuid_identity {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        ///
        /// It compares, sorts and hashes by its value: the case of the letters does not matter.
        #[derive(Debug, Clone)]
        pub struct $name {
            value: uuid::Uuid,
            text: Arc<str>,
        }

        impl $name {
            /// Reads a UUID, which is safe as a path segment. Keeps the spelling, since the API may be case-sensitive.
            /// Err: the text has another form.
            pub fn parse(text: &str) -> Result<Self, InvalidUuid> {
                let value = value(text).ok_or(InvalidUuid)?;
                let text = text.into();
                Ok(Self { value, text })
            }

            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.text
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value
            }
        }

        impl Eq for $name {}

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                is_same_uuid(&self.text, other)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.value.cmp(&other.value)
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.value.hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }
    };
}

uuid_identity! {
    /// The identifier of an on-demand server (2.6).
    ServerId
}

uuid_identity! {
    /// The identifier of a command (2.12-1).
    CommandId
}

uuid_identity! {
    /// The identifier of a stored SSH key (2.19-1).
    SshKeyId
}

macro_rules! number_identity {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_identity! {
    /// The number of an API key (4.1-6).
    ApiKeyId
}

number_identity! {
    /// The number of a whitelist entry (2.1-1).
    WhitelistEntryId
}

number_identity! {
    /// The number of a location (2.3-1).
    LocationId
}

number_identity! {
    /// The number of a dedicated host (2.20-1).
    HostId
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashMap};

    #[test]
    fn identifiers_compare_without_case_and_keep_their_spelling() {
        let lower = ServerId::parse("01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f").unwrap();
        let upper = ServerId::parse("01923B7E-0C1F-7D3A-9C52-0A1B2C3D4E5F").unwrap();
        assert_eq!(lower, upper);
        assert_eq!(lower.cmp(&upper), Ordering::Equal);
        assert!(lower == *upper.as_str() && is_same_uuid(lower.as_str(), upper.as_str()));
        assert_ne!(lower.as_str(), upper.as_str());
        assert!(HashMap::from([(lower.clone(), ())]).contains_key(&upper));
        assert!(BTreeMap::from([(upper, ())]).contains_key(&lower));
    }
}
