//! What the limits of the account and of the entry for the namespace allow.

use super::{missing::created, *};
use crate::{account::terms::Terms, account_facts::closed};
use AcknowledgementEffect::AssumeAbsent;
use api::{allowed::AllowedNamespaces, conditions::Wanted};
use serde_json::{Value, json};

/// On the terms of an entry with these limits.
pub(super) fn on_terms(case: Case, limits: &Value) -> Case {
    let entry: AllowedNamespaces =
        serde_json::from_value(json!({"name": "teams", "limits": limits})).unwrap();
    with(case, Terms::Entry(Arc::new(entry)))
}

/// Through an account with these limits.
fn on_limits(case: Case, limits: &Value) -> Case {
    case.view(|v| v.limits = serde_json::from_value(limits.clone()).unwrap())
}

fn with(case: Case, offered: Terms) -> Case {
    case.facts(|f| {
        if let AccountFacts::Found { terms, .. } = &mut f.account {
            *terms = offered;
        }
    })
}

/// Where the account does not serve the namespace, and has nothing of the object on record.
fn not_served(case: Case) -> Case {
    case.facts(|f| {
        f.account = AccountFacts::Closed {
            cause: closed(&Terms::Refused("no".into())).unwrap(),
            view: f.view().unwrap().clone(),
        };
    })
}

fn ready(decision: &Decision) -> Wanted {
    let condition = decision.draft.condition(Type::Ready);
    condition.expect("it is told").clone()
}

fn orders(case: &Case) -> bool {
    matches!(case.decide().effect, Some(Effect::Order(_)))
}

#[test]
fn an_order_keeps_within_the_limits_of_account_and_entry() {
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
            (on_limits(case, &limits), "spec.limits."),
        ] {
            assert_eq!(orders(&case), refused.is_none(), "{whose} {limits}");
            let Some(field) = refused else { continue };
            let ready = ready(&case.decide());
            assert_eq!(ready.reason, Reason::NotAllowed, "{limits}");
            let words = [format!("spec.{field}: {whose}"), "only".into()];
            let says = words.iter().all(|word| ready.message.contains(word));
            assert!(says, "{limits}: {}", ready.message);
        }
    }
}

#[test]
fn terms_that_are_not_known_hold_an_order_and_are_no_refusal() {
    let case = with(Case::new(), Terms::Unknown("not yet".into()));
    assert!(!orders(&case));
    let pending = Some(Reason::Pending);
    assert_eq!(short(&case.decide()), (None, pending, false));
    // Labels that stay unknown are nothing that ends by itself.
    let later = case.waited_for(Reason::Pending);
    assert_eq!(short(&later.decide()), (None, pending, true));
    let refused = not_served(Case::new()).decide();
    assert_eq!(ready(&refused).reason, Reason::NotAllowed);
}

#[test]
fn a_server_is_not_retained_where_limits_do_not_list_it() {
    let delivered = || {
        created()
            .with(1, ServerStatus::Delivered)
            .deleting()
            .spec(|s| s.deletion_policy = Some(DeletionPolicy::Retain))
    };
    let retains = |case: &Case| {
        let effect = case.decide().effect;
        let lets_stay = effect.as_ref().is_some_and(Effect::lets_stay);
        assert_eq!(
            lets_stay,
            fence::may_retain(&case.0, &uuid(1)),
            "{effect:?}"
        );
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
    // That the kind is deleted must not cost a machine, whatever the entry says.
    let with_kind = only_release.facts(|f| f.kind_deleting = Some(true));
    assert!(retains(&with_kind));
    let refused = with(delivered(), Terms::Refused("not any more".into()));
    assert!(retains(&refused));
    let unknown = with(delivered(), Terms::Unknown("not yet".into()));
    assert!(!retains(&unknown));
    assert_eq!(ready(&unknown.decide()).reason, Reason::Pending);
    // Limits never stop a release.
    let released = || created().with(1, ServerStatus::Delivered).deleting();
    let only_retain = json!({"deletionPolicies": ["Retain"]});
    for case in [
        on_terms(released(), &only_retain),
        on_limits(released(), &only_retain),
    ] {
        let effect = case.decide().effect;
        assert!(matches!(effect, Some(Effect::BeginRelease { .. })));
    }
}

#[test]
fn a_forged_annotation_puts_nothing_on_record_where_the_namespace_is_not_served() {
    let forged = || {
        Case::new().open(300, &[]).object(|o| {
            o.status.get_or_insert_default().records.order = None;
        })
    };
    let recorded = |case: &Case| case.decide().draft.status.records.order.is_some();
    assert!(recorded(&forged()), "where it is served it is looked for");
    let closed = not_served(forged());
    assert!(!recorded(&closed));
    let decision = closed.decide();
    assert_eq!(decision.effect, None);
    assert_eq!(ready(&decision).reason, Reason::NotAllowed);
}

#[test]
fn a_deleted_object_of_a_namespace_that_is_not_served_ends() {
    let copied = |name: &str, uid: &str| {
        let intent = intent_of(name, uid);
        not_served(Case::new().held().noted(&intent).deleting())
    };
    let restored = |outcome| {
        let copied = copied("web", "uid-0");
        copied.object(|o| {
            let record = OrderRecord {
                outcome,
                ..OrderRecord::open(intent_of("web", "uid-0"))
            };
            o.status.get_or_insert_default().records.order = Some(record);
        })
    };
    // One that is on record in status is looked after at the account, so it never gets here.
    let begun = || copied("web", "uid-1");
    let bare = || not_served(Case::new().held().deleting());
    let no = Some(Reason::NotAllowed);
    let unlisted = |case: Case| {
        case.facts(|f| {
            if let AccountFacts::Closed { view, .. } = &mut f.account {
                view.proof = None;
            }
        })
    };
    let unknown = |case: Case| {
        case.facts(|f| {
            if let AccountFacts::Closed { cause, .. } = &mut f.account {
                *cause = closed(&Terms::Unknown("not yet".into())).unwrap();
            }
        })
    };
    let given = || begun().given(AssumeAbsent);
    let (let_go, created) = (Some("LetGo"), Some(OrderOutcome::Created));
    table(vec![
        ("a copy", copied("db", "uid-7"), let_go, None, false),
        ("a former one", copied("web", "uid-0"), let_go, None, false),
        (
            "a copy before the listing that would show its machine",
            copied("db", "uid-7")
                .old()
                .facts(|f| f.acting_since = secs(900)),
            None,
            no,
            true,
        ),
        (
            "a copy without a listing",
            unlisted(copied("db", "uid-7")),
            None,
            no,
            true,
        ),
        (
            "a copy, and it may yet be served",
            unknown(copied("db", "uid-7")),
            None,
            Some(Reason::Pending),
            false,
        ),
        ("restored, order open", restored(None), None, no, true),
        ("restored, machine made", restored(created), None, no, true),
        ("begun and never written", begun(), None, no, true),
        ("the same, and acknowledged", given(), let_go, None, false),
        (
            "the same without a listing",
            unlisted(given()),
            None,
            no,
            true,
        ),
        (
            "the same, and it may yet be served",
            unknown(given()),
            None,
            Some(Reason::Pending),
            false,
        ),
        ("only the finalizer", bare(), None, no, true),
        (
            "the same, and acknowledged",
            bare().given(AssumeAbsent),
            let_go,
            None,
            false,
        ),
    ]);
    let message = ready(&begun().decide()).message;
    let token = begun().written().pending(AssumeAbsent).unwrap();
    let remedy = format!("set flexmetal.dev/acknowledge to {token}");
    assert!(message.contains(&remedy), "{message}");
}
