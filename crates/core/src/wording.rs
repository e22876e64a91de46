//! How messages count things, list them, and suggest a name: the same in every message.

use api::bounds::cut_text;
use std::collections::BTreeSet;

/// Longest message, in bytes.
pub const LONGEST_MESSAGE: usize = 300;
/// Most names in a list of a message; the rest is counted.
pub const MOST_NAMES: usize = 5;
/// When a call follows that waits only for the rate limiter.
pub const WHEN_RATE_ALLOWS: &str = "as soon as the account's rate limit allows";
/// How similar two names must be to suggest one for the other; 1 is equal.
const LIKENESS: f64 = 0.75;

/// A number with its noun: `1 server`, `2 servers`.
pub fn counted(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    }
}

/// How many of `number` items a list of at most `most` omits; None: none.
pub fn omitted(number: usize, most: usize) -> Option<i32> {
    let omitted = number.checked_sub(most).filter(|omitted| *omitted > 0)?;
    Some(i32::try_from(omitted).unwrap_or(i32::MAX))
}

/// The first names in order, and how many more there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let shown = names.join(", ");
    match more {
        0 => shown,
        _ => format!("{shown} and {more} more"),
    }
}

/// The first name in order, and how many more there are: for long names, such as UUIDs.
pub fn first_named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let first = names.first().copied().unwrap_or_default();
    match names.len() {
        0 | 1 => first.to_owned(),
        more => format!("{first} and {} more", more - 1),
    }
}

/// The name that was likely meant, as `; did you mean NAME?`, or nothing.
pub fn did_you_mean<'a>(said: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let said = said.trim().to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&said, &name.trim().to_lowercase());
    let alike = names.into_iter().map(|name| (likeness(name), name));
    let alike = alike.filter(|(likeness, _)| *likeness >= LIKENESS);
    let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map_or_else(String::new, |(_, name)| format!("; did you mean {name:?}?"))
}

/// A text of the provider without invisible characters, cut to `most` bytes as stored.
pub fn plain_text(text: &str, most: usize) -> String {
    let plain: String = text.trim().chars().filter(|c| !is_hidden(*c)).collect();
    cut_text(&plain, most).unwrap_or(plain)
}

/// Whether a terminal shows nothing or something else for the character: control characters, those without width, and
/// those that change the direction of a text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(counted(0, "server"), "0 servers");
        assert_eq!(counted(1, "server"), "1 server");
        assert_eq!(counted(2, "server"), "2 servers");
    }

    #[test]
    fn only_what_is_left_out_is_counted() {
        let counts = [(0, 2), (2, 2), (3, 2), (usize::MAX, 2)];
        let counted = counts.map(|(number, most)| omitted(number, most));
        assert_eq!(counted, [None, None, Some(1), Some(i32::MAX)]);
    }

    #[test]
    fn long_list_counts_the_omitted_names() {
        assert_eq!(listed(["b", "a", "b"]), "a, b");
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let shown = listed(names.iter().map(String::as_str));
        assert_eq!(shown, "n0, n1, n2, n3, n4 and 5 more");
    }

    #[test]
    fn of_long_names_only_the_first_is_shown() {
        assert_eq!(first_named([]), "");
        assert_eq!(first_named(["b", "b"]), "b");
        assert_eq!(first_named(["b", "a", "c"]), "a and 2 more");
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let places = ["EU: Rotterdam", "JP: Tokyo"];
        assert_eq!(
            did_you_mean("EU: Roterdam", places),
            "; did you mean \"EU: Rotterdam\"?"
        );
        assert_eq!(
            did_you_mean("rotterdam", places),
            "; did you mean \"EU: Rotterdam\"?"
        );
        assert_eq!(did_you_mean("moon", places), "");
        let systems = ["debian-12", "ubuntu-2404-lts", "ubuntu-2204-lts"];
        assert_eq!(
            did_you_mean("ubuntu-24.04", systems),
            "; did you mean \"ubuntu-2404-lts\"?"
        );
    }
}
