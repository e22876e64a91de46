//! The events of the last minutes, so that a repeat is counted instead of posted again. Bounded: the oldest event is
//! forgotten first. Its next repeat is posted as a new event.

use flexmetal_core::report::EventRecord;
use k8s_openapi::api::core::v1::ObjectReference;
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    time::Duration,
};

/// How long after the last one an event counts as a repeat.
const SERIES: Duration = Duration::from_secs(360);
/// Maximum number of remembered events.
const MOST: usize = 512;

/// The events of the last minutes.
#[derive(Default)]
pub(super) struct Recent {
    posted: HashMap<u64, Posted>,
    state: RandomState,
}

struct Posted {
    event: String,
    count: i32,
    last: Duration,
}

/// An event that is published again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// Name of the event that counts the repeats.
    pub(super) event: String,
    /// How often it happened, including this time.
    pub(super) count: i32,
}

impl Recent {
    /// Counts the news if the same was published within the last minutes.
    pub(super) fn repeated(
        &mut self,
        news: &EventRecord,
        object: &ObjectReference,
        now: Duration,
    ) -> Option<Repeat> {
        let key = self.key(news, object);
        let posted = self.posted.get_mut(&key)?;
        if now.saturating_sub(posted.last) >= SERIES {
            return None;
        }
        posted.count = posted.count.saturating_add(1);
        posted.last = now;
        Some(Repeat {
            event: posted.event.clone(),
            count: posted.count,
        })
    }

    /// Records that the news was posted as an event of this name.
    pub(super) fn posted(
        &mut self,
        news: &EventRecord,
        object: &ObjectReference,
        event: &str,
        now: Duration,
    ) {
        let key = self.key(news, object);
        if self.posted.len() >= MOST && !self.posted.contains_key(&key) {
            let oldest = self.posted.iter().min_by_key(|(_, posted)| posted.last);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.posted.remove(&oldest);
            }
        }
        let event = event.to_owned();
        let posted = Posted {
            event,
            count: 1,
            last: now,
        };
        self.posted.insert(key, posted);
    }

    /// Hash of what makes two events the same: all but the time. The hash key is random, so no user can make two events
    /// collide.
    fn key(&self, news: &EventRecord, object: &ObjectReference) -> u64 {
        let mut hash = self.state.build_hasher();
        (news.severity as u8, news.reason.as_str(), news.action).hash(&mut hash);
        news.note.hash(&mut hash);
        (&object.kind, &object.namespace, &object.name, &object.uid).hash(&mut hash);
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason;
    use flexmetal_core::report::Severity;

    fn object(name: &str) -> ObjectReference {
        ObjectReference {
            name: Some(name.into()),
            ..ObjectReference::default()
        }
    }

    fn news(note: &str) -> EventRecord {
        EventRecord {
            severity: Severity::Warning,
            reason: Reason::WriteFailed.into(),
            action: "Wait",
            note: note.into(),
        }
    }

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn event_repeats_count_per_object_and_text() {
        let mut recent = Recent::default();
        assert_eq!(recent.repeated(&news("1"), &object("a"), secs(0)), None);
        recent.posted(&news("1"), &object("a"), "a.1", secs(0));
        let repeat = |count| {
            Some(Repeat {
                event: "a.1".into(),
                count,
            })
        };
        assert_eq!(
            recent.repeated(&news("1"), &object("a"), secs(300)),
            repeat(2)
        );
        assert_eq!(
            recent.repeated(&news("1"), &object("a"), secs(600)),
            repeat(3)
        );
        assert_eq!(recent.repeated(&news("1"), &object("b"), secs(600)), None);
        // Another text is another event: a series shows only its first text.
        assert_eq!(recent.repeated(&news("2"), &object("a"), secs(600)), None);
        let other = EventRecord {
            reason: Reason::InvalidSpec.into(),
            ..news("1")
        };
        assert_eq!(recent.repeated(&other, &object("a"), secs(600)), None);
        // A series without a repeat for long has ended.
        assert_eq!(recent.repeated(&news("1"), &object("a"), secs(960)), None);
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest_first() {
        let mut recent = Recent::default();
        for number in 0..MOST as u64 + 1 {
            let object = object(&number.to_string());
            recent.posted(&news("1"), &object, "e", Duration::from_millis(number));
        }
        assert_eq!(recent.posted.len(), MOST);
        let now = secs(1);
        assert_eq!(recent.repeated(&news("1"), &object("0"), now), None);
        let kept = ["1", "512"].map(|name| recent.repeated(&news("1"), &object(name), now));
        assert!(kept.iter().all(Option::is_some));
    }
}
