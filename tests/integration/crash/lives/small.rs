//! A kind whose objects keep something small at the provider: created, changed, deleted, gone.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::call_trace::{Place, Side};
use super::super::judge::{self, Findings};
use super::super::proxied_world::{AT_ITS_END, ProxiedWorld};
use super::Life;
use lab::rig::{Health, health};

/// Pause between two looks.
const POLL: std::time::Duration = std::time::Duration::from_millis(50);

/// What a person does in each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Creates the object.
    Create,
    /// Changes its spec.
    Change,
    /// Deletes it.
    Delete,
}

const STEPS: [Step; 3] = [Step::Create, Step::Change, Step::Delete];

/// What differs between such kinds.
pub(super) struct Small {
    pub(super) kind: &'static str,
    pub(super) expected: &'static [(&'static str, &'static str)],
    /// The spec of the object with this name.
    pub(super) spec: fn(&str) -> Value,
    /// What is merged into it.
    pub(super) change: fn(&str) -> Value,
    /// What is wrong after a step about what the provider has, given the object, null once it is gone.
    pub(super) judge:
        for<'a> fn(&'a ProxiedWorld, &'a str, Step, &'a Value) -> LocalBoxFuture<'a, Findings>,
}

impl Life for Small {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Create", "Change", "Delete"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        self.expected
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let objects = proxied.world.objects(self.kind);
            let done = match STEPS[phase] {
                Step::Create => {
                    let object = json!({
                        "apiVersion": "flexmetal.dev/v1alpha1", "kind": self.kind,
                        "metadata": {"name": name}, "spec": (self.spec)(name),
                    });
                    let object: DynamicObject =
                        serde_json::from_value(object).expect("an object in manifest form");
                    let created = objects.create(&PostParams::default(), &object).await;
                    created.map(drop)
                }
                Step::Change => {
                    let change = Patch::Merge(json!({"spec": (self.change)(name)}));
                    let params = PatchParams::default();
                    objects.patch(name, &params, &change).await.map(drop)
                }
                Step::Delete => objects
                    .delete(name, &DeleteParams::default())
                    .await
                    .map(drop),
            };
            done.unwrap_or_else(|error| panic!("{name}: {:?}: {error}", STEPS[phase]));
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
            let step = STEPS[phase];
            let object = self.settled(proxied, name, step).await;
            let mut findings = judge::after_anything(&proxied.world).await;
            findings.extend(refused(proxied).await);
            findings.extend((self.judge)(proxied, name, step, &object).await);
            (object, findings)
        }
        .boxed_local()
    }
}

impl Small {
    /// The object once it is Ready as its spec now says; null once it is gone.
    async fn settled(&self, proxied: &ProxiedWorld, name: &str, step: Step) -> Value {
        let objects = proxied.world.objects(self.kind);
        let deadline = Instant::now() + AT_ITS_END;
        loop {
            let object = objects.get_opt(name).await.expect("the API server answers");
            let object = object.map(|it| serde_json::to_value(it).expect("an object is JSON"));
            let is_settled = match step {
                Step::Delete => object.is_none(),
                Step::Create | Step::Change => object
                    .as_ref()
                    .is_some_and(|it| health(it) == Health::Current),
            };
            let object = object.unwrap_or_default();
            if is_settled {
                return object;
            }
            if Instant::now() >= deadline {
                let findings = judge::after_anything(&proxied.world).await;
                panic!(
                    "{name}: {step:?} of {} has not ended: {object:#}\n{findings:#?}",
                    self.kind
                );
            }
            sleep(POLL).await;
        }
    }
}

/// Calls of the operator that were refused for its key or its address.
async fn refused(proxied: &ProxiedWorld) -> Findings {
    let ledger = proxied.world.simulator.ledger().await;
    let refused = ledger
        .iter()
        .filter(|call| [401, 403].iter().any(|status| call["status"] == *status));
    refused.map(|call| format!("refused: {call}")).collect()
}

/// Changes of the same sort that were sent twice, without a look at the provider between them.
pub(super) fn sent_blindly(proxied: &ProxiedWorld) -> Findings {
    let mut findings = Findings::new();
    let mut unanswered: Vec<String> = Vec::new();
    for Place { side, sort, nth } in proxied.trace.seen() {
        if side != Side::Hosting {
            continue;
        }
        if sort.starts_with("GET ") {
            unanswered.clear();
        } else if unanswered.contains(&sort) {
            findings.push(format!("{sort} #{nth} was sent again without a look"));
        } else {
            unanswered.push(sort);
        }
    }
    findings
}
