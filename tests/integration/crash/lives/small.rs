//! A kind whose objects keep something small at the provider: created, changed, deleted, gone.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::{Place, Side},
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life,
};
use lab::rig::{Kstatus, health};

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
    /// Whether an object that is Ready has nothing left to do.
    pub(super) is_settled: fn(&Value) -> bool,
    /// What is wrong after a step with what the provider has, given the object, or how it was before it went.
    pub(super) judge: for<'a> fn(&'a ProxiedWorld, &'a Value, Step) -> LocalBoxFuture<'a, Findings>,
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
            let things = proxied.world.things(self.kind);
            match STEPS[phase] {
                Step::Create => {
                    let object = json!({
                        "apiVersion": "flexmetal.dev/v1alpha1", "kind": self.kind,
                        "metadata": {"name": name}, "spec": (self.spec)(name),
                    });
                    things.create(&object).await;
                }
                Step::Change => {
                    let change = json!({"spec": (self.change)(name)});
                    things.merge(name, &change).await;
                }
                Step::Delete => things.delete(name).await,
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
            let object = self.settled(proxied, name, step).await;
            let mut findings = judge::after_anything(&proxied.world).await;
            findings.extend(refused(proxied).await);
            let last = object.as_ref().unwrap_or(before);
            findings.extend((self.judge)(proxied, last, step).await);
            (object.unwrap_or_default(), findings)
        }
        .boxed_local()
    }
}

impl Small {
    /// The object once it is Ready as its spec now says; none once it is gone.
    async fn settled(&self, proxied: &ProxiedWorld, name: &str, step: Step) -> Option<Value> {
        let things = proxied.world.things(self.kind);
        if step == Step::Delete {
            things.wait_gone(name, AT_ITS_END).await;
            return None;
        }
        let look = |object: &Value| {
            let is_settled = health(object) == Kstatus::Current && (self.is_settled)(object);
            is_settled.then(|| object.clone())
        };
        let waited = things.try_wait_for(name, "Ready", AT_ITS_END, look).await;
        match waited {
            Ok(object) => Some(object),
            Err(sentence) => {
                let findings = judge::after_anything(&proxied.world).await;
                panic!("{sentence}\n{findings:#?}")
            }
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
pub(super) fn sent_blindly(seen: &[Place]) -> Findings {
    let mut findings = Findings::new();
    let mut since_look: Vec<&str> = Vec::new();
    for place in seen.iter().filter(|place| place.side == Side::Hosting) {
        if place.is_look() {
            since_look.clear();
        } else if since_look.contains(&place.sort.as_str()) {
            findings.push(format!("{place} was sent again without a look"));
        } else {
            since_look.push(&place.sort);
        }
    }
    findings
}

#[test]
fn blindly_repeated_change_is_reported() {
    let places = |sorts: &[&str]| -> Vec<Place> {
        let places = sorts.iter().zip(1..).map(|(sort, nth)| Place {
            side: Side::Hosting,
            sort: (*sort).to_owned(),
            nth,
        });
        places.collect()
    };
    for well in [
        &["POST tags", "GET tags", "POST tags"][..],
        &["POST tags", "PUT tags/{tag}"],
    ] {
        assert!(sent_blindly(&places(well)).is_empty(), "{well:?}");
    }
    let twice = places(&["GET tags", "PUT tags/{tag}", "POST tags", "PUT tags/{tag}"]);
    assert_eq!(sent_blindly(&twice).len(), 1);
}
