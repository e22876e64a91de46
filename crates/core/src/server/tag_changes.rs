//! The tag changes that this process made for the spec of its object, and how often it repeated each change.

use super::facts::is_same_uuid;
use crate::{last_error::LastError, restore_backoff::RestoreBackoff};
use std::{collections::BTreeMap, time::Duration};

/// How long a change is remembered. A later reversal does not count as a repetition.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Maximum time that the next change waits until status records an added tag.
const RECORDED_WITHIN: Duration = Duration::from_secs(2);

/// The last change of each tag of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TagChanges {
    server_uuid: String,
    last: BTreeMap<String, LastTagChange>,
}

/// The last change of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LastTagChange {
    /// Whether the tag was added; otherwise removed.
    adds: bool,
    /// Whether a request of ours may have taken effect.
    may_be_ours: bool,
    /// When it was made, or found to be made already.
    at: Option<Duration>,
    /// Backoff for repeating the same change.
    backoff: RestoreBackoff,
    /// Number of refusals.
    refusals: u32,
}

/// A change of one tag of a server, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagChange {
    /// UUID of the server.
    pub uuid: String,
    /// The tag.
    pub tag: String,
    /// Whether the tag is added; otherwise removed.
    pub adds: bool,
    /// How it ended.
    pub end: TagEnd,
}

/// How the change of a tag ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagEnd {
    /// It was made.
    Made,
    /// Nothing was sent: a read right before showed the change as made, or no free tag slot.
    NotDue,
    /// The outcome is unknown.
    Unknown(LastError),
    /// It was not made.
    Refused(LastError),
}

impl TagChanges {
    /// Records a change that ended by `now`.
    pub fn record_change(&mut self, change: &TagChange, now: Duration) {
        let TagChange {
            uuid,
            tag,
            adds,
            end,
        } = change;
        if !is_same_uuid(&self.server_uuid, uuid) {
            self.server_uuid.clone_from(uuid);
            self.last.clear();
        }
        let last = self
            .last
            .entry(tag.clone())
            .or_insert(LastTagChange::new(*adds));
        // A change in the other direction starts a new count.
        if last.adds != *adds {
            *last = LastTagChange::new(*adds);
        }
        match end {
            TagEnd::Made => {
                last.may_be_ours = true;
                last.at = Some(now);
                last.backoff.record_restore(now);
            }
            TagEnd::NotDue => last.at = Some(now),
            TagEnd::Unknown(_) => last.may_be_ours = true,
            // The object's backoff applies after a refusal; other tags go first.
            TagEnd::Refused(_) => {
                last.at = Some(now);
                last.refusals += 1;
            }
        }
    }

    /// How long the next change of a tag waits; none if it is due. At most one change per `interval`; repeats of the
    /// same change back off.
    pub fn remaining_wait(
        &self,
        uuid: &str,
        tag: &str,
        adds: bool,
        now: Duration,
        interval: Duration,
    ) -> Option<Duration> {
        let last = self.changes_for(uuid)?.get(tag)?;
        let spaced = last.at.and_then(|at| (at + interval).checked_sub(now));
        let spaced = spaced.filter(|rest| !rest.is_zero());
        let again = last.backoff.remaining(now).filter(|_| last.adds == adds);
        spaced.max(again)
    }

    /// How often this change was refused recently.
    pub fn refusals(&self, uuid: &str, tag: &str, adds: bool) -> u32 {
        let last = self.changes_for(uuid).and_then(|all| all.get(tag));
        last.filter(|last| last.adds == adds)
            .map_or(0, |last| last.refusals)
    }

    /// Tags whose change was repeated several times, whether it adds the tag, and how long the conflict is still
    /// reported.
    pub fn reverted(
        &self,
        uuid: &str,
        now: Duration,
    ) -> impl Iterator<Item = (&str, bool, Duration)> {
        let all = self.changes_for(uuid).into_iter().flatten();
        all.filter_map(move |(tag, last)| {
            let rest = last.backoff.conflict_shown_for(now)?;
            Some((tag.as_str(), last.adds, rest))
        })
    }

    /// Tags that this process added to the server, or may have.
    pub fn added(&self, uuid: &str) -> impl Iterator<Item = &str> {
        let all = self.changes_for(uuid).into_iter().flatten();
        let added = all.filter(|(_, last)| last.adds && last.may_be_ours);
        added.map(|(tag, _)| tag.as_str())
    }

    /// Tags that this process added moments ago, or may have.
    pub fn just_added(&self, uuid: &str, now: Duration) -> impl Iterator<Item = &str> {
        let all = self.changes_for(uuid).into_iter().flatten();
        let is_new =
            move |last: &LastTagChange| last.at.is_some_and(|at| now < at + RECORDED_WITHIN);
        let added = all.filter(move |(_, last)| last.adds && last.may_be_ours && is_new(last));
        added.map(|(tag, _)| tag.as_str())
    }

    /// Forgets old changes, except added tags that the spec names and status does not record yet.
    pub fn forget(&mut self, now: Duration, named: &[String], recorded: &[String]) {
        self.last.retain(|tag, last| {
            let is_recent = last.at.is_some_and(|at| now < at + REMEMBERED);
            let is_unrecorded =
                last.adds && last.may_be_ours && named.contains(tag) && !recorded.contains(tag);
            is_recent || is_unrecorded
        });
    }

    fn changes_for(&self, uuid: &str) -> Option<&BTreeMap<String, LastTagChange>> {
        is_same_uuid(&self.server_uuid, uuid).then_some(&self.last)
    }
}

impl LastTagChange {
    fn new(adds: bool) -> Self {
        Self {
            adds,
            may_be_ours: false,
            at: None,
            backoff: RestoreBackoff::default(),
            refusals: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "machine";

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn change(tag: &str, adds: bool, end: TagEnd) -> TagChange {
        TagChange {
            uuid: SERVER.into(),
            tag: tag.into(),
            adds,
            end,
        }
    }

    fn lost() -> TagEnd {
        TagEnd::Unknown(LastError::check_failed("lost"))
    }

    #[test]
    fn repeated_tag_change_backs_off_until_reversed() {
        let mut changes = TagChanges::default();
        let mut now = secs(1000);
        let mut waits = Vec::new();
        for _ in 0..7 {
            changes.record_change(&change("a", true, TagEnd::Made), now);
            let rest = changes
                .remaining_wait(SERVER, "a", true, now, secs(5))
                .unwrap();
            waits.push(rest.as_secs());
            now += rest;
            assert_eq!(
                changes.remaining_wait(SERVER, "a", true, now, secs(5)),
                None
            );
        }
        assert_eq!(waits, [5, 5, 5, 8, 16, 32, 64]);
        let reverted: Vec<_> = changes.reverted(SERVER, now).collect();
        assert!(matches!(reverted[..], [("a", true, _)]), "{reverted:?}");
        assert_eq!(
            changes.remaining_wait("another", "a", true, now, secs(5)),
            None
        );
        assert_eq!(
            changes.remaining_wait(SERVER, "b", true, now, secs(5)),
            None
        );

        changes.record_change(&change("a", false, TagEnd::Made), now);
        assert_eq!(changes.reverted(SERVER, now).count(), 0);
        assert_eq!(
            changes.remaining_wait(SERVER, "a", true, now, secs(5)),
            Some(secs(5)),
            "nor is a tag changed to and fro at any pace"
        );
    }

    #[test]
    fn only_possibly_sent_tags_count_as_added() {
        let mut changes = TagChanges::default();
        let added = |changes: &TagChanges| -> Vec<String> {
            changes.added(SERVER).map(str::to_owned).collect()
        };
        let now = secs(1000);
        changes.record_change(&change("there", true, TagEnd::NotDue), now);
        let refused = TagEnd::Refused(LastError::check_failed("no"));
        changes.record_change(&change("refused", true, refused), now);
        assert_eq!(added(&changes), [""; 0]);
        assert!(
            changes
                .remaining_wait(SERVER, "there", true, now, secs(5))
                .is_some()
        );
        // Refused tags are ordered last, by number of refusals.
        assert!(
            changes
                .remaining_wait(SERVER, "refused", true, now, secs(5))
                .is_some()
        );
        let refusals = |tag| changes.refusals(SERVER, tag, true);
        assert_eq!((refusals("refused"), refusals("there")), (1, 0));
        assert_eq!(changes.refusals(SERVER, "refused", false), 0);

        changes.record_change(&change("lost", true, lost()), now);
        assert_eq!(
            changes.remaining_wait(SERVER, "lost", true, now, secs(5)),
            None,
            "its pause is that of the object"
        );
        changes.record_change(&change("lost", true, TagEnd::NotDue), now);
        changes.record_change(&change("made", true, TagEnd::Made), now);
        assert_eq!(added(&changes), ["lost", "made"]);
        changes.record_change(&change("made", false, TagEnd::Made), now);
        assert_eq!(added(&changes), ["lost"]);
        let elsewhere = TagChange {
            uuid: "another".into(),
            ..change("made", true, TagEnd::Made)
        };
        changes.record_change(&elsewhere, now);
        assert_eq!(added(&changes), [""; 0], "that was another machine");
    }

    #[test]
    fn old_tag_changes_are_forgotten_once_recorded() {
        let mut changes = TagChanges::default();
        changes.record_change(&change("a", true, TagEnd::Made), secs(1000));
        changes.record_change(&change("b", true, TagEnd::Made), secs(1000));
        let (named, recorded) = (["a".to_owned(), "b".to_owned()], ["b".to_owned()]);
        changes.forget(secs(1599), &[], &[]);
        assert_eq!(changes.added(SERVER).count(), 2);
        changes.forget(secs(1600), &named, &recorded);
        assert_eq!(changes.added(SERVER).collect::<Vec<_>>(), ["a"]);
        changes.forget(secs(1600), &[], &[]);
        assert_eq!(
            changes,
            TagChanges {
                server_uuid: SERVER.into(),
                ..TagChanges::default()
            }
        );
    }
}
