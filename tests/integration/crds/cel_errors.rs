//! No CEL rule fails with an error, whatever an object contains: such an object could not be written, not even to end
//! its deletion. Objects are stored under schemas without rules, and then written under the real schemas.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use lab::rig::{Cluster, eventually};

use super::{apply, rules::api, schema::crds};

const SOON: Duration = Duration::from_secs(60);
/// Objects of each kind.
const OBJECTS: usize = 150;
/// How many of them are in every run; the rest are in slices.
const OBJECTS_IN_EVERY_RUN: usize = 30;
/// Parallel requests.
const AT_ONCE: usize = 8;
/// Parts of the API server's messages about a rule that it could not evaluate, cost limits included.
const CEL_ERROR_MARKERS: [&str; 3] = ["evaluating rule", "for rule: ", "cost"];

/// Texts that are almost valid values of some field.
const TEXTS: [&str; 34] = [
    "",
    " ",
    "a",
    "win",
    "WIN-2022",
    "talos-1",
    "custom-ipxe",
    "debian-13",
    "fmo-a",
    "[fmo-",
    "\u{feff}#!/bin/sh\n",
    "ü\u{1f600}",
    "1s",
    "0s",
    "10m",
    "720h1s",
    "999999h999999h99999h",
    "999999h999999h999999h999999h",
    "9999999999999999999h",
    "-1s",
    "1d",
    "1s\n",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "10.0.0.1",
    "::ffff:10.0.0.1",
    "fe80::1%eth0",
    "2001:db8::/32",
    "010.0.0.1",
    "siderolink.api",
    "factoryhash",
    "default",
    "Shutdown",
    "DedicatedHost",
];

/// Times in the formats that the API server accepts.
const TIMES: [&str; 7] = [
    "2026-01-01T00:00:00Z",
    "2026-01-01t00:00:00z",
    "2026-01-01T00:00:00x5Z",
    "2026-01-01T00:00:00+99:99",
    "9999-12-31T23:59:59-23:59",
    "0000-01-01T00:00:00Z",
    "a word",
];

#[tokio::test]
async fn no_rule_throws_whatever_an_object_holds() {
    let own = Cluster::own();
    let namespace = own.namespace("throws").await;
    let client = own.client().await;
    let mut thrown = Vec::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let api = api(&client, kind, &namespace);
        let objects = objects(&crd);
        let mut loose = crd.clone();
        loosen(&mut loose["spec"]["versions"][0]);
        apply(&client, &loose).await;
        let stored = stored(&api, &objects).await;
        // Now install the real schema, which has a spec.
        apply(&client, &crd).await;
        eventually("the real schema is served", SOON, async || {
            let params = PatchParams::default().dry_run();
            let bare = Patch::Merge(json!({"spec": null}));
            match api.patch(&stored[0], &params, &bare).await {
                Err(kube::Error::Api(status)) if status.code == 422 => Some(()),
                _ => None,
            }
        })
        .await;
        let mut answers = stream::iter(stored.iter().zip(&objects))
            .map(|(name, object)| {
                let (api, next) = (api.clone(), object["next"].clone());
                async move { (collect_cel_errors(&api, name, &next).await, object) }
            })
            .buffer_unordered(AT_ONCE);
        while let Some((said, object)) = answers.next().await {
            for said in said {
                thrown.push(format!("{kind}: {said}: {object}"));
            }
        }
    }
    thrown.sort();
    thrown.dedup_by_key(|said| said.split(": {").next().map(str::to_owned));
    assert!(thrown.is_empty(), "{}", thrown.join("\n"));
}

/// Stores the objects and returns their names.
async fn stored(api: &Api<DynamicObject>, objects: &[Value]) -> Vec<String> {
    let mut names = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let mut made = object["this"].clone();
        let name = format!("o{number}");
        made["metadata"] = json!({ "name": name });
        let made: DynamicObject = serde_json::from_value(made).unwrap();
        eventually("it is stored", SOON, async || {
            match api.create(&PostParams::default(), &made).await {
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => panic!("{error}: {object}"),
                Ok(_) => Some(()),
            }
        })
        .await;
        names.push(name);
    }
    names
}

/// The rule errors for a write of the metadata, of the status, and of another spec.
async fn collect_cel_errors(api: &Api<DynamicObject>, name: &str, next: &Value) -> Vec<String> {
    let params = PatchParams::default().dry_run();
    let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/ours"]}}));
    let status = Patch::Merge(json!({"status": {"observedGeneration": 7}}));
    let edit = Patch::Merge(json!({ "spec": next }));
    let answers = [
        api.patch(name, &params, &finalizer).await,
        api.patch_status(name, &params, &status).await,
        api.patch(name, &params, &edit).await,
    ];
    let said = answers
        .into_iter()
        .filter_map(|answer| match answer.err()? {
            kube::Error::Api(status) => Some(status),
            other => panic!("{name}: {other}"),
        });
    let causes = said.flat_map(|status| status.details.map(|d| d.causes).unwrap_or_default());
    let said = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
    said.filter(|said| CEL_ERROR_MARKERS.iter().any(|word| said.contains(word)))
        .collect()
}

/// Removes everything that refuses a value of the right type.
fn loosen(schema: &mut Value) {
    const RULES: [&str; 15] = [
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "required",
        "pattern",
        "enum",
        "format",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "subresources",
    ];
    if let Value::Object(fields) = schema {
        // A field of ours may have the name of a keyword.
        fields.retain(|name, value| value["type"].is_string() || !RULES.contains(&&**name));
        fields.values_mut().for_each(loosen);
    }
}

/// Objects of a kind, each with a second spec for an edit.
fn objects(crd: &Value) -> Vec<Value> {
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let (spec, status) = (values(&root["spec"]), values(&root["status"]));
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
    let head = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": kind});
    let object = (spec.clone(), status, spec).prop_map(move |(spec, status, next)| {
        let mut this = head.clone();
        this["spec"] = spec;
        this["status"] = status;
        json!({"this": this, "next": next})
    });
    let mut runner = TestRunner::deterministic();
    let mut draw = || object.new_tree(&mut runner).unwrap().current();
    let drawn = (0..OBJECTS).map(|number| (number, draw())).collect();
    let name = |(number, _): &(usize, Value)| {
        (*number >= OBJECTS_IN_EVERY_RUN).then(|| number.to_string())
    };
    let list = format!("generated {kind} objects");
    let taken = tiers::select_by_name(&list, drawn, name);
    taken.into_iter().map(|(_, object)| object).collect()
}

/// Values of a schema's type. Most of them are valid.
fn values(schema: &Value) -> BoxedStrategy<Value> {
    let bound = |keyword: &str| schema[keyword].as_i64();
    match schema["type"].as_str().unwrap() {
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => {
            let ends = [
                bound("minimum"),
                bound("maximum"),
                Some(0),
                Some(1),
                Some(i64::from(i32::MAX)),
            ];
            select(ends.into_iter().flatten().collect::<Vec<_>>())
                .prop_map(Value::from)
                .boxed()
        }
        "string" => texts(schema),
        "array" => {
            let most = bound("maxItems").map_or(3, |most| usize::try_from(most.min(3)).unwrap());
            vec(values(&schema["items"]), 0..=most)
                .prop_map(Value::from)
                .boxed()
        }
        _ => match schema["properties"].as_object() {
            Some(fields) => fields_of(fields, schema),
            None if schema["additionalProperties"].is_object() => {
                let keys = select(TEXTS.map(str::to_owned).to_vec());
                let map = btree_map(keys, values(&schema["additionalProperties"]), 0..3);
                map.prop_map(|map| Value::Object(map.into_iter().collect()))
                    .boxed()
            }
            None => Just(json!({})).boxed(),
        },
    }
}

fn texts(schema: &Value) -> BoxedStrategy<Value> {
    let texts = if let Some(words) = schema["enum"].as_array() {
        let mut words = words.clone();
        words.push(json!("Other"));
        return select(words).boxed();
    } else if schema["format"] == "date-time" {
        select(TIMES.to_vec()).prop_map(str::to_owned).boxed()
    } else if let Some(pattern) = schema["pattern"].as_str() {
        let inner = pattern.trim_start_matches('^').trim_end_matches('$');
        match proptest::string::string_regex(inner) {
            Ok(matching) => {
                prop_oneof![matching, select(TEXTS.to_vec()).prop_map(str::to_owned)].boxed()
            }
            Err(_) => select(TEXTS.to_vec()).prop_map(str::to_owned).boxed(),
        }
    } else {
        select(TEXTS.to_vec()).prop_map(str::to_owned).boxed()
    };
    texts.prop_map(Value::from).boxed()
}

fn fields_of(fields: &Map<String, Value>, schema: &Value) -> BoxedStrategy<Value> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.into_iter().flatten().any(|r| r == name);
    let each: Vec<_> = fields
        .iter()
        .map(|(name, field)| {
            let name = name.clone();
            // A stored object may lack a required field.
            let share = if is_required(&name) { 0.93 } else { 0.5 };
            prop::option::weighted(share, values(field))
                .prop_map(move |value| Some((name.clone(), value?)))
        })
        .collect();
    each.prop_map(|found| Value::Object(found.into_iter().flatten().collect()))
        .boxed()
}
