//! The annotation speaks of another object.

use super::*;
use crate::server::decide::fence::TagProof;

/// An object with the annotation of an earlier one of its name, seen for `age` seconds.
pub(super) fn restored(age: u64) -> Case {
    let intent = intent_of("web", "uid-0");
    let mark = Mark::parse(&intent.mark).unwrap();
    Case::new()
        .noted(&intent)
        .memory(|m| m.former_seen(Some(&mark), RUNNING - secs(age)))
}

/// An object with the annotation of an object of another name.
fn copied() -> Case {
    Case::new().noted(&intent_of("db", "uid-9"))
}

fn theirs(name: &str, uid: &str, status: ServerStatus) -> Sighting {
    let tag = cluster().object_mark("shop", name, uid).order_tag(EPOCH);
    seen(server(1, status, &[&cluster().tag(), &tag]))
}

#[test]
fn a_restored_object_takes_over_what_is_live_and_unclaimed() {
    let live = |claimed| {
        former(
            claimed,
            vec![theirs("web", "uid-0", ServerStatus::Delivered)],
        )
    };
    let over = |status| former(Some(false), vec![theirs("web", "uid-0", status)]);
    table(vec![
        (
            "no listing yet",
            restored(60)
                .view(|v| v.proof = None)
                .facts(|f| f.former = live(Some(false))),
            None,
            Some(Reason::WaitingForListing),
            false,
        ),
        (
            "claimed by a living object",
            restored(60).facts(|f| f.former = live(Some(true))),
            None,
            Some(Reason::WaitingForListing),
            false,
        ),
        (
            "unclaimed, but not for long enough",
            restored(29).facts(|f| f.former = live(Some(false))),
            None,
            Some(Reason::WaitingForListing),
            false,
        ),
        (
            "unclaimed: the object is held first",
            restored(30).facts(|f| f.former = live(Some(false))),
            Some("HoldObject"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "held: the machine gets the mark",
            restored(30).held().facts(|f| f.former = live(Some(false))),
            Some("AddTag"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "suspended",
            restored(30)
                .spec(|s| s.suspend = Some(true))
                .facts(|f| f.former = live(Some(false))),
            None,
            Some(Reason::Suspended),
            false,
        ),
        (
            "being released",
            restored(30).facts(|f| f.former = over(ServerStatus::Releasing)),
            None,
            Some(Reason::Releasing),
            false,
        ),
        (
            "released: the matter is closed",
            restored(30).facts(|f| f.former = over(ServerStatus::Released)),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "released while it was being taken over: closed as well",
            restored(30)
                .held()
                .facts(|f| f.former = over(ServerStatus::Released)),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "nothing found, and a user acknowledges it",
            restored(30)
                .facts(|f| f.former = former(Some(false), Vec::new()))
                .given(AssumeAbsent),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "nothing found",
            restored(30).facts(|f| f.former = former(Some(false), Vec::new())),
            None,
            Some(Reason::ServerNotFound),
            true,
        ),
    ]);
}

#[test]
fn a_takeover_puts_the_new_mark_on_and_takes_the_old_one_off() {
    let case = restored(30).held().facts(|f| {
        f.former = former(
            Some(false),
            vec![theirs("web", "uid-0", ServerStatus::Delivered)],
        )
    });
    let Some(Effect::AddTag { tag, when, .. }) = case.decide().effect else {
        panic!("no tag")
    };
    assert!(tag.starts_with(&mark().tag_prefix()));
    let old = Mark::parse(&intent_of("web", "uid-0").mark).unwrap();
    assert_eq!(when, TagProof::FormerMark(old.clone()));

    // With both marks on it, the old one goes; then fmo-retained; then the annotation is written again.
    let machine = |tags: &[&str]| {
        let sighting = seen(server(1, ServerStatus::Delivered, tags));
        restored(30).held().facts(|f| f.own = vec![sighting])
    };
    let (cluster, own, old_tag) = (cluster().tag(), own_tag(), old.order_tag(EPOCH));
    let removed = |case: Case| match case.decide().effect {
        Some(Effect::RemoveTag { tag, when, .. }) => {
            assert_eq!(when, TagProof::OwnMark);
            tag
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        removed(machine(&[&cluster, &own, &old_tag, RETAINED_PREFIX])),
        old_tag
    );
    assert_eq!(
        removed(machine(&[&cluster, &own, RETAINED_PREFIX])),
        RETAINED_PREFIX
    );
    let last = machine(&[&cluster, &own]).decide();
    assert_eq!(short(&last).0, Some("Claim"));
}

#[test]
fn a_copy_is_ignored_only_where_nobody_can_lose_by_it() {
    let live = || vec![theirs("db", "uid-9", ServerStatus::Delivered)];
    table(vec![
        (
            "its machine has a living object",
            copied().facts(|f| f.former = former(Some(true), live())),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "its machine is over",
            copied().facts(|f| {
                f.former = former(
                    Some(false),
                    vec![theirs("db", "uid-9", ServerStatus::Released)],
                );
            }),
            Some("Order"),
            Some(Reason::Ordering),
            false,
        ),
        (
            "its machine has nobody else",
            copied().facts(|f| f.former = former(Some(false), live())),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
        (
            "not all namespaces are seen",
            copied().facts(|f| {
                f.all_namespaces = false;
                f.former = former(None, live());
            }),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
        (
            "no listing yet",
            copied()
                .view(|v| v.proof = None)
                .facts(|f| f.former = former(Some(true), live())),
            None,
            Some(Reason::WaitingForListing),
            false,
        ),
        (
            "another cluster",
            Case::new().noted(&Intent {
                cluster: "f".repeat(16),
                ..intent_of("web", "uid-0")
            }),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
        (
            "not to be read",
            Case::new().annotated(ORDER_ANNOTATION, "{".into()),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
    ]);
}

#[test]
fn an_acknowledgement_closes_what_another_object_left_wherever_it_stands() {
    let foreign = Intent {
        cluster: "f".repeat(16),
        ..intent_of("web", "uid-0")
    };
    let live = || {
        former(
            Some(false),
            vec![theirs("web", "uid-0", ServerStatus::Delivered)],
        )
    };
    for (what, intent) in [
        ("former", intent_of("web", "uid-0")),
        ("stranger", intent_of("db", "uid-9")),
        ("foreign", foreign),
    ] {
        let noted = Case::new().noted(&intent);
        let in_status = Case::new().object(|o| {
            o.status.get_or_insert_default().records.order =
                Some(OrderRecord::open(intent.clone()));
        });
        for (place, case) in [("annotation", noted), ("status", in_status)] {
            // A machine of an earlier object that is shown is taken over: nothing is asked of that.
            let shown = case.clone().facts(|f| f.former = live());
            let case = case.facts(|f| {
                f.former = match what {
                    "former" => former(Some(false), Vec::new()),
                    _ => live(),
                };
            });
            assert_eq!(case.decide().effect, None, "{what} in {place}");
            let given = case.clone().given(AssumeAbsent);
            let said = short(&given.decide());
            assert_eq!(said.0, Some("Order"), "{what} in {place}");
            let other = case.written().giving("0123456789ab");
            assert_eq!(
                other.decide().effect,
                None,
                "{what} in {place}: another token"
            );
            if what == "former" {
                let given = given.facts(|f| f.former = shown.0.former);
                assert_eq!(given.decide().effect, None, "it is shown by now");
            }
        }
    }
}
