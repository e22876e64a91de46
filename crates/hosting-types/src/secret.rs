//! The key of an account, and other texts that nobody may see.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// The longest key that is accepted, in bytes. A longer value is a file that
/// was put into the Secret by mistake.
const LONGEST: usize = 4096;

/// An API key (section 5 of the API: the value of the header `PRIVATE-TOKEN`).
///
/// It has no `Debug`, `Display` or `Serialize` on purpose: the compiler then
/// keeps it out of logs, events and status, and clippy forbids [`ApiKey::expose`] but where a request is made. What it holds is wiped on drop; the
/// header of a request in flight is a copy.
#[derive(Clone)]
pub struct ApiKey(SecretString);

/// Why bytes are not a usable API key. No variant carries any of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyError {
    /// Nothing, or nothing but one line end.
    #[error("the API key is empty; put the key of the account into the Secret")]
    Empty,
    /// A line break inside, or more than one at the end.
    #[error(
        "the API key has a line break; store the key as one line, for example with `printf %s`"
    )]
    LineBreak,
    /// A blank at the start, inside or at the end.
    #[error("the API key has a blank; store the key alone, without quotes, names or blanks")]
    Blank,
    /// A control character.
    #[error("the API key has a control character; copy the key again as plain text")]
    Control,
    /// A byte outside ASCII.
    #[error("the API key has a character outside ASCII; copy the key again as plain text")]
    NotAscii,
    /// More than 4096 bytes.
    #[error("the API key is longer than {LONGEST} bytes; store only the key, not a file around it")]
    TooLong,
}

impl ApiKey {
    /// Reads a key from the bytes of a Secret.
    ///
    /// One line end (`\n` or `\r\n`) is removed, because editors and `echo` add
    /// it. Nothing else is repaired: the API would refuse a silently changed key
    /// without a hint at the cause.
    ///
    /// # Errors
    ///
    /// [`KeyError`] names the defect and the remedy.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiKeyError> {
        let key = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let key = key.strip_suffix(b"\r").unwrap_or(key);
        if key.is_empty() {
            return Err(ApiKeyError::Empty);
        }
        if key.len() > LONGEST {
            return Err(ApiKeyError::TooLong);
        }
        let defect = key.iter().find_map(|byte| match byte {
            b'\n' | b'\r' => Some(ApiKeyError::LineBreak),
            b' ' => Some(ApiKeyError::Blank),
            byte if byte.is_ascii_control() => Some(ApiKeyError::Control),
            byte if !byte.is_ascii() => Some(ApiKeyError::NotAscii),
            _ => None,
        });
        if let Some(defect) = defect {
            return Err(defect);
        }
        match std::str::from_utf8(key) {
            Ok(text) => Ok(Self(SecretString::from(text))),
            Err(_) => Err(ApiKeyError::NotAscii),
        }
    }

    /// Twelve hex digits that tell keys apart and are safe to show: a prefix
    /// of a hash, far too short to find the key from.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        // With our own prefix, so that the value is in no table of plain hashes.
        hash.update(b"flexmetal-operator/api-key\0");
        hash.update(self.0.expose_secret().as_bytes());
        hash.finalize()[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Whether both are the same key.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }

    /// The key itself, for the one header that it goes into and for masking what echoes it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// What is shown in place of the provider's words where any of them may be a secret.
pub const HIDDEN_WORDS: &str =
    "hidden, because a text that was sent came from a Secret or ConfigMap";

/// A text that nobody may see: a password, a script, the value of a kernel
/// parameter, user data.
///
/// Like [`ApiKey`] it has no `Debug`, `Display` or `Serialize`, and is wiped on
/// drop; the body of a request in flight is a copy.
#[derive(Clone)]
pub struct SecretText {
    text: SecretString,
    is_referred_to: bool,
}

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: SecretString::from(text.into()),
            is_referred_to: false,
        }
    }

    /// Wraps a text of a Secret or ConfigMap that the user only refers to, so that a word of it may be a secret. Nothing
    /// of the provider's own words about a request with it is shown.
    pub fn referred_to(text: impl Into<String>) -> Self {
        Self {
            is_referred_to: true,
            ..Self::new(text)
        }
    }

    /// The text, for the only place that may use it.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// Whether the user only refers to it.
    pub fn is_referred_to(&self) -> bool {
        self.is_referred_to
    }

    /// Another text in its place, as much of a secret as it was.
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        Self {
            text: SecretString::from(text.into()),
            ..self.clone()
        }
    }

    /// Without the line end that editors and `echo` add.
    #[must_use]
    pub fn without_line_end(self) -> Self {
        let text = self.expose();
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        Self {
            text: SecretString::from(text),
            ..self
        }
    }

    /// Whether there is nothing in it but blanks.
    pub fn is_blank(&self) -> bool {
        self.expose().trim().is_empty()
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for SecretText {}
