//! The queue of waiting calls. The highest priority goes first, but none starves. Groups of one priority alternate;
//! within a group it is first come, first served. Pure.

use flexmetal_core::account::priority::Priority;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How often in a row a priority may be skipped. Releases, which end costs, may skip a poll priority `BY_RELEASES`
/// times as often.
const MOST_SKIPS: usize = 18;
const BY_RELEASES: usize = 3;

/// Who alternates within a priority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// The account's own polls.
    Account,
    /// The objects of a namespace.
    Namespace(String),
}

/// A position in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallPosition {
    pub(super) priority: Priority,
    pub(super) group: Group,
    number: u64,
}

/// The waiting calls.
pub(super) struct Queue<W> {
    levels: [PriorityLevel<W>; Priority::ALL.len()],
    next: u64,
}

/// The waiting calls of one priority.
struct PriorityLevel<W> {
    groups: HashMap<Group, BTreeMap<u64, W>>,
    /// The groups, in the order in which they go next.
    ring: VecDeque<Group>,
    /// How often in a row this priority was skipped although it could have gone, in units of 1/`BY_RELEASES`.
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

    fn remove(&mut self, position: &CallPosition) -> Option<W> {
        let group = self.groups.get_mut(&position.group)?;
        let waiter = group.remove(&position.number);
        if group.is_empty() {
            self.groups.remove(&position.group);
            self.ring.retain(|g| *g != position.group);
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

    /// Adds a call behind all others of its group.
    pub(super) fn join(&mut self, priority: Priority, group: Group, waiter: W) -> CallPosition {
        let number = self.next;
        self.next += 1;
        let level = &mut self.levels[priority as usize];
        if !level.groups.contains_key(&group) {
            level.ring.push_back(group.clone());
        }
        let waiting = level.groups.entry(group.clone()).or_default();
        waiting.insert(number, waiter);
        CallPosition {
            priority,
            group,
            number,
        }
    }

    /// Puts a call whose grant was taken back in front again.
    pub(super) fn requeue_front(&mut self, position: &CallPosition, waiter: W) {
        let level = &mut self.levels[position.priority as usize];
        level.ring.retain(|g| *g != position.group);
        level.ring.push_front(position.group.clone());
        let waiting = level.groups.entry(position.group.clone()).or_default();
        waiting.insert(position.number, waiter);
    }

    /// Removes a call. None: it was not in the queue.
    pub(super) fn leave(&mut self, position: &CallPosition) -> Option<W> {
        self.levels[position.priority as usize].remove(position)
    }

    /// The waiting calls of a priority.
    pub(super) fn waiters(&self, priority: Priority) -> impl Iterator<Item = &W> {
        let groups = self.levels[priority as usize].groups.values();
        groups.flat_map(BTreeMap::values)
    }

    /// The next of the calls that may go.
    pub(super) fn first(
        &self,
        may_go: impl Fn(Priority, &Group) -> bool,
    ) -> Option<(CallPosition, &W)> {
        let mut waiting: Vec<_> = self.candidates(&may_go).collect();
        let first = waiting.first().cloned()?;
        // Fewest skips left first. Priorities that run out together go one after the other, so the first of them goes
        // early.
        waiting.sort_by_key(|(priority, _)| self.skips_left(*priority));
        let is_time = |(others, (priority, _)): (usize, &(Priority, &Group))| {
            self.skips_left(*priority) <= others
        };
        let (priority, group) = match waiting.iter().enumerate().any(is_time) {
            true => waiting.first().cloned()?,
            false => first,
        };
        let waiters = self.levels[priority as usize].groups.get(group)?;
        let (number, waiter) = waiters.first_key_value()?;
        let position = CallPosition {
            priority,
            group: group.clone(),
            number: *number,
        };
        Some((position, waiter))
    }

    /// Removes a call to grant it. Other priorities that could have gone count this as a skip.
    pub(super) fn dequeue(
        &mut self,
        position: &CallPosition,
        may_go: impl Fn(Priority, &Group) -> bool,
    ) -> Option<W> {
        let passed: Vec<Priority> = self
            .candidates(&may_go)
            .map(|(priority, _)| priority)
            .collect();
        for priority in passed {
            let is_poll = matches!(
                priority,
                Priority::Poll | Priority::OrphanScan | Priority::Catalogue
            );
            self.levels[priority as usize].passed_over += match position.priority {
                Priority::Release if is_poll => 1,
                _ => BY_RELEASES,
            };
        }
        let level = &mut self.levels[position.priority as usize];
        level.passed_over = 0;
        let waiter = level.remove(position);
        if level.groups.contains_key(&position.group) {
            level.ring.retain(|g| *g != position.group);
            level.ring.push_back(position.group.clone());
        }
        waiter
    }

    /// Each priority with a call that may go, and its next group; the highest priority first.
    fn candidates<'a>(
        &'a self,
        may_go: &'a impl Fn(Priority, &Group) -> bool,
    ) -> impl Iterator<Item = (Priority, &'a Group)> {
        Priority::ALL.into_iter().filter_map(move |priority| {
            let mut groups = self.levels[priority as usize].ring.iter();
            groups
                .find(|group| may_go(priority, group))
                .map(|group| (priority, group))
        })
    }

    /// How often a priority may still be skipped.
    fn skips_left(&self, priority: Priority) -> usize {
        MOST_SKIPS.saturating_sub(
            self.levels[priority as usize]
                .passed_over
                .div_ceil(BY_RELEASES),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Group::Namespace(name.into())
    }

    fn dequeue_next<W>(queue: &mut Queue<W>) -> Option<(Priority, W)> {
        let (position, _) = queue.first(|_, _| true)?;
        let waiter = queue.dequeue(&position, |_, _| true)?;
        Some((position.priority, waiter))
    }

    #[test]
    fn priorities_are_served_in_order() {
        let mut queue = Queue::new();
        for priority in Priority::ALL.into_iter().rev() {
            queue.join(priority, group("n"), ());
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
            for priority in Priority::ALL {
                queue.join(priority, group("n"), ());
            }
        }
        let most = |priority: Priority| match priority {
            Priority::Poll | Priority::OrphanScan | Priority::Catalogue => MOST_SKIPS * BY_RELEASES,
            _ => MOST_SKIPS,
        };
        let mut passed = HashMap::from(Priority::ALL.map(|priority| (priority, 0)));
        let mut releases = 0;
        for _ in 0..1000 {
            let (went, ()) = dequeue_next(&mut queue).unwrap();
            releases += usize::from(went == Priority::Release);
            for (priority, count) in &mut passed {
                *count = if *priority == went { 0 } else { *count + 1 };
                assert!(
                    *count <= most(*priority),
                    "{priority:?} was passed over too often"
                );
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
        let (position, who) = queue.first(own).unwrap();
        assert_eq!(*who, "account");
        queue.dequeue(&position, own);
        assert!(queue.first(own).is_none());
        let (position, who) = queue
            .first(|priority, _| priority != Priority::Release)
            .unwrap();
        assert_eq!((position.priority, *who), (Priority::Poll, "poll"));
    }

    #[test]
    fn unused_grant_returns_to_the_front() {
        let mut queue = Queue::new();
        for who in ["a", "b"] {
            queue.join(Priority::Poll, group(who), who);
        }
        let (position, _) = queue.first(|_, _| true).unwrap();
        let who = queue.dequeue(&position, |_, _| true).unwrap();
        queue.requeue_front(&position, who);
        assert_eq!(dequeue_next(&mut queue).unwrap().1, "a");
        let (position, _) = queue.first(|_, _| true).unwrap();
        assert_eq!(queue.leave(&position), Some("b"));
        assert_eq!(queue.leave(&position), None);
        assert!(dequeue_next(&mut queue).is_none());
    }
}
