//! Columns that show fields of records as the provider or the operator has them.

use crate::{
    ages,
    output::{Column, column},
    sizes,
};
use jiff::Timestamp;
use serde_json::Value;

/// A column with the value of a field.
#[derive(Clone, Copy)]
pub struct Field {
    /// The column.
    pub column: Column,
    name: &'static str,
    form: FieldForm,
    absent: &'static str,
}

#[derive(Clone, Copy)]
enum FieldForm {
    Plain,
    Age,
    Bytes,
}

/// A column with a field as it is: a list with commas, a truth as `yes` or `no`.
pub const fn field(title: &'static str, name: &'static str) -> Field {
    Field {
        column: column(title),
        name,
        form: FieldForm::Plain,
        absent: "",
    }
}

impl Field {
    /// Only `-o wide` shows it.
    pub const fn wide(mut self) -> Self {
        self.column.is_wide = true;
        self
    }

    /// The field is a time: shows how long ago.
    pub const fn age(mut self) -> Self {
        self.form = FieldForm::Age;
        self
    }

    /// The field is a number of bytes.
    pub const fn bytes(mut self) -> Self {
        self.form = FieldForm::Bytes;
        self
    }

    /// What the cell says if the record has no such field.
    pub const fn absent(mut self, text: &'static str) -> Self {
        self.absent = text;
        self
    }

    /// The cell of a record.
    pub fn cell(&self, record: &Value) -> String {
        let value = &record[self.name];
        match (self.form, value) {
            (_, Value::Null) => self.absent.to_owned(),
            (FieldForm::Age, _) => {
                let since = value.as_str().and_then(|text| text.parse().ok());
                since.map_or_else(String::new, |since| ages::age(since, ages::now()))
            }
            (FieldForm::Bytes, _) => sizes::decimal(value.as_i64().unwrap_or_default()),
            (FieldForm::Plain, _) => show(value),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) => items.iter().map(show).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(name, it)| format!("{name}={}", show(it)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A time of the provider, in Unix seconds, as a field. 0 is none.
pub fn time(seconds: Option<i64>) -> Value {
    let time = Timestamp::from_second(seconds.unwrap_or_default()).ok();
    let time = time.filter(|time| *time != Timestamp::UNIX_EPOCH);
    time.map_or(Value::Null, |time| time.to_string().into())
}

/// A text of the provider as a field. An empty one is none.
pub fn text(text: impl Into<String>) -> Value {
    let text = text.into();
    match text.trim().is_empty() {
        true => Value::Null,
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_show_fields_of_every_type() {
        let record = json!({
            "list": ["a", "b"], "yes": true, "no": false, "number": 3, "labels": {"a": "b", "c": 1},
            "bytes": 2_500_000, "at": "2020-01-01T00:00:00Z", "empty": null,
        });
        let cell = |field: Field| field.cell(&record);
        assert_eq!(cell(field("", "list")), "a, b");
        assert_eq!(cell(field("", "yes")) + &cell(field("", "no")), "yesno");
        assert_eq!(cell(field("", "number")), "3");
        assert_eq!(cell(field("", "labels")), "a=b, c=1");
        assert_eq!(cell(field("", "bytes").bytes()), "2.5 MB");
        assert!(cell(field("", "at").age()).ends_with('d'));
        assert_eq!(cell(field("", "empty").age()), "");
        assert_eq!(cell(field("", "unknown").absent("none")), "none");
    }

    #[test]
    fn absent_times_and_texts_are_no_fields() {
        assert_eq!(time(Some(60)), "1970-01-01T00:01:00Z");
        assert_eq!((time(None), time(Some(0))), (Value::Null, Value::Null));
        assert_eq!((text(" "), text("a")), (Value::Null, json!("a")));
    }
}
