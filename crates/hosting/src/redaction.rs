//! Masks our own secrets (the API key and those of a call) in every text from outside.

use std::collections::BTreeSet;

use serde_json::Value;

use hosting_types::{
    secret::{ApiKey, HIDDEN_WORDS, SecretText},
    text::{MESSAGE, clean},
};

/// The mask of our key.
const KEY: &str = "[API key]";

/// The mask of another secret.
const OTHER: &str = "[hidden]";

/// The most bytes of a text that are searched for secrets. More than are kept, since a mask may be shorter than the
/// secret.
const SEARCHED: usize = 4 * MESSAGE;

/// This many characters of a secret do not occur by chance.
const BEGIN: usize = 12;

/// This many suffice at the end of a message, which may have been cut there.
const TAIL: usize = 4;

/// A shorter secret cannot be distinguished from other words.
const SHORT: usize = 4;

/// What must not appear in a text from outside: our key, and the other secrets of the call.
pub(super) struct Hidden {
    key: Piece,
    own: Vec<Piece>,
    short: Vec<SecretText>,
    /// Any word may be a secret, in any spelling.
    hides_words: bool,
    /// The names of the sent fields, if words are hidden.
    fields: BTreeSet<String>,
}

impl Hidden {
    #[expect(clippy::disallowed_methods, reason = "this masks what echoes it")]
    pub(super) fn new(key: &ApiKey, secrets: &[SecretText], sent: Option<&[u8]>) -> Self {
        let hides_words = secrets.iter().any(SecretText::is_referred_to);
        let mut fields = BTreeSet::new();
        if let Some(Ok(body)) = sent.filter(|_| hides_words).map(serde_json::from_slice) {
            add_fields(&body, &mut fields);
        }
        let mut hidden = Self {
            key: Piece::new(key.expose(), KEY),
            own: Vec::new(),
            short: Vec::new(),
            hides_words,
            fields,
        };
        for secret in secrets {
            hidden.add(secret.expose());
        }
        hidden
    }

    /// Adds a secret, and each of its longer lines, since an echo may contain a part.
    fn add(&mut self, secret: &str) {
        let whole = clean(secret, usize::MAX);
        match whole.chars().count() {
            0 => return,
            1..SHORT => return self.short.push(SecretText::new(whole)),
            _ => self.own.push(Piece::new(&whole, OTHER)),
        }
        for line in secret.lines() {
            let line = clean(line, usize::MAX);
            if line.chars().count() >= 8 && line != whole {
                self.own.push(Piece::new(&line, OTHER));
            }
        }
    }

    /// A message for users, cleaned and cut. It is never compared, so anything that may be a secret is masked.
    pub(super) fn message(&self, text: &str) -> String {
        let text = clean(text, SEARCHED);
        if self.hides_words && !text.is_empty() {
            return HIDDEN_WORDS.to_owned();
        }
        if self.short.iter().any(|own| text.contains(own.expose())) {
            return OTHER.to_owned();
        }
        // The key last: inside another secret, its mask would hide the rest of that secret from the search.
        let pieces = || self.own.iter().chain([&self.key]);
        let text = pieces().fold(text, |text, piece| piece.strike(text));
        let text = pieces().fold(text, |text, piece| piece.strike_tail(text));
        cut(text, MESSAGE)
    }

    /// Whether any word of an answer may be a secret.
    pub(super) fn hides_words(&self) -> bool {
        self.hides_words
    }

    /// Whether a field of this name was sent. Always false if no words are hidden.
    pub(super) fn was_field(&self, name: &str) -> bool {
        self.fields.contains(name)
    }

    /// A name, a word, an address: cleaned and cut, with certain secrets masked.
    pub(super) fn text(&self, text: &str, cap: usize) -> String {
        let text = clean(text, SEARCHED);
        let own = self.own.iter().filter(|own| own.is_long);
        let text = own.fold(text, |text, piece| piece.strike(text));
        cut(self.key.strike(text), cap)
    }

    /// A text that is compared exactly, such as a tag or a public key: cleaned, cut, and without our key. Other secrets
    /// may be plain words, and a tag that equals one must stay a tag.
    pub(super) fn exact(&self, text: &str, cap: usize) -> String {
        cut(self.key.strike(clean(text, cap.max(SEARCHED))), cap)
    }

    /// Like [`Hidden::text`], for each text and name inside a value.
    pub(super) fn tree(&self, value: &Value, cap: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, cap)),
            Value::Array(entries) => entries.iter().map(|it| self.tree(it, cap)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.text(name, cap), self.tree(value, cap)))
                .collect(),
            other => other.clone(),
        }
    }
}

/// Adds the names of the fields of a body, at any depth.
fn add_fields(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Array(entries) => entries.iter().for_each(|entry| add_fields(entry, fields)),
        Value::Object(entries) => {
            for (name, value) in entries {
                fields.insert(name.clone());
                add_fields(value, fields);
            }
        }
        _ => {}
    }
}

fn cut(text: String, cap: usize) -> String {
    if text.len() <= cap {
        text
    } else {
        clean(&text, cap)
    }
}

/// One secret in the spellings that an echo may use.
struct Piece {
    spellings: Vec<SecretText>,
    mask: &'static str,
    is_long: bool,
}

impl Piece {
    fn new(plain: &str, mask: &'static str) -> Self {
        Self {
            spellings: spellings(plain),
            mask,
            is_long: plain.chars().count() >= BEGIN,
        }
    }

    /// Masks the secret wherever it or enough of its start appears, since an echo may be cut.
    fn strike(&self, text: String) -> String {
        let mut struck = String::new();
        let mut rest = text.as_str();
        while let Some((at, length)) = self.find(rest) {
            struck.push_str(&rest[..at]);
            struck.push_str(self.mask);
            rest = &rest[at + length..];
        }
        if struck.is_empty() {
            return text;
        }
        struck.push_str(rest);
        struck
    }

    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let begins = self.spellings.iter().map(|own| begin(own.expose(), BEGIN));
        let at = begins.filter_map(|begin| text.find(begin)).min()?;
        // Two spellings may start alike: the longest match counts.
        let lengths = self.spellings.iter().filter_map(|own| {
            let is_here = text[at..].starts_with(begin(own.expose(), BEGIN));
            is_here.then(|| alike(&text[at..], own.expose()))
        });
        Some((at, lengths.max().unwrap_or_default()))
    }

    /// Masks the end of a text that is cut within the secret.
    fn strike_tail(&self, mut text: String) -> String {
        for count in (TAIL..BEGIN).rev() {
            for own in &self.spellings {
                let begin = begin(own.expose(), count);
                if begin.chars().count() == count && text.ends_with(begin) {
                    text.truncate(text.len() - begin.len());
                    text.push_str(self.mask);
                    return text;
                }
            }
        }
        text
    }
}

/// The first characters.
fn begin(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// How many bytes both have in common from their start.
fn alike(text: &str, own: &str) -> usize {
    text.chars()
        .zip(own.chars())
        .take_while(|(echoed, own)| echoed == own)
        .map(|(echoed, _)| echoed.len_utf8())
        .sum()
}

/// A secret as an echo of the request may spell it: plain, in JSON, or in a URL.
fn spellings(plain: &str) -> Vec<SecretText> {
    let quoted = Value::from(plain).to_string();
    let quoted = quoted.strip_prefix('"').unwrap_or(&quoted);
    let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
    let percent: String = url::form_urlencoded::byte_serialize(plain.as_bytes()).collect();
    let mut all = vec![
        plain.to_owned(),
        quoted.to_owned(),
        plain.replace('/', "\\/"),
        percent,
    ];
    all.sort();
    all.dedup();
    all.into_iter().map(SecretText::new).collect()
}
