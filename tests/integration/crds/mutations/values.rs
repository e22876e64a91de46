//! The values to test in a field, derived from its schema.

use serde_json::{Value, json};

/// One value to replace a valid one.
pub(super) struct Mutation {
    /// What is wrong or special about it.
    pub(super) what: String,
    /// The value. None removes the field.
    pub(super) value: Option<Value>,
    /// Whether the schema refuses it regardless of the rest of the object.
    pub(super) is_wrong: bool,
}

/// Texts that programs often mishandle. None of them is special here.
const ODD: [(&str, &str); 8] = [
    ("a blank", " "),
    ("blanks around it", " a "),
    ("line breaks", "a\r\nb\n"),
    ("control characters", "a\u{0}\u{1}\u{1b}[2J\u{1f}"),
    ("other scripts", "zürich-機械-דוגמה"),
    (
        "marks that combine, and ones that turn the text",
        "e\u{301}\u{202e}\u{200b}",
    ),
    ("beyond the basic plane", "🚀𝔘"),
    (
        "what templates and shells read",
        "{{ .Values }} $(reboot) ../.. %s ' \" \\",
    ),
];

/// All values to test in a field with this schema and this valid value.
/// Panics if it knows no values for the field: then its schema needs a bound, or this function a new line.
pub(super) fn list_mutations(path: &str, schema: &Value, good: &Value) -> Vec<Mutation> {
    let kind = schema["type"].as_str().unwrap_or_default();
    let mut all = vec![maybe("taken out", None), maybe("null", Some(Value::Null))];
    all.extend(other_types(kind));
    match kind {
        "string" => all.extend(texts(path, schema)),
        "integer" => all.extend(numbers(path, schema)),
        "boolean" => all.extend([true, false].map(|flag| maybe("a flag", Some(json!(flag))))),
        "array" => all.extend(lists(path, schema, good)),
        "object" => {
            all.push(maybe("nothing in it", Some(json!({}))));
            let mut more = good.clone();
            more["unheardOf"] = json!(1);
            // A map accepts any key.
            let is_map = schema.get("additionalProperties").is_some();
            all.push(Mutation {
                is_wrong: !is_map,
                ..maybe("a field that does not exist", Some(more))
            });
        }
        other => panic!("{path}: no values are known for the type {other:?}"),
    }
    all
}

fn maybe(what: &str, value: Option<Value>) -> Mutation {
    Mutation {
        what: what.to_owned(),
        value,
        is_wrong: false,
    }
}

fn wrong(what: &str, value: Value) -> Mutation {
    Mutation {
        is_wrong: true,
        ..maybe(what, Some(value))
    }
}

fn other_types(kind: &str) -> Vec<Mutation> {
    let types = [
        ("string", json!("1")),
        ("integer", json!(1)),
        ("boolean", json!(true)),
        ("array", json!(["a"])),
        ("object", json!({"a": "b"})),
    ];
    let others = types.into_iter().filter(|(of, _)| *of != kind);
    let mut all: Vec<_> = others
        .map(|(of, value)| wrong(&format!("a value of the type {of}"), value))
        .collect();
    all.push(wrong("a fraction", json!(1.5)));
    all
}

fn texts(path: &str, schema: &Value) -> Vec<Mutation> {
    let bound = |keyword: &str| {
        let bound = schema[keyword].as_u64();
        bound.map(|n| usize::try_from(n).expect("it is small"))
    };
    let mut all: Vec<_> = ODD
        .iter()
        .map(|(what, text)| maybe(what, Some(json!(text))))
        .collect();
    let is_needed = bound("minLength").is_some_and(|least| least > 0);
    all.push(Mutation {
        is_wrong: is_needed,
        ..maybe("nothing", Some(json!("")))
    });
    let words = schema["enum"].as_array();
    let format = schema["format"].as_str();
    let pattern = schema["pattern"].as_str();
    match (bound("maxLength"), words, format) {
        (Some(most), _, _) => {
            all.push(maybe("the most letters", Some(json!("a".repeat(most)))));
            all.push(maybe("the most digits", Some(json!("9".repeat(most)))));
            all.push(maybe(
                "the most of another script",
                Some(json!("機".repeat(most))),
            ));
            all.push(wrong("one letter too many", json!("a".repeat(most + 1))));
            all.push(wrong("far too long", json!("a".repeat(100_000))));
        }
        (None, Some(words), _) => {
            all.extend(words.iter().map(|word| maybe("a word", Some(word.clone()))));
            for other in words.iter().filter_map(Value::as_str) {
                let other = json!(other.to_uppercase());
                if !words.contains(&other) {
                    all.push(wrong("a word in capitals", other));
                }
            }
            all.push(wrong("a word that does not exist", json!("Unheard")));
            all.push(wrong("far too long", json!("a".repeat(100_000))));
        }
        (None, None, Some("date-time")) => all.extend(moments()),
        // A rule on a map limits its values.
        (None, None, None) if pattern.is_some_and(is_bounded) || path.ends_with("{}") => {
            all.push(wrong("far too long", json!("a".repeat(100_000))));
        }
        (None, None, format) => {
            panic!("{path}: nothing bounds this text ({format:?}, {pattern:?})")
        }
    }
    all
}

/// Whether a pattern limits the length of its matches.
fn is_bounded(pattern: &str) -> bool {
    pattern.starts_with('^') && pattern.ends_with('$') && !pattern.contains(['*', '+'])
}

fn moments() -> Vec<Mutation> {
    let may_be = [
        "1970-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-23:59",
        "0000-01-01T00:00:00+23:59",
        "2026-02-28T23:59:60Z",
        "2026-02-28t23:59:59.123456789z",
        "2026-02-28T23:59:59+14:00",
        "2026-02-28T23:59:59+99:99",
    ];
    let never = [
        "tomorrow",
        "2026-02-28",
        "2026-13-45T00:00:00Z",
        "1790000000",
    ];
    let may_be = may_be.map(|text| maybe("a moment", Some(json!(text))));
    let never = never.map(|text| wrong("no moment", json!(text)));
    may_be.into_iter().chain(never).collect()
}

fn numbers(path: &str, schema: &Value) -> Vec<Mutation> {
    let bound = |keyword: &str| {
        let bound = schema[keyword].as_i64();
        bound.unwrap_or_else(|| panic!("{path}: the number has no {keyword}"))
    };
    let (least, most) = (bound("minimum"), bound("maximum"));
    vec![
        maybe("zero", Some(json!(0))),
        maybe("the least", Some(json!(least))),
        maybe("the most", Some(json!(most))),
        wrong("below the least", json!(least - 1)),
        wrong("above the most", json!(most + 1)),
        wrong("the largest there is", json!(i64::MAX)),
        wrong("the smallest there is", json!(i64::MIN)),
    ]
}

fn lists(path: &str, schema: &Value, good: &Value) -> Vec<Mutation> {
    let most = schema["maxItems"].as_u64();
    let most = most.unwrap_or_else(|| panic!("{path}: the list has no maxItems"));
    let most = usize::try_from(most).expect("it is small");
    let first = &good[0];
    let is_unique = schema["x-kubernetes-list-type"] != "atomic";
    let of = |n: usize| json!(vec![first.clone(); n]);
    let mut all = vec![
        maybe("no items", Some(json!([]))),
        maybe("nothing as an item", Some(json!([null]))),
        Mutation {
            is_wrong: is_unique,
            ..maybe("the same twice", Some(of(2)))
        },
        maybe("as many as may be", Some(of(most))),
        wrong("one too many", of(most + 1)),
    ];
    if first.is_string() {
        let words: Vec<_> = (0..=most).map(|n| format!("w{n}")).collect();
        all.push(maybe("as many words as may be", Some(json!(words[..most]))));
        all.push(wrong("one word too many", json!(words)));
    }
    all
}
