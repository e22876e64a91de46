//! A tag: created, renamed, deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{judge::Findings, proxied_world::ProxiedWorld},
    small_kinds::{ChangeStep, SmallKindLifecycle, find_blind_repeats},
};

pub(super) const TAG: SmallKindLifecycle = SmallKindLifecycle {
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
    change: |name| json!({"tag": renamed_tag(name)}),
    is_settled: |_| true,
    judge: check_tags,
};

fn renamed_tag(name: &str) -> String {
    format!("{name}:renamed")
}

/// Checks that the account has exactly this tag, and none once the object is gone, unless the object reports
/// another creator. Also checks that no change was repeated before a read showed that it was not made.
fn check_tags<'a>(
    proxied: &'a ProxiedWorld,
    object: &'a Value,
    step: ChangeStep,
) -> LocalBoxFuture<'a, Findings> {
    async move {
        let mut findings = find_blind_repeats(&proxied.trace.seen());
        let name = object["metadata"]["name"].as_str().expect("a name");
        let wanted = match step {
            ChangeStep::Create => Some(name.to_owned()),
            ChangeStep::Change => Some(renamed_tag(name)),
            ChangeStep::Delete => {
                (object["status"]["createdByObject"] == false).then(|| renamed_tag(name))
            }
        };
        let wanted: Vec<String> = wanted.into_iter().collect();
        let has = list_tag_names(proxied, name).await;
        if has != wanted {
            findings.push(format!("the account has {has:?}, not {wanted:?}"));
        }
        if step != ChangeStep::Delete
            && wanted.first().map(String::as_str) != object["status"]["tag"].as_str()
        {
            findings.push(format!("the object says {}", object["status"]["tag"]));
        }
        findings
    }
    .boxed_local()
}

/// The names of the object's tag in the account.
async fn list_tag_names(proxied: &ProxiedWorld, name: &str) -> Vec<String> {
    let tags = proxied.world.simulator.records("/v3/flexMetal/tags").await;
    let names = tags.iter().filter_map(|tag| tag["tag"].as_str());
    let names = names.filter(|tag| *tag == name || *tag == renamed_tag(name));
    names.map(str::to_owned).collect()
}
