//! A key: stored, then kept unchanged, then deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{judge::Findings, proxied_world::ProxiedWorld},
    small_kinds::{ChangeStep, SmallKindLifecycle, find_blind_repeats},
};

pub(super) const KEY: SmallKindLifecycle = SmallKindLifecycle {
    kind: "SshKey",
    expected: &[
        ("Create", "cluster PATCH sshkeys #1"),
        ("Create", "hosting POST sshKey #1"),
        ("Create", "cluster PATCH sshkeys/status #1"),
        ("Change", "cluster PATCH sshkeys/status #1"),
        ("Delete", "hosting DELETE sshKey/{uuid} #1"),
        ("Delete", "cluster PATCH sshkeys #1"),
    ],
    spec: |name| json!({"publicKey": public_key_of(name)}),
    change: |_| json!({"deletionPolicy": "Delete"}),
    is_settled: |_| true,
    judge: check_keys,
};

/// The number of characters of a key that differ between objects.
const OWN: usize = 14;

/// A valid public key, unique to this object.
fn public_key_of(name: &str) -> String {
    let own: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    assert!(own.len() < OWN, "{name} is too long");
    let own = format!("A{own:A<13}");
    format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{own}BvzfF3XuNCOxIvHHFfHOhYGLbn9Dk {name}")
}

/// Checks that the provider has exactly one key of the declared content, and none once the object is gone.
fn check_keys<'a>(
    proxied: &'a ProxiedWorld,
    object: &'a Value,
    step: ChangeStep,
) -> LocalBoxFuture<'a, Findings> {
    async move {
        let mut findings = find_blind_repeats(&proxied.trace.seen());
        let name = object["metadata"]["name"].as_str().expect("a name");
        let stored = list_stored_keys(proxied).await;
        let is_declared = step != ChangeStep::Delete;
        let blob = blob(&public_key_of(name));
        let of_content = stored.iter().filter(|key| {
            key["publicKey"]
                .as_str()
                .is_some_and(|it| self::blob(it) == blob)
        });
        let uuids: Vec<&Value> = of_content.map(|key| &key["uuid"]).collect();
        if uuids.len() != usize::from(is_declared) {
            findings.push(format!("stored for {name}: {uuids:?}"));
        }
        if is_declared && uuids.first() != Some(&&object["status"]["uuid"]) {
            let said = &object["status"]["uuid"];
            findings.push(format!(
                "stored for {name}: {uuids:?}, the object says {said}"
            ));
        }
        findings
    }
    .boxed_local()
}

/// The part of a public key that is neither algorithm nor comment.
fn blob(key: &str) -> String {
    key.split(' ').nth(1).unwrap_or_default().to_owned()
}

async fn list_stored_keys(proxied: &ProxiedWorld) -> Vec<Value> {
    let answer = proxied
        .world
        .simulator
        .call("GET", "/v3/sshKey", None)
        .await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    serde_json::from_value(answer.1).expect("a list of keys")
}
