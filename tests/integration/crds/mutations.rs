//! Every field of every spec, walked by its schema: whatever stands in it, the API server refuses it in words that name
//! the field, or the operator can read it and decide on it. A new field is walked without a new test, and the walk
//! fails where it knows no good value of a field or no bad ones.

mod commanded;
mod decided;
mod values;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use api::{
    BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, ProviderAccount,
    ServerCommand, ServerTag, SshKey,
};
use futures::{StreamExt as _, stream};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    fixtures::{Table, tables},
    installed,
    rules::{api, without_index},
    schema::{crds, root, walk},
};
use values::Mutation;

/// Requests at once.
const AT_ONCE: usize = 8;

/// One object that is tried.
struct Attempt {
    kind: String,
    path: String,
    mutation: Mutation,
    object: Value,
}

#[tokio::test]
async fn every_field_value_is_refused_or_handled() {
    let cluster = installed().await;
    let namespace = cluster.namespace("mutations").await;
    let client = cluster.client().await;
    let attempts = attempts();
    let mut tried: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut answers = stream::iter(attempts)
        .map(|attempt| {
            let api = api(&client, &attempt.kind, &namespace);
            async move { (judge(&api, &attempt).await, attempt) }
        })
        .buffer_unordered(AT_ONCE);
    let mut bad = Vec::new();
    while let Some((judged, attempt)) = answers.next().await {
        let count = tried.entry(attempt.kind.clone()).or_default();
        match judged {
            Ok(true) => count.0 += 1,
            Ok(false) => count.1 += 1,
            Err(why) => {
                let Attempt {
                    kind,
                    path,
                    mutation,
                    ..
                } = attempt;
                let value = mutation.value.map_or_else(String::new, |v| v.to_string());
                let value: String = value.chars().take(80).collect();
                bad.push(format!("{kind} {path}: {}: {value}: {why}", mutation.what));
            }
        }
    }
    println!("taken and refused: {tried:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert_eq!(tried.len(), 8, "every kind");
    for (kind, (taken, refused)) in tried {
        assert!(taken > 10 && refused > 30, "{kind}: {taken}, {refused}");
    }
}

/// All that is tried: every mutation of every field below every spec.
fn attempts() -> Vec<Attempt> {
    let tables = tables();
    let mut attempts = Vec::new();
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let good = good_objects(&tables, kind);
        let spec = &root(&crd)["properties"]["spec"];
        walk(spec, &mut |below, schema| {
            if below.is_empty() {
                return;
            }
            let path = format!("spec.{below}");
            let found = good
                .iter()
                .find_map(|object| Some((object, pointer(object, &path)?)));
            let (object, pointer) =
                found.unwrap_or_else(|| panic!("{kind}: no fixture has a good value of {path}"));
            let value = object.pointer(&pointer).unwrap();
            for mutation in values::of(&path, schema, value) {
                let mut object = object.clone();
                put(&mut object, &pointer, mutation.value.clone());
                attempts.push(Attempt {
                    kind: kind.to_owned(),
                    path: path.clone(),
                    mutation,
                    object,
                });
            }
        });
    }
    attempts
}

/// Objects of a kind that the API server takes, by the fixtures.
fn good_objects(tables: &[Table], kind: &str) -> Vec<Value> {
    let of_kind = tables.iter().filter(|t| t.kinds.iter().any(|k| k == kind));
    let mut good = Vec::new();
    for table in of_kind {
        let accepted = table.accepted.iter().map(|accepted| &accepted.object);
        let keeping = table.rules.iter().filter(|case| case.from.is_none());
        let keeping = keeping.map(|case| &case.accept);
        for patch in accepted.chain(keeping) {
            let mut object = table.object(kind, &[patch]);
            drop_nulls(&mut object);
            let meta = object["metadata"].as_object_mut().unwrap();
            if meta.remove("generateName").is_some() {
                meta.insert("name".to_owned(), "walked".into());
            }
            good.push(object);
        }
    }
    good
}

/// What is null is not given; server-side apply would take it for a value.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Where the first value of a path such as `spec.tags[]` lies in an object.
fn pointer(object: &Value, path: &str) -> Option<String> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = first.trim_end_matches("[]").trim_end_matches("{}");
    let value = object.get(name).filter(|value| !value.is_null())?;
    let places: Vec<(String, &Value)> = match (first.ends_with("[]"), first.ends_with("{}")) {
        (true, _) => {
            let items = value.as_array()?.iter().enumerate();
            items
                .map(|(n, item)| (format!("/{name}/{n}"), item))
                .collect()
        }
        (_, true) => {
            let entries = value.as_object()?.iter();
            let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
            entries
                .map(|(key, item)| (format!("/{name}/{}", escaped(key)), item))
                .collect()
        }
        _ => vec![(format!("/{name}"), value)],
    };
    // Of a list without an item no item can be wrong.
    let is_empty = |value: &Value| value.is_null() || *value == json!([]);
    let mut places = places.into_iter().filter(|(_, value)| !is_empty(value));
    match rest {
        "" => places.next().map(|(place, _)| place),
        rest => places.find_map(|(place, value)| Some(place + &pointer(value, rest)?)),
    }
}

/// Puts a value in the place of another one, or takes that out.
fn put(object: &mut Value, pointer: &str, value: Option<Value>) {
    let (above, last) = pointer.rsplit_once('/').unwrap();
    let above = object.pointer_mut(above).unwrap();
    let key = last.replace("~1", "/").replace("~0", "~");
    match (value, above) {
        (Some(value), Value::Object(fields)) => drop(fields.insert(key, value)),
        (None, Value::Object(fields)) => drop(fields.remove(&key)),
        (Some(value), Value::Array(items)) => items[last.parse::<usize>().unwrap()] = value,
        (None, Value::Array(items)) => drop(items.remove(last.parse().unwrap())),
        (_, other) => panic!("{pointer}: {other}"),
    }
}

/// Whether it was taken; what is wrong where neither a good refusal nor an object that can be decided on came of it.
async fn judge(api: &Api<DynamicObject>, attempt: &Attempt) -> Result<bool, String> {
    let name = attempt.object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("walk")
        .force()
        .dry_run()
        .validation_strict();
    let answer = api
        .patch(name, &params, &Patch::Apply(&attempt.object))
        .await;
    match answer {
        Ok(_) if attempt.mutation.is_wrong => Err("it is taken".to_owned()),
        Ok(taken) => {
            let object = serde_json::to_value(taken).unwrap();
            decode(&attempt.kind, &object).map(|()| true)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422 | 500) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
            let said: Vec<_> = [status.message.clone()].into_iter().chain(causes).collect();
            let said = without_index(&said.join("\n"));
            match names(&said, &attempt.path) {
                true => Ok(false),
                false => Err(format!("the refusal does not name it: {said}")),
            }
        }
        Err(error) => Err(format!("no answer to the question: {error}")),
    }
}

/// Whether a refusal names the field, or the part of the spec that it is in.
fn names(said: &str, path: &str) -> bool {
    let bare = |path: &str| path.replace("[]", "").replace("{}", "");
    let said = bare(said);
    let path = bare(path);
    let (above, last) = path.rsplit_once('.').unwrap();
    // A rule over several fields says their names as they stand below the spec.
    let top = path.split('.').nth(1).unwrap();
    let is_between = |c: char| !c.is_alphanumeric();
    let is_said = |name: &str| said.split(is_between).any(|word| word == name);
    said.contains(&path)
        || (above != "spec" && said.contains(above))
        || is_said(last)
        || is_said(top)
}

/// The operator reads it, and decides.
fn decode(kind: &str, object: &Value) -> Result<(), String> {
    fn read<K: serde::de::DeserializeOwned>(object: &Value) -> Result<K, String> {
        serde_json::from_value(object.clone()).map_err(|e| format!("it does not decode: {e}"))
    }
    match kind {
        "BareMetalServer" => {
            let object: BareMetalServer = read(object)?;
            let decided = catch_unwind(AssertUnwindSafe(|| decided::in_each_stage(&object)));
            decided.map_err(|_| "it cannot be decided on: a panic".to_owned())
        }
        "ServerCommand" => {
            let object: ServerCommand = read(object)?;
            let decided = catch_unwind(AssertUnwindSafe(|| commanded::in_each_stage(&object)));
            decided.map_err(|_| "it cannot be decided on: a panic".to_owned())
        }
        "DedicatedHost" => read::<DedicatedHost>(object).map(drop),
        "ServerTag" => read::<ServerTag>(object).map(drop),
        "IpWhitelist" => read::<IpWhitelist>(object).map(drop),
        "SshKey" => read::<SshKey>(object).map(drop),
        "ProviderAccount" => read::<ProviderAccount>(object).map(drop),
        "ClusterProviderAccount" => read::<ClusterProviderAccount>(object).map(drop),
        other => panic!("how is a {other} read?"),
    }
}
