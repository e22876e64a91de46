//! The recorded machine is not among those that bear the mark.

use super::*;
use crate::controllers::server::memory::Missing;

pub(super) fn created() -> Case {
    Case::new().ordered(Some(OrderOutcome::Created), Some(1))
}

pub(super) fn tried(reads: &[u64], listings: &[u64]) -> Missing {
    Missing {
        reads: reads.iter().map(|s| secs(*s)).collect(),
        listings: listings.iter().map(|s| secs(*s)).collect(),
    }
}

pub(super) fn stripped(tags: &[&str]) -> Case {
    let sighting = seen(server(1, ServerStatus::Delivered, tags));
    created().facts(|f| f.recorded = Some(sighting))
}

#[test]
fn missing_is_not_gone() {
    let not_found = Some(Reason::MachineNotFound);
    let (cluster_tag, own) = (cluster().tag(), own_tag());
    let other = cluster()
        .object_mark("shop", "db", "uid-9")
        .order_tag(EPOCH);
    table(vec![
        (
            "not shown: read it, say nothing yet",
            created(),
            Some("Read"),
            None,
            false,
        ),
        (
            "blocked: nothing changes",
            created().blocked(Reason::KeyRejected),
            None,
            None,
            false,
        ),
        (
            "read a moment ago",
            created().memory(|m| m.missing = tried(&[980], &[])),
            None,
            None,
            false,
        ),
        (
            "two reads and one listing are no proof",
            created().memory(|m| m.missing = tried(&[800, 900], &[900])),
            Some("Read"),
            None,
            false,
        ),
        (
            "two reads and two listings are",
            created().memory(|m| m.missing = tried(&[800, 900], &[800, 900])),
            None,
            not_found,
            true,
        ),
        (
            "all marks gone",
            stripped(&[]),
            None,
            Some(Reason::MarksMissing),
            true,
        ),
        (
            "the cluster's mark is left: the order's is put back",
            stripped(&[&cluster_tag]),
            Some("AddTag"),
            Some(Reason::MarksMissing),
            true,
        ),
        (
            "but not while suspended",
            stripped(&[&cluster_tag]).spec(|s| s.suspend = Some(true)),
            None,
            Some(Reason::MarksMissing),
            true,
        ),
        (
            "another object's mark",
            stripped(&[&cluster_tag, &other]),
            None,
            Some(Reason::OwnershipConflict),
            true,
        ),
        (
            "the order's mark is left: the cluster's is put back",
            created().facts(|f| f.own = vec![seen(server(1, ServerStatus::Delivered, &[&own]))]),
            Some("AddTag"),
            Some(Reason::Delivered),
            false,
        ),
    ]);
}

#[test]
fn a_listing_counts_only_with_a_control_and_without_the_machine() {
    let not_listed = |case: Case| match case.decide().effect {
        Some(Effect::Read { not_listed, .. }) => not_listed,
        other => panic!("{other:?}"),
    };
    let missed = |at: u64| created().memory(|m| m.missing.reads = vec![secs(at)]);
    assert_eq!(not_listed(missed(900)), Some(secs(990)));
    assert_eq!(
        not_listed(created()),
        None,
        "a listing from before the first miss proves nothing"
    );
    assert_eq!(not_listed(missed(900).view(|v| v.known.clear())), None);
    let listed = missed(900).view(|v| {
        let servers = vec![
            Arc::new(server(CONTROL, ServerStatus::Delivered, &[])),
            Arc::new(server(1, ServerStatus::Delivered, &[])),
        ];
        v.proof = Some(Arc::new(Proof {
            began: secs(990),
            ended: secs(990),
            servers,
        }));
    });
    assert_eq!(not_listed(listed), None);
}

#[test]
fn the_message_names_the_tags_to_put_back() {
    let decision = stripped(&[]).decide();
    let message = &decision.draft.condition(Type::Ready).unwrap().message;
    assert!(
        message.contains(&own_tag()) && message.contains(&cluster().tag()),
        "{message}"
    );
}
