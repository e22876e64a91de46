//! A public key as text: read, compared by what it is, written in one form.
//!
//! No error here holds a word of the text: it may be a private key, or come from a Secret.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// The longest text that the hosting API takes, in bytes.
pub const LONGEST: usize = 16384;

/// Stored texts may come from elsewhere: with padding or without.
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
pub enum NoKey {
    /// The private half of a pair.
    #[error(
        "is a private key, which is sent nowhere: put the public one there, from the file that ends \
         in .pub, and make a new pair if others could read this"
    )]
    Private,
    /// Nothing but blanks.
    #[error("is empty; put one public key there")]
    Empty,
    /// Several lines, or characters that no line of a key has.
    #[error("is not one line of text; put one public key there")]
    NotOneLine,
    /// More than the API takes.
    #[error("is longer than 16384 bytes; put one public key there")]
    TooLong,
    /// A line of `authorized_keys` with options before the key.
    #[error("has options before the key; leave them out: algorithm, key, comment")]
    Options,
    /// A certificate.
    #[error("is a certificate; put the public key there that it was made for")]
    Certificate,
    /// Anything else.
    #[error("is no public key in OpenSSH form: algorithm, key, comment, as ssh-keygen writes it")]
    Unreadable,
}

impl PublicKey {
    /// Reads what a person gives: one line in OpenSSH form, with or without the newline at its end.
    ///
    /// # Errors
    /// [`NoKey`] says why it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoKey> {
        let text = std::str::from_utf8(bytes).map_err(|_| NoKey::NotOneLine)?;
        // Whatever else it is: this is what a person has to hear of.
        if text.contains("PRIVATE KEY") {
            return Err(NoKey::Private);
        }
        if bytes.len() > LONGEST {
            return Err(NoKey::TooLong);
        }
        let line = text.trim();
        if line.is_empty() {
            return Err(NoKey::Empty);
        }
        // Tabs stand between the words of some files.
        if line.chars().any(|c| c.is_control() && c != '\t') {
            return Err(NoKey::NotOneLine);
        }
        Self::of_line(line)
    }

    /// Reads a stored text, which may have other forms: a line, or a block as RFC 4716 has it.
    pub fn of_stored(text: &str) -> Option<Self> {
        let mut lines = text.trim().lines().map(str::trim);
        if !text.trim_start().starts_with("---- BEGIN SSH2 PUBLIC KEY") {
            return Self::parse(text.as_bytes()).ok();
        }
        lines.next()?;
        let mut body = String::new();
        let mut is_header = false;
        for line in lines.take_while(|line| !line.starts_with("---- END")) {
            // A header goes on behind a backslash at its end.
            let goes_on = line.ends_with('\\');
            if !is_header && !line.contains(':') {
                body.push_str(line);
                continue;
            }
            is_header = goes_on;
        }
        let blob = LENIENT.decode(body).ok()?;
        let algorithm = algorithm_of(&blob)?.to_owned();
        Some(Self {
            algorithm,
            blob,
            comment: String::new(),
        })
    }

    fn of_line(line: &str) -> Result<Self, NoKey> {
        let mut words = line.split_ascii_whitespace();
        let algorithm = words.next().ok_or(NoKey::Empty)?;
        if !is_algorithm(algorithm) {
            let is_later = |word: &str| is_algorithm(word.rsplit('"').next().unwrap_or(word));
            return Err(match line.split_ascii_whitespace().any(is_later) {
                true => NoKey::Options,
                false => NoKey::Unreadable,
            });
        }
        if algorithm.contains("-cert-v0") {
            return Err(NoKey::Certificate);
        }
        let blob = words.next().ok_or(NoKey::Unreadable)?;
        let blob = LENIENT.decode(blob).map_err(|_| NoKey::Unreadable)?;
        // The key says itself what it is; two words that disagree are no key.
        if algorithm_of(&blob) != Some(algorithm) {
            return Err(NoKey::Unreadable);
        }
        Ok(Self {
            algorithm: algorithm.to_owned(),
            blob,
            comment: words.collect::<Vec<_>>().join(" "),
        })
    }

    /// Without its comment. What stands behind a key in a Secret may be anything.
    #[must_use]
    pub fn without_comment(self) -> Self {
        Self {
            comment: String::new(),
            ..self
        }
    }

    /// As it is sent: one line, in the form that the API prefers.
    pub fn line(&self) -> String {
        let blob = general_purpose::STANDARD.encode(&self.blob);
        let line = format!("{} {blob} {}", self.algorithm, self.comment);
        line.trim_end().to_owned()
    }

    /// What it is compared by: two texts with one fingerprint are one key.
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

/// The algorithm that the key itself names; None for what is no key. The name is followed by numbers.
fn algorithm_of(blob: &[u8]) -> Option<&str> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (name, numbers) = rest.split_at_checked(length)?;
    let name = std::str::from_utf8(name).ok().filter(|n| is_algorithm(n))?;
    // The first of the numbers, whole: a key that was cut off is none.
    let (length, rest) = numbers.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (length > 0 && rest.len() >= length).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";

    fn read(text: &str) -> Result<PublicKey, NoKey> {
        PublicKey::parse(text.as_bytes())
    }

    #[test]
    fn a_key_is_what_it_says_whatever_stands_behind_it() {
        let plain = read(ED).unwrap();
        for text in [
            format!("{ED} me@here"),
            format!("{ED}\n"),
            format!("  {ED}  two words \r\n"),
            ED.replace(' ', "\t"),
        ] {
            let key = read(&text).unwrap();
            assert_eq!(key.fingerprint(), plain.fingerprint(), "{text:?}");
        }
        assert_eq!(
            read(&format!("{ED} a  b")).unwrap().line(),
            format!("{ED} a b")
        );
        let bare = read(&format!("{ED} secret")).unwrap().without_comment();
        assert_eq!(bare.line(), ED);
    }

    #[test]
    fn a_fingerprint_is_that_of_ssh_keygen() {
        // ssh-keygen -lf of this line.
        let shown = read(ED).unwrap().fingerprint();
        assert_eq!(shown.as_str(), FINGERPRINT);
    }

    const FINGERPRINT: &str = "SHA256:Bkm/+ze6rRTXIEqF01UTcVhHS4Z2Y8zI5EgdWXcXAvo";

    #[test]
    fn what_is_no_public_key_is_told_by_its_cause_and_not_by_its_text() {
        let cut = &ED[..40];
        let swapped = ED.replace("ssh-ed25519", "ssh-rsa");
        let certificate = format!("ssh-ed25519-cert-v01@openssh.com {}", &ED[12..]);
        let options = format!("command=\"rm\",no-pty {ED}");
        let long = format!("{ED} {}", "x".repeat(LONGEST));
        let two = format!("{ED}\n{ED}");
        let cases = [
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nhush\n",
                NoKey::Private,
            ),
            ("-----BEGIN RSA PRIVATE KEY-----", NoKey::Private),
            (" \n", NoKey::Empty),
            (&two, NoKey::NotOneLine),
            (&options, NoKey::Options),
            (&certificate, NoKey::Certificate),
            (&long, NoKey::TooLong),
            (cut, NoKey::Unreadable),
            (&swapped, NoKey::Unreadable),
            ("hush", NoKey::Unreadable),
            ("ssh-ed25519", NoKey::Unreadable),
            ("ssh-ed25519 AAAA*", NoKey::Unreadable),
        ];
        for (text, expected) in cases {
            let found = read(text).unwrap_err();
            assert_eq!(found, expected, "{text:?}");
            assert!(!format!("{found} {found:?}").contains("hush"));
        }
        assert_eq!(PublicKey::parse(&[0xff, 0xfe]), Err(NoKey::NotOneLine));
    }

    #[test]
    fn a_stored_block_is_the_same_key_as_its_line() {
        let block = format!(
            "---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"me: at \\\nhome\"\n{}\n{}\n---- END SSH2 PUBLIC KEY ----\n",
            &ED[12..50],
            &ED[50..]
        );
        let stored = PublicKey::of_stored(&block).unwrap();
        assert_eq!(stored.fingerprint(), read(ED).unwrap().fingerprint());
        assert!(PublicKey::of_stored("").is_none());
        assert!(PublicKey::of_stored("-----BEGIN PUBLIC KEY-----\nAAAA\n").is_none());
    }

    /// A sound blob: an algorithm's name, then numbers.
    fn blobs() -> impl Strategy<Value = (String, Vec<u8>)> {
        let names = prop_oneof![
            Just("ssh-ed25519"),
            Just("ssh-rsa"),
            Just("ecdsa-sha2-nistp256"),
            Just("sk-ssh-ed25519@openssh.com"),
        ];
        (names, prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(name, number)| {
            let mut blob = Vec::new();
            for part in [name.as_bytes(), &number] {
                blob.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
                blob.extend(part);
            }
            (name.to_owned(), blob)
        })
    }

    proptest! {
        #[test]
        fn what_is_sent_reads_as_what_was_given((name, blob) in blobs(), comment in "[ -~]{0,40}") {
            let line = format!("{name} {} {comment}", general_purpose::STANDARD.encode(&blob));
            let key = read(&line).unwrap();
            prop_assert_eq!(&key.blob, &blob);
            let again = PublicKey::of_stored(&key.line()).unwrap();
            prop_assert_eq!(again.fingerprint(), key.fingerprint());
            prop_assert_eq!(again.line(), key.line());
        }

        #[test]
        fn two_keys_share_a_fingerprint_only_when_they_are_one((name, a) in blobs(), (other, b) in blobs()) {
            let one = PublicKey { algorithm: name, blob: a.clone(), comment: String::new() };
            let two = PublicKey { algorithm: other, blob: b.clone(), comment: "x".into() };
            prop_assert_eq!(one.fingerprint() == two.fingerprint(), a == b);
        }

        #[test]
        fn no_text_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,200}") {
            let _ = PublicKey::parse(&bytes);
            let _ = PublicKey::of_stored(&text);
        }
    }
}
