//! A power command to the server that each world has: sent, carried out, deleted.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::TargetApi,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};
use lab::rig::condition;

const SEND: usize = 0;
const POST: &str = "POST servers/{uuid}/commands";

pub(super) struct CommandLifecycle;

impl Lifecycle for CommandLifecycle {
    fn kind(&self) -> &'static str {
        "ServerCommand"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Send", "Delete"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Send", "cluster PATCH servercommands/status #1"),
            ("Send", "cluster PATCH servercommands #1"),
            ("Send", "cluster PATCH servercommands/status #2"),
            ("Send", "hosting POST servers/{uuid}/commands #1"),
            ("Send", "cluster PATCH servercommands/status #3"),
            ("Send", "cluster PATCH servercommands #2"),
        ]
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let things = proxied.world.things(self.kind());
            if phase != SEND {
                return things.delete(name).await;
            }
            let object = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": self.kind(),
                "metadata": {"name": name},
                "spec": {"targetRef": {"name": "control"}, "action": "Reboot"},
            });
            things.create(&object).await;
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        _before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let things = proxied.world.things(self.kind());
            if phase != SEND {
                things.wait_gone(name, AT_ITS_END).await;
                return (Value::Null, judge::check_at_any_time(&proxied.world).await);
            }
            let is_over = |object: &Value| {
                let is = |kind| condition(object, kind).is_some_and(|c| c["status"] == "True");
                let is_free = object["metadata"]["finalizers"].is_null();
                ((is("Complete") || is("Failed")) && is_free).then(|| object.clone())
            };
            let object = things.wait_for(name, "over", AT_ITS_END, is_over).await;
            let mut findings = judge::check_at_any_time(&proxied.world).await;
            findings.extend(check_sent_once(proxied, &object).await);
            (Value::Null, findings)
        }
        .boxed_local()
    }
}

/// Checks that at most one request was sent, and that the reported result is true or unknown.
async fn check_sent_once(proxied: &ProxiedWorld, object: &Value) -> Findings {
    let mut findings = Findings::new();
    let seen = proxied.trace.seen();
    let sent = seen.iter().filter(|place| place.api == TargetApi::Hosting);
    let sent = sent.filter(|place| place.kind == POST).count();
    if sent > 1 {
        findings.push(format!("{sent} requests were sent, not one"));
    }
    let failed = condition(object, "Failed").filter(|c| c["status"] == "True");
    if let Some(failed) = failed {
        if failed["reason"] != "OutcomeUnknown" {
            findings.push(format!("it failed: {failed}"));
        }
        return findings;
    }
    if sent == 0 {
        findings.push("it is said to be done, and was never sent".to_owned());
    }
    let server = proxied.world.get("control").await.unwrap_or_default();
    let uuid = server["status"]["uuid"].as_str().unwrap_or_default();
    let path = format!("/v3/flexMetal/servers/{uuid}/commands");
    let commands = proxied.world.simulator.records(&path).await;
    let id = &object["status"]["commandID"];
    let made = commands.iter().find(|command| command["uuid"] == *id);
    if made.is_none_or(|command| command["state"] != "finished") {
        findings.push(format!("{id} is not carried out: {made:?}"));
    }
    findings
}
