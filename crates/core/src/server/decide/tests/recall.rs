//! What is known and remembered of an object at the moment of a pass.

use super::*;
use crate::{
    account::left_behind::{Left, LeftBehind},
    server::{
        memory::{Missing, Observation},
        recall::{Known, recall},
    },
    trouble::Trouble,
};

/// Machines, and the mark of another living object.
struct Outside(Vec<Sighting>, Option<Mark>);

impl Known for Outside {
    fn bearing(&self, mark: &Mark) -> Vec<Sighting> {
        let bears = |s: &&Sighting| fence::bears(&s.server, mark);
        self.0.iter().filter(bears).cloned().collect()
    }

    fn machine(&self, uuid: &str) -> Option<Sighting> {
        let is = |s: &&Sighting| s.server.id.as_str() == uuid;
        self.0.iter().find(is).cloned()
    }

    fn left_behind(&self, of: &Left<'_>) -> LeftBehind {
        let is = |s: &&Sighting| marks::retained_at(&s.server).any(|at| at == of.place);
        LeftBehind {
            machines: self.0.iter().filter(is).cloned().collect(),
            unlisted: Vec::new(),
        }
    }

    fn is_claimed(&self, mark: &Mark, _except: &str, _: bool) -> Option<bool> {
        self.1.as_ref().map(|claimed| claimed == mark)
    }

    fn has_settled(&self, _: &Mark, _: &str) -> bool {
        false
    }

    fn is_recorded(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// Next to nothing is known.
#[derive(Default)]
pub(super) struct Bare {
    /// A machine that the search by mark does not show yet: it was read in between.
    read: Option<Sighting>,
    /// The accounts that may keep one and are not listed.
    unlisted: Vec<AccountKey>,
}

impl Known for Bare {
    fn bearing(&self, _: &Mark) -> Vec<Sighting> {
        Vec::new()
    }

    fn machine(&self, _: &str) -> Option<Sighting> {
        self.read.clone()
    }

    fn left_behind(&self, _: &Left<'_>) -> LeftBehind {
        LeftBehind {
            machines: Vec::new(),
            unlisted: self.unlisted.clone(),
        }
    }

    fn is_claimed(&self, _: &Mark, _: &str, _: bool) -> Option<bool> {
        Some(false)
    }

    fn has_settled(&self, _: &Mark, _: &str) -> bool {
        false
    }

    fn is_recorded(&self, _: &str, _: &str) -> bool {
        false
    }
}

#[test]
fn a_machine_that_is_read_in_the_middle_of_a_pass_is_the_objects_own() {
    let tags = [cluster().tag(), own_tag()];
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let machine = seen(server(1, ServerStatus::Delivered, &tags));
    let mut facts = Case::new().ordered(Some(OrderOutcome::Created), Some(1)).0;
    let known = Bare {
        read: Some(machine),
        ..Bare::default()
    };
    recall(&mut facts, Some(&known));
    assert_eq!(facts.own.len(), 1);
    assert_eq!(
        short(&Case(facts).decide()),
        (None, Some(Reason::Delivered), false)
    );
}

fn recalled(case: Case, outside: &Outside) -> Facts {
    let mut facts = case.0;
    recall(&mut facts, Some(outside));
    facts
}

#[test]
fn only_live_machines_that_this_place_left_behind_are_counted_and_only_for_who_has_no_live_one() {
    let left = |number, status: ServerStatus, name: &str| {
        let tag = cluster().tag_of_retained("shop", name);
        let former = cluster()
            .object_mark("shop", name, "uid-0")
            .order_tag(EPOCH);
        seen(server(number, status, &[&cluster().tag(), &former, &tag]))
    };
    let mut outside = Outside(
        vec![
            left(3, ServerStatus::Delivered, "web"),
            left(2, ServerStatus::Provisioning, "web"),
            left(4, ServerStatus::Released, "web"),
            left(5, ServerStatus::Failed, "web"),
            left(6, ServerStatus::Delivered, "db"),
        ],
        None,
    );
    let found = |facts: Facts| {
        let ids = facts
            .retained
            .iter()
            .map(|s| s.server.id.as_str().to_owned());
        ids.collect::<Vec<_>>()
    };
    let kept = [uuid(2), uuid(3)];
    assert_eq!(found(recalled(Case::new(), &outside)), kept);
    assert!(found(recalled(Case::new().deleting(), &outside)).is_empty());
    // Another one may be ordered in the place of one that is over.
    outside
        .0
        .push(seen(server(7, ServerStatus::Released, &[&own_tag()])));
    assert_eq!(found(recalled(Case::new(), &outside)), kept);
    // Whoever has a machine orders none.
    outside
        .0
        .push(seen(server(1, ServerStatus::Delivered, &[&own_tag()])));
    assert!(found(recalled(Case::new(), &outside)).is_empty());
}

#[test]
fn a_machine_that_is_shown_again_was_never_missing() {
    let missed = || {
        Case::new()
            .ordered(Some(OrderOutcome::Created), Some(1))
            .memory(|m| {
                m.missing = Missing {
                    reads: vec![secs(900)],
                    listings: vec![secs(910)],
                };
            })
    };
    let shown = Outside(
        vec![seen(server(1, ServerStatus::Delivered, &[&own_tag()]))],
        None,
    );
    let facts = recalled(missed(), &shown);
    assert_eq!(facts.memory.missing, Missing::default());
    assert_eq!((facts.own.len(), facts.recorded.is_some()), (1, true));
    // One without our mark is there, and not found by it: the search goes on.
    let bare = Outside(vec![seen(server(1, ServerStatus::Delivered, &[]))], None);
    let facts = recalled(missed(), &bare);
    assert_eq!(facts.memory.missing.reads, [secs(900)]);
    assert_eq!((facts.own.len(), facts.recorded.is_some()), (0, true));
}

#[test]
fn a_search_starts_with_the_first_sight_of_an_attempt() {
    let nothing = Outside(Vec::new(), None);
    let facts = recalled(Case::new().ordered(None, None), &nothing);
    let search = facts.memory.search.clone().unwrap();
    assert_eq!(
        (search.attempt.as_str(), search.first_seen),
        ("nonce", RUNNING)
    );
    let mut later = facts;
    later.now.mono += secs(5);
    recall(&mut later, Some(&nothing));
    assert_eq!(later.memory.search, Some(search), "it goes on");
}

#[test]
fn another_mark_is_looked_up_beside_the_own() {
    let former = intent_of("web", "uid-0");
    let mark = Mark::parse(&former.mark).unwrap();
    let machine = seen(server(
        1,
        ServerStatus::Delivered,
        &[&mark.order_tag(EPOCH)],
    ));
    let outside = Outside(vec![machine], Some(mark.clone()));
    let facts = recalled(Case::new().noted(&former), &outside);
    assert_eq!(facts.memory.former, Some((mark, RUNNING)));
    let known = facts.former.unwrap();
    assert_eq!((known.claimed, known.machines.len()), (Some(true), 1));
    let own = recalled(Case::new(), &outside);
    assert_eq!((own.memory.former, own.former), (None, None));
}

#[test]
fn without_an_account_what_was_known_of_machines_stays() {
    let mut facts = Case::new().with(1, ServerStatus::Delivered).0;
    recall(&mut facts, None::<&Outside>);
    assert_eq!(facts.own.len(), 1);
}

#[test]
fn an_order_that_was_not_sent_leaves_a_pace_in_memory() {
    let note = |outcome| {
        let mut memory = Memory::default();
        for _ in 0..5 {
            memory.note(
                Observation::Failed(Trouble::unexpected("why")),
                secs(50),
                secs(60),
            );
        }
        let order = Case::new()
            .ordered(outcome, None)
            .0
            .status()
            .records
            .order
            .unwrap();
        memory.note(
            Observation::Ordered { order, uuid: None },
            secs(100),
            secs(60),
        );
        (memory.backoff.failures(), memory.backoff.rest(secs(100)))
    };
    assert_eq!(note(Some(OrderOutcome::NotSent)), (1, Some(secs(1))));
    assert_eq!(note(Some(OrderOutcome::Refused)), (0, None));
    assert_eq!(note(None), (0, None));
}

#[test]
fn what_was_collected_before_the_lease_was_gained_proves_nothing() {
    let nothing = Outside(Vec::new(), None);
    let case = Case::new().open(300, &[320, 400]).memory(|m| {
        m.missing.reads = vec![secs(350)];
    });
    let kept = recalled(case.clone(), &nothing);
    assert_eq!(kept.memory.search.unwrap().samples.len(), 2);
    let regained = recalled(case.facts(|f| f.acting_since = secs(500)), &nothing);
    let search = regained.memory.search.unwrap();
    assert_eq!((search.first_seen, search.samples), (RUNNING, vec![]));
    assert!(regained.memory.missing.reads.is_empty());
}

#[test]
fn what_was_missed_before_nobody_looked_is_looked_for_again() {
    let missed = |case: Case| {
        let case = case.memory(|m| {
            m.missing = Missing {
                reads: vec![secs(800), secs(900)],
                listings: vec![secs(800), secs(900)],
            };
        });
        recalled(case, &Outside(Vec::new(), None)).memory.missing
    };
    let created = || Case::new().ordered(Some(OrderOutcome::Created), Some(1));
    assert_ne!(missed(created()), Missing::default());
    let blocked = created().blocked(Reason::KeyRejected);
    assert_eq!(missed(blocked), Missing::default());
    // Lists alone may fail while reads are answered, and each read must leave a trace, or it would be made again at once.
    let unreachable = created().view(|v| v.is_unreachable = true);
    assert_ne!(missed(unreachable), Missing::default());
}

#[test]
fn it_is_remembered_since_when_an_account_is_not_listed() {
    let mut facts = Case::new().0;
    let since = |facts: &mut Facts, at: u64, unlisted: Vec<AccountKey>| {
        facts.now.mono = secs(at);
        let known = Bare {
            unlisted,
            ..Bare::default()
        };
        recall(facts, Some(&known));
        facts.memory.unlisted_since
    };
    assert_eq!(since(&mut facts, 1000, Vec::new()), None);
    let one = vec![other_account()];
    assert_eq!(since(&mut facts, 1010, one.clone()), Some(secs(1010)));
    assert_eq!(since(&mut facts, 1020, one.clone()), Some(secs(1010)));
    assert_eq!(since(&mut facts, 1030, Vec::new()), None);
    assert_eq!(since(&mut facts, 1040, one), Some(secs(1040)));
}
