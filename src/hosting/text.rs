//! Texts from outside, made safe to show.

use super::secret::{ApiKey, SecretText};

/// The most bytes of a message that are kept.
pub(super) const MESSAGE: usize = 1024;

/// What stands in place of our key.
const MASK: &str = "[API key]";

/// What stands in place of another secret.
const HIDDEN: &str = "[hidden]";

/// The most bytes of a text that other secrets are looked for in.
const SEARCHED: usize = 4 * MESSAGE;

/// How many characters of a secret are surely no chance.
const ECHO: usize = 12;

/// What must not stand in a text from outside: our key, and what else the call
/// carried.
#[derive(Clone, Copy)]
pub(super) struct Hidden<'a> {
    key: &'a ApiKey,
    secrets: &'a [SecretText],
}

impl<'a> Hidden<'a> {
    pub(super) fn new(key: &'a ApiKey, secrets: &'a [SecretText]) -> Self {
        Self { key, secrets }
    }
}

/// Takes out what could forge or disturb a line of a log, and cuts at `cap`
/// bytes. A run of blanks and control characters becomes one blank.
pub(super) fn clean(text: &str, cap: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(cap));
    let mut blank = false;
    for letter in text.chars() {
        if letter.is_control() || letter.is_whitespace() {
            blank = !clean.is_empty();
            continue;
        }
        if is_invisible(letter) {
            continue;
        }
        if clean.len() + usize::from(blank) + letter.len_utf8() > cap {
            break;
        }
        if blank {
            clean.push(' ');
            blank = false;
        }
        clean.push(letter);
    }
    clean
}

/// A message for people: our secrets replaced, then cleaned.
pub(super) fn message(text: &str, hidden: Hidden<'_>) -> String {
    // The key is looked for in the cleaned text, as a control character inside
    // would hide it, and before the cut, which would leave its begin.
    let mut whole = clean(text, usize::MAX);
    whole = without(&whole, &spellings(hidden.key.expose()), MASK);
    if !hidden.secrets.is_empty() {
        whole = clean(&whole, SEARCHED);
        for secret in hidden.secrets {
            whole = without_secret(whole, secret);
        }
    }
    clean(&whole, MESSAGE)
}

/// Replaces a secret, each of its longer lines, and the begin of either, as
/// whoever echoes a value may cut it.
fn without_secret(text: String, secret: &SecretText) -> String {
    let whole = clean(secret.expose(), usize::MAX);
    if whole.is_empty() {
        return text;
    }
    if whole.chars().count() < 4 {
        // Too short to be told from other words.
        return if text.contains(&whole) {
            HIDDEN.to_owned()
        } else {
            text
        };
    }
    let lines = secret.expose().lines().map(|line| clean(line, usize::MAX));
    let lines = lines.filter(|line| line.chars().count() >= 8 && *line != whole);
    let pieces = std::iter::once(whole.clone()).chain(lines);
    let spellings: Vec<_> = pieces.flat_map(|piece| spellings(&piece)).collect();
    without(&text, &spellings, HIDDEN)
}

/// Puts the mask in place of whatever begins like one of the spellings, as far
/// as it goes on like any of them: they often begin alike, and the shortest
/// match would leave the rest of the secret.
fn without(text: &str, spellings: &[String], mask: &str) -> String {
    let begins = |known: &&String| match known.char_indices().nth(ECHO) {
        Some((end, _)) => text.contains(&known[..end]),
        None => text.contains(known.as_str()),
    };
    let spellings: Vec<_> = spellings.iter().filter(begins).collect();
    if spellings.is_empty() {
        return text.to_owned();
    }
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let echoes = spellings.iter().filter_map(|known| echo(rest, known));
        let length = echoes.max().unwrap_or_default();
        if length == 0 {
            left.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            left.push_str(mask);
            rest = &rest[length..];
        }
    }
    left
}

/// How many bytes of the text's begin repeat this secret, if they are enough.
fn echo(text: &str, secret: &str) -> Option<usize> {
    let mut echoed = 0;
    let mut length = 0;
    for (letter, own) in text.chars().zip(secret.chars()) {
        if letter != own {
            break;
        }
        echoed += 1;
        length += letter.len_utf8();
    }
    (echoed >= ECHO || length == secret.len()).then_some(length)
}

/// A secret as it may stand in an echo of the request.
fn spellings(plain: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(plain).to_string();
    let percent: String = url::form_urlencoded::byte_serialize(plain.as_bytes()).collect();
    let mut all = vec![
        plain.to_owned(),
        quoted.trim_matches('"').to_owned(),
        plain.replace('/', "\\/"),
        percent,
    ];
    all.sort();
    all.dedup();
    all
}

/// Characters without a shape that reorder or hide what stands around them.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{00AD}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
    )
}

/// What is left of a page of HTML for a reader: the text between the tags,
/// without scripts and styles.
pub(super) fn without_markup(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, tag_on)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        // ASCII lowering keeps all byte positions.
        let lower = tag_on.get(..6).map(str::to_ascii_lowercase);
        let end = match lower.as_deref() {
            Some(tag) if tag.starts_with("script") => "</script",
            Some(tag) if tag.starts_with("style") => "</style",
            _ => "",
        };
        let inside = match end {
            "" => tag_on,
            end => match tag_on.to_ascii_lowercase().find(end) {
                Some(at) => &tag_on[at..],
                None => "",
            },
        };
        rest = inside.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}
