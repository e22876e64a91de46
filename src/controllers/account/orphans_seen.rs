//! What is remembered of orphans, and of their releases, between two passes.

use crate::{account::orphans::Verdict, kinds::orphan::OrphanRelease};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What this process knows of orphans, and of their releases.
#[derive(Clone, Debug, Default)]
pub struct OrphansSeen {
    /// Since when each of those named has been an orphan without a break, as this process saw it.
    pub since: BTreeMap<String, Duration>,
    /// Those whose release was tried in vain.
    pub held: BTreeMap<String, Held>,
    /// Those that this process released. A listing of before may still show them.
    pub over: BTreeSet<String>,
    /// The note of a release of which it is known how it ended.
    pub ended: Option<OrphanRelease>,
    /// Those with the mark of an object that lives.
    pub living: BTreeSet<String>,
    /// Whether no other account object leads to the same account: what another one lets be taken on is not seen here.
    pub is_alone: bool,
}

/// Why a machine was not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it may be tried again.
    pub until: Duration,
    /// In words.
    pub why: String,
}

impl OrphansSeen {
    /// Takes in what is an orphan now. What is none any more is forgotten.
    pub fn look(&mut self, verdict: Option<&Verdict>, now: Duration) {
        let Some(Verdict::Found { first, .. }) = verdict else {
            // Nobody knows: what was seen before is not seen without a break.
            self.since.clear();
            return;
        };
        let is_one = |uuid: &str| first.iter().any(|server| server.id.as_str() == uuid);
        self.since.retain(|uuid, _| is_one(uuid));
        self.held.retain(|uuid, _| is_one(uuid));
        self.over.retain(|uuid| is_one(uuid));
        for server in first {
            self.since
                .entry(server.id.as_str().to_owned())
                .or_insert(now);
        }
    }

    /// A release that was not sent, or not taken. It is tried again after a pause.
    pub fn hold(&mut self, uuid: &str, why: String, until: Duration) {
        self.held.insert(uuid.to_owned(), Held { until, why });
    }
}
