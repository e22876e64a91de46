//! Tests: a requested reconcile.

use super::*;
use crate::account::{
    terms::Terms,
    view::{AccountView, ListKind},
};

/// Poll interval of the account, in seconds.
const PACE: u64 = 30;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An object with conditions, on an account whose tags were last read at this second.
fn reported_tag(read_at: u64) -> Tag {
    let mut tag = subject();
    let status = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let object = Arc::make_mut(&mut tag.object);
    object.status = Some(serde_json::from_value(status).unwrap());
    let mut view = AccountView {
        tags: Some((secs(read_at), Arc::default())),
        ..AccountView::usable()
    };
    view.times.active_poll_interval = secs(PACE);
    tag.account = ResolvedAccount::Found {
        view,
        terms: Terms::Own,
    };
    tag
}

/// The same with this requested value, which is known since then.
fn requested(read_at: u64, word: &str, since: u64) -> Tag {
    let mut tag = reported_tag(read_at);
    tag.memory.request.record_request(Some(word), secs(since));
    tag
}

fn list() -> ReadSource<&'static str> {
    ReadSource::List(ListKind::Tags)
}

fn answer(tag: &Tag, source: ReadSource<&'static str>) -> Decided {
    Decided::unchanged(tag).answering(tag, || source)
}

fn handled(decision: &Decided) -> Option<&str> {
    decision.status.last_handled_reconcile_at.as_deref()
}

#[test]
fn first_later_read_answers_request() {
    // The last read was long ago: another one may begin at once.
    let decision = answer(&requested(900, "now", 995), list());
    assert_eq!(decision.wants, Some((ListKind::Tags, secs(995))));
    assert_eq!(handled(&decision), None);
    // It was a moment ago: the next one waits for the poll interval.
    let decision = answer(&requested(990, "now", 995), list());
    assert_eq!(decision.wants, Some((ListKind::Tags, secs(990 + PACE))));
    let decision = answer(&requested(995, "now", 995), list());
    assert_eq!((decision.wants, handled(&decision)), (None, Some("now")));
    // Once. Only the acknowledgement is written; the conditions stay.
    let mut done = requested(900, "now", 995);
    let before = done.status();
    let object = Arc::make_mut(&mut done.object);
    object.status = Some(decision.status.clone());
    assert_eq!(answer(&done, list()).wants, None);
    let (status, _) = decision.status(&done, Timestamp::UNIX_EPOCH);
    assert_eq!(status.conditions, before.conditions);
    assert_eq!(
        handled(&decision),
        status.last_handled_reconcile_at.as_deref()
    );
}

#[test]
fn request_never_postpones_a_wanted_list() {
    let tag = requested(990, "now", 995);
    let wanting = |at: u64| {
        let decision = Decided::unchanged(&tag).wanting(ListKind::Tags, secs(at));
        decision.answering(&tag, list).wants.unwrap().1
    };
    assert_eq!(wanting(996), secs(996));
    assert_eq!(wanting(5000), secs(990 + PACE));
    assert_eq!(wanting(980), secs(990 + PACE), "it is there");
}

#[test]
fn own_read_runs_when_due_and_idle() {
    let own = |last| ReadSource::Own {
        last: Some(secs(last)),
        effect: "read",
    };
    let tag = requested(1, "now", 995);
    let decision = answer(&tag, own(990));
    assert_eq!((decision.effect, decision.requeue_after), (None, secs(20)));
    let decision = answer(&tag, own(960));
    assert_eq!((decision.effect, handled(&decision)), (Some("read"), None));
    let decision = Decided::unchanged(&tag).with("send");
    assert_eq!(decision.answering(&tag, || own(960)).effect, Some("send"));
    let decision = answer(&tag, own(996));
    assert_eq!((decision.effect, handled(&decision)), (None, Some("now")));
}

#[test]
fn request_waits_while_no_read_is_possible() {
    let open = |tag: &Tag, source| {
        let decision = answer(tag, source);
        assert_eq!((decision.wants, decision.effect), (None, None));
        handled(&decision).map(str::to_owned)
    };
    assert_eq!(
        open(&requested(900, "now", 995), ReadSource::Unavailable),
        None
    );
    let mut blocked = requested(999, "now", 995);
    blocked.account = ResolvedAccount::Missing("ProviderAccount default".into());
    assert_eq!(open(&blocked, list()), None);
    // A decision that needs no read answers the request.
    let unneeded = open(&blocked, ReadSource::NotNeeded);
    assert_eq!(unneeded.as_deref(), Some("now"));
    // The first status of a new object answers by itself, and a deletion ignores requests.
    let mut fresh = requested(999, "now", 995);
    Arc::make_mut(&mut fresh.object).status = None;
    assert_eq!(open(&fresh, list()), None);
    let mut ending = requested(900, "now", 995);
    let meta = &mut Arc::make_mut(&mut ending.object).metadata;
    meta.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(open(&ending, list()), None);
}

/// Plays a quarter of an hour with a new requested value each second. Returns how many reads that causes, and how many
/// writes of status.
fn quarter_of_an_hour(is_own: bool) -> (u64, u64) {
    let (mut read_at, mut reads, mut writes) = (1000, 0, 0);
    let mut tag = reported_tag(read_at);
    for second in 1001..1900 {
        tag.now.mono = secs(second);
        tag.memory
            .request
            .record_request(Some(&second.to_string()), secs(second));
        let ResolvedAccount::Found { view, .. } = &mut tag.account else {
            unreachable!("it is there")
        };
        view.tags = Some((secs(read_at), Arc::default()));
        let source = match is_own {
            true => ReadSource::Own {
                last: Some(secs(read_at)),
                effect: "read",
            },
            false => list(),
        };
        let decision = answer(&tag, source);
        let is_due = decision.wants.is_some_and(|(_, at)| at <= secs(second));
        if is_due || decision.effect.is_some() {
            (read_at, reads) = (second, reads + 1);
            // The reconcile after the read.
            let ResolvedAccount::Found { view, .. } = &mut tag.account else {
                unreachable!("it is there")
            };
            view.tags = Some((secs(read_at), Arc::default()));
            let decision = match is_own {
                true => answer(
                    &tag,
                    ReadSource::Own {
                        last: Some(secs(read_at)),
                        effect: "read",
                    },
                ),
                false => answer(&tag, list()),
            };
            let status = Arc::make_mut(&mut tag.object);
            writes += u64::from(status.status.as_ref() != Some(&decision.status));
            status.status = Some(decision.status);
        } else {
            assert_eq!(Some(&decision.status), tag.object.status.as_ref());
        }
    }
    (reads, writes)
}

#[test]
fn frequent_requests_keep_the_poll_interval() {
    for is_own in [false, true] {
        assert_eq!(quarter_of_an_hour(is_own), (29, 29), "{is_own}");
    }
}
