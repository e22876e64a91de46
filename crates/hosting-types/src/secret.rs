//! The key of an account, and other secret texts.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// The longest accepted key, in bytes. A longer value is a file that was put into the Secret by mistake.
const LONGEST: usize = 4096;

/// An API key (section 5: the header `PRIVATE-TOKEN`), wiped on drop. It has no `Debug`, `Display` or `Serialize`, so
/// it cannot reach logs, events or status; clippy forbids [`ApiKey::expose`] except in requests.
#[derive(Clone)]
pub struct ApiKey(SecretString);

/// Why bytes are not a usable API key. No variant carries any of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyError {
    /// Empty, or only a line end.
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
    /// Reads a key from the bytes of a Secret. Removes one line end (LF or CRLF), which editors and `echo` add, and
    /// repairs nothing else. Err: the defect and the remedy.
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

    /// Twelve hex digits that identify a key and are safe to show: a prefix of a hash, too short to recover the key.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        // With our own prefix, so no table of plain hashes has the value.
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

    /// The key itself, for the header and for masking echoes.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// What is shown instead of the provider's words if any of them may be a secret.
pub const HIDDEN_WORDS: &str =
    "hidden, because a text that was sent came from a Secret or ConfigMap";

/// A secret text: a password, a script, the value of a kernel parameter, user data. Like [`ApiKey`], it has no `Debug`,
/// `Display` or `Serialize`, and is wiped on drop.
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

    /// Wraps a text of a Secret or ConfigMap. Any word of it may be a secret, so the provider's words about a request
    /// with it are not shown.
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

    /// Whether the text comes from a Secret or ConfigMap.
    pub fn is_referred_to(&self) -> bool {
        self.is_referred_to
    }

    /// The same kind of secret with another text.
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

    /// Whether it is empty or only blanks.
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
