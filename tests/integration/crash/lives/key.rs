//! A stored key: stored, kept from then on, deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{judge::Findings, proxied_world::ProxiedWorld},
    small::{Small, Step, sent_blindly},
};

pub(super) const KEY: Small = Small {
    kind: "SshKey",
    expected: &[
        ("Create", "cluster PATCH sshkeys #1"),
        ("Create", "hosting POST sshKey #1"),
        ("Create", "cluster PATCH sshkeys/status #1"),
        ("Change", "cluster PATCH sshkeys/status #1"),
        ("Delete", "hosting DELETE sshKey/{uuid} #1"),
        ("Delete", "cluster PATCH sshkeys #1"),
    ],
    spec: |name| json!({"publicKey": content(name)}),
    change: |_| json!({"deletionPolicy": "Delete"}),
    is_settled: |_| true,
    judge,
};

/// How much of a key is not the same for all.
const OWN: usize = 14;

/// A sound public key of this object alone.
fn content(name: &str) -> String {
    let own: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    assert!(own.len() < OWN, "{name} is too long");
    let own = format!("A{own:A<13}");
    format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{own}BvzfF3XuNCOxIvHHFfHOhYGLbn9Dk {name}")
}

/// The provider has exactly one key of the content that is declared, and none once the object is gone.
fn judge<'a>(
    proxied: &'a ProxiedWorld,
    object: &'a Value,
    step: Step,
) -> LocalBoxFuture<'a, Findings> {
    async move {
        let mut findings = sent_blindly(&proxied.trace.seen());
        let name = object["metadata"]["name"].as_str().expect("a name");
        let stored = stored(proxied).await;
        let is_declared = step != Step::Delete;
        let blob = blob(&content(name));
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

async fn stored(proxied: &ProxiedWorld) -> Vec<Value> {
    let answer = proxied
        .world
        .simulator
        .call("GET", "/v3/sshKey", None)
        .await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    serde_json::from_value(answer.1).expect("a list of keys")
}
