//! What is known of an account's machines.

mod known;
mod snapshot;
pub(super) mod sums;

use snapshot::is_moving;
pub(crate) use snapshot::{Place, Put, Snapshot, Touched};

use super::{
    pace,
    room::{Held, Part},
};
use api::{
    account::KnownMachine,
    delivery::{Deliveries, DeliveryTimes},
};
use flexmetal_core::{
    account::{
        facts::Counts,
        orphans::{Others, Verdict},
        view::{Proof, Sighting, Times},
    },
    moment::Moment,
};
use hosting_types::{Server, ServerId, ServerStatus};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Most orphans that a line of the log names.
const LOGGED: usize = 20;

/// The machines of one live account: each as last seen, and the sums.
pub(crate) struct Machines {
    snapshot: Snapshot,
    proof: Option<Arc<Proof>>,
    verdict: Verdict,
    deliveries: Arc<Deliveries>,
    /// The first look that is due at what is in motion.
    motion: Option<Due>,
    /// Machines whose release was taken.
    leaving: HashSet<ServerId>,
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
            motion: None,
            leaving: HashSet::new(),
            duplicates: 0,
            others: None,
            counting: None,
        }
    }

    /// All that is known, for the live account that comes after this one, as [`Snapshot::hand_over`] does it.
    pub(crate) fn hand_over(&mut self, part: Option<&Part>) -> Option<Self> {
        Some(Self {
            snapshot: self.snapshot.hand_over(part)?,
            proof: self.proof.clone(),
            verdict: self.verdict.clone(),
            deliveries: self.deliveries.clone(),
            motion: self.motion,
            leaving: self.leaving.clone(),
            duplicates: self.duplicates,
            others: self.others,
            counting: self.counting,
        })
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

    /// When what is in motion is to be looked at again, with its pause multiplied by this; None: nothing is in motion.
    pub(crate) fn next_motion(&self, factor: f64) -> Option<Duration> {
        self.motion.map(|due| due.seen + due.pause.mul_f64(factor))
    }

    /// Plans anew when what is in motion is looked at. Between two rounds only what changes is planned, since this goes
    /// through all machines.
    pub(crate) fn plan_motion(&mut self, now: Moment, times: Times) {
        let moving = self.snapshot.moving(now.wall);
        self.motion = moving.map(|s| self.due(s, now, times)).min();
    }

    /// What is in motion and need not be looked at yet.
    pub(crate) fn resting(&self, now: Moment, times: Times) -> HashSet<ServerId> {
        let moving = self.snapshot.moving(now.wall);
        let rests = |s: &&Sighting| {
            let due = self.due(s, now, times);
            due.seen + due.pause.mul_f64(pace::LEAST_JITTER) > now.mono
        };
        moving.filter(rests).map(|s| s.server.id.clone()).collect()
    }

    /// The release of this machine was taken, or may have been: from here on it is looked at closely, whatever its record
    /// says.
    pub(crate) fn note_leaving(&mut self, id: &ServerId, now: Moment, times: Times) {
        let known = self.snapshot.get(id).cloned();
        if let Some(known) = known.filter(|known| known.server.status.is_live()) {
            self.leaving.insert(id.clone());
            self.look_in_time(&known, now, times);
        }
    }

    /// One that is in motion is looked at when it is due, whatever the others are.
    fn look_in_time(&mut self, sighting: &Sighting, now: Moment, times: Times) {
        let server = &sighting.server;
        let is_ours = server.has_tag(self.snapshot.cluster_tag());
        if is_ours && is_moving(server, now.wall) {
            let due = self.due(sighting, now, times);
            self.motion = Some(self.motion.map_or(due, |first| first.min(due)));
        }
    }

    /// When a machine in motion is looked at again.
    fn due(&self, sighting: &Sighting, now: Moment, times: Times) -> Due {
        let server = &sighting.server;
        let ordered = awaited_since(server).filter(|_| !self.leaving.contains(&server.id));
        let usual = ordered.and_then(|ordered| {
            let known = &self.deliveries;
            let usual = known.usual(&server.location, &server.instance_type)?;
            Some((ordered, usual))
        });
        let seen = now.mono.saturating_sub(sighting.seen).as_secs();
        let seen = now
            .wall
            .saturating_sub(i64::try_from(seen).unwrap_or(i64::MAX));
        let age = usual.map_or(0, |(ordered, _)| seen.saturating_sub(ordered));
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        let pause = pace::pause(age, usual.map(|(_, usual)| usual), times);
        Due {
            at: sighting.seen + pause,
            seen: sighting.seen,
            pause,
        }
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
        (now, times): (Moment, Times),
    ) -> (Touched, Vec<(Arc<Server>, Place)>) {
        let mut touched = Touched::new();
        let mut kept = Vec::with_capacity(servers.len());
        for server in servers {
            let put: Put = self.snapshot.put(server, seen);
            if !put.touched.is_empty() {
                self.changed(&put.kept, now, times);
            }
            touched.extend(put.touched);
            kept.push((put.kept, put.place));
        }
        (touched, kept)
    }

    /// A record is new, or differs from the one before.
    fn changed(&mut self, server: &Arc<Server>, now: Moment, times: Times) {
        note_delivery(&mut self.deliveries, server, now.wall);
        if !server.status.is_live() {
            self.leaving.remove(&server.id);
        }
        if let Some(sighting) = self.snapshot.get(&server.id).cloned() {
            self.look_in_time(&sighting, now, times);
        }
    }

    /// The API did not know this machine when it was asked at `seen`. Who has seen it since knows better.
    pub(crate) fn drop_unknown(&mut self, id: &ServerId, seen: Duration) -> Touched {
        if self.snapshot.get(id).is_none_or(|s| s.seen > seen) {
            return Touched::new();
        }
        self.leaving.remove(id);
        self.snapshot.remove(id)
    }

    /// A complete listing is there. Returns whether it is the first.
    pub(crate) fn prove(&mut self, proof: Arc<Proof>) -> bool {
        self.snapshot.is_listed(&proof.servers);
        self.duplicates = flexmetal_core::account::orphans::duplicates(&proof);
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
        let Some(verdict) = flexmetal_core::account::orphans::judge(
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

/// When a machine is looked at again; the earlier one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Duration,
    seen: Duration,
    pause: Duration,
}

/// Since when the delivery of a machine is awaited, by our own clock where its order tag tells; None: it is not, or nobody
/// knows since when. A machine that was delivered once, or whose word is not known, does something else.
fn awaited_since(server: &Server) -> Option<i64> {
    let is_on_its_way = !matches!(
        server.status,
        ServerStatus::Delivered
            | ServerStatus::Failed
            | ServerStatus::Releasing
            | ServerStatus::Released
            | ServerStatus::Other(_)
    );
    if !is_on_its_way || server.delivered_at.is_some() {
        return None;
    }
    sums::ordered_at(server)
}

/// Keeps how long a delivery took, where the record tells.
fn note_delivery(known: &mut Arc<Deliveries>, server: &Server, now: i64) {
    let times = server.created_at.zip(server.delivered_at);
    if let Some(((created, delivered), ordered)) = times.zip(sums::ordered_at(server)) {
        // It is over, so by our own clock it took no longer than this: a provider's clock may run faster.
        let most = now.saturating_sub(ordered);
        let created = created.max(delivered.saturating_sub(most));
        let what = (server.location.as_str(), server.instance_type.as_str());
        Arc::make_mut(known).note(what, (created, delivered), now);
    }
}
