//! Parses, compares and prints public keys. No error contains any of the text: it may be a private key, or come from a
//! Secret.

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The longest text that the hosting API takes, in bytes.
pub const LONGEST: usize = 16384;

/// Keys that other clients stored may lack the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey {
    algorithm: String,
    blob: Vec<u8>,
    comment: String,
}

/// Why a text is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// A private key.
    #[error(
        "is a private key and is sent nowhere; put the public key there, from the .pub file, and make \
         a new pair if others could read this"
    )]
    Private,
    /// Nothing but blanks.
    #[error("is empty; put one public key there")]
    Empty,
    /// Another encoding than UTF-8, or no text.
    #[error("is not UTF-8 text; put one public key there, saved as UTF-8")]
    NotText,
    /// Several lines, or characters that no line of a key has.
    #[error("is not one line of text; put one public key there, without line breaks")]
    NotOneLine,
    /// More than the API takes.
    #[error("is longer than 16384 bytes; put one public key there")]
    TooLong,
    /// A line of `authorized_keys` with options before the key.
    #[error("has options before the key; put only algorithm, key and comment there")]
    Options,
    /// A certificate.
    #[error("is a certificate; put the public key there that it was made for")]
    Certificate,
    /// A DSA key, which servers no longer accept.
    #[error(
        "is a DSA key, which servers no longer accept; make a new pair and put its public key there"
    )]
    Dsa,
    /// Only the start of a key.
    #[error("is cut short; copy the whole line from the .pub file")]
    CutShort,
    /// The first word names another algorithm than the key.
    #[error("names another algorithm than the key has; copy the whole line from the .pub file")]
    OtherAlgorithm,
    /// Anything else.
    #[error(
        "is no public key in OpenSSH form; put algorithm, key and comment there, as ssh-keygen writes them"
    )]
    Unreadable,
}

impl PublicKey {
    /// Parses what a user gives: one line in OpenSSH form, with or without a newline at its end. The [`PublicKeyError`]
    /// says why it is no key.
    pub fn parse(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        let text = std::str::from_utf8(bytes).map_err(|_| PublicKeyError::NotText)?;
        // This goes first: a user must know of it whatever else is wrong.
        if text.contains("PRIVATE KEY") {
            return Err(PublicKeyError::Private);
        }
        if bytes.len() > LONGEST {
            return Err(PublicKeyError::TooLong);
        }
        let line = text.trim();
        if line.is_empty() {
            return Err(PublicKeyError::Empty);
        }
        // Some files have tabs between the words.
        if line.chars().any(|c| c.is_control() && c != '\t') {
            return Err(PublicKeyError::NotOneLine);
        }
        Self::of_line(line)
    }

    fn of_line(line: &str) -> Result<Self, PublicKeyError> {
        let mut words = line.split_ascii_whitespace();
        let algorithm = words.next().ok_or(PublicKeyError::Empty)?;
        if !is_algorithm(algorithm) {
            let is_later = |word: &str| is_algorithm(word.rsplit('"').next().unwrap_or(word));
            return Err(match line.split_ascii_whitespace().any(is_later) {
                true => PublicKeyError::Options,
                false => PublicKeyError::Unreadable,
            });
        }
        if algorithm.contains("-cert-v0") {
            return Err(PublicKeyError::Certificate);
        }
        if algorithm == "ssh-dss" {
            return Err(PublicKeyError::Dsa);
        }
        let blob = words.next().ok_or(PublicKeyError::CutShort)?;
        let blob = LENIENT.decode(blob).map_err(|error| match error {
            DecodeError::InvalidByte(..) => PublicKeyError::Unreadable,
            _ => PublicKeyError::CutShort,
        })?;
        check_blob(algorithm, &blob)?;
        Ok(Self {
            algorithm: algorithm.to_owned(),
            blob,
            comment: words.collect::<Vec<_>>().join(" "),
        })
    }

    /// The key as it is sent: one line, in the form that the API prefers.
    pub fn line(&self) -> String {
        let blob = general_purpose::STANDARD.encode(&self.blob);
        let line = format!("{} {blob} {}", self.algorithm, self.comment);
        line.trim_end().to_owned()
    }

    /// The fingerprint. Two texts with the same fingerprint are the same key.
    pub fn fingerprint(&self) -> Fingerprint {
        let digest = Sha256::digest(&self.blob);
        Fingerprint(format!(
            "SHA256:{}",
            general_purpose::STANDARD_NO_PAD.encode(digest)
        ))
    }
}

/// Fingerprint of a public key, as `ssh-keygen -l` shows it. It covers algorithm and key, not the comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_algorithm(word: &str) -> bool {
    let starts = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'@' | b'.' | b'-');
    starts.iter().any(|start| word.starts_with(start)) && word.bytes().all(is_inner)
}

/// Checks that a blob is a whole public key of this algorithm. Nothing may follow its fields: a private key starts with
/// the same fields.
fn check_blob(algorithm: &str, blob: &[u8]) -> Result<(), PublicKeyError> {
    let (name, mut rest) = field(blob).ok_or(PublicKeyError::CutShort)?;
    // The blob names its algorithm, too.
    if name != algorithm.as_bytes() {
        return Err(match std::str::from_utf8(name).is_ok_and(is_algorithm) {
            true => PublicKeyError::OtherAlgorithm,
            false => PublicKeyError::Unreadable,
        });
    }
    let mut next = || {
        let (found, behind) = field(rest).ok_or(PublicKeyError::CutShort)?;
        rest = behind;
        Ok::<_, PublicKeyError>(found)
    };
    let is_sound = match algorithm {
        "ssh-ed25519" => next()?.len() == 32,
        "ssh-ed448" => next()?.len() == 57,
        // Exponent, then modulus, which is the longer one.
        "ssh-rsa" => {
            let (exponent, modulus) = (next()?, next()?);
            !exponent.is_empty() && exponent.len() < modulus.len()
        }
        "sk-ssh-ed25519@openssh.com" => next()?.len() == 32 && !next()?.is_empty(),
        "sk-ecdsa-sha2-nistp256@openssh.com" => {
            next()? == b"nistp256" && is_point(next()?, 65) && !next()?.is_empty()
        }
        _ => {
            let curve = algorithm.strip_prefix("ecdsa-sha2-");
            let length = match curve {
                Some("nistp256") => 65,
                Some("nistp384") => 97,
                Some("nistp521") => 133,
                _ => return Err(PublicKeyError::Unreadable),
            };
            Some(next()?) == curve.map(str::as_bytes) && is_point(next()?, length)
        }
    };
    match is_sound && rest.is_empty() {
        true => Ok(()),
        false => Err(PublicKeyError::Unreadable),
    }
}

/// The first field of a blob, which is four bytes of length and the content, and the rest of the blob.
fn field(blob: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Whether this is an uncompressed point of a curve.
fn is_point(bytes: &[u8], length: usize) -> bool {
    bytes.len() == length && bytes.first() == Some(&4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";

    fn parse_key(text: &str) -> Result<PublicKey, PublicKeyError> {
        PublicKey::parse(text.as_bytes())
    }

    #[test]
    fn comment_does_not_change_the_key() {
        let plain = parse_key(ED).unwrap();
        for text in [
            format!("{ED} me@here"),
            format!("{ED}\n"),
            format!("  {ED}  two words \r\n"),
            ED.replace(' ', "\t"),
        ] {
            let key = parse_key(&text).unwrap();
            assert_eq!(key.fingerprint(), plain.fingerprint(), "{text:?}");
        }
        assert_eq!(
            parse_key(&format!("{ED} a  b")).unwrap().line(),
            format!("{ED} a b")
        );
    }

    #[test]
    fn a_fingerprint_is_that_of_ssh_keygen() {
        // ssh-keygen -lf of this line.
        let shown = parse_key(ED).unwrap().fingerprint();
        assert_eq!(shown.as_str(), FINGERPRINT);
    }

    const FINGERPRINT: &str = "SHA256:Bkm/+ze6rRTXIEqF01UTcVhHS4Z2Y8zI5EgdWXcXAvo";

    #[test]
    fn invalid_key_error_never_shows_its_text() {
        let swapped = ED.replace("ssh-ed25519", "ssh-rsa");
        let certificate = format!("ssh-ed25519-cert-v01@openssh.com {}", &ED[12..]);
        let options = format!("command=\"rm\",no-pty {ED}");
        let long = format!("{ED} {}", "x".repeat(LONGEST));
        let two = format!("{ED}\n{ED}");
        let dsa = ED.replace("ssh-ed25519", "ssh-dss");
        let block = format!(
            "---- BEGIN SSH2 PUBLIC KEY ----\n{}\n---- END SSH2 PUBLIC KEY ----\n",
            &ED[12..]
        );
        let cases = [
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nhush\n",
                PublicKeyError::Private,
            ),
            ("-----BEGIN RSA PRIVATE KEY-----", PublicKeyError::Private),
            (" \n", PublicKeyError::Empty),
            (&two, PublicKeyError::NotOneLine),
            (&options, PublicKeyError::Options),
            (&certificate, PublicKeyError::Certificate),
            (&long, PublicKeyError::TooLong),
            (&block, PublicKeyError::NotOneLine),
            (&dsa, PublicKeyError::Dsa),
            (&swapped, PublicKeyError::OtherAlgorithm),
            ("hush", PublicKeyError::Unreadable),
            ("ssh-ed25519", PublicKeyError::CutShort),
            ("ssh-ed25519 AAAA*", PublicKeyError::Unreadable),
        ];
        for (text, expected) in cases {
            let found = parse_key(text).unwrap_err();
            assert_eq!(found, expected, "{text:?}");
            assert!(!format!("{found} {found:?}").contains("hush"));
        }
        assert_eq!(
            PublicKey::parse(&[0xff, 0xfe]),
            Err(PublicKeyError::NotText)
        );
    }

    #[test]
    fn truncated_key_is_reported_as_cut_short() {
        for end in "ssh-ed25519".len()..ED.len() {
            assert_eq!(
                parse_key(&ED[..end]),
                Err(PublicKeyError::CutShort),
                "{end}"
            );
        }
    }

    /// A blob of these fields.
    fn blob_of(fields: &[&[u8]]) -> Vec<u8> {
        let mut blob = Vec::new();
        for field in fields {
            blob.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            blob.extend(*field);
        }
        blob
    }

    fn line_of(name: &str, blob: &[u8]) -> String {
        format!("{name} {}", general_purpose::STANDARD.encode(blob))
    }

    fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), length)
    }

    /// The fields of a valid key: the name of its algorithm, then the values.
    fn fields() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let name = |name: &str| name.as_bytes().to_vec();
        let point = |length| {
            bytes(length).prop_map(|mut point| {
                point[0] = 4;
                point
            })
        };
        prop_oneof![
            bytes(32).prop_map(move |key| vec![name("ssh-ed25519"), key]),
            (bytes(3), bytes(257)).prop_map(move |(e, n)| vec![name("ssh-rsa"), e, n]),
            point(65).prop_map(move |at| vec![name("ecdsa-sha2-nistp256"), name("nistp256"), at]),
            point(133).prop_map(move |at| vec![name("ecdsa-sha2-nistp521"), name("nistp521"), at]),
            bytes(32).prop_map(move |key| {
                vec![name("sk-ssh-ed25519@openssh.com"), key, name("ssh:")]
            }),
            point(65).prop_map(move |at| vec![
                name("sk-ecdsa-sha2-nistp256@openssh.com"),
                name("nistp256"),
                at,
                name("ssh:"),
            ]),
        ]
    }

    /// A valid key: its algorithm and its blob.
    fn blobs() -> impl Strategy<Value = (String, Vec<u8>)> {
        fields().prop_map(|fields| {
            let name = String::from_utf8(fields[0].clone()).unwrap();
            let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            (name, blob_of(&fields))
        })
    }

    #[test]
    fn private_key_blob_is_no_public_key() {
        let (half, long, short) = ([7u8; 32], [7u8; 257], [7u8; 3]);
        let private: [(&str, Vec<u8>); 4] = [
            // As an agent gets them: the public half, then the private one.
            ("ssh-ed25519", blob_of(&[b"ssh-ed25519", &half, &[7; 64]])),
            ("ssh-ed25519", blob_of(&[b"ssh-ed25519", &[7; 64]])),
            // Modulus, exponent, and the rest.
            (
                "ssh-rsa",
                blob_of(&[b"ssh-rsa", &long, &short, &long, &half, &half, &half]),
            ),
            (
                "ecdsa-sha2-nistp256",
                blob_of(&[b"ecdsa-sha2-nistp256", b"nistp256", &[4; 65], &half]),
            ),
        ];
        for (name, blob) in private {
            let line = line_of(name, &blob);
            assert_eq!(parse_key(&line), Err(PublicKeyError::Unreadable), "{name}");
        }
    }

    proptest! {
        #[test]
        fn sent_key_parses_as_given_key((name, blob) in blobs(), comment in "[ -~]{0,40}") {
            let line = format!("{name} {} {comment}", general_purpose::STANDARD.encode(&blob));
            let key = parse_key(&line).unwrap();
            prop_assert_eq!(&key.blob, &blob);
            let again = parse_key(&key.line()).unwrap();
            prop_assert_eq!(again.fingerprint(), key.fingerprint());
            prop_assert_eq!(again.line(), key.line());
        }

        #[test]
        fn trailing_bytes_make_a_key_invalid(
            (name, blob) in blobs(), more in prop::collection::vec(any::<u8>(), 1..80), cut in 1usize..40,
        ) {
            let behind = [blob.as_slice(), &more].concat();
            prop_assert_eq!(parse_key(&line_of(&name, &behind)), Err(PublicKeyError::Unreadable));
            let field = [blob.as_slice(), &blob_of(&[&more])].concat();
            prop_assert_eq!(parse_key(&line_of(&name, &field)), Err(PublicKeyError::Unreadable));
            let short = &blob[..blob.len() - cut.min(blob.len())];
            prop_assert_eq!(parse_key(&line_of(&name, short)), Err(PublicKeyError::CutShort));
        }

        #[test]
        fn only_equal_keys_share_a_fingerprint((name, a) in blobs(), (other, b) in blobs()) {
            let one = PublicKey { algorithm: name, blob: a.clone(), comment: String::new() };
            let two = PublicKey { algorithm: other, blob: b.clone(), comment: "x".into() };
            prop_assert_eq!(one.fingerprint() == two.fingerprint(), a == b);
        }

        #[test]
        fn no_text_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,200}") {
            let _ = PublicKey::parse(&bytes);
            let _ = parse_key(&text);
            let _ = parse_key(&format!("ssh-ed25519 {text}"));
        }
    }
}
