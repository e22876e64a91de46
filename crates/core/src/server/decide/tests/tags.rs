//! The tags of a server follow `spec.tags`.

use super::{existing::with_status, *};
use crate::{
    account::terms::Terms,
    last_error::LastError,
    server::{
        decide::{order, tags::is_due},
        memory::ServerObservation,
        tag_changes::{TagChange, TagEnd},
    },
};
use api::server::TagPolicy;
use hosting_types::tag::MOST_TAGS;

/// A delivered server with the tags `shown` next to the operator's own, and a spec with `named`. By its status, the
/// object added the tags `put`.
fn tag_case(shown: &[&str], named: &[&str], put: &[&str]) -> Case {
    let own_tags = [cluster().tag(), own_tag()];
    let tags = own_tags.iter().map(String::as_str);
    let tags: Vec<&str> = tags.chain(shown.iter().copied()).collect();
    let texts = |tags: &[&str]| tags.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let (named, put) = (texts(named), texts(put));
    with_status(ServerStatus::Delivered)
        .showing(server(1, ServerStatus::Delivered, &tags))
        .spec(|s| s.tags = named)
        .object(|o| o.status.as_mut().unwrap().records.tags = put)
}

fn exact(case: Case) -> Case {
    case.spec(|s| s.tag_policy = Some(TagPolicy::Exact))
}

/// The decided change: `+tag` or `-tag`.
fn change(case: &Case) -> Option<String> {
    match case.decide().effect? {
        ServerEffect::AddTag { uuid: of, tag } if of == uuid(1) => Some(format!("+{tag}")),
        ServerEffect::RemoveTag { uuid: of, tag } if of == uuid(1) => Some(format!("-{tag}")),
        other => Some(format!("{other:?}")),
    }
}

/// Status, reason and message of Synced.
fn synced(case: &Case) -> (Option<bool>, Reason, String) {
    let desired = case.decide().desired;
    let found = desired.condition(Type::Synced).unwrap();
    (found.status, found.reason, found.message.clone())
}

/// The tags that the object added, by its status.
fn added_tags(case: &Case) -> Vec<String> {
    case.decide().desired.status.records.tags
}

fn changed(tag: &str, adds: bool, end: TagEnd) -> ServerObservation {
    ServerObservation::TagChanged(TagChange {
        uuid: uuid(1),
        tag: tag.into(),
        adds,
        end,
    })
}

/// A tag change was made this often, each time when due, the last time at `RUNNING`.
fn made(case: Case, tag: &str, adds: bool, times: u64) -> Case {
    case.memory(|m| {
        for n in (0..times).rev() {
            let at = RUNNING - secs(20 * n);
            m.record_observation(changed(tag, adds, TagEnd::Made), at);
        }
    })
}

fn many(number: usize) -> Vec<String> {
    (0..number).map(|n| format!("tag-{n:02}")).collect()
}

#[test]
fn one_tag_changes_per_reconcile_removals_first() {
    for (what, case, expected) in [
        ("nothing to do", tag_case(&["a"], &["a"], &["a"]), None),
        ("one is missing", tag_case(&[], &["a"], &[]), Some("+a")),
        (
            "it was taken off",
            tag_case(&[], &["a"], &["a"]),
            Some("+a"),
        ),
        ("in order", tag_case(&[], &["b", "a"], &[]), Some("+a")),
        (
            "one that the object put on goes",
            tag_case(&["a", "b"], &["b"], &["a", "b"]),
            Some("-a"),
        ),
        (
            "before another one comes",
            tag_case(&["z"], &["a"], &["z"]),
            Some("-z"),
        ),
        (
            "tags of others stay",
            tag_case(&["a", "theirs"], &["a"], &["a"]),
            None,
        ),
        (
            "what a machine bore before is not the object's",
            tag_case(&["a"], &[], &[]),
            None,
        ),
        (
            "exact: tags of others go",
            exact(tag_case(&["a", "theirs"], &["a"], &["a"])),
            Some("-theirs"),
        ),
        (
            "exact: the operator's own stay",
            exact(tag_case(&["fmo-anything"], &[], &[])),
            None,
        ),
        (
            "exact: what is no tag by the rule of the API cannot be named",
            exact(tag_case(&["no tag"], &[], &[])),
            None,
        ),
        (
            "a reserved one that came past the schema",
            tag_case(&[], &["fmo-retained", "fmo-x"], &[]),
            None,
        ),
        (
            "nor is a reserved one taken off that a status names",
            tag_case(&["fmo-x"], &[], &["fmo-x", &own_tag(), &cluster().tag()]),
            None,
        ),
        (
            "a second machine is no hindrance",
            tag_case(&[], &["a"], &[]).with(2, ServerStatus::Created),
            Some("+a"),
        ),
    ] {
        assert_eq!(change(&case).as_deref(), expected, "{what}");
    }
}

#[test]
fn tags_wait_for_more_urgent_effects() {
    let edited = || tag_case(&["b"], &["a"], &["b"]);
    assert_eq!(change(&edited()).as_deref(), Some("-b"));
    for (what, case) in [
        ("suspended", edited().spec(|s| s.suspend = Some(true))),
        (
            "suspended by the account",
            edited().view(|v| {
                v.defaults = Some(Policies {
                    suspend: Some(true),
                    ..Policies::default()
                })
            }),
        ),
        ("blocked", edited().blocked(Reason::KeyRejected)),
        (
            "a namespace that is served no more",
            edited().facts(|f| {
                if let ResolvedAccount::Found { terms, .. } = &mut f.account {
                    *terms = Terms::Refused("no; add it".into());
                }
            }),
        ),
    ] {
        assert_eq!(change(&case), None, "{what}");
    }
    for status in [
        ServerStatus::Failed,
        ServerStatus::Releasing,
        ServerStatus::Released,
    ] {
        let over = edited().shown(|s| s.status = status.clone());
        assert_eq!(change(&over), None, "{status:?}");
        assert_eq!(added_tags(&over), ["b"]);
    }
    let unmarked = edited().showing(server(1, ServerStatus::Delivered, &[&own_tag(), "b"]));
    assert_eq!(change(&unmarked), Some(format!("+{}", cluster().tag())));
    let loose = edited().object(|o| o.metadata.finalizers = None);
    assert_eq!(loose.decide().effect, Some(ServerEffect::AddFinalizer));
    assert_eq!(short(&edited().deleting().decide()).0, Some("Release"));
}

#[test]
fn object_owns_tags_it_ordered_or_added() {
    assert_eq!(
        added_tags(&tag_case(&["a", "b"], &["a"], &["b", "a"])),
        ["a", "b"]
    );
    assert_eq!(
        added_tags(&tag_case(&["a", "theirs"], &["a", "theirs"], &["a"])),
        ["a"],
        "a tag of others that the spec names as well is theirs"
    );
    assert_eq!(
        added_tags(&tag_case(&[], &["a"], &["a", "b"])),
        ["a"],
        "what is gone and not wanted is over"
    );
    let other_order = tag_case(&["a"], &[], &["a"]).order(|record| record.seq += 1);
    assert_eq!(
        added_tags(&other_order),
        [""; 0],
        "the machine is not of this order"
    );
    let other_server =
        tag_case(&["a"], &[], &["a"]).object(|o| o.status.as_mut().unwrap().uuid = Some(uuid(7)));
    assert_eq!(added_tags(&other_server), [""; 0]);
    let added = made(tag_case(&["a"], &["a"], &[]), "a", true, 1);
    assert_eq!(added_tags(&added), ["a"]);
    let was_there = tag_case(&["a"], &["a"], &[])
        .memory(|m| m.record_observation(changed("a", true, TagEnd::NotDue), RUNNING));
    assert_eq!(added_tags(&was_there), [""; 0], "somebody else was faster");
    let full: Vec<String> = many(MOST_TAGS + 9);
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    assert_eq!(added_tags(&tag_case(&full, &[], &full)).len(), MOST_TAGS);
}

#[test]
fn added_tag_is_recorded_before_next_change() {
    let one = || made(tag_case(&["a"], &["a", "b"], &[]), "a", true, 1);
    assert_eq!(change(&one()), None);
    let decision = one().decide();
    assert_eq!(decision.desired.status.records.tags, ["a"]);
    assert_eq!(decision.requeue_once_written, Requeue::Now);
    let recorded = one().object(|o| o.status.as_mut().unwrap().records.tags = vec!["a".into()]);
    assert_eq!(change(&recorded).as_deref(), Some("+b"));
    // A failing status update delays the next change only for a moment.
    let later = one().facts(|f| f.now.mono += secs(2));
    assert_eq!(change(&later).as_deref(), Some("+b"));
}

#[test]
fn order_records_its_tags_before_sending() {
    let case = Case::new().spec(|s| s.tags = vec!["b".into(), "a".into()]);
    let Some(ServerEffect::Order(planned)) = case.decide().effect else {
        panic!("no order")
    };
    assert_eq!(planned.order.tags, ["b", "a"]);
    let started = |case: &Case, planned: &NewOrder| {
        let record = order::open_record(&case.0, planned, "nonce", secs(30));
        order::starting_status(&case.0, &record).records
    };
    assert_eq!(started(&case, &planned).tags, ["a", "b"]);
    // Another order drops the tags of the previous one.
    let again = Case::new()
        .ordered(Some(OrderOutcome::Absent), None)
        .object(|o| o.status.as_mut().unwrap().records.tags = vec!["old".into()]);
    let Some(ServerEffect::Order(planned)) = again.decide().effect else {
        panic!("no order")
    };
    assert_eq!(started(&again, &planned).tags, [""; 0]);
}

#[test]
fn two_places_are_left_to_the_operator() {
    let full = |shown: usize, named: &[&str], put: &[&str]| {
        let shown = many(shown);
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        tag_case(&shown, named, put)
    };
    // Two more are reserved for the operator.
    assert_eq!(change(&full(55, &["a"], &[])).as_deref(), Some("+a"));
    let crowded = full(56, &["a", "b"], &[]);
    assert_eq!(change(&crowded), None);
    let (status, reason, message) = synced(&crowded);
    assert_eq!((status, reason), (Some(false), Reason::TooManyEntries));
    for words in ["spec.tags", "2 tags", "a, b", "58 of at most 60", "Remove"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let ready = crowded
        .decide()
        .desired
        .condition(Type::Ready)
        .cloned()
        .unwrap();
    assert_eq!(
        (ready.status, ready.reason),
        (Some(true), Reason::Delivered)
    );
    assert_eq!(ready.message, synced(&crowded).2, "kubectl shows it");

    // A removal comes first and frees a slot.
    assert_eq!(
        change(&full(56, &["a"], &["tag-07"])).as_deref(),
        Some("-tag-07")
    );
    assert_eq!(change(&full(58, &[], &[])), None, "nothing is missing");
    assert_eq!(synced(&full(58, &[], &[])).1, Reason::InSync);

    // Together with an edit that nothing acts on, both are reported.
    let both = crowded.spec(|s| s.os.as_mut().unwrap().slug = "other-os".into());
    let (_, reason, message) = synced(&both);
    assert_eq!(reason, Reason::PendingChanges);
    assert!(message.contains("58 of at most 60 tags"), "{message}");
}

#[test]
fn fresh_record_decides_whether_tag_change_is_due() {
    let record = |tags: &[&str]| server(1, ServerStatus::Delivered, tags);
    assert!(is_due(&record(&[]), "a", true));
    assert!(!is_due(&record(&["a"]), "a", true), "the list was late");
    assert!(is_due(&record(&["a"]), "a", false));
    assert!(!is_due(&record(&[]), "a", false));
    let full = many(58);
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    assert!(!is_due(&record(&full), "a", true), "somebody filled it up");
    assert!(is_due(&record(&full[1..]), "a", true));
    assert!(is_due(&record(&full), "fmo-retained", true));
    assert!(is_due(&record(&full), "tag-00", false));
}

#[test]
fn reverted_tag_change_is_retried_less_often() {
    let stripped = || tag_case(&[], &["a"], &["a"]);
    let once = made(stripped(), "a", true, 1);
    assert_eq!(change(&once), None);
    assert_eq!(once.decide().requeue, Requeue::After(secs(15)));
    let (status, reason, message) = synced(&once);
    assert_eq!((status, reason), (Some(false), Reason::Progressing));
    assert!(!message.contains("keeps reverting"), "{message}");
    let ready = once
        .decide()
        .desired
        .condition(Type::Ready)
        .cloned()
        .unwrap();
    assert_eq!((ready.status, ready.message), (Some(true), message));
    let later = |case: Case, rest: u64| case.facts(|f| f.now.mono += secs(rest));
    assert_eq!(change(&later(once, 15)).as_deref(), Some("+a"));

    // Another tag need not wait.
    let other = made(tag_case(&[], &["a", "b"], &["a"]), "a", true, 1);
    assert_eq!(change(&other).as_deref(), Some("+b"));

    let often = made(stripped(), "a", true, 6);
    assert_eq!(change(&later(often.clone(), 31)), None);
    assert_eq!(change(&later(often.clone(), 32)).as_deref(), Some("+a"));
    let (status, reason, message) = synced(&often);
    assert_eq!((status, reason), (Some(false), Reason::Progressing));
    assert!(message.contains("affected: a. Find"), "{message}");
    let is_there = made(tag_case(&["a"], &["a"], &["a"]), "a", true, 6);
    assert_eq!(
        synced(&is_there).1,
        Reason::Progressing,
        "told while it has just been put on, too"
    );
    let over = later(is_there, 600);
    assert_eq!(synced(&over).1, Reason::InSync);
    let unnamed = made(tag_case(&[], &[], &[]), "a", true, 6);
    assert_eq!(
        synced(&unnamed).1,
        Reason::InSync,
        "nobody wants it any more"
    );
    let fought = exact(made(tag_case(&["theirs"], &[], &[]), "theirs", false, 6));
    assert!(synced(&fought).2.contains("affected: theirs. Find"));
}

#[test]
fn failed_or_waiting_tag_change_is_explained() {
    let edited = || tag_case(&[], &["a"], &[]);
    let (status, reason, message) = synced(&edited());
    assert_eq!((status, reason), (Some(false), Reason::Progressing));
    assert!(message.contains(&uuid(1)), "{message}");
    let failing = edited().memory(|m| {
        for _ in 0..3 {
            let error = LastError {
                reason: Reason::RequestRefused,
                message: "no".into(),
            };
            let refused = changed("a", true, TagEnd::Refused(error));
            m.record_observation(refused, RUNNING - secs(600));
        }
    });
    assert_eq!(change(&failing).as_deref(), Some("+a"), "it is tried on");
    assert_eq!(synced(&failing).1, Reason::RequestRefused);
    // Between two attempts the reason stays the same.
    let between = failing.clone().written().memory(|m| {
        let error = LastError {
            reason: Reason::RequestRefused,
            message: "no".into(),
        };
        m.record_observation(changed("a", true, TagEnd::Refused(error)), RUNNING);
    });
    assert_eq!(change(&between), None);
    assert_eq!(synced(&between).1, Reason::RequestRefused);
    let suspended = edited().spec(|s| s.suspend = Some(true));
    assert_eq!(synced(&suspended).1, Reason::PendingChanges);
    let decision = suspended.decide();
    let condition = decision.desired.condition(Type::Suspended).unwrap();
    assert_eq!((condition.status, decision.effect), (Some(true), None));
    let unserved = edited().facts(|f| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.account {
            *terms = Terms::Refused("no; add it".into());
        }
    });
    assert_eq!(synced(&unserved).1, Reason::NotAllowed);
}

#[test]
fn order_tags_stay_known_until_server_exists() {
    let case = Case::new()
        .ordered(None, None)
        .spec(|s| s.tags = vec!["a".into()]);
    let case = case.object(|o| o.status.as_mut().unwrap().records.tags = vec!["a".into()]);
    let tags = ["a", &cluster().tag(), &own_tag()];
    let made = case.showing(server(1, ServerStatus::Created, &tags));
    let answered = made.clone().memory(|m| {
        let record = order_record(Some(OrderOutcome::Created), Some(1));
        m.record_observation(ServerObservation::Ordered(Box::new(record)), RUNNING);
    });
    for case in [made, answered] {
        assert_eq!(added_tags(&case), ["a"]);
        assert_eq!(added_tags(&case.written()), ["a"]);
    }
}
