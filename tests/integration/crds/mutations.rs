//! Mutates every field of every spec: the API server refuses the value and names the field, or the operator can use it.
//! Includes new fields, and fails if it knows no valid or no invalid values of a field.

mod command_decisions;
mod server_decisions;
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
    fixtures::{RuleTable, tables},
    installed,
    rules::{api, without_index},
    schema::{crds, root, walk},
};
use values::Mutation;

/// Parallel requests.
const AT_ONCE: usize = 8;

/// One object to test.
struct MutationAttempt {
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
    let attempts = list_attempts();
    let mut tried: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut answers = stream::iter(attempts)
        .map(|attempt| {
            let api = api(&client, &attempt.kind, &namespace);
            async move { (check_attempt(&api, &attempt).await, attempt) }
        })
        .buffer_unordered(AT_ONCE);
    let mut bad = Vec::new();
    while let Some((judged, attempt)) = answers.next().await {
        let count = tried.entry(attempt.kind.clone()).or_default();
        match judged {
            Ok(true) => count.0 += 1,
            Ok(false) => count.1 += 1,
            Err(why) => {
                let MutationAttempt {
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

/// All objects to test: every mutation of every field of every spec.
fn list_attempts() -> Vec<MutationAttempt> {
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
            for mutation in values::list_mutations(&path, schema, value) {
                let mut object = object.clone();
                put(&mut object, &pointer, mutation.value.clone());
                attempts.push(MutationAttempt {
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

/// Objects of a kind that the API server accepts, from the fixtures.
fn good_objects(tables: &[RuleTable], kind: &str) -> Vec<Value> {
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

/// Removes nulls: server-side apply would take them for values.
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

/// JSON pointer to the first value of a path such as `spec.tags[]` in an object.
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
    // An empty list has no item to mutate.
    let is_empty = |value: &Value| value.is_null() || *value == json!([]);
    let mut places = places.into_iter().filter(|(_, value)| !is_empty(value));
    match rest {
        "" => places.next().map(|(place, _)| place),
        rest => places.find_map(|(place, value)| Some(place + &pointer(value, rest)?)),
    }
}

/// Replaces a value, or removes it.
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

/// Returns whether the API server accepted it. The error is an unclear refusal, or an object that the operator cannot
/// decide on.
async fn check_attempt(
    api: &Api<DynamicObject>,
    attempt: &MutationAttempt,
) -> Result<bool, String> {
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

/// Whether a refusal names the field, or the part of the spec that contains it.
fn names(said: &str, path: &str) -> bool {
    let bare = |path: &str| path.replace("[]", "").replace("{}", "");
    let said = bare(said);
    let path = bare(path);
    let (above, last) = path.rsplit_once('.').unwrap();
    // A rule over several fields names them by their paths below the spec.
    let top = path.split('.').nth(1).unwrap();
    let is_between = |c: char| !c.is_alphanumeric();
    let is_said = |name: &str| said.split(is_between).any(|word| word == name);
    said.contains(&path)
        || (above != "spec" && said.contains(above))
        || is_said(last)
        || is_said(top)
}

/// Checks that the operator can decode the object and decide.
fn decode(kind: &str, object: &Value) -> Result<(), String> {
    fn decode_as<K: serde::de::DeserializeOwned>(object: &Value) -> Result<K, String> {
        serde_json::from_value(object.clone()).map_err(|e| format!("it does not decode: {e}"))
    }
    match kind {
        "BareMetalServer" => {
            let object: BareMetalServer = decode_as(object)?;
            let decided = catch_unwind(AssertUnwindSafe(|| {
                server_decisions::decide_in_each_stage(&object)
            }));
            decided.map_err(|_| "it cannot be decided on: a panic".to_owned())
        }
        "ServerCommand" => {
            let object: ServerCommand = decode_as(object)?;
            let decided = catch_unwind(AssertUnwindSafe(|| {
                command_decisions::decide_in_each_stage(&object)
            }));
            decided.map_err(|_| "it cannot be decided on: a panic".to_owned())
        }
        "DedicatedHost" => decode_as::<DedicatedHost>(object).map(drop),
        "ServerTag" => decode_as::<ServerTag>(object).map(drop),
        "IpWhitelist" => decode_as::<IpWhitelist>(object).map(drop),
        "SshKey" => decode_as::<SshKey>(object).map(drop),
        "ProviderAccount" => decode_as::<ProviderAccount>(object).map(drop),
        "ClusterProviderAccount" => decode_as::<ClusterProviderAccount>(object).map(drop),
        other => panic!("how is a {other} read?"),
    }
}
