//! Reads the fields of a JSON object and records what is wrong with them.
//!
//! `null` stands for an absent field everywhere, because real clients send it
//! for absent lists and objects.

use serde_json::Value;

use super::super::answer::{Breach, TOLD};
use super::super::profile::{Switches, UnknownFields};
use super::breach;

/// The fields of one object.
pub(super) struct Fields<'a> {
    object: &'a Value,
    /// Put before every property named in a breach, such as `os.`.
    prefix: &'a str,
    breaches: &'a mut Vec<Breach>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(object: &'a Value, prefix: &'a str, breaches: &'a mut Vec<Breach>) -> Self {
        Self {
            object,
            prefix,
            breaches,
        }
    }

    /// Where breaches of inner objects go.
    pub(super) fn breaches(&mut self) -> &mut Vec<Breach> {
        self.breaches
    }

    /// Records a breach unless the rule holds.
    pub(super) fn ensure(&mut self, holds: bool, property: &str, message: &str) {
        if !holds && self.breaches.len() < TOLD {
            let named = format!("{}{property}", self.prefix);
            self.breaches.push(breach(named, message));
        }
    }

    /// Refuses fields that the API does not name.
    pub(super) fn only(&mut self, known: &[&str], switches: &Switches) {
        if switches.unknown_fields == UnknownFields::Ignore {
            return;
        }
        let named = self
            .object
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        for name in named.filter(|name| !known.contains(&name.as_str())) {
            self.ensure(false, name, "unknown field");
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Whether the field is missing or null.
    pub(super) fn absent(&self, name: &str) -> bool {
        self.get(name).is_none()
    }

    /// Whether the field is a list.
    pub(super) fn is_list(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_array)
    }

    /// A text, if there is one.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        self.ensure(value.is_string(), name, "must be a string");
        value.as_str().map(str::to_owned)
    }

    /// A required text that is not empty.
    pub(super) fn required_text(&mut self, name: &str) -> Option<String> {
        let value = self.get(name);
        let present = value.is_some_and(|value| value.as_str() != Some(""));
        self.ensure(present, name, "is required");
        if present { self.text(name) } else { None }
    }

    /// A boolean, if there is one.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        self.ensure(value.is_boolean(), name, "must be a boolean");
        value.as_bool()
    }

    /// A whole number, if there is one.
    pub(super) fn integer(&mut self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        self.ensure(value.is_i64(), name, "must be an integer");
        value.as_i64()
    }

    /// A required whole number.
    pub(super) fn required_integer(&mut self, name: &str) -> Option<i64> {
        let value = self.get(name);
        self.ensure(value.is_some_and(Value::is_i64), name, "must be an integer");
        value.and_then(Value::as_i64)
    }

    /// A list, if there is one; empty when it is something else.
    pub(super) fn list(&mut self, name: &str) -> Option<&'a [Value]> {
        let value = self.get(name)?;
        self.ensure(value.is_array(), name, "must be an array");
        Some(value.as_array().map_or(&[], Vec::as_slice))
    }

    /// A list of texts, if there is one. Other entries are recorded and left out.
    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let entries = self.list(name)?;
        for (index, entry) in entries.iter().enumerate() {
            self.ensure(
                entry.is_string(),
                &format!("{name}[{index}]"),
                "must be a string",
            );
        }
        Some(
            entries
                .iter()
                .filter_map(|entry| entry.as_str().map(str::to_owned))
                .collect(),
        )
    }

    /// An object, if there is one.
    pub(super) fn object(&mut self, name: &str) -> Option<&'a Value> {
        let value = self.get(name)?;
        self.ensure(value.is_object(), name, "must be an object");
        Some(value).filter(|value| value.is_object())
    }

    /// A required object.
    pub(super) fn required_object(&mut self, name: &str) -> Option<&'a Value> {
        let absent = self.absent(name);
        self.ensure(!absent, name, "is required");
        self.object(name)
    }
}
