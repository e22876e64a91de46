//! Which machines the server objects claim (those that bear the mark of a living object), and what they have on
//! record at their account.

use super::ServerObjects;
use crate::{account::Claims, controllers::objects::Shown};
use api::{
    BareMetalServer,
    server::{Intent, OrderOutcome},
};
use flexmetal_core::{
    account::key::AccountKey,
    mark::Mark,
    server::facts::{is_same_uuid, order_annotation, recorded_release},
};
use std::{collections::HashSet, sync::Arc};

/// The marks of all server objects.
pub(super) struct MarkClaims {
    pub(super) objects: Arc<ServerObjects>,
    pub(super) all_namespaces: bool,
}

impl Claims for MarkClaims {
    fn marks(&self) -> Option<HashSet<String>> {
        (self.all_namespaces && self.objects.is_complete()).then(|| self.objects.aliases())
    }

    fn is_complete(&self) -> bool {
        self.objects.is_complete()
    }

    fn namespace(&self, mark: &str) -> Option<String> {
        self.objects.namespace_by_alias(mark)
    }

    fn disowns(&self, mark: &str, account: &AccountKey, uuid: &str) -> bool {
        let Some((uid, named)) = self.objects.named_by_alias(mark) else {
            return false;
        };
        if named.is_none_or(|named| named == *account) {
            return false;
        }
        match self.objects.newest(&uid) {
            Some(Shown::Decoded(object)) => has_another(&object, uuid),
            _ => false,
        }
    }
}

/// Whether an object has a machine on record that is not this one.
fn has_another(object: &BareMetalServer, uuid: &str) -> bool {
    let status = object.status.as_ref();
    let outcome = status.and_then(|s| s.records.order.as_ref()?.outcome);
    let own = status.and_then(|s| s.uuid.as_deref());
    outcome == Some(OrderOutcome::Created) && own.is_some_and(|own| !is_same_uuid(own, uuid))
}

/// Whether a living object other than the one with this UID bears the mark; None where that cannot
/// be seen. An object that is being deleted still lives. `sees_all`: one that does would be seen.
pub(super) fn is_claimed(
    objects: &ServerObjects,
    sees_all: bool,
    mark: &Mark,
    except: &str,
) -> Option<bool> {
    let holder = objects.by_alias(mark.as_str());
    match holder.is_some_and(|uid| *uid != *except) {
        true => Some(true),
        false => (sees_all && objects.is_complete()).then_some(false),
    }
}

/// Whether the object of this mark has this machine, or its release, on record, or an order of this mark in its
/// metadata.
pub(super) fn has_settled(objects: &ServerObjects, mark: &Mark, uuid: &str) -> bool {
    let holder = objects.by_alias(mark.as_str());
    let Some(Shown::Decoded(object)) = holder.and_then(|uid| objects.newest(&uid)) else {
        return false;
    };
    is_settled(&object, mark, uuid)
}

fn is_settled(object: &BareMetalServer, mark: &Mark, uuid: &str) -> bool {
    // An order that is known to have made none is that of no machine, wherever that is told.
    let order = object
        .status
        .as_ref()
        .and_then(|s| s.records.order.as_ref());
    let is_closed = |intent: &Intent| {
        order.is_some_and(|o| o.intent == *intent && o.outcome.is_some_and(OrderOutcome::is_closed))
    };
    let is_noted = matches!(
        order_annotation(object),
        Some(Ok(note)) if note.intent.mark == mark.as_str()
            && note.outcome.is_none()
            && !is_closed(&note.intent)
    );
    let is_begun = recorded_release(object).is_some_and(|begun| is_same_uuid(begun, uuid));
    is_noted || is_begun || recorded(object).is_some_and(|recorded| is_same_uuid(&recorded, uuid))
}

/// The machine that an object has on record, in small letters. What it was copied or restored with is not its own.
pub(super) fn recorded(object: &BareMetalServer) -> Option<String> {
    let status = object.status.as_ref()?;
    let order = status.records.order.as_ref()?;
    let is_own = object.metadata.uid.as_ref() == Some(&order.intent.uid);
    let is_created = order.outcome == Some(OrderOutcome::Created);
    let uuid = status.uuid.as_deref().filter(|_| is_own && is_created)?;
    Some(uuid.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::ORDER_ANNOTATION;
    use flexmetal_core::mark::ClusterId;
    use serde_json::json;

    #[test]
    fn a_machine_is_disowned_by_who_has_another_and_no_order_open() {
        let object = |outcome: Option<&str>, uuid: Option<&str>| -> BareMetalServer {
            let mut order = json!({
                "cluster": "c", "uid": "u", "mark": "m", "epoch": 1, "attempt": "a",
                "sendBy": "2026-09-21T14:00:00Z",
            });
            order["outcome"] = json!(outcome);
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
                "status": {"records": {"order": order}, "uuid": uuid},
            }))
            .unwrap()
        };
        let created = Some("Created");
        assert!(has_another(&object(created, Some("ab")), "cd"));
        assert!(!has_another(&object(created, Some("AB")), "ab"), "its own");
        assert!(
            !has_another(&object(created, None), "ab"),
            "it may be its own"
        );
        assert!(
            !has_another(&object(None, Some("ab")), "cd"),
            "an order is open"
        );
    }

    #[test]
    fn an_order_that_made_none_settles_no_machine() {
        let mark = ClusterId::parse("0123456789abcdef")
            .unwrap()
            .object_mark("shop", "web", "u");
        let settled = |noted: Option<&str>, shown: Option<&str>| {
            let mut intent = json!({
                "cluster": "0123456789abcdef", "uid": "u", "mark": mark.as_str(), "epoch": 1,
                "attempt": "a", "sendBy": "2026-09-21T14:00:00Z",
            });
            let mut order = intent.clone();
            order["outcome"] = json!(shown);
            if let Some(outcome) = noted {
                intent["outcome"] = json!(outcome);
            }
            let object = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {"name": "web", "namespace": "shop", "uid": "u",
                    "annotations": {ORDER_ANNOTATION: intent.to_string()}},
                "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
                "status": {"records": {"order": order}},
            }));
            is_settled(&object.unwrap(), &mark, "ab")
        };
        assert!(settled(None, None), "it is open");
        assert!(settled(None, Some("Created")));
        assert!(!settled(Some("Refused"), Some("Refused")));
        assert!(
            !settled(None, Some("Refused")),
            "not written down there yet"
        );
    }
}
