//! No change of a CRD breaks the objects and tools of the last release: nothing is removed, narrowed or newly required
//! in a version that was released.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::schema::crds;

/// Limits that must not rise, and limits that must not fall.
const LOWER_LIMITS: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
const UPPER_LIMITS: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// What must not change at all.
const FIXED: [&str; 9] = [
    "type",
    "default",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];
/// What may go, and neither come nor change: the new form may accept less.
const RESTRICTIONS: [&str; 10] = [
    "pattern",
    "format",
    "multipleOf",
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

/// What the new form of a CRD breaks, one sentence each.
fn find_breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut breaks = Vec::new();
    for field in ["group", "scope"] {
        if old["spec"][field] != new["spec"][field] {
            breaks.push(format!("{field} changed"));
        }
    }
    for field in ["kind", "listKind", "plural", "singular"] {
        if old["spec"]["names"][field] != new["spec"]["names"][field] {
            breaks.push(format!("names.{field} changed"));
        }
    }
    for field in ["shortNames", "categories"] {
        for gone in missing(&old["spec"]["names"][field], &new["spec"]["names"][field]) {
            breaks.push(format!("names.{field} {gone} removed"));
        }
    }
    for old in list(&old["spec"]["versions"]) {
        if old["served"] != true {
            continue;
        }
        let name = old["name"].as_str().unwrap();
        let is_it = |new: &&Value| new["name"] == name && new["served"] == true;
        let Some(new) = list(&new["spec"]["versions"]).iter().find(is_it) else {
            breaks.push(format!("version {name} removed"));
            continue;
        };
        for field in ["status", "scale"] {
            let (old, new) = (&old["subresources"][field], &new["subresources"][field]);
            if !old.is_null() && old != new {
                breaks.push(format!("{name} subresource {field} removed or changed"));
            }
        }
        for gone in missing(&old["selectableFields"], &new["selectableFields"]) {
            breaks.push(format!("{name} selectable field {gone} removed"));
        }
        let schema = "/schema/openAPIV3Schema";
        compare(old.pointer(schema), new.pointer(schema), name, &mut breaks);
    }
    breaks
}

/// Compares the schema of a field and everything below it.
fn compare(old: Option<&Value>, new: Option<&Value>, path: &str, breaks: &mut Vec<String>) {
    let (old, new) = match (old, new) {
        (None | Some(Value::Bool(false)), None) => return,
        (Some(old), Some(new)) => (old, new),
        (Some(_), None) => return breaks.push(format!("{path} removed")),
        (None, Some(_)) => return breaks.push(format!("{path} narrowed to a schema")),
    };
    for field in FIXED {
        if old[field] != new[field] {
            breaks.push(format!("{path}: {field} changed"));
        }
    }
    for field in RESTRICTIONS {
        if !new[field].is_null() && old[field] != new[field] {
            breaks.push(format!("{path}: narrowed? {field} changed"));
        }
    }
    for (fields, is_upper) in [(LOWER_LIMITS, false), (UPPER_LIMITS, true)] {
        for field in fields {
            let Some(limit) = new[field].as_f64() else {
                continue;
            };
            let is_wider = |was: f64| if is_upper { limit >= was } else { limit <= was };
            if !old[field].as_f64().is_some_and(is_wider) {
                breaks.push(format!("{path}: {field} tightened to {limit}"));
            }
        }
    }
    if !new["enum"].is_null() {
        match old["enum"].is_null() {
            true => breaks.push(format!("{path}: enum added")),
            false => breaks.extend(
                missing(&old["enum"], &new["enum"])
                    .map(|gone| format!("{path}: enum value {gone} removed")),
            ),
        }
    }
    for rule in list(&new["x-kubernetes-validations"]) {
        let is_it = |old: &Value| old["rule"] == rule["rule"];
        if !list(&old["x-kubernetes-validations"]).iter().any(is_it) {
            breaks.push(format!("{path}: narrowed? rule {} is new", rule["rule"]));
        }
    }
    for field in missing(&new["required"], &old["required"]) {
        // The API server sets a default before it validates.
        let has_default = !new["properties"][field.as_str().unwrap()]["default"].is_null();
        if !has_default {
            breaks.push(format!("{path}: {field} newly required"));
        }
    }
    for (field, schema) in old["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{field}");
        compare(Some(schema), new["properties"].get(field), &path, breaks);
    }
    compare(
        old.get("items"),
        new.get("items"),
        &format!("{path}[]"),
        breaks,
    );
    let values = "additionalProperties";
    compare(
        old.get(values),
        new.get(values),
        &format!("{path}{{}}"),
        breaks,
    );
}

/// The items of the first list that the second one lacks.
fn missing<'a>(of: &'a Value, from: &'a Value) -> impl Iterator<Item = &'a Value> {
    list(of).iter().filter(|item| !list(from).contains(item))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn last_release_is_still_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/released");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml");
    let files: Vec<_> = files.filter(is_yaml).collect();
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("CHANGELOG.md");
    let changelog = std::fs::read_to_string(changelog).unwrap();
    let is_released = |line: &str| line.starts_with("## [") && line != "## [Unreleased]";
    assert_eq!(
        changelog.lines().any(is_released),
        !files.is_empty(),
        "the CRDs of the last release are missing: see tests/fixtures/released/README.md"
    );
    let now = crds();
    let mut breaks = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let old: Value = serde_saphyr::from_str(&text).unwrap();
        let name = old["metadata"]["name"].as_str().unwrap();
        let new = now.iter().find(|crd| crd["metadata"]["name"] == name);
        let found = match new {
            Some(new) => find_breaks(&old, new),
            None => vec!["CRD removed".to_owned()],
        };
        breaks.extend(found.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(
        breaks.is_empty(),
        "see tests/fixtures/released/README.md: {breaks:#?}"
    );
}

#[test]
fn present_crds_break_nothing_of_themselves() {
    for crd in crds() {
        assert_eq!(find_breaks(&crd, &crd), Vec::<String>::new());
    }
}

/// A made-up CRD with everything that the comparison judges.
fn read_made_up_crd() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/made-up-crd.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The made-up CRD with one value set, or removed if it is null.
fn change_crd(at: &str, value: Value) -> Value {
    let mut crd = read_made_up_crd();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let at = at
        .replace("SPEC", spec)
        .replace("VERSION", "/spec/versions/0");
    let (parent, field) = at.rsplit_once('/').unwrap();
    let parent = crd.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) if value.is_null() => drop(items.remove(field.parse().unwrap())),
        Value::Object(fields) if value.is_null() => drop(fields.remove(field).unwrap()),
        parent => parent[field] = value,
    }
    crd
}

#[test]
fn each_kind_of_break_is_found() {
    let rules = json!([{"rule": "self.size == oldSelf.size"}, {"rule": "self.count > 2"}]);
    for (at, value, expected) in [
        ("/spec/group", json!("example.org"), "group changed"),
        ("/spec/scope", json!("Cluster"), "scope changed"),
        ("/spec/names/kind", json!("Item"), "names.kind changed"),
        ("/spec/names/plural", json!("items"), "names.plural changed"),
        (
            "/spec/names/shortNames",
            json!(["t"]),
            "names.shortNames \"th\" removed",
        ),
        (
            "/spec/names/categories",
            json!(null),
            "names.categories \"all\" removed",
        ),
        ("/spec/versions", json!([]), "version v1 removed"),
        ("VERSION/name", json!("v2"), "version v1 removed"),
        ("VERSION/served", json!(false), "version v1 removed"),
        (
            "VERSION/subresources",
            json!(null),
            "v1 subresource status removed or changed",
        ),
        (
            "VERSION/selectableFields",
            json!(null),
            "v1 selectable field {\"jsonPath\":\".spec.size\"} removed",
        ),
        (
            "SPEC/properties/count",
            json!(null),
            "v1.spec.count removed",
        ),
        (
            "SPEC/properties/count/type",
            json!("string"),
            "v1.spec.count: type changed",
        ),
        (
            "SPEC/properties/size/default",
            json!("Large"),
            "v1.spec.size: default changed",
        ),
        (
            "SPEC/properties/size/enum/1",
            json!(null),
            "v1.spec.size: enum value \"Large\" removed",
        ),
        (
            "SPEC/properties/name/enum",
            json!(["web"]),
            "v1.spec.name: enum added",
        ),
        (
            "SPEC/properties/count/minimum",
            json!(2),
            "v1.spec.count: minimum tightened to 2",
        ),
        (
            "SPEC/properties/count/maximum",
            json!(8),
            "v1.spec.count: maximum tightened to 8",
        ),
        (
            "SPEC/properties/name/minLength",
            json!(2),
            "v1.spec.name: minLength tightened to 2",
        ),
        (
            "SPEC/properties/name/maxLength",
            json!(9),
            "v1.spec.name: maxLength tightened to 9",
        ),
        (
            "SPEC/properties/tags/maxItems",
            json!(4),
            "v1.spec.tags: maxItems tightened to 4",
        ),
        (
            "SPEC/properties/tags/minItems",
            json!(1),
            "v1.spec.tags: minItems tightened to 1",
        ),
        (
            "SPEC/properties/tags/items/maxLength",
            json!(9),
            "v1.spec.tags[]: maxLength tightened to 9",
        ),
        (
            "SPEC/properties/labels/additionalProperties/maxLength",
            json!(9),
            "v1.spec.labels{}: maxLength tightened to 9",
        ),
        (
            "SPEC/properties/labels/additionalProperties",
            json!(null),
            "v1.spec.labels{} removed",
        ),
        (
            "SPEC/properties/name/pattern",
            json!("^[a-f]+$"),
            "v1.spec.name: narrowed? pattern changed",
        ),
        (
            "SPEC/properties/name/format",
            json!("ipv4"),
            "v1.spec.name: narrowed? format changed",
        ),
        (
            "SPEC/properties/tags/x-kubernetes-list-type",
            json!("atomic"),
            "v1.spec.tags: x-kubernetes-list-type changed",
        ),
        (
            "SPEC/required",
            json!(["size", "name"]),
            "v1.spec: \"name\" newly required",
        ),
        (
            "SPEC/x-kubernetes-validations",
            rules,
            "v1.spec: narrowed? rule \"self.count > 2\" is new",
        ),
    ] {
        let breaks = find_breaks(&read_made_up_crd(), &change_crd(at, value));
        assert_eq!(breaks, [expected], "{at}");
    }
}

#[test]
fn wider_crd_breaks_nothing() {
    let field =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    let v2 =
        json!({"name": "v2", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    for (at, value) in [
        ("/spec/names/shortNames", json!(["th", "t"])),
        (
            "/spec/versions",
            json!([read_made_up_crd()["spec"]["versions"][0], v2]),
        ),
        ("VERSION/additionalPrinterColumns", json!(null)),
        ("SPEC/properties/more", field),
        ("SPEC/required", json!(null)),
        (
            "SPEC/properties/size/enum",
            json!(["Small", "Large", "Huge"]),
        ),
        ("SPEC/properties/size/enum", json!(null)),
        ("SPEC/properties/count/minimum", json!(0)),
        ("SPEC/properties/count/maximum", json!(null)),
        ("SPEC/properties/name/pattern", json!(null)),
        ("SPEC/properties/name/description", json!("The name.")),
        ("SPEC/x-kubernetes-validations", json!(null)),
    ] {
        let breaks = find_breaks(&read_made_up_crd(), &change_crd(at, value));
        assert_eq!(breaks, Vec::<String>::new(), "{at}");
    }
}
