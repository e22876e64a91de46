//! Labels of hosts, and the filter that picks hosts by them (section 4.8).

use serde::{Deserialize, Serialize};

use super::super::answer::Refusal;

/// Longest value of a label (seen in clients).
const LONGEST: usize = 150;

/// A label as a host's record shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Label {
    /// Whether key and value follow the rules of section 2.20.
    pub(crate) fn is_valid(&self) -> bool {
        let inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        self.key
            .starts_with(|first: char| first.is_ascii_lowercase())
            && self.key.bytes().all(inner)
            && self.value.chars().count() <= LONGEST
    }
}

/// How a label's value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Like,
}

/// `key = 'value'`.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    comparison: Comparison,
    value: String,
}

impl Condition {
    /// A host without the key matches no condition on it, as in SQL.
    fn holds(&self, labels: &[Label]) -> bool {
        let mut named = labels.iter().filter(|label| label.key == self.key);
        named.any(|label| match self.comparison {
            Comparison::Equal => label.value == self.value,
            Comparison::Unequal => label.value != self.value,
            Comparison::Like => like(&label.value, &self.value),
        })
    }
}

/// The query `labels`: conditions joined by AND, and those by OR.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelFilter(Vec<Vec<Condition>>);

impl LabelFilter {
    /// Reads the query; an empty one matches every host.
    ///
    /// # Errors
    /// 422.
    pub(crate) fn read(text: &str) -> Result<Self, Refusal> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let form = "must be KEY = 'VALUE', != or LIKE, joined by AND and OR";
        parse(text).ok_or_else(|| Refusal::breach("labels", form))
    }

    /// Whether a host with these labels is shown.
    pub(crate) fn admits(&self, labels: &[Label]) -> bool {
        let mut choices = self.0.iter();
        self.0.is_empty() || choices.any(|all| all.iter().all(|one| one.holds(labels)))
    }
}

fn parse(text: &str) -> Option<LabelFilter> {
    let mut choices = vec![Vec::new()];
    let mut rest = text;
    loop {
        let (condition, after) = condition(rest)?;
        choices.last_mut()?.push(condition);
        let (joint, after) = word(after);
        rest = after;
        match joint {
            "" => return after.trim().is_empty().then_some(LabelFilter(choices)),
            _ if joint.eq_ignore_ascii_case("and") => {}
            _ if joint.eq_ignore_ascii_case("or") => choices.push(Vec::new()),
            _ => return None,
        }
    }
}

fn condition(text: &str) -> Option<(Condition, &str)> {
    let (key, rest) = word(text);
    let rest = rest.trim_start();
    let (comparison, rest) = if let Some(rest) = rest.strip_prefix("!=") {
        (Comparison::Unequal, rest)
    } else if let Some(rest) = rest.strip_prefix('=') {
        (Comparison::Equal, rest)
    } else {
        let (like, rest) = word(rest);
        (like.eq_ignore_ascii_case("like")).then_some((Comparison::Like, rest))?
    };
    let (value, rest) = quoted(rest)?;
    let found = Condition {
        key: key.to_owned(),
        comparison,
        value,
    };
    (!key.is_empty()).then_some((found, rest))
}

/// The word at the start of the text; may be empty.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    text.split_at(end.unwrap_or(text.len()))
}

/// A value in single quotes; two of them inside stand for one.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.trim_start().strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        value.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

/// `%` stands for any text.
fn like(text: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('%');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str, value: &str) -> Label {
        Label {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn conditions_are_joined_as_in_sql() {
        let host = [label("role", "db"), label("rack_row", "it's 7")];
        let admits = |text: &str| LabelFilter::read(text).unwrap().admits(&host);
        for text in [
            "",
            "role = 'db'",
            "role='db'",
            "role != 'web'",
            "role LIKE 'd%'",
            "role like '%b' and rack_row LIKE 'i%s%7'",
            "rack_row = 'it''s 7'",
            "role = 'web' OR role = 'db'",
            "role = 'db' OR role = 'web' AND zone = 'a'",
        ] {
            assert!(admits(text), "{text}");
        }
        for text in [
            "role = 'web'",
            "zone = 'a'",
            "zone != 'a'",
            "role LIKE 'b%'",
            "role LIKE 'd'",
            "role = 'db' AND zone = 'a'",
        ] {
            assert!(!admits(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "role",
            "role =",
            "role = db",
            "role = 'db",
            "= 'db'",
            "role ~ 'db'",
            "role = 'db' AND",
            "role = 'db' XOR role = 'db'",
            "role = 'db' )",
            "(role = 'db')",
        ] {
            assert_eq!(LabelFilter::read(text).unwrap_err().status, 422, "{text}");
        }
    }

    #[test]
    fn keys_and_values_have_their_rules() {
        for good in [label("a", ""), label("a-b_9", &"x".repeat(150))] {
            assert!(good.is_valid(), "{good:?}");
        }
        for key in ["", "9a", "-a", "A", "a.b", "ä"] {
            assert!(!label(key, "x").is_valid(), "{key}");
        }
        assert!(!label("a", &"x".repeat(151)).is_valid());
    }
}
