//! The expiry in `spec.expiresAt`.

use super::{existing::with_status, *};
use crate::server::decide::precondition;
use api::{ManagementPolicy, lifetime::ExpiryWarning};

/// It expires in this many seconds.
pub(super) fn ending(case: Case, seconds: i64) -> Case {
    case.spec(|s| s.expires_at = Some(time(START + 1000 + seconds)))
}

fn delivered(seconds: i64) -> Case {
    ending(with_status(ServerStatus::Delivered), seconds)
}

#[test]
fn an_object_warns_and_then_deletes_itself() {
    let warned = |seconds: i64| {
        let decision = delivered(seconds).decide();
        (
            decision.desired.status.records.expiry_warning,
            decision.requeue,
        )
    };
    let after = |seconds: u64| Requeue::After(secs(seconds));
    assert_eq!(warned(86_700), (None, after(300)));
    assert_eq!(warned(86_400), (Some(ExpiryWarning::Day), after(600)));
    assert_eq!(warned(3_700), (Some(ExpiryWarning::Day), after(100)));
    assert_eq!(warned(3_600), (Some(ExpiryWarning::Hour), after(600)));
    assert_eq!(warned(20), (Some(ExpiryWarning::Hour), after(20)));
    let expires = (Some("Expire"), Some(Reason::Expired), false);
    assert_eq!(short(&delivered(0).decide()), expires);
    assert_eq!(short(&delivered(-999_999).decide()), expires);
    // In any state of its server.
    let failed = ending(with_status(ServerStatus::Failed), 0);
    assert_eq!(short(&failed.decide()), expires);
    // It may be postponed, which clears the warning.
    let postponed = delivered(99_999).object(|o| {
        o.status.as_mut().unwrap().records.expiry_warning = Some(ExpiryWarning::Hour);
    });
    assert_eq!(
        postponed.decide().desired.status.records.expiry_warning,
        None
    );
}

#[test]
fn expiry_waits_for_policies_and_ignores_forwarded_clock() {
    for held in [
        delivered(0).spec(|s| s.suspend = Some(true)),
        delivered(0).spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
    ] {
        assert_eq!(short(&held.decide()).0, None);
        let at = held.0.expires_at().unwrap();
        assert!(!precondition::may_expire(&held.0, at));
    }
    let protected = delivered(0).spec(|s| s.deletion_protection = Some(true));
    let at = protected.0.expires_at().unwrap();
    assert_eq!(
        short(&protected.decide()),
        (None, Some(Reason::Expired), true)
    );
    assert!(!precondition::may_expire(&protected.0, at));
    let forwarded = delivered(50).facts(|f| f.now.wall += 86_400);
    assert_eq!(short(&forwarded.decide()).0, None);
    let due = delivered(0);
    let at = due.0.expires_at().unwrap();
    assert!(precondition::may_expire(&due.0, at));
    assert!(!precondition::may_expire(&due.0, at - 1), "it was edited");
    assert!(!precondition::may_expire(&due.clone().deleting().0, at));
}

#[test]
fn expired_object_orders_and_adopts_nothing() {
    let expired = (None, Some(Reason::Expired), true);
    assert_eq!(short(&ending(Case::new(), 0).decide()), expired);
    let refused = Case::new().ordered(Some(OrderOutcome::Refused), None);
    assert_eq!(short(&ending(refused, -1).decide()), expired);
    let named = super::external::named(&[]);
    assert_eq!(short(&ending(named, 0).decide()), expired);
    assert_eq!(short(&ending(Case::new(), 1).decide()).0, Some("Order"));
    // The server of an earlier order is still searched for.
    let open = Case::new().ordered(None, None);
    assert_ne!(short(&ending(open, 0).decide()), expired);
}
