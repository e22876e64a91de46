//! What an operator of the whole cluster knows of the namespaces that others hold. Plain data.

use super::{TRUSTED, record::Record, seat::Sight};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The leases of single namespaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    /// When the last listing that worked was asked for.
    listed: Option<Duration>,
    /// What it showed, by namespace.
    seen: HashMap<String, Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    sight: Sight,
    /// Another one acts there, as far as the last listing knows.
    theirs: bool,
    /// When it was last found free after somebody had it.
    freed: Option<Duration>,
}

impl Others {
    /// A listing of all leases but our own, asked for at `asked` and answered by `now`.
    pub(super) fn listed(
        &mut self,
        mut records: BTreeMap<String, Record>,
        asked: Duration,
        now: Duration,
    ) {
        let is_first = self.listed.replace(asked).is_none();
        let before = std::mem::take(&mut self.seen);
        for (namespace, last) in before {
            let record = records.remove(&namespace);
            let (sight, is_news) = Sight::next(Some(last.sight), record, now, false);
            if let Some(sight) = sight {
                let theirs = sight.holds(asked);
                // Whoever came and went between two listings had it too.
                let is_freed = !theirs && (last.theirs || is_news);
                let freed = is_freed.then_some(now).or(last.freed);
                let seen = Seen {
                    sight,
                    theirs,
                    freed,
                };
                self.seen.insert(namespace, seen);
            }
        }
        for (namespace, record) in records {
            if let (Some(sight), _) = Sight::next(None, Some(record), now, is_first) {
                let theirs = sight.holds(asked);
                let freed = (!theirs && !is_first).then_some(now);
                let seen = Seen {
                    sight,
                    theirs,
                    freed,
                };
                self.seen.insert(namespace, seen);
            }
        }
    }

    /// Whether a listing that began at or after `gained` can still be trusted at `now`.
    pub(super) fn is_known(&self, gained: Duration, now: Duration) -> bool {
        let good = |listed: Duration| listed >= gained && now < listed + TRUSTED;
        self.listed.is_some_and(good)
    }

    /// Whether another one acts in the namespace.
    pub(super) fn has(&self, namespace: &str) -> bool {
        self.seen.get(namespace).is_some_and(|seen| seen.theirs)
    }

    /// When the namespace was last found free after somebody had it.
    pub(super) fn freed(&self, namespace: &str) -> Option<Duration> {
        self.seen.get(namespace)?.freed
    }

    /// The namespaces that somebody has or had.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.seen.keys()
    }
}
