//! What is remembered of orphans, and of their releases, between two passes.

use crate::account::orphans::Verdict;
use api::orphan::OrphanRelease;
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// How often a pause doubles.
const MOST_DOUBLED: u32 = 4;

/// What this process remembers of orphans, and of their releases.
#[derive(Clone, Debug, Default)]
pub struct OrphanMemory {
    /// Since when each has been an orphan without a break, as this process saw it.
    pub since: BTreeMap<String, Duration>,
    /// Those whose release was tried, and why they are there still.
    pub held: BTreeMap<String, Held>,
    /// The note of a release of which it is known how it ended, and whether the machine was kept: such a one does not
    /// count at the brake.
    pub ended: Option<(OrphanRelease, bool)>,
    /// No release is tried before this moment.
    pub rest: Duration,
    /// How many in a row were tried in vain.
    pub failures: u32,
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
    /// How often it was tried.
    pub tries: u32,
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
        // Where the objects are lost there are thousands, and this is done in each pass.
        let uuids: HashSet<&str> = orphans.iter().map(|server| server.id.as_str()).collect();
        self.since.retain(|uuid, _| uuids.contains(uuid.as_str()));
        self.held.retain(|uuid, _| uuids.contains(uuid.as_str()));
        for uuid in uuids {
            if !self.since.contains_key(uuid) {
                self.since.insert(uuid.to_owned(), now);
            }
        }
    }

    /// A release that was not sent, not taken, or is not shown yet. It is tried again after a pause, which doubles.
    pub fn hold(&mut self, uuid: &str, why: String, now: Duration, pause: Duration) {
        let before = self.held.get(uuid).map_or(0, |held| held.tries);
        let until = now + pause * 2_u32.pow(before.min(MOST_DOUBLED));
        let tries = before.saturating_add(1);
        self.held
            .insert(uuid.to_owned(), Held { until, why, tries });
    }

    /// One was tried. The next one waits, the longer the more were tried in vain: each takes a list of all objects.
    pub fn rest(&mut self, now: Duration, pause: Duration, is_vain: bool) {
        self.failures = match is_vain {
            true => self.failures.saturating_add(1),
            false => 0,
        };
        self.rest = now + pause * 2_u32.pow(self.failures.min(MOST_DOUBLED));
    }
}
