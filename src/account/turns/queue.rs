//! Who waits for a turn, and who goes next. Pure.
//!
//! The first lane goes first, but none waits forever. Within a lane
//! the groups take turns, and within a group first come, first served.

use flexmetal_core::account::lane::Lane;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A lane in which somebody waits is passed over this often in a row at most, and one that only looks so many times as
/// often by releases, which end costs.
const PASSED_OVER: usize = 18;
const BY_RELEASES: usize = 3;

/// Who takes turns within a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// The account's own looks.
    Account,
    /// The objects of a namespace.
    Namespace(String),
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lane: Lane,
    pub(super) group: Group,
    number: u64,
}

/// Those who wait.
pub(super) struct Queue<W> {
    rows: [Row<W>; Lane::ALL.len()],
    next: u64,
}

/// Those who wait in one lane.
struct Row<W> {
    groups: HashMap<Group, BTreeMap<u64, W>>,
    /// Whose turn it is.
    ring: VecDeque<Group>,
    /// How often in a row others went while somebody here could have gone, `BY_RELEASES` each where it counts in full.
    passed_over: usize,
}

impl<W> Row<W> {
    fn new() -> Self {
        Self {
            groups: HashMap::new(),
            ring: VecDeque::new(),
            passed_over: 0,
        }
    }

    fn remove(&mut self, place: &Place) -> Option<W> {
        let group = self.groups.get_mut(&place.group)?;
        let waiter = group.remove(&place.number);
        if group.is_empty() {
            self.groups.remove(&place.group);
            self.ring.retain(|g| *g != place.group);
        }
        if self.groups.is_empty() {
            self.passed_over = 0;
        }
        waiter
    }
}

impl<W> Queue<W> {
    pub(super) fn new() -> Self {
        Self {
            rows: std::array::from_fn(|_| Row::new()),
            next: 0,
        }
    }

    /// Takes a place behind all others of the group.
    pub(super) fn join(&mut self, lane: Lane, group: Group, waiter: W) -> Place {
        let number = self.next;
        self.next += 1;
        let row = &mut self.rows[lane as usize];
        if !row.groups.contains_key(&group) {
            row.ring.push_back(group.clone());
        }
        let waiting = row.groups.entry(group.clone()).or_default();
        waiting.insert(number, waiter);
        Place {
            lane,
            group,
            number,
        }
    }

    /// Puts somebody who went for nothing back in front.
    pub(super) fn put_back(&mut self, place: &Place, waiter: W) {
        let row = &mut self.rows[place.lane as usize];
        row.ring.retain(|g| *g != place.group);
        row.ring.push_front(place.group.clone());
        let waiting = row.groups.entry(place.group.clone()).or_default();
        waiting.insert(place.number, waiter);
    }

    /// Gives a place up. None: it was not there any more.
    pub(super) fn leave(&mut self, place: &Place) -> Option<W> {
        self.rows[place.lane as usize].remove(place)
    }

    /// Who goes next among those who may go.
    pub(super) fn first(&self, may_go: impl Fn(Lane, &Group) -> bool) -> Option<(Place, &W)> {
        let mut waiting: Vec<_> = self.candidates(&may_go).collect();
        let first = waiting.first().cloned()?;
        // Whoever may be passed over least often comes first here. Lanes that run out together have to
        // go one after the other, so the first of them goes before its time.
        waiting.sort_by_key(|(lane, _)| self.patience(*lane));
        let is_time =
            |(others, (lane, _)): (usize, &(Lane, &Group))| self.patience(*lane) <= others;
        let (lane, group) = match waiting.iter().enumerate().any(is_time) {
            true => waiting.first().cloned()?,
            false => first,
        };
        let waiters = self.rows[lane as usize].groups.get(group)?;
        let (number, waiter) = waiters.first_key_value()?;
        let place = Place {
            lane,
            group: group.clone(),
            number: *number,
        };
        Some((place, waiter))
    }

    /// Lets somebody go. Lanes in which others could have gone are passed over by that.
    pub(super) fn go(&mut self, place: &Place, may_go: impl Fn(Lane, &Group) -> bool) -> Option<W> {
        let passed: Vec<Lane> = self.candidates(&may_go).map(|(lane, _)| lane).collect();
        for lane in passed {
            let only_looks = matches!(lane, Lane::Poll | Lane::OrphanScan | Lane::Catalogue);
            self.rows[lane as usize].passed_over += match place.lane {
                Lane::Release if only_looks => 1,
                _ => BY_RELEASES,
            };
        }
        let row = &mut self.rows[place.lane as usize];
        row.passed_over = 0;
        let waiter = row.remove(place);
        if row.groups.contains_key(&place.group) {
            row.ring.retain(|g| *g != place.group);
            row.ring.push_back(place.group.clone());
        }
        waiter
    }

    /// Each lane in which somebody may go, with the group whose turn it is; the first lane first.
    fn candidates<'a>(
        &'a self,
        may_go: &'a impl Fn(Lane, &Group) -> bool,
    ) -> impl Iterator<Item = (Lane, &'a Group)> {
        Lane::ALL.into_iter().filter_map(move |lane| {
            let mut groups = self.rows[lane as usize].ring.iter();
            groups
                .find(|group| may_go(lane, group))
                .map(|group| (lane, group))
        })
    }

    /// How often a lane may still be passed over.
    fn patience(&self, lane: Lane) -> usize {
        PASSED_OVER.saturating_sub(self.rows[lane as usize].passed_over.div_ceil(BY_RELEASES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Group::Namespace(name.into())
    }

    fn go<W>(queue: &mut Queue<W>) -> Option<(Lane, W)> {
        let (place, _) = queue.first(|_, _| true)?;
        let waiter = queue.go(&place, |_, _| true)?;
        Some((place.lane, waiter))
    }

    #[test]
    fn priorities_are_served_in_order() {
        let mut queue = Queue::new();
        for lane in Lane::ALL.into_iter().rev() {
            queue.join(lane, group("n"), ());
        }
        let went: Vec<Lane> = std::iter::from_fn(|| go(&mut queue))
            .map(|(l, ())| l)
            .collect();
        assert_eq!(went, Lane::ALL);
    }

    #[test]
    fn every_priority_has_a_minimum_share() {
        let mut queue = Queue::new();
        for _ in 0..1000 {
            for lane in Lane::ALL {
                queue.join(lane, group("n"), ());
            }
        }
        let most = |lane: Lane| match lane {
            Lane::Poll | Lane::OrphanScan | Lane::Catalogue => PASSED_OVER * BY_RELEASES,
            _ => PASSED_OVER,
        };
        let mut passed = HashMap::from(Lane::ALL.map(|lane| (lane, 0)));
        let mut releases = 0;
        for _ in 0..1000 {
            let (went, ()) = go(&mut queue).unwrap();
            releases += usize::from(went == Lane::Release);
            for (lane, count) in &mut passed {
                *count = if *lane == went { 0 } else { *count + 1 };
                assert!(*count <= most(*lane), "{lane:?} was passed over too often");
            }
        }
        assert!(releases >= 650, "the first lane has the most: {releases}");
    }

    #[test]
    fn namespaces_alternate_in_arrival_order() {
        let mut queue = Queue::new();
        for n in 0..1000 {
            queue.join(Lane::Poll, group("many"), ("many", n));
        }
        for n in 0..2 {
            queue.join(Lane::Poll, group("few"), ("few", n));
        }
        let went: Vec<_> = (0..5).map(|_| go(&mut queue).unwrap().1).collect();
        assert_eq!(
            went,
            [
                ("many", 0),
                ("few", 0),
                ("many", 1),
                ("few", 1),
                ("many", 2)
            ]
        );
    }

    #[test]
    fn who_may_not_go_holds_up_nobody() {
        let mut queue = Queue::new();
        queue.join(Lane::Release, group("n"), "object");
        queue.join(Lane::Release, Group::Account, "account");
        queue.join(Lane::Poll, group("n"), "poll");
        let own = |_: Lane, group: &Group| *group == Group::Account;
        let (place, who) = queue.first(own).unwrap();
        assert_eq!(*who, "account");
        queue.go(&place, own);
        assert!(queue.first(own).is_none());
        let (place, who) = queue.first(|lane, _| lane != Lane::Release).unwrap();
        assert_eq!((place.lane, *who), (Lane::Poll, "poll"));
    }

    #[test]
    fn who_went_for_nothing_comes_back_in_front() {
        let mut queue = Queue::new();
        for who in ["a", "b"] {
            queue.join(Lane::Poll, group(who), who);
        }
        let (place, _) = queue.first(|_, _| true).unwrap();
        let who = queue.go(&place, |_, _| true).unwrap();
        queue.put_back(&place, who);
        assert_eq!(go(&mut queue).unwrap().1, "a");
        let (place, _) = queue.first(|_, _| true).unwrap();
        assert_eq!(queue.leave(&place), Some("b"));
        assert_eq!(queue.leave(&place), None);
        assert!(go(&mut queue).is_none());
    }
}
