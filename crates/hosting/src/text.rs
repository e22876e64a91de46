//! Texts from outside, made safe to show whatever they contain; `hidden.rs` masks
//! our secrets.

/// The most bytes of a message that are kept.
pub(super) const MESSAGE: usize = 1024;

/// Removes what could forge or garble a log line, and cuts at `cap` bytes. A run of blanks and control characters becomes one blank.
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

/// Whether a text equals its cleaned form except for the number of blanks, and so
/// is safe to show.
pub(super) fn has_words_of(raw: &str, cleaned: &str) -> bool {
    let words = |text| str::split(text, ' ').filter(|word| !word.is_empty());
    !cleaned.is_empty() && words(raw).eq(words(cleaned))
}

/// Invisible characters that reorder or hide the text around them.
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

/// The readable text of a page of HTML: the text between the tags, without scripts
/// and styles.
pub(super) fn without_markup(page: &str) -> String {
    // Once for the whole page. ASCII lowering keeps all byte positions.
    let lower = page.to_ascii_lowercase();
    let mut text = String::new();
    let mut at = 0;
    while let Some(open) = lower[at..].find('<').map(|before| at + before) {
        text.push_str(&page[at..open]);
        text.push(' ');
        let tag = &lower[open..];
        let end = if tag.starts_with("<script") {
            tag.find("</script")
        } else if tag.starts_with("<style") {
            tag.find("</style")
        } else {
            Some(0)
        };
        let close = end.and_then(|end| Some(open + end + tag[end..].find('>')? + 1));
        at = close.unwrap_or(page.len());
    }
    text.push_str(&page[at..]);
    text
}
