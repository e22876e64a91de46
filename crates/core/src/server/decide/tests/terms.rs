//! What the limits of the account, and of its `allowedNamespaces` entry, permit.

use super::{release::deleted, *};
use crate::{account::terms::Terms, resolved_account::closed, server::decide::precondition};
use api::{allowed::AllowedNamespaces, conditions::DesiredCondition};
use serde_json::{Value, json};

/// With an `allowedNamespaces` entry with these limits.
pub(super) fn on_terms(case: Case, limits: &Value) -> Case {
    let entry: AllowedNamespaces =
        serde_json::from_value(json!({"name": "teams", "limits": limits})).unwrap();
    with(case, Terms::Entry(Arc::new(entry)))
}

/// With an account with these limits.
fn on_limits(case: Case, limits: &Value) -> Case {
    case.view(|v| v.limits = serde_json::from_value(limits.clone()).unwrap())
}

fn with(case: Case, offered: Terms) -> Case {
    case.facts(|f| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.account {
            *terms = offered;
        }
    })
}

/// The account does not serve the namespace, and the object has no record.
fn not_served(case: Case) -> Case {
    case.facts(|f| {
        f.account = ResolvedAccount::Closed {
            explanation: closed(&Terms::Refused("no".into())).unwrap(),
            view: f.view().unwrap().clone(),
        };
    })
}

fn ready(decision: &ServerDecision) -> DesiredCondition {
    let condition = decision.desired.condition(Type::Ready);
    condition.expect("it is told").clone()
}

fn orders(case: &Case) -> bool {
    matches!(case.decide().effect, Some(ServerEffect::Order(_)))
}

#[test]
fn order_stays_within_account_and_entry_limits() {
    let new = Case::new;
    let retain = || new().spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain));
    let by_account = |case: Case| {
        case.view(|v| v.defaults.as_mut().unwrap().deletion_policy = Some(DeletionPolicy::Retain))
    };
    let elsewhere = || {
        new().spec(|s| {
            let big = json!([{"instanceType": "big"}, {"location": "there"}]);
            s.alternatives = serde_json::from_value(big).unwrap();
        })
    };
    let contract = || new().spec(|s| s.contract_id = Some("C-1".into()));
    let overflow = || contract().spec(|s| s.overflow = Some(true));
    let spec = spec();
    let (kind, place) = (spec.instance_type.unwrap(), spec.location.unwrap());
    let (kind, place) = (kind.as_str(), place.as_str());
    for (case, limits, refused) in [
        (new(), json!({}), None),
        (
            new(),
            json!({"instanceTypes": ["other", kind.to_uppercase()]}),
            None,
        ),
        (
            new(),
            json!({"instanceTypes": ["other"]}),
            Some("instanceType"),
        ),
        (new(), json!({"locations": [place]}), None),
        (
            elsewhere(),
            json!({"locations": [place], "instanceTypes": ["big", kind]}),
            Some("alternatives[1].location"),
        ),
        (
            elsewhere(),
            json!({"locations": [place, "there"], "instanceTypes": ["big", kind]}),
            None,
        ),
        (
            elsewhere(),
            json!({"instanceTypes": [kind]}),
            Some("alternatives[0].instanceType"),
        ),
        (new(), json!({"locations": ["other"]}), Some("location")),
        (contract(), json!({"contractIDs": ["C-1"]}), None),
        (
            contract(),
            json!({"contractIDs": ["C-2"]}),
            Some("contractID"),
        ),
        (new(), json!({"contractIDs": ["C-2"]}), Some("contractID")),
        (overflow(), json!({}), None),
        (overflow(), json!({"allowOverflow": true}), None),
        (
            overflow(),
            json!({"allowOverflow": false}),
            Some("overflow"),
        ),
        (contract(), json!({"allowOverflow": false}), None),
        (new(), json!({"deletionPolicies": ["Release"]}), None),
        (
            retain(),
            json!({"deletionPolicies": ["Release"]}),
            Some("deletionPolicy"),
        ),
        (retain(), json!({"deletionPolicies": ["Retain"]}), None),
        (
            new(),
            json!({"deletionPolicies": ["Retain"]}),
            Some("deletionPolicy"),
        ),
        (
            by_account(new()),
            json!({"deletionPolicies": ["Release"]}),
            Some("deletionPolicy"),
        ),
    ] {
        for (case, whose) in [
            (on_terms(case.clone(), &limits), "the entry \"teams\""),
            (on_limits(case, &limits), "spec.limits of"),
        ] {
            assert_eq!(orders(&case), refused.is_none(), "{whose} {limits}");
            let Some(field) = refused else { continue };
            let ready = ready(&case.decide());
            assert_eq!(ready.reason, Reason::NotAllowed, "{limits}");
            let words = [format!("Not allowed: spec.{field}; {whose}"), "only".into()];
            let says = words.iter().all(|word| ready.message.contains(word));
            assert!(says, "{limits}: {}", ready.message);
        }
    }
}

#[test]
fn unknown_terms_delay_an_order_without_refusal() {
    let case = with(Case::new(), Terms::Unknown("not yet".into()));
    assert!(!orders(&case));
    let pending = Some(Reason::Pending);
    assert_eq!(short(&case.decide()), (None, pending, false));
    // Unknown labels do not resolve by themselves.
    let later = case.waited_for(Reason::Pending);
    assert_eq!(short(&later.decide()), (None, pending, true));
    let refused = not_served(Case::new()).decide();
    assert_eq!(ready(&refused).reason, Reason::NotAllowed);
}

#[test]
fn server_is_not_retained_against_the_limits() {
    let delivered = || {
        deleted(ServerStatus::Delivered).spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain))
    };
    let retains = |case: &Case| {
        let lets_stay = short(&case.decide()).0 == Some("Retain");
        let record = &case.0.own[0].server;
        assert_eq!(lets_stay, precondition::may_retain(&case.0, record));
        lets_stay
    };
    assert!(retains(&delivered()));
    assert!(retains(&on_terms(delivered(), &json!({}))));
    let only_release = on_terms(delivered(), &json!({"deletionPolicies": ["Release"]}));
    assert!(!retains(&only_release));
    assert_eq!(ready(&only_release.decide()).reason, Reason::NotAllowed);
    assert_eq!(only_release.decide().effect, None);
    let by_account = on_limits(delivered(), &json!({"deletionPolicies": ["Release"]}));
    assert!(!retains(&by_account));
    assert_eq!(ready(&by_account.decide()).reason, Reason::NotAllowed);
    // The deletion of the CRD must not release a server, with any entry.
    let with_kind = only_release.facts(|f| f.kind_deleting = Some(true));
    assert!(retains(&with_kind));
    let refused = with(delivered(), Terms::Refused("not any more".into()));
    assert!(retains(&refused));
    let unknown = with(delivered(), Terms::Unknown("not yet".into()));
    assert!(!retains(&unknown));
    assert_eq!(ready(&unknown.decide()).reason, Reason::Pending);
    // Limits never stop a release.
    let released = || deleted(ServerStatus::Delivered);
    let only_retain = json!({"deletionPolicies": ["Retain"]});
    for case in [
        on_terms(released(), &only_retain),
        on_limits(released(), &only_retain),
    ] {
        assert_eq!(short(&case.decide()).0, Some("Release"));
    }
}

#[test]
fn deleted_object_in_unserved_namespace_can_end() {
    let unknown = |case: Case| {
        case.facts(|f| {
            if let ResolvedAccount::Closed { explanation, .. } = &mut f.account {
                *explanation = closed(&Terms::Unknown("not yet".into())).unwrap();
            }
        })
    };
    let ordered =
        |outcome, server| not_served(Case::new().ordered(outcome, server).met(300).deleting());
    let bare = || not_served(Case::new().met(300).deleting());
    let restored = bare().object(|o| {
        let record = OrderRecord {
            uid: "uid-0".into(),
            ..order_record(Some(OrderOutcome::Created), Some(1))
        };
        o.status.get_or_insert_default().records.order = Some(record);
    });
    let (goes, no) = (Some("RemoveFinalizer"), Some(Reason::NotAllowed));
    let pending = Some(Reason::Pending);
    come_to(
        (goes, None, false),
        vec![
            ("its own finalizer", not_served(Case::new().deleting())),
            (
                "an order that was refused",
                ordered(Some(OrderOutcome::Refused), None),
            ),
            (
                "the same, and acknowledged",
                restored.clone().with_token(AssumeAbsent),
            ),
        ],
    );
    come_to(
        (None, no, true),
        vec![
            ("an open order", ordered(None, None)),
            ("a server", ordered(Some(OrderOutcome::Created), Some(1))),
            ("only the finalizer", bare()),
            ("with the status of another object", restored),
        ],
    );
    come_to(
        (None, pending, false),
        vec![
            (
                "only the finalizer, and it may yet be served",
                unknown(bare()),
            ),
            (
                "the same, and acknowledged",
                unknown(bare().with_token(AssumeAbsent)),
            ),
        ],
    );
    let message = ready(&bare().decide()).message;
    let token = bare().written().pending(AssumeAbsent).unwrap();
    let remedy = format!("set flexmetal.dev/acknowledge to {token}");
    assert!(message.contains(&remedy), "{message}");
}
