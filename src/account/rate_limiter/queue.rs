//! Who waits for a turn, and who goes next. Pure.
//!
//! The first lane goes first, but none waits forever. Within a lane
//! the groups take turns, and within a group first come, first served.

use flexmetal_core::account::priority::Priority;
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
pub(super) struct CallPosition {
    pub(super) priority: Priority,
    pub(super) group: Group,
    number: u64,
}

/// Those who wait.
pub(super) struct Queue<W> {
    levels: [PriorityLevel<W>; Priority::ALL.len()],
    next: u64,
}

/// Those who wait in one lane.
struct PriorityLevel<W> {
    groups: HashMap<Group, BTreeMap<u64, W>>,
    /// Whose turn it is.
    ring: VecDeque<Group>,
    /// How often in a row others went while somebody here could have gone, `BY_RELEASES` each where it counts in full.
    passed_over: usize,
}

impl<W> PriorityLevel<W> {
    fn new() -> Self {
        Self {
            groups: HashMap::new(),
            ring: VecDeque::new(),
            passed_over: 0,
        }
    }

    fn remove(&mut self, place: &CallPosition) -> Option<W> {
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
            levels: std::array::from_fn(|_| PriorityLevel::new()),
            next: 0,
        }
    }

    /// Takes a place behind all others of the group.
    pub(super) fn join(&mut self, lane: Priority, group: Group, waiter: W) -> CallPosition {
        let number = self.next;
        self.next += 1;
        let row = &mut self.levels[lane as usize];
        if !row.groups.contains_key(&group) {
            row.ring.push_back(group.clone());
        }
        let waiting = row.groups.entry(group.clone()).or_default();
        waiting.insert(number, waiter);
        CallPosition {
            priority: lane,
            group,
            number,
        }
    }

    /// Puts somebody who went for nothing back in front.
    pub(super) fn put_back(&mut self, place: &CallPosition, waiter: W) {
        let row = &mut self.levels[place.priority as usize];
        row.ring.retain(|g| *g != place.group);
        row.ring.push_front(place.group.clone());
        let waiting = row.groups.entry(place.group.clone()).or_default();
        waiting.insert(place.number, waiter);
    }

    /// Gives a place up. None: it was not there any more.
    pub(super) fn leave(&mut self, place: &CallPosition) -> Option<W> {
        self.levels[place.priority as usize].remove(place)
    }

    /// Who goes next among those who may go.
    pub(super) fn first(
        &self,
        may_go: impl Fn(Priority, &Group) -> bool,
    ) -> Option<(CallPosition, &W)> {
        let mut waiting: Vec<_> = self.candidates(&may_go).collect();
        let first = waiting.first().cloned()?;
        // Whoever may be passed over least often comes first here. Lanes that run out together have to
        // go one after the other, so the first of them goes before its time.
        waiting.sort_by_key(|(lane, _)| self.skips_left(*lane));
        let is_time =
            |(others, (lane, _)): (usize, &(Priority, &Group))| self.skips_left(*lane) <= others;
        let (lane, group) = match waiting.iter().enumerate().any(is_time) {
            true => waiting.first().cloned()?,
            false => first,
        };
        let waiters = self.levels[lane as usize].groups.get(group)?;
        let (number, waiter) = waiters.first_key_value()?;
        let place = CallPosition {
            priority: lane,
            group: group.clone(),
            number: *number,
        };
        Some((place, waiter))
    }

    /// Lets somebody go. Lanes in which others could have gone are passed over by that.
    pub(super) fn dequeue(
        &mut self,
        place: &CallPosition,
        may_go: impl Fn(Priority, &Group) -> bool,
    ) -> Option<W> {
        let passed: Vec<Priority> = self.candidates(&may_go).map(|(lane, _)| lane).collect();
        for lane in passed {
            let only_looks = matches!(
                lane,
                Priority::Poll | Priority::OrphanScan | Priority::Catalogue
            );
            self.levels[lane as usize].passed_over += match place.priority {
                Priority::Release if only_looks => 1,
                _ => BY_RELEASES,
            };
        }
        let row = &mut self.levels[place.priority as usize];
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
        may_go: &'a impl Fn(Priority, &Group) -> bool,
    ) -> impl Iterator<Item = (Priority, &'a Group)> {
        Priority::ALL.into_iter().filter_map(move |lane| {
            let mut groups = self.levels[lane as usize].ring.iter();
            groups
                .find(|group| may_go(lane, group))
                .map(|group| (lane, group))
        })
    }

    /// How often a lane may still be passed over.
    fn skips_left(&self, lane: Priority) -> usize {
        PASSED_OVER.saturating_sub(self.levels[lane as usize].passed_over.div_ceil(BY_RELEASES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Group::Namespace(name.into())
    }

    fn dequeue_next<W>(queue: &mut Queue<W>) -> Option<(Priority, W)> {
        let (place, _) = queue.first(|_, _| true)?;
        let waiter = queue.dequeue(&place, |_, _| true)?;
        Some((place.priority, waiter))
    }

    #[test]
    fn priorities_are_served_in_order() {
        let mut queue = Queue::new();
        for lane in Priority::ALL.into_iter().rev() {
            queue.join(lane, group("n"), ());
        }
        let went: Vec<Priority> = std::iter::from_fn(|| dequeue_next(&mut queue))
            .map(|(l, ())| l)
            .collect();
        assert_eq!(went, Priority::ALL);
    }

    #[test]
    fn every_priority_has_a_minimum_share() {
        let mut queue = Queue::new();
        for _ in 0..1000 {
            for lane in Priority::ALL {
                queue.join(lane, group("n"), ());
            }
        }
        let most = |lane: Priority| match lane {
            Priority::Poll | Priority::OrphanScan | Priority::Catalogue => {
                PASSED_OVER * BY_RELEASES
            }
            _ => PASSED_OVER,
        };
        let mut passed = HashMap::from(Priority::ALL.map(|lane| (lane, 0)));
        let mut releases = 0;
        for _ in 0..1000 {
            let (went, ()) = dequeue_next(&mut queue).unwrap();
            releases += usize::from(went == Priority::Release);
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
            queue.join(Priority::Poll, group("many"), ("many", n));
        }
        for n in 0..2 {
            queue.join(Priority::Poll, group("few"), ("few", n));
        }
        let went: Vec<_> = (0..5)
            .map(|_| dequeue_next(&mut queue).unwrap().1)
            .collect();
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
        queue.join(Priority::Release, group("n"), "object");
        queue.join(Priority::Release, Group::Account, "account");
        queue.join(Priority::Poll, group("n"), "poll");
        let own = |_: Priority, group: &Group| *group == Group::Account;
        let (place, who) = queue.first(own).unwrap();
        assert_eq!(*who, "account");
        queue.dequeue(&place, own);
        assert!(queue.first(own).is_none());
        let (place, who) = queue.first(|lane, _| lane != Priority::Release).unwrap();
        assert_eq!((place.priority, *who), (Priority::Poll, "poll"));
    }

    #[test]
    fn who_went_for_nothing_comes_back_in_front() {
        let mut queue = Queue::new();
        for who in ["a", "b"] {
            queue.join(Priority::Poll, group(who), who);
        }
        let (place, _) = queue.first(|_, _| true).unwrap();
        let who = queue.dequeue(&place, |_, _| true).unwrap();
        queue.put_back(&place, who);
        assert_eq!(dequeue_next(&mut queue).unwrap().1, "a");
        let (place, _) = queue.first(|_, _| true).unwrap();
        assert_eq!(queue.leave(&place), Some("b"));
        assert_eq!(queue.leave(&place), None);
        assert!(dequeue_next(&mut queue).is_none());
    }
}
