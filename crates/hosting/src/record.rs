//! Tolerant reading of the API's records. The published descriptions differ in what may be missing, `null` or `""`, so
//! bodies are plain JSON first, and each field is read by name.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::redaction::Hidden;
use hosting_types::text;

/// The longest kept name, word or address, in bytes.
const NAME: usize = 1024;

/// The longest kept entry of a list of words, in bytes: twice the longest tag (8-2).
const WORD: usize = 128;

/// What did not fit. Has field names and kinds, never a value.
pub(super) type DecodeError = String;

/// The JSON of an answer, and the secrets that no text may show.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    value: &'a Value,
    hidden: &'a Hidden,
}

impl<'a> Body<'a> {
    pub(super) fn new(value: &'a Value, hidden: &'a Hidden) -> Self {
        Self { value, hidden }
    }
}

/// One JSON object of an answer.
pub(super) struct Record<'a> {
    fields: &'a Map<String, Value>,
    hidden: &'a Hidden,
}

/// Checks that a body is not an error record (2.2), which any status may have.
pub(super) fn no_error(body: Body<'_>) -> Result<(), DecodeError> {
    let is_error = |value: &Value| {
        let code = value.get("errorCode");
        code.is_some_and(|code| !code.is_null() && code != "")
    };
    let found = match body.value {
        Value::Array(entries) => entries.iter().any(is_error),
        other => is_error(other),
    };
    if found {
        return Err("the answer holds an error record".to_owned());
    }
    Ok(())
}

/// All records of a listing: an array of objects, or one object. `null` is not an empty listing: it does not confirm
/// that there are no records.
pub(super) fn all(body: Body<'_>) -> Result<Vec<Record<'_>>, DecodeError> {
    let hidden = body.hidden;
    match body.value {
        Value::Array(entries) => entries
            .iter()
            .enumerate()
            .map(|(index, value)| entry(value, index, hidden))
            .collect(),
        Value::Object(fields) => Ok(vec![Record { fields, hidden }]),
        other => Err(format!("expected records, found {}", kind(other))),
    }
}

/// One entry of a listing.
pub(super) fn entry<'a>(
    value: &'a Value,
    index: usize,
    hidden: &'a Hidden,
) -> Result<Record<'a>, DecodeError> {
    Record::from_value(value, hidden).ok_or_else(|| format!("entry {index} is {}", kind(value)))
}

/// The one record of an answer: an object, or an array of exactly one.
pub(super) fn one(body: Body<'_>) -> Result<Record<'_>, DecodeError> {
    let mut records = all(body)?;
    match (records.pop(), records.len()) {
        (Some(record), 0) => Ok(record),
        (None, _) => Err("expected one record, found none".to_owned()),
        (Some(_), more) => Err(format!("expected one record, found {}", more + 1)),
    }
}

impl<'a> Record<'a> {
    pub(super) fn from_value(value: &'a Value, hidden: &'a Hidden) -> Option<Self> {
        let fields = value.as_object()?;
        Some(Self { fields, hidden })
    }

    /// The text of a required field.
    pub(super) fn required_text(&self, field: &str) -> Result<String, DecodeError> {
        self.optional_text(field)
            .ok_or_else(|| format!("a record has no {field}"))
    }

    /// Like [`Record::name`], for a required field.
    pub(super) fn required_name(&self, field: &str) -> Result<String, DecodeError> {
        self.required_text(field).map(|_| self.name(field))
    }

    /// Whether any of these fields is present, with any value.
    pub(super) fn has_any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.has(field))
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// Whether a field has a value: missing, `null` and `""` count as none.
    pub(super) fn is_given(&self, field: &str) -> bool {
        !matches!(self.value(field), Value::Null) && self.value(field).as_str() != Some("")
    }

    pub(super) fn value(&self, field: &str) -> &'a Value {
        self.fields.get(field).unwrap_or(&Value::Null)
    }

    /// The text of a field, cleaned; empty if it has none.
    pub(super) fn text(&self, field: &str) -> String {
        match self.value(field) {
            Value::String(text) => self.hidden.text(text, NAME),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        }
    }

    /// The exact text of a field, except for cleaning.
    pub(super) fn exact(&self, field: &str, cap: usize) -> String {
        self.hidden.exact(self.raw_text(field), cap)
    }

    /// The text of a field for users, cleaned and without the secrets of the call.
    pub(super) fn message(&self, field: &str) -> String {
        self.hidden.message(self.raw_text(field))
    }

    /// An inner object or list, with its texts and names cleaned.
    pub(super) fn tree(&self, field: &str) -> Option<Value> {
        let value = self.value(field);
        (value.is_object() || value.is_array()).then(|| self.hidden.tree(value, NAME))
    }

    /// A name that requests repeat exactly (2.7-22): unchanged if cleaning would change only blanks.
    pub(super) fn name(&self, field: &str) -> String {
        let cleaned = self.text(field);
        match self.value(field) {
            Value::String(raw) if raw.len() <= NAME && text::has_words_of(raw, &cleaned) => {
                raw.clone()
            }
            _ => cleaned,
        }
    }

    /// The text of a field, unchanged.
    pub(super) fn raw_text(&self, field: &str) -> &'a str {
        self.value(field).as_str().unwrap_or_default()
    }

    /// The text of an optional field: missing, `null` and `""` count as none.
    pub(super) fn optional_text(&self, field: &str) -> Option<String> {
        Some(self.text(field)).filter(|text| !text.is_empty())
    }

    /// A whole number, also if sent as text or as `1.0`.
    pub(super) fn number(&self, field: &str) -> Option<i64> {
        match self.value(field) {
            Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A number that is an identifier.
    pub(super) fn identity(&self, field: &str) -> Option<u64> {
        u64::try_from(self.number(field)?).ok()
    }

    /// A time in Unix seconds, also if sent as a date-time text; 0 means none.
    pub(super) fn seconds(&self, field: &str) -> Option<i64> {
        self.time(field).map(Timestamp::as_second)
    }

    /// The first of these names that has a value, for a field with several names; the first name if none has.
    pub(super) fn first_of<'n>(&self, names: &[&'n str; 2]) -> &'n str {
        let [usual, other] = names;
        if !self.is_given(usual) && self.is_given(other) {
            other
        } else {
            usual
        }
    }

    /// A point in time: Unix seconds, or a date-time text with an offset or in UTC.
    pub(super) fn time(&self, field: &str) -> Option<Timestamp> {
        if let Some(seconds) = self.number(field) {
            return Timestamp::from_second(seconds).ok().filter(|_| seconds > 0);
        }
        let text = self.raw_text(field).trim();
        if let Ok(time) = text.parse() {
            return Some(time);
        }
        let time = text.parse::<DateTime>().ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }

    /// A switch: `true` and `false`, or 1 and 0.
    pub(super) fn flag(&self, field: &str) -> bool {
        match self.value(field) {
            Value::Bool(flag) => *flag,
            _ => self.number(field) == Some(1),
        }
    }

    /// An inner object, if there is one.
    pub(super) fn record(&self, field: &str) -> Option<Record<'a>> {
        Record::from_value(self.value(field), self.hidden)
    }

    /// The objects of an inner list; other entries are left out.
    pub(super) fn records(&self, field: &str) -> Vec<Record<'a>> {
        match self.value(field) {
            Value::Array(entries) => {
                let records = entries.iter();
                records
                    .filter_map(|entry| Record::from_value(entry, self.hidden))
                    .collect()
            }
            Value::Object(fields) => vec![Record {
                fields,
                hidden: self.hidden,
            }],
            _ => Vec::new(),
        }
    }

    /// The same, with at most `most` objects; one too many is an error.
    pub(super) fn records_up_to(
        &self,
        field: &str,
        most: usize,
    ) -> Result<Vec<Record<'a>>, DecodeError> {
        match self.value(field) {
            Value::Array(entries) if entries.len() > most => Err(too_many(field, most)),
            _ => Ok(self.records(field)),
        }
    }

    /// The name `inner` of an inner object, or the field itself if it is plain text: requests write `"location": "x"`,
    /// answers `"location": {"name": "x"}`.
    pub(super) fn inner_text(&self, field: &str, inner: &str) -> String {
        match self.record(field) {
            Some(record) => record.name(inner),
            None => self.name(field),
        }
    }

    /// The number `inner` of an inner object.
    pub(super) fn inner_number(&self, field: &str, inner: &str) -> Option<i64> {
        self.record(field)?.number(inner)
    }

    /// A list of at most `most` texts, each unchanged and cleaned; a sparse list may come as an object with indexes as
    /// names. An unreadable entry or one too many is an error: a server with an overlooked tag would seem to have no
    /// owner.
    pub(super) fn texts(
        &self,
        field: &str,
        most: usize,
    ) -> Result<Vec<(&'a Value, String)>, DecodeError> {
        let read = |value: &'a Value| match value {
            Value::String(text) => Ok((value, self.hidden.exact(text, WORD))),
            Value::Number(number) => Ok((value, number.to_string())),
            other => Err(format!("{field} holds {}", kind(other))),
        };
        let count = match self.value(field) {
            Value::Array(entries) => entries.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        };
        if count > most {
            return Err(too_many(field, most));
        }
        match self.value(field) {
            Value::Null => Ok(Vec::new()),
            Value::String(text) if text.is_empty() => Ok(Vec::new()),
            Value::Array(entries) => entries.iter().map(read).collect(),
            Value::Object(entries) => entries.values().map(read).collect(),
            other => Err(format!("{field} is {}", kind(other))),
        }
    }
}

/// The whole number of a float, if it is exact.
fn whole(number: f64) -> Option<i64> {
    // Up to here, a float represents every whole number exactly.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
}

fn too_many(field: &str, most: usize) -> DecodeError {
    format!("{field} of a record has more than {most} entries")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
