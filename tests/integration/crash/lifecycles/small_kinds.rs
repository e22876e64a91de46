//! A kind whose objects own one small record at the provider: created, changed, deleted, gone.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::{TargetApi, TracePosition},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};
use lab::rig::{Kstatus, health};

/// The user's action in each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeStep {
    /// Creates the object.
    Create,
    /// Changes its spec.
    Change,
    /// Deletes it.
    Delete,
}

const STEPS: [ChangeStep; 3] = [ChangeStep::Create, ChangeStep::Change, ChangeStep::Delete];

/// The differences between such kinds.
pub(super) struct SmallKindLifecycle {
    pub(super) kind: &'static str,
    pub(super) expected: &'static [(&'static str, &'static str)],
    /// The spec of the object with this name.
    pub(super) spec: fn(&str) -> Value,
    /// The merge patch of its change.
    pub(super) change: fn(&str) -> Value,
    /// Whether a Ready object has nothing left to do.
    pub(super) is_settled: fn(&Value) -> bool,
    /// Checks the provider's state after a step, given the object or its last state.
    pub(super) judge:
        for<'a> fn(&'a ProxiedWorld, &'a Value, ChangeStep) -> LocalBoxFuture<'a, Findings>,
}

impl Lifecycle for SmallKindLifecycle {
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
            let things = proxied.world.things(self.kind);
            match STEPS[phase] {
                ChangeStep::Create => {
                    let object = json!({
                        "apiVersion": "flexmetal.dev/v1alpha1", "kind": self.kind,
                        "metadata": {"name": name}, "spec": (self.spec)(name),
                    });
                    things.create(&object).await;
                }
                ChangeStep::Change => {
                    let change = json!({"spec": (self.change)(name)});
                    things.merge(name, &change).await;
                }
                ChangeStep::Delete => things.delete(name).await,
            }
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let step = STEPS[phase];
            let object = self.wait_until_settled(proxied, name, step).await;
            let mut findings = judge::check_at_any_time(&proxied.world).await;
            findings.extend(find_refused_calls(proxied).await);
            let last = object.as_ref().unwrap_or(before);
            findings.extend((self.judge)(proxied, last, step).await);
            (object.unwrap_or_default(), findings)
        }
        .boxed_local()
    }
}

impl SmallKindLifecycle {
    /// Waits until the object is Ready with its current spec. None once it is gone.
    async fn wait_until_settled(
        &self,
        proxied: &ProxiedWorld,
        name: &str,
        step: ChangeStep,
    ) -> Option<Value> {
        let things = proxied.world.things(self.kind);
        if step == ChangeStep::Delete {
            things.wait_gone(name, AT_ITS_END).await;
            return None;
        }
        let settled = |object: &Value| {
            let is_settled = health(object) == Kstatus::Current && (self.is_settled)(object);
            is_settled.then(|| object.clone())
        };
        let waited = things
            .try_wait_for(name, "Ready", AT_ITS_END, settled)
            .await;
        match waited {
            Ok(object) => Some(object),
            Err(sentence) => {
                let findings = judge::check_at_any_time(&proxied.world).await;
                panic!("{sentence}\n{findings:#?}")
            }
        }
    }
}

/// Calls of the operator that the hosting API refused because of its key or address.
async fn find_refused_calls(proxied: &ProxiedWorld) -> Findings {
    let ledger = proxied.world.simulator.ledger().await;
    let refused = ledger
        .iter()
        .filter(|call| [401, 403].iter().any(|status| call["status"] == *status));
    refused.map(|call| format!("refused: {call}")).collect()
}

/// Changes of the same kind that were sent twice without a read of the provider between them.
pub(super) fn find_blind_repeats(seen: &[TracePosition]) -> Findings {
    let mut findings = Findings::new();
    let mut since_read: Vec<&str> = Vec::new();
    for place in seen.iter().filter(|place| place.api == TargetApi::Hosting) {
        if place.is_read() {
            since_read.clear();
        } else if since_read.contains(&place.kind.as_str()) {
            findings.push(format!("{place} was sent again without a look"));
        } else {
            since_read.push(&place.kind);
        }
    }
    findings
}

#[test]
fn blindly_repeated_change_is_reported() {
    let places = |sorts: &[&str]| -> Vec<TracePosition> {
        let places = sorts.iter().zip(1..).map(|(sort, nth)| TracePosition {
            api: TargetApi::Hosting,
            kind: (*sort).to_owned(),
            nth,
        });
        places.collect()
    };
    for well in [
        &["POST tags", "GET tags", "POST tags"][..],
        &["POST tags", "PUT tags/{tag}"],
    ] {
        assert!(find_blind_repeats(&places(well)).is_empty(), "{well:?}");
    }
    let twice = places(&["GET tags", "PUT tags/{tag}", "POST tags", "PUT tags/{tag}"]);
    assert_eq!(find_blind_repeats(&twice).len(), 1);
}
