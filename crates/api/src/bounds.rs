//! The bounds in the schema of each status, and the cut to these bounds right before a write: the API server refuses
//! longer texts. Spec and status stay below 64 KiB, except for spec texts that JSON escapes in two to six bytes.

use super::{
    kind::Kind,
    names::{parts_of, with_conventions},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Most bytes of an object, spec and status, as the API server stores them.
pub const LARGEST_OBJECT: usize = 64 * 1024;
/// Longest text of a status field without its own bound, and of the operator's records. Compared texts (identifiers,
/// tags, names) are never that long.
const LONGEST_TEXT: i64 = 1024;
/// Longest value of a reconcile request: enough for a time in any format.
pub const LONGEST_REQUEST: usize = 128;
/// Most values of a map.
const MOST_VALUES: i64 = 16;
/// Most conditions of an object.
pub const MOST_CONDITIONS: usize = 12;
/// Longest type or reason of a condition.
const LONGEST_WORD: i64 = 64;
/// Longest message of a condition.
const LONGEST_MESSAGE: usize = 1024;

/// The end of a text that was cut.
const CUT: char = '…';

/// The bounds of each kind's status, by the name of the kind. Each is built at the first write of its kind, since a
/// schema takes milliseconds.
static BOUNDS: Mutex<BTreeMap<String, Arc<SchemaBounds>>> = Mutex::new(BTreeMap::new());

/// The bounds of fields that a schema does not describe.
static OPEN: LazyLock<SchemaBounds> = LazyLock::new(|| SchemaBounds {
    length: usize::try_from(LONGEST_TEXT).ok(),
    is_open: true,
    ..SchemaBounds::default()
});

/// The bounds of a value and of its parts.
#[derive(Debug, Default)]
struct SchemaBounds {
    length: Option<usize>,
    items: Option<usize>,
    properties: Option<usize>,
    fields: BTreeMap<String, SchemaBounds>,
    /// Of each item of a list, or each value of a map.
    each: Option<Box<SchemaBounds>>,
    /// Whether it may have fields that the schema does not name.
    is_open: bool,
}

impl SchemaBounds {
    fn of_kind<K: Kind>() -> Arc<Self> {
        let mut bounds = BOUNDS.lock().unwrap_or_else(PoisonError::into_inner);
        let build = || Arc::new(Self::of_status(&with_conventions(K::crd())));
        let of_kind = bounds.entry(K::kind(&()).into_owned());
        Arc::clone(of_kind.or_insert_with(build))
    }

    fn of_status(crd: &CustomResourceDefinition) -> Self {
        let schema = crd.spec.versions.first().and_then(|v| v.schema.as_ref());
        let schema = schema.and_then(|s| s.open_api_v3_schema.as_ref());
        let status = schema.and_then(|s| s.properties.as_ref()?.get("status"));
        status.map(Self::of_schema).unwrap_or_default()
    }

    fn of_schema(schema: &JSONSchemaProps) -> Self {
        let number = |bound: Option<i64>| bound.and_then(|bound| usize::try_from(bound).ok());
        let fields = schema.properties.iter().flatten();
        let items = match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items),
            _ => None,
        };
        let values = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values),
            _ => None,
        };
        let each = items.or(values);
        Self {
            length: number(schema.max_length),
            items: number(schema.max_items),
            properties: number(schema.max_properties),
            fields: fields
                .map(|(name, field)| (name.clone(), Self::of_schema(field)))
                .collect(),
            each: each.map(|each| Box::new(Self::of_schema(each))),
            is_open: schema.x_kubernetes_preserve_unknown_fields == Some(true),
        }
    }

    /// The bounds of the items of a list, or of the values without their own bounds.
    fn of_each(&self) -> Option<&Self> {
        self.each
            .as_deref()
            .or_else(|| self.is_open.then(|| &*OPEN))
    }

    fn cut(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(cut) = self.length.and_then(|most| cut_text(text, most)) {
                    *text = cut;
                }
            }
            Value::Array(items) => {
                items.truncate(self.items.unwrap_or(usize::MAX));
                if let Some(each) = self.of_each() {
                    items.iter_mut().for_each(|item| each.cut(item));
                }
            }
            Value::Object(fields) => {
                let most = self.properties.unwrap_or(usize::MAX);
                if fields.len() > most {
                    *fields = std::mem::take(fields).into_iter().take(most).collect();
                }
                for (name, field) in fields {
                    if let Some(bounds) = self.fields.get(name).or_else(|| self.of_each()) {
                        bounds.cut(field);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Cuts a status, as JSON, to the bounds of its schema. A list keeps its first items.
pub fn cut_status<K: Kind>(status: &mut Value) {
    SchemaBounds::of_kind::<K>().cut(status);
}

/// The message of a condition as it is written.
pub(super) fn cut_message(message: &str) -> String {
    cut_text(message, LONGEST_MESSAGE).unwrap_or_else(|| message.to_owned())
}

/// The start of a text that takes more than `most` bytes as the API server stores it, with an ellipsis; None: it fits.
/// A schema counts characters, which are never more.
pub fn cut_text(text: &str, most: usize) -> Option<String> {
    let mut taken = 0;
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        if taken + CUT.len_utf8() <= most {
            end = at;
        }
        taken += bytes_of(letter);
        if taken > most {
            return Some(format!("{}{CUT}", &text[..end]));
        }
    }
    None
}

/// How many bytes the API server stores for this.
pub fn stored_size(part: &impl Serialize) -> usize {
    let json = serde_json::to_string(part).unwrap_or_default();
    let escaped = json.chars().filter(|letter| is_escaped(*letter));
    json.len() + escaped.map(|letter| 6 - letter.len_utf8()).sum::<usize>()
}

/// The most bytes that a character takes in a stored text: what encoders write as `\b` and `\f` or in six bytes counts
/// as six.
fn bytes_of(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        _ if letter < ' ' || is_escaped(letter) => 6,
        _ => letter.len_utf8(),
    }
}

/// Go's encoder writes some HTML characters and two line separators as `\u003c` and the like.
fn is_escaped(letter: char) -> bool {
    matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

/// Adds the missing bounds to the schema of a status, except for lists: these set their own.
pub(super) fn bound_status(status: &mut JSONSchemaProps) {
    bound_conditions(status);
    bound_texts(status);
}

fn bound_texts(schema: &mut JSONSchemaProps) {
    let is_date = schema.format.as_deref() == Some("date-time");
    if schema.type_.as_deref() == Some("string") && schema.enum_.is_none() && !is_date {
        schema.max_length.get_or_insert(LONGEST_TEXT);
    }
    if schema.additional_properties.is_some() {
        schema.max_properties.get_or_insert(MOST_VALUES);
    }
    parts_of(schema).for_each(bound_texts);
}

/// Conditions have the type of Kubernetes, which has looser bounds.
fn bound_conditions(status: &mut JSONSchemaProps) {
    let properties = status.properties.as_mut();
    let Some(conditions) = properties.and_then(|p| p.get_mut("conditions")) else {
        return;
    };
    conditions.max_items = i64::try_from(MOST_CONDITIONS).ok();
    let Some(JSONSchemaPropsOrArray::Schema(condition)) = &mut conditions.items else {
        return;
    };
    for (name, field) in condition.properties.iter_mut().flatten() {
        match name.as_str() {
            "type" | "reason" => field.max_length = Some(LONGEST_WORD),
            "message" => field.max_length = i64::try_from(LONGEST_MESSAGE).ok(),
            "status" => {
                let words = ["True", "False", "Unknown"];
                field.enum_ = Some(words.map(|word| JSON(word.into())).into());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BareMetalServer;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn long_text_is_cut_at_character_boundary() {
        for (text, most, cut) in [
            ("", 0, None),
            ("short", 5, None),
            ("longer", 5, Some("lo…")),
            ("ééé", 6, None),
            ("éééé", 6, Some("é…")),
            ("a\"b", 4, None),
            ("a\"\"\"", 6, Some("a\"…")),
            ("a\u{1}\u{1}", 12, Some("a\u{1}…")),
            ("a<b", 8, None),
            ("<b>", 10, Some("<b…")),
        ] {
            assert_eq!(cut_text(text, most).as_deref(), cut, "{text:?} {most}");
        }
    }

    #[test]
    fn no_character_takes_more_than_is_counted() {
        let control = (0..0x20).filter_map(char::from_u32);
        for letter in control.chain("\"\\<>&\u{2028}\u{2029}\u{7f}xé€😀".chars()) {
            let stored = stored_size(&letter) - 2;
            assert!(stored <= bytes_of(letter), "{letter:?}");
            let is_short = matches!(letter, '\u{8}' | '\u{c}');
            assert!(stored == bytes_of(letter) || is_short, "{letter:?}");
        }
    }

    proptest! {
        #[test]
        fn cut_text_fits_and_stays_unchanged(text in "[\\PC<>&\"\n\u{1}\u{2028}]{0,40}", most in 3_usize..60) {
            let cut = cut_text(&text, most);
            let shown = cut.as_deref().unwrap_or(&text);
            prop_assert!(stored_size(&shown) <= most + 2, "{shown}");
            prop_assert_eq!(cut_text(shown, most), None);
        }
    }

    #[test]
    fn what_a_schema_leaves_open_is_cut_too() {
        let long = "x".repeat(5000);
        let open = json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"word": {"type": "string", "maxLength": 8}},
        });
        let bounds = SchemaBounds::of_schema(&serde_json::from_value(open).unwrap());
        let mut records =
            json!({"word": long, "number": 1, "of": [{"any": {"depth": long}}, long]});
        bounds.cut(&mut records);
        assert_eq!(records["word"], "xxxxx…");
        assert_eq!(records["number"], 1);
        for text in [&records["of"][0]["any"]["depth"], &records["of"][1]] {
            let text = text.as_str().unwrap();
            assert!(text.ends_with('…') && text.len() == 1024, "{text}");
        }
    }

    #[test]
    fn status_is_cut_to_its_schema_bounds() {
        let long = "x".repeat(5000);
        let mut status = json!({
            "observedGeneration": 7,
            "uuid": "00000000-0000-4000-8000-000000000001",
            "statusMessage": long,
            "addresses": vec![json!({"type": "ExternalIP", "address": long}); 100],
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": long}],
        });
        cut_status::<BareMetalServer>(&mut status);
        assert_eq!(status["observedGeneration"], 7);
        assert_eq!(status["uuid"], "00000000-0000-4000-8000-000000000001");
        let addresses = status["addresses"].as_array().unwrap();
        assert_eq!(addresses.len(), 32);
        let texts = [
            &status["statusMessage"],
            &addresses[31]["address"],
            &status["conditions"][0]["message"],
        ];
        for (text, most) in texts.into_iter().zip([512, 64, 1024]) {
            let text = text.as_str().unwrap();
            assert!(text.ends_with("x…") && text.len() == most, "{text}");
        }
        let before = status.clone();
        cut_status::<BareMetalServer>(&mut status);
        assert_eq!(status, before);
    }
}
