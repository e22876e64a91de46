//! Helpers for tests of sizes: an object with the largest spec and the largest status has less than 64 KiB.

#[path = "../../../tests/fixtures/largest.rs"]
pub(crate) mod largest;

use api::{
    Kind,
    bounds::{LARGEST_OBJECT, MOST_CONDITIONS, cut_status, stored_size},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

/// The status as written. Asserts that it has less than 64 KiB with this spec.
pub(crate) fn written<K: Kind>(spec: &Value, status: &K::Status) -> Value {
    let mut status = status.clone();
    K::show_records(&mut status);
    let mut status = serde_json::to_value(status).unwrap();
    cut_status::<K>(&mut status);
    let both = stored_size(&json!({"spec": spec, "status": status}));
    let (spec, of_status) = (stored_size(spec), stored_size(&status));
    let kind = K::kind(&());
    let conditions = status["conditions"].as_array().map_or(0, Vec::len);
    assert!(conditions < MOST_CONDITIONS, "{kind}: the last may be cut");
    assert!(
        both < LARGEST_OBJECT,
        "{kind}: {both} bytes: {spec} of spec, {of_status} of status"
    );
    status
}

/// Makes the messages of conditions as long as allowed, where they are not empty.
pub(crate) fn lengthen(conditions: &mut [Condition]) {
    let said = conditions.iter_mut().filter(|c| !c.message.is_empty());
    said.for_each(|c| c.message = largest::text(1024));
}

/// A provider's text as long as the client allows, of letters that are stored as six bytes.
pub(crate) fn long() -> String {
    "<".repeat(1024)
}
