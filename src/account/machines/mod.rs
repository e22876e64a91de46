//! What is known of an account's machines.

pub mod marks;
pub mod orphans;

mod known;
mod snapshot;
pub(super) mod sums;

pub(crate) use snapshot::{Place, Put, Snapshot, Touched};

use super::{
    pace,
    report::Counts,
    room::Held,
    view::{Proof, Sighting, Times},
};
use crate::{
    kinds::{
        account::KnownMachine,
        delivery::{Deliveries, DeliveryTimes},
    },
    runtime::Moment,
};
use hosting::{Server, ServerId, ServerStatus};
use orphans::{Others, Verdict};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Most orphans that a line of the log names.
const LOGGED: usize = 20;

/// The machines of one live account: each as last seen, and the sums.
pub(crate) struct Machines {
    snapshot: Snapshot,
    proof: Option<Arc<Proof>>,
    verdict: Verdict,
    deliveries: Arc<Deliveries>,
    /// Machines of the last complete listing beside another one of the same object.
    duplicates: usize,
    others: Option<Others>,
    /// When they were last to be counted.
    counting: Option<Duration>,
}

impl Machines {
    /// None yet, in this room.
    pub(crate) fn new(cluster_tag: String, held: Held) -> Self {
        Self {
            snapshot: Snapshot::new(cluster_tag, held),
            proof: None,
            verdict: Verdict::NotChecked,
            deliveries: Arc::default(),
            duplicates: 0,
            others: None,
            counting: None,
        }
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The last complete listing.
    pub(crate) fn proof(&self) -> Option<&Arc<Proof>> {
        self.proof.as_ref()
    }

    /// The result of the last look for orphans.
    pub(crate) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// How long deliveries took.
    pub(crate) fn deliveries(&self) -> &Arc<Deliveries> {
        &self.deliveries
    }

    /// Takes in what is on record of deliveries.
    pub(crate) fn recall_deliveries(&mut self, record: &[DeliveryTimes]) {
        // The usual case writes nothing: all of it is known.
        let mut known = (*self.deliveries).clone();
        known.recall(record);
        if known != *self.deliveries {
            self.deliveries = Arc::new(known);
        }
    }

    /// When what is in motion is to be looked at again, with each pause multiplied by this; None: nothing is in motion.
    pub(crate) fn next_motion(&self, now: Moment, times: Times, factor: f64) -> Option<Duration> {
        let moving = self.snapshot.moving(now.wall);
        let due = moving.map(|s| s.seen + self.pause(s, now, times).mul_f64(factor));
        due.min()
    }

    /// What is in motion and need not be looked at yet.
    pub(crate) fn resting(&self, now: Moment, times: Times) -> HashSet<ServerId> {
        let moving = self.snapshot.moving(now.wall);
        let rests = |s: &&Sighting| {
            s.seen + self.pause(s, now, times).mul_f64(pace::LEAST_JITTER) > now.mono
        };
        moving.filter(rests).map(|s| s.server.id.clone()).collect()
    }

    /// How long after its last look a machine in motion is looked at again.
    fn pause(&self, sighting: &Sighting, now: Moment, times: Times) -> Duration {
        let server = &sighting.server;
        let is_awaited = !matches!(
            server.status,
            ServerStatus::Delivered | ServerStatus::Releasing
        );
        let usual = is_awaited.then(|| {
            let known = &self.deliveries;
            known.usual(&server.location, &server.instance_type)
        });
        let seen = now.mono.saturating_sub(sighting.seen).as_secs();
        let seen = now
            .wall
            .saturating_sub(i64::try_from(seen).unwrap_or(i64::MAX));
        let age = sums::made_at(server).map_or(0, |made| seen.saturating_sub(made));
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        pace::pause(age, usual.flatten(), times)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            duplicates: self.duplicates,
            others: self.others,
            ..self.snapshot.sums().counts()
        }
    }

    /// Whether the machines of others are to be counted now: once in this interval, and not with the first listing,
    /// for which objects wait.
    pub(crate) fn counts_others(&mut self, now: Duration, interval: Duration) -> bool {
        let last = *self.counting.get_or_insert(now);
        let is_due = now >= last + interval;
        if is_due {
            self.counting = Some(now);
        }
        is_due
    }

    /// The machines of others were counted.
    pub(crate) fn set_others(&mut self, others: Others) {
        self.others = Some(others);
    }

    /// The machines to be known by from now on, given those of before.
    pub(crate) fn known_after(&self, before: &[KnownMachine]) -> Vec<KnownMachine> {
        known::refresh(before, &self.snapshot, self.proof.as_deref())
    }

    /// Takes records in that were asked for at `seen`. Returns the marks of what changed, and what became of
    /// each record.
    pub(crate) fn take_in(
        &mut self,
        servers: Vec<Server>,
        seen: Duration,
    ) -> (Touched, Vec<(Arc<Server>, Place)>) {
        let mut touched = Touched::new();
        let mut put = |server| {
            let put: Put = self.snapshot.put(server, seen);
            if !put.touched.is_empty() {
                note_delivery(&mut self.deliveries, &put.kept);
            }
            touched.extend(put.touched);
            (put.kept, put.place)
        };
        let kept = servers.into_iter().map(&mut put).collect();
        (touched, kept)
    }

    /// The API did not know this machine when it was asked at `seen`. Who has seen it since knows better.
    pub(crate) fn drop_unknown(&mut self, id: &ServerId, seen: Duration) -> Touched {
        if self.snapshot.get(id).is_none_or(|s| s.seen > seen) {
            return Touched::new();
        }
        self.snapshot.remove(id)
    }

    /// A complete listing is there. Returns whether it is the first.
    pub(crate) fn prove(&mut self, proof: Arc<Proof>) -> bool {
        self.snapshot.is_listed(&proof.servers);
        self.duplicates = orphans::duplicates(&proof);
        self.proof.replace(proof).is_none()
    }

    /// Counts anew what the room is taken by: forms of records that nobody keeps any more are gone.
    pub(crate) fn recount(&mut self) {
        let listed = self.proof.as_ref().map(|proof| &*proof.servers);
        self.snapshot.is_listed(listed.unwrap_or_default());
    }

    /// Looks for orphans in a complete listing, as [`orphans::judge`] does.
    pub(crate) fn judge(
        &mut self,
        proof: &Proof,
        known: &[KnownMachine],
        claims: Option<&HashSet<String>>,
        disowned: &HashSet<String>,
        ordering: &HashSet<String>,
    ) {
        let Some(verdict) = orphans::judge(
            proof,
            self.snapshot.cluster_tag(),
            known,
            claims,
            disowned,
            ordering,
        ) else {
            return;
        };
        if self.verdict != verdict
            && let Verdict::Found(orphans) = &verdict
            && !orphans.is_empty()
        {
            let first = orphans.iter().take(LOGGED);
            let first: Vec<&str> = first.map(|s| s.id.as_str()).collect();
            let count = orphans.len();
            tracing::warn!(count, ?first, "machines of this cluster without an object");
        }
        self.verdict = verdict;
    }
}

/// Keeps how long a delivery took, where the record tells.
fn note_delivery(known: &mut Arc<Deliveries>, server: &Server) {
    if let Some((created, delivered)) = server.created_at.zip(server.delivered_at) {
        let (location, instance_type) = (&server.location, &server.instance_type);
        Arc::make_mut(known).note(location, instance_type, created, delivered);
    }
}
