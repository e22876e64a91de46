//! Texts from outside, made safe to show.

/// The most bytes of a message that are kept.
pub(super) const MESSAGE: usize = 1024;

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
