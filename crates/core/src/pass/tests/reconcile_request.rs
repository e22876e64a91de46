//! A look that somebody asks for.

use super::*;
use crate::account::{
    terms::Terms,
    view::{AccountView, ListKind},
};

/// The pace of the account.
const PACE: u64 = 30;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An object of which something was said, on an account whose tags were last looked at then.
fn reported_tag(looked: u64) -> Tag {
    let mut tag = subject();
    let status = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let object = Arc::make_mut(&mut tag.object);
    object.status = Some(serde_json::from_value(status).unwrap());
    let mut view = AccountView {
        tags: Some((secs(looked), Arc::default())),
        ..AccountView::usable()
    };
    view.times.active_poll_interval = secs(PACE);
    tag.account = ResolvedAccount::Found {
        view,
        terms: Terms::Own,
    };
    tag
}

/// The same, asked by this word since then.
fn asked(looked: u64, word: &str, since: u64) -> Tag {
    let mut tag = reported_tag(looked);
    tag.memory.request.record_request(Some(word), secs(since));
    tag
}

fn list() -> ReadSource<&'static str> {
    ReadSource::List(ListKind::Tags)
}

fn answer(tag: &Tag, sight: ReadSource<&'static str>) -> Decided {
    Decided::unchanged(tag).answering(tag, || sight)
}

fn handled(decision: &Decided) -> Option<&str> {
    decision.status.last_handled_reconcile_at.as_deref()
}

#[test]
fn first_later_read_answers_request() {
    // The last look was long ago: another one may begin at once.
    let decision = answer(&asked(900, "now", 995), list());
    assert_eq!(decision.wants, Some((ListKind::Tags, secs(995))));
    assert_eq!(handled(&decision), None);
    // It was a moment ago: the next one comes in its time.
    let decision = answer(&asked(990, "now", 995), list());
    assert_eq!(decision.wants, Some((ListKind::Tags, secs(990 + PACE))));
    let decision = answer(&asked(995, "now", 995), list());
    assert_eq!((decision.wants, handled(&decision)), (None, Some("now")));
    // Once; and the acknowledgement alone is written, beside what was said before.
    let mut done = asked(900, "now", 995);
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
    let tag = asked(990, "now", 995);
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
    let tag = asked(1, "now", 995);
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
    let open = |tag: &Tag, sight| {
        let decision = answer(tag, sight);
        assert_eq!((decision.wants, decision.effect), (None, None));
        handled(&decision).map(str::to_owned)
    };
    assert_eq!(open(&asked(900, "now", 995), ReadSource::Unavailable), None);
    let mut blocked = asked(999, "now", 995);
    blocked.account = ResolvedAccount::Missing("ProviderAccount default".into());
    assert_eq!(open(&blocked, list()), None);
    // What rests on no look is judged with the request.
    let unneeded = open(&blocked, ReadSource::NotNeeded);
    assert_eq!(unneeded.as_deref(), Some("now"));
    // The first status of a new object answers by itself, and what ends is not asked.
    let mut fresh = asked(999, "now", 995);
    Arc::make_mut(&mut fresh.object).status = None;
    assert_eq!(open(&fresh, list()), None);
    let mut ending = asked(900, "now", 995);
    let meta = &mut Arc::make_mut(&mut ending.object).metadata;
    meta.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(open(&ending, list()), None);
}

/// Plays a quarter of an hour in which the word is another one each second. Returns how many looks that cost, and how
/// often status was written.
fn quarter_of_an_hour(is_own: bool) -> (u64, u64) {
    let (mut looked, mut looks, mut writes) = (1000, 0, 0);
    let mut tag = reported_tag(looked);
    for second in 1001..1900 {
        tag.now.mono = secs(second);
        tag.memory
            .request
            .record_request(Some(&second.to_string()), secs(second));
        let ResolvedAccount::Found { view, .. } = &mut tag.account else {
            unreachable!("it is there")
        };
        view.tags = Some((secs(looked), Arc::default()));
        let sight = match is_own {
            true => ReadSource::Own {
                last: Some(secs(looked)),
                effect: "read",
            },
            false => list(),
        };
        let decision = answer(&tag, sight);
        let is_due = decision.wants.is_some_and(|(_, at)| at <= secs(second));
        if is_due || decision.effect.is_some() {
            (looked, looks) = (second, looks + 1);
            // The pass after the look.
            let ResolvedAccount::Found { view, .. } = &mut tag.account else {
                unreachable!("it is there")
            };
            view.tags = Some((secs(looked), Arc::default()));
            let decision = match is_own {
                true => answer(
                    &tag,
                    ReadSource::Own {
                        last: Some(secs(looked)),
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
    (looks, writes)
}

#[test]
fn frequent_requests_keep_the_poll_interval() {
    for is_own in [false, true] {
        assert_eq!(quarter_of_an_hour(is_own), (29, 29), "{is_own}");
    }
}
