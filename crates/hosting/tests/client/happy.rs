//! Every operation with its good answer; and that these are all operations.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{
    logs,
    operations::{Body, Kind, Operation},
    page,
    scene::{SPARE, Scene, USED},
};

/// What the ledger must record for a change.
fn effect(operation: Operation, scene: &Scene, found: &Value) -> Value {
    let arguments = &scene.arguments;
    let server = arguments.server.as_str();
    let host = arguments.host.to_string();
    match operation {
        Operation::AddToWhitelist => json!({"whitelist": "1", "entry": arguments.entry.0 + 1}),
        Operation::ChangeWhitelist => json!({"whitelist": "1", "entry": arguments.entry.0}),
        Operation::RemoveFromWhitelist => {
            json!({"whitelist": "1", "removed": arguments.entry.to_string()})
        }
        Operation::ChangePassword => json!({"password": "changed"}),
        Operation::ResetPassword => json!({"resetAsked": true}),
        Operation::ValidateReset => json!({"password": "reset"}),
        Operation::Release => json!({"released": server}),
        Operation::CreateTag => json!({"tagCreated": arguments.new_tag}),
        Operation::RenameTag => json!({"tagRenamed": SPARE, "to": arguments.new_tag}),
        Operation::DeleteTag => json!({"tagDeleted": SPARE}),
        Operation::AddTag => json!({"tagged": server, "tag": arguments.new_tag}),
        Operation::RemoveTag => json!({"untagged": server, "tag": USED}),
        Operation::StartHost => json!({"host": host, "power": "start"}),
        Operation::StopHost => json!({"host": host, "power": "stop"}),
        Operation::RestartHost => json!({"host": host, "power": "restart"}),
        Operation::InstallHost => json!({"host": host, "installed": 104}),
        Operation::DeleteSshKey => json!({"keyDeleted": arguments.ssh_key.as_str()}),
        // These name what they create, which has no name before.
        Operation::Order => json!({"ordered": found["ordered"]}),
        Operation::CreateSshKey => json!({"keyStored": found["keyStored"]}),
        Operation::SendCommand => json!({"commanded": server, "command": found["command"]}),
        Operation::Reinstall => {
            json!({"reinstalled": server, "command": found["command"], "wipeDisk": true})
        }
        _ => Value::Null,
    }
}

#[tokio::test]
async fn every_operation_does_what_it_documents() {
    let mut requested = BTreeSet::new();
    for &operation in Operation::ALL {
        let scene = Scene::new().await;
        let before = scene.rig.latest().await;
        let reply = operation.call(&scene).await;
        assert!(reply.is_good(), "{operation:?}: {}", reply.text);
        reply.check(&scene);
        let ledger = scene.rig.ledger(before).await;
        assert_eq!(ledger.len(), 1, "{operation:?}");
        let expected = effect(operation, &scene, ledger[0].effect());
        assert_eq!(ledger[0].effect(), &expected, "{operation:?}");
        let changes = !ledger[0].effect().is_null();
        assert_eq!(changes, operation.kind() != Kind::Read, "{operation:?}");
        let (method, template) = ledger[0].operation();
        assert_eq!(method, operation.method());
        assert_eq!(template, operation.template());
        requested.insert((method, template));
        logs::none_leaked();
    }
    assert_eq!(requested, page::operations());
}

/// The names of all calls in these sources.
fn calls_in(folder: &Path, calls: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // Lists and checks make the calls of other operations.
        if ["tests", "listing.rs", "completeness.rs", "check.rs"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            calls_in(&path, calls);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            if let Some(rest) = line.trim_start().strip_prefix("pub async fn ") {
                calls.insert(rest.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn the_table_names_every_call_of_the_client() {
    let mut calls = BTreeSet::new();
    calls_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut calls,
    );
    let named = Operation::ALL.iter().map(|it| it.call_name().to_owned());
    assert_eq!(calls, named.collect());
}

#[test]
fn the_table_names_every_operation_of_the_page() {
    let all = Operation::ALL.iter();
    let table: BTreeSet<_> = all
        .map(|it| (it.method().to_owned(), it.template().to_owned()))
        .collect();
    assert_eq!(table, page::operations());
    assert_eq!(table.len(), Operation::ALL.len());
    // A read changes nothing, and the API has one method for reads.
    for operation in Operation::ALL {
        let reads = operation.method() == "GET";
        assert_eq!(reads, operation.kind() == Kind::Read, "{operation:?}");
        assert!(!reads || operation.body() != Body::Nothing);
    }
}
