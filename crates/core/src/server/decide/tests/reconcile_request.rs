//! Reconcile requests by annotation.

use super::{existing::with_status, *};
use api::names::{FLUX_REQUEST, RECONCILE_REQUEST};

/// Requested with this value, since then.
fn requested(case: Case, word: &str, since: u64) -> Case {
    let case = case.annotated(RECONCILE_REQUEST, word.into());
    case.memory(|m| m.asked.record_request(Some(word), secs(since)))
}

fn handled(case: &Case) -> Option<String> {
    case.decide().desired.status.last_handled_reconcile_at
}

#[test]
fn requested_reconcile_reads_once_and_is_acknowledged() {
    // The server was last seen at 990, moments ago; it is read later.
    let unread = requested(with_status(ServerStatus::Delivered), "now", 995);
    assert_eq!(short(&unread.decide()).0, None);
    assert_eq!(unread.decide().requeue, Requeue::After(secs(5)));
    let unread = unread.facts(|f| f.now.mono += secs(5));
    assert_eq!(short(&unread.decide()).0, Some("Read"));
    assert_eq!(handled(&unread), None);
    let read = requested(with_status(ServerStatus::Delivered), "now", 990);
    assert_eq!(short(&read.decide()).0, None);
    assert_eq!(handled(&read).as_deref(), Some("now"));
    let again = requested(with_status(ServerStatus::Delivered), "now", 995).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.last_handled_reconcile_at = Some("now".into());
    });
    assert_eq!(short(&again.decide()).0, None);
    // Without a server the decision itself handles the request. With a blocked account nothing handles it.
    let none = requested(Case::new().spec(|s| s.suspend = Some(true)), "now", 995);
    assert_eq!(handled(&none).as_deref(), Some("now"));
    let blocked =
        requested(with_status(ServerStatus::Delivered), "now", 995).blocked(Reason::KeyRejected);
    assert_ne!(short(&blocked.decide()).0, Some("Read"));
    assert_eq!(handled(&blocked), None);
}

#[test]
fn flux_request_counts_and_overlong_request_does_not() {
    let of = |name: &str, word: String| {
        let case = Case::new().spec(|s| s.suspend = Some(true));
        handled(&case.annotated(name, word))
    };
    assert_eq!(of(FLUX_REQUEST, "then".into()).as_deref(), Some("then"));
    assert_eq!(of(FLUX_REQUEST, String::new()), None);
    assert_eq!(
        of(RECONCILE_REQUEST, "x".repeat(128)).map(|w| w.len()),
        Some(128)
    );
    assert_eq!(of(RECONCILE_REQUEST, "x".repeat(129)), None);
}

#[test]
fn status_shows_order_and_provisioning_times() {
    let status = with_status(ServerStatus::Delivered).decide().desired.status;
    let provider_id = format!("flexmetal://{}", uuid(1));
    assert_eq!(status.provider_id, Some(provider_id));
    assert_eq!(status.ordered_at, Some(time(EPOCH)));
    assert_eq!(status.provisioning_seconds, Some(59));
    let adopted = with_status(ServerStatus::Delivered).order(|record| record.nonce.clear());
    assert_eq!(adopted.decide().desired.status.ordered_at, None);
}
