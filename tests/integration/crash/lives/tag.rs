//! A tag: made, renamed, deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{judge::Findings, proxied_world::ProxiedWorld},
    small::{Small, Step, sent_blindly},
};

pub(super) const TAG: Small = Small {
    kind: "ServerTag",
    expected: &[
        ("Create", "cluster PATCH servertags #1"),
        ("Create", "hosting POST tags #1"),
        ("Create", "cluster PATCH servertags/status #1"),
        ("Change", "cluster PATCH servertags #1"),
        ("Change", "hosting PUT tags/{tag} #1"),
        ("Change", "cluster PATCH servertags/status #1"),
        ("Delete", "hosting DELETE tags/{tag} #1"),
        ("Delete", "cluster PATCH servertags #1"),
    ],
    spec: |name| json!({"tag": name, "renamePolicy": "Rename"}),
    change: |name| json!({"tag": renamed(name)}),
    is_settled: |_| true,
    judge,
};

fn renamed(name: &str) -> String {
    format!("{name}:renamed")
}

/// The account has exactly the one tag, and none once the object is gone, unless the object says that somebody else
/// made it; and no change was sent again before a look had shown that it was not made.
fn judge<'a>(
    proxied: &'a ProxiedWorld,
    object: &'a Value,
    step: Step,
) -> LocalBoxFuture<'a, Findings> {
    async move {
        let mut findings = sent_blindly(&proxied.trace.seen());
        let name = object["metadata"]["name"].as_str().expect("a name");
        let wanted = match step {
            Step::Create => Some(name.to_owned()),
            Step::Change => Some(renamed(name)),
            Step::Delete => (object["status"]["createdByObject"] == false).then(|| renamed(name)),
        };
        let wanted: Vec<String> = wanted.into_iter().collect();
        let has = tags_of(proxied, name).await;
        if has != wanted {
            findings.push(format!("the account has {has:?}, not {wanted:?}"));
        }
        if step != Step::Delete
            && wanted.first().map(String::as_str) != object["status"]["tag"].as_str()
        {
            findings.push(format!("the object says {}", object["status"]["tag"]));
        }
        findings
    }
    .boxed_local()
}

/// The names of the tag that the account has.
async fn tags_of(proxied: &ProxiedWorld, name: &str) -> Vec<String> {
    let tags = proxied.world.simulator.records("/v3/flexMetal/tags").await;
    let names = tags.iter().filter_map(|tag| tag["tag"].as_str());
    let names = names.filter(|tag| *tag == name || *tag == renamed(name));
    names.map(str::to_owned).collect()
}
