//! Identifiers that are used in paths.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A text that is not a UUID in its usual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a UUID is needed here, such as 01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f")]
pub struct InvalidUuid;

/// Whether a text is a UUID of 36 characters, and so safe as a segment of a
/// path.
pub fn is_uuid(text: &str) -> bool {
    // The parser also accepts the forms without hyphens, in braces and with a
    // prefix; the length leaves only one.
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

macro_rules! uuid_identity {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads a UUID. The spelling is kept, because the API may be
            /// case-sensitive; a valid one is safe as a segment of a path.
            ///
            /// # Errors
            ///
            /// [`InvalidUuid`] if the text has another form.
            pub fn parse(text: &str) -> Result<Self, InvalidUuid> {
                if is_uuid(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidUuid)
                }
            }

            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether both name the same thing: case does not matter.
            pub fn is_same_as(&self, other: &Self) -> bool {
                self.0.eq_ignore_ascii_case(&other.0)
            }
        }

        /// Compares, sorts and hashes as its text does.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
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
