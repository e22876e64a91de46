//! Every error answer of every operation: from a circumstance that makes the simulator give it, and each status once
//! more on demand.

use std::collections::{BTreeMap, BTreeSet};

use hosting_types::Error;
use serde_json::json;

use crate::{
    cases::{Case, cases},
    logs,
    operations::Operation,
    page,
    scene::Scene,
    verdict::Verdict,
};

/// Possible errors of section 4 that no circumstance causes: the client never causes them, or the simulator has no such
/// rule. Faults give them on demand.
const ON_DEMAND: &[(&str, u16, Operation)] = &[
    // The client checks entries, bodies, dates and tags itself.
    ("4.1-9", 422, Operation::AddToWhitelist),
    ("4.1-9", 422, Operation::ChangeWhitelist),
    ("4.2-14", 422, Operation::ChangePassword),
    ("4.2-14", 422, Operation::ResetPassword),
    ("4.2-14", 422, Operation::ValidateReset),
    ("4.4-11", 400, Operation::Order),
    ("4.6-4", 422, Operation::CreateTag),
    ("4.6-8", 422, Operation::RenameTag),
    ("4.7-4", 422, Operation::Usage),
    ("4.7-5", 422, Operation::Usage),
    ("4.8-21", 422, Operation::CreateSshKey),
    ("4.8-24", 400, Operation::DeleteSshKey),
    // The client sends only the token that it was given, and at once.
    ("4.8-34", 422, Operation::Hosts),
    // These never happen here.
    ("4.7-5", 405, Operation::Usage),
    ("4.9-2", 503, Operation::Health),
    ("4.1-11", 500, Operation::Whitelist),
    ("4.1-11", 500, Operation::AddToWhitelist),
    ("4.1-11", 500, Operation::ChangeWhitelist),
    ("4.1-11", 500, Operation::RemoveFromWhitelist),
    ("4.2-11", 500, Operation::ChangePassword),
    ("4.2-11", 500, Operation::ResetPassword),
    ("4.2-11", 500, Operation::ValidateReset),
];

/// Statuses that every operation gets once.
const STATUSES: &[u16] = &[
    300, 302, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 418, 421, 422, 423, 425, 429, 500,
    502, 503, 504,
];

async fn check_refusal(case: Case) {
    let what = format!("{} ({})", case.why, case.ids.join(" "));
    let operation = case.operation;
    let mut scene = Scene::new().await;
    (case.circumstance)(&mut scene).await;
    let before = scene.rig.latest().await;
    let reply = operation.call(&scene).await;
    crate::canaries::none_in("a reply", &reply.text);
    Verdict::for_status(case.status).judge(operation, &reply, &what);
    match reply.error.as_ref().and_then(Error::refusal) {
        Some(refusal) => {
            assert_eq!(refusal.code, Some(case.code), "{operation:?}, {what}");
            assert!(
                refusal.message.contains(case.message),
                "{operation:?}, {what}: {refusal}"
            );
            let fields = refusal.fields.iter().map(|(property, _)| property.as_str());
            assert_eq!(
                fields.collect::<Vec<_>>(),
                case.fields,
                "{operation:?}, {what}"
            );
            assert!(
                refusal
                    .fields
                    .iter()
                    .all(|(_, message)| !message.is_empty())
            );
        }
        None => {
            let text = &reply.text;
            let code = format!("code {}", case.code);
            assert!(
                text.contains(&code) && text.contains(case.message),
                "{what}: {text}"
            );
        }
    }
    let ledger = scene.rig.ledger(before).await;
    assert_eq!(ledger.len(), 1, "{operation:?}, {what}");
    assert!(ledger[0].effect().is_null(), "{operation:?}, {what}");
    assert!(!ledger[0].was_hit_by_a_fault(), "{operation:?}, {what}");
    logs::none_leaked();
}

#[tokio::test]
async fn api_refusals_are_passed_on_unchanged() {
    for case in cases() {
        check_refusal(case).await;
    }
}

#[tokio::test]
async fn every_status_means_the_same_to_every_operation() {
    for &operation in Operation::ALL {
        let scene = Scene::new().await;
        for &status in STATUSES {
            let message = format!("no, says {status}");
            let fault = json!({"refuse": {"status": status, "message": message}});
            scene.rig.fault(operation.method(), &fault).await;
            let before = scene.rig.latest().await;
            let reply = operation.call(&scene).await;
            let what = format!("answered {status}");
            Verdict::for_status(status).judge(operation, &reply, &what);
            assert!(
                reply.text.contains(&message),
                "{operation:?}, {what}: {}",
                reply.text
            );
            let ledger = scene.rig.ledger(before).await;
            assert_eq!(ledger.len(), 1, "{operation:?}, {what}");
            assert!(ledger[0].effect().is_null());
            scene.rig.clear("faults").await;
        }
        // Nothing of all this was done.
        let reply = operation.call(&scene).await;
        reply.check(&scene);
    }
    logs::none_leaked();
}

#[test]
fn every_error_of_the_page_has_a_case() {
    let cases: BTreeSet<_> = cases()
        .iter()
        .flat_map(|case| {
            let rows = case.ids.iter();
            let rows: Vec<_> = rows
                .map(|id| ((*id).to_owned(), case.status, case.operation))
                .collect();
            rows
        })
        .collect();
    let on_demand: BTreeSet<_> = ON_DEMAND
        .iter()
        .map(|(id, status, operation)| ((*id).to_owned(), *status, *operation))
        .collect();
    let page = page::errors();
    let missing: Vec<_> = page
        .iter()
        .filter(|error| !cases.contains(*error) && !on_demand.contains(*error))
        .collect();
    assert!(missing.is_empty(), "errors without a case: {missing:?}");
    let stale: Vec<_> = cases.intersection(&on_demand).collect();
    assert!(
        stale.is_empty(),
        "given on demand, although a case leads there: {stale:?}"
    );
    // Rows of other sections apply to many operations.
    let unknown: Vec<_> = cases
        .union(&on_demand)
        .filter(|error| error.0.starts_with("4.") && !page.contains(*error))
        .collect();
    assert!(unknown.is_empty(), "cases of no row: {unknown:?}");
    assert!(
        ON_DEMAND
            .iter()
            .all(|(_, status, _)| STATUSES.contains(status))
    );
}

#[test]
fn every_operation_has_an_invalid_key_case() {
    let mut statuses: BTreeMap<Operation, BTreeSet<u16>> = BTreeMap::new();
    for case in cases() {
        statuses
            .entry(case.operation)
            .or_default()
            .insert(case.status);
    }
    for operation in Operation::ALL {
        // Health needs no key (4.9-3).
        let known = statuses
            .get(operation)
            .is_some_and(|all| all.contains(&403));
        assert_eq!(known, *operation != Operation::Health, "{operation:?}");
    }
}
