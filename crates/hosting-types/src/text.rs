//! Makes texts from outside safe to show. The client masks our secrets.

/// The most bytes of a kept message.
pub const MESSAGE: usize = 1024;

/// Removes what could forge a log line, and cuts at `cap` bytes. A run of blanks and control characters becomes one
/// blank.
pub fn clean(text: &str, cap: usize) -> String {
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
    // Removed blanks leave unused capacity.
    clean.shrink_to_fit();
    clean
}

/// Whether a text equals its cleaned form except for the number of blanks, and so is safe to show.
pub fn has_words_of(raw: &str, cleaned: &str) -> bool {
    let words = |text| str::split(text, ' ').filter(|word| !word.is_empty());
    !cleaned.is_empty() && words(raw).eq(words(cleaned))
}

/// The start of a text that is already safe; a longer one ends with an ellipsis.
pub fn shorten(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    format!("{}…", clean(text, cap))
}

/// Invisible characters that reorder or hide the text around them, or carry hidden text.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}
