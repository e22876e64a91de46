//! Checks of the schemas in `crds/`.

use std::collections::BTreeSet;
use std::path::Path;

use api::{bounds::LARGEST_OBJECT, records::LARGEST_RECORDS};
use serde_json::Value;

/// Every CRD in `crds/`.
pub(crate) fn crds() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
        .iter()
        .map(|file| serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

/// The schema of the only version of a CRD.
pub(crate) fn root(crd: &Value) -> &Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    &versions[0]["schema"]["openAPIV3Schema"]
}

/// Calls `visit` for the schema and everything below it, with paths such as `spec.tags[]`.
pub(super) fn walk(schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    below(schema, "", visit);
}

fn below(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        below(property, &path, visit);
    }
    if let Some(items) = schema.get("items") {
        below(items, &format!("{path}[]"), visit);
    }
    if let Some(values) = schema.get("additionalProperties") {
        below(values, &format!("{path}{{}}"), visit);
    }
}

/// The names of all fields, without their paths.
pub(super) fn field_names(crd: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    walk(root(crd), &mut |path, _| {
        let last = path.rsplit('.').next().unwrap();
        let last = last.trim_end_matches("[]").trim_end_matches("{}");
        if !last.is_empty() {
            names.insert(last.to_owned());
        }
    });
    names
}

#[test]
fn every_field_has_a_description() {
    let mut fields = 0;
    for crd in crds() {
        walk(root(&crd), &mut |path, schema| {
            // The description of a list covers its items.
            if path.ends_with("[]") || path.ends_with("{}") {
                return;
            }
            fields += 1;
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(
                text.len() > 3,
                "{} of {} has no description",
                path,
                crd["metadata"]["name"]
            );
            assert!(!text.contains('\n'), "a line break in {path}: {text}");
        });
    }
    assert!(fields > 80, "only {fields} fields were seen");
}

/// An older CRD must not prune the operator's own records.
#[test]
fn records_are_open_at_every_level() {
    let mut kinds = 0;
    for crd in crds() {
        walk(root(&crd), &mut |path, schema| {
            kinds += usize::from(path == "status.records");
            if path.starts_with("status.records") && schema["type"] == "object" {
                let is_open = &schema["x-kubernetes-preserve-unknown-fields"];
                assert_eq!(*is_open, true, "{path} of {}", crd["metadata"]["name"]);
            }
        });
    }
    assert_eq!(kinds, 6);
}

#[test]
fn printer_columns_run_from_ready_to_age() {
    for crd in crds() {
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
        let columns = columns.unwrap();
        let names: Vec<&str> = columns
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        let kind = &crd["spec"]["names"]["kind"];
        assert_eq!(names[..2], ["Ready", "Reason"], "{kind}");
        assert_eq!(names[names.len() - 2..], ["Message", "Age"], "{kind}");
        // kubectl prints the object's name before these columns.
        let distinct: BTreeSet<&str> = names.iter().copied().chain(["Name"]).collect();
        assert_eq!(distinct.len(), names.len() + 1, "{kind}: {names:?}");
        assert!(names.contains(&"Synced"), "{kind}");
        // kubectl shows the `-o wide` columns in order of definition, so none may follow Age.
        let mut always = columns
            .iter()
            .filter(|c| c["priority"].as_i64().unwrap_or(0) == 0);
        assert_eq!(always.next_back().unwrap()["name"], "Age", "{kind}");
    }
}

/// Without a list type, server-side apply treats a list as one value, and two writers overwrite each other.
/// So every list declares its type.
#[test]
fn lists_and_references_declare_merging() {
    let mut wrong = BTreeSet::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(root(&crd), &mut |path, schema| {
            let field = path.rsplit('.').next().unwrap();
            let is_right = match schema["type"].as_str() {
                Some("array") => match schema["x-kubernetes-list-type"].as_str() {
                    Some("set" | "atomic") => schema["x-kubernetes-list-map-keys"].is_null(),
                    Some("map") => has_its_keys(schema),
                    _ => false,
                },
                Some("object") if field.ends_with("Ref") => {
                    schema["x-kubernetes-map-type"] == "atomic"
                }
                _ => true,
            };
            if !is_right {
                wrong.insert(format!("{kind}: {path}"));
            }
        });
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether the keys of a map list are fields that every item has.
fn has_its_keys(list: &Value) -> bool {
    let keys = list["x-kubernetes-list-map-keys"].as_array();
    keys.is_some_and(|keys| {
        !keys.is_empty()
            && keys.iter().all(|key| {
                let required = list["items"]["required"].as_array();
                let is_required = required.is_some_and(|names| names.contains(key));
                let field = &list["items"]["properties"][key.as_str().unwrap()];
                is_required || !field["default"].is_null()
            })
    })
}

/// The API server refuses a longer status, which blocks the object. So everything in it has a bound.
/// `records` have an open schema: `crates/api/src/bounds.rs` and the size tests in `crates/core` bound them.
#[test]
fn status_texts_lists_and_maps_are_bounded() {
    let mut unbounded = BTreeSet::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(&root(&crd)["properties"]["status"], &mut |path, schema| {
            let has = |keyword: &str| schema[keyword].is_u64();
            let is_bounded = match schema["type"].as_str() {
                Some("string") => {
                    let is_date = schema["format"] == "date-time";
                    has("maxLength") || schema["enum"].is_array() || is_date
                }
                Some("array") => has("maxItems"),
                Some("object") if is_open(schema) => path.starts_with("records"),
                Some("object") => schema["properties"].is_object() || has("maxProperties"),
                _ => true,
            };
            if !is_bounded {
                unbounded.insert(format!("{kind}: status.{path}"));
            }
        });
    }
    assert!(unbounded.is_empty(), "{unbounded:#?}");
}

/// Whether the schema allows unknown fields.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The maximum JSON size of this schema's values in bytes, or None without a bound.
/// A text has at most as many bytes as its bound, as the operator truncates it.
fn longest(schema: &Value) -> Option<u64> {
    let bound = |keyword: &str| schema[keyword].as_u64();
    Some(match schema["type"].as_str()? {
        "boolean" => 5,
        "integer" => 20,
        "string" => match schema["enum"].as_array() {
            Some(words) => {
                let words = words.iter().filter_map(Value::as_str);
                words.map(|word| word.len() as u64 + 2).max()?
            }
            None if schema["format"] == "date-time" => 32,
            None => bound("maxLength")? + 2,
        },
        "array" => bound("maxItems")? * (longest(&schema["items"])? + 1) + 2,
        "object" if is_open(schema) => LARGEST_RECORDS as u64,
        "object" => {
            let mut sum = 2;
            for (name, field) in schema["properties"].as_object()? {
                sum += name.len() as u64 + 4 + longest(field)?;
            }
            sum
        }
        _ => return None,
    })
}

/// Memory and etcd hold each object completely.
/// `tests/integration/end_to_end/sizes.rs` covers the kinds with limits other than their schema's.
#[test]
fn schema_limits_small_kinds_to_64_kib() {
    let few = ["ServerCommand", "ServerTag", "SshKey"];
    let mut judged = BTreeSet::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        if !few.contains(&kind) {
            continue;
        }
        judged.insert(kind.to_owned());
        let properties = &root(&crd)["properties"];
        let status = longest(&properties["status"]).expect("all of it has a bound");
        // The bounds of a spec count characters, and JSON escapes some characters in six bytes.
        let spec = 6 * longest(&properties["spec"]).expect("all of it has a bound");
        let most = LARGEST_OBJECT as u64;
        assert!(spec + status < most, "{kind}: {spec} + {status} bytes");
    }
    assert!(judged.iter().eq(few), "{judged:?}");
    let unbounded =
        serde_json::json!({"type": "array", "items": {"type": "string", "maxLength": 9}});
    assert_eq!(longest(&unbounded), None);
}

#[test]
fn account_entry_limit_counts_every_text() {
    let crds = crds();
    let cluster = crds
        .iter()
        .find(|crd| crd["spec"]["names"]["kind"] == "ClusterProviderAccount");
    let entries = &root(cluster.unwrap())["properties"]["spec"]["properties"]["allowedNamespaces"];
    let rules = entries["x-kubernetes-validations"].as_array().unwrap();
    let rules = rules.iter().filter_map(|rule| rule["rule"].as_str());
    let ending = |end: &str| rules.clone().find(|rule| rule.ends_with(end)).unwrap();
    let sum = ending("<= 8192");
    let mut counted = 0;
    walk(entries, &mut |path, schema| {
        if schema["type"] == "string" && schema["enum"].is_null() {
            let field = path.rsplit('.').next().unwrap();
            let term = match (field.strip_suffix("[]"), field.strip_suffix("{}")) {
                (Some(list), _) => format!(".{list}.map(t, t.size()).sum()"),
                (_, Some(map)) => format!(".{map}[k].size()"),
                _ => format!(".{field}.size()"),
            };
            assert!(sum.contains(&term), "{path}: no {term} in {sum}");
            counted += 1;
        }
    });
    assert_eq!(counted, 8, "{sum}");
    assert!(sum.contains("map(k, k.size() + "), "keys of labels: {sum}");
    // All entries together may have 128 hostIDs.
    assert!(ending("<= 128").contains("e.hostIDs.size()"));
}

#[test]
fn crd_files_contain_no_float_numbers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let value = line.split_once(": ").map_or("", |(_, value)| value);
            let is_float = value.contains('.') && value.parse::<f64>().is_ok();
            assert!(!is_float, "{}: {line}", path.display());
        }
    }
}

/// The name and unit that Jobs use, and tools that clean up after Jobs.
const SECONDS: [&str; 1] = ["ServerCommand: spec.ttlSecondsAfterFinished"];

#[test]
fn spans_of_time_in_a_spec_are_durations() {
    let mut numbers = Vec::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(root(&crd), &mut |path, schema| {
            let units = ["second", "minute", "hours", "days", "millis"];
            let name = path.rsplit('.').next().unwrap().to_lowercase();
            let is_span = units.iter().any(|unit| name.contains(unit));
            if path.starts_with("spec") && is_span && schema["type"] == "integer" {
                numbers.push(format!("{kind}: {path}"));
            }
        });
    }
    assert_eq!(numbers, SECONDS);
}

/// The API server stores schema defaults in the object, where later defaults do not apply.
/// So unset fields stay unset, and status.timing shows the values in use.
#[test]
fn account_timing_has_no_schema_defaults() {
    let mut times = 0;
    for crd in crds() {
        let timing = &root(&crd)["properties"]["spec"]["properties"]["timing"];
        walk(timing, &mut |path, schema| {
            assert!(schema["default"].is_null(), "spec.timing.{path}");
            times += usize::from(schema["type"] == "string");
        });
        assert!(timing["required"].is_null(), "{timing:#}");
    }
    assert_eq!(times, 12, "six of each kind of account");
}

#[test]
fn spec_fields_document_defaults_and_edits() {
    let mut gaps = Vec::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let spec = &root(&crd)["properties"]["spec"];
        gaps.extend(find_undocumented_fields(spec, kind, false));
    }
    assert!(gaps.is_empty(), "{gaps:#?}");
}

/// The fields below that lack a part of their description.
/// The parent field may describe the effect of a change.
fn find_undocumented_fields(schema: &Value, path: &str, is_documented: bool) -> Vec<String> {
    const CHANGES: [&str; 3] = ["Mutable", "Immutable", "A change after the order"];
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.into_iter().flatten().any(|r| r == name);
    // Exactly one of these fields is set.
    let is_choice = path.ends_with(".sshKeys[]");
    let mut gaps = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let text = field["description"].as_str().unwrap_or_default();
        let is_documented = is_documented || CHANGES.iter().any(|word| text.contains(word));
        let holds_fields = field["properties"].is_object();
        if !holds_fields && !is_documented {
            gaps.push(format!("{path}: what a change does: {text}"));
        }
        if !holds_fields && !is_required(name) && !is_choice && !text.contains("efault: ") {
            gaps.push(format!("{path}: its default: {text}"));
        }
        gaps.extend(find_undocumented_fields(field, &path, is_documented));
        if field["items"]["properties"].is_object() {
            gaps.extend(find_undocumented_fields(
                &field["items"],
                &format!("{path}[]"),
                is_documented,
            ));
        }
    }
    gaps
}

#[test]
fn schemas_are_structural_and_small() {
    for crd in crds() {
        walk(root(&crd), &mut |path, schema| {
            let format = schema["format"].as_str().unwrap_or_default();
            assert!(
                ["", "int32", "int64", "date-time"].contains(&format),
                "{path}: {format}"
            );
            assert!(
                schema.get("nullable").is_none(),
                "{path}: null would count as set"
            );
            assert!(
                schema["type"].is_string(),
                "{path} has no type: not structural"
            );
        });
        assert!(
            serde_json::to_vec(&crd).unwrap().len() < 200 * 1024,
            "too large to apply"
        );
    }
}
