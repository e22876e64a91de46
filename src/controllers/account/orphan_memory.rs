//! What is remembered of orphans, and of their releases, between two passes.

use crate::{account::orphans::Verdict, kinds::orphan::OrphanRelease};
use std::{collections::BTreeMap, time::Duration};

/// What this process remembers of orphans, and of their releases.
#[derive(Clone, Debug, Default)]
pub struct OrphanMemory {
    /// Since when each has been an orphan without a break, as this process saw it.
    pub since: BTreeMap<String, Duration>,
    /// Those whose release was tried, and why they are there still.
    pub held: BTreeMap<String, Held>,
    /// The note of a release of which it is known how it ended.
    pub ended: Option<OrphanRelease>,
    /// The note that stands in status, and when this process first saw it.
    pub noted: Option<(OrphanRelease, Duration)>,
}

/// Why a machine is not released now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it may be tried again.
    pub until: Duration,
    /// In words.
    pub why: String,
}

impl OrphanMemory {
    /// Takes in what is an orphan now, and the note that stands. What is none any more is forgotten.
    pub fn look(&mut self, verdict: Option<&Verdict>, note: Option<&OrphanRelease>, now: Duration) {
        if self.noted.as_ref().map(|(noted, _)| noted) != note {
            self.noted = note.map(|note| (note.clone(), now));
        }
        let Some(Verdict::Found(orphans)) = verdict else {
            // Nobody knows: what was seen before is not seen without a break.
            self.since.clear();
            return;
        };
        let is_one = |uuid: &str| orphans.iter().any(|server| server.id.as_str() == uuid);
        self.since.retain(|uuid, _| is_one(uuid));
        self.held.retain(|uuid, _| is_one(uuid));
        for server in orphans {
            let uuid = server.id.as_str();
            if !self.since.contains_key(uuid) {
                self.since.insert(uuid.to_owned(), now);
            }
        }
    }

    /// A release that was not sent, not taken, or is not shown yet. It is tried again after a pause.
    pub fn hold(&mut self, uuid: &str, why: String, until: Duration) {
        self.held.insert(uuid.to_owned(), Held { until, why });
    }
}
