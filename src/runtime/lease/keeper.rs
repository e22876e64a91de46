//! The task that looks at the leases, takes what is free, and renews what is ours.

use super::{
    Candidate, LASTS, Leases, NOTICED, Scope, Shared, WHOLE,
    calls::{Calls, Failure},
    record::{Identity, Record},
    seat::{Seat, Step},
    told::Told,
};
use crate::runtime::clock;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Pause between two renewals.
const RENEWS: Duration = Duration::from_secs(3);
/// Pause between two looks at the lease of another one.
const LOOKS: Duration = Duration::from_secs(2);
/// Pause after something failed.
const TRIES_AGAIN: Duration = Duration::from_secs(1);
/// How long a round is waited for when the process ends.
const LAST_ROUND: Duration = Duration::from_secs(5);
/// Least pause between two rounds.
const LEAST: Duration = Duration::from_millis(100);

/// Keeps the leases of one process.
pub struct Keeper {
    calls: Calls,
    me: Identity,
    /// Name of all leases.
    name: String,
    scope: Scope,
    shared: Arc<Shared>,
    told: Told,
    /// The last call failed: one line in the log for each time that begins.
    in_trouble: AtomicBool,
}

impl Keeper {
    pub(super) fn new(client: Client, candidate: &Candidate, shared: Arc<Shared>) -> Self {
        let nonce = format!("{:08x}", rand::random::<u32>());
        let name = format!("flexmetal-operator-{}", candidate.cluster);
        Self {
            calls: Calls::new(client, name.clone()),
            me: Identity::new(&candidate.namespace, candidate.pod.as_deref(), &nonce),
            name,
            scope: candidate.scope.clone(),
            shared,
            told: Told::default(),
            in_trouble: AtomicBool::default(),
        }
    }

    /// Keeps the leases until `end`, then gives back what is ours.
    pub async fn keep(mut self, end: impl Future<Output = ()>) {
        tracing::info!(
            lease = self.name,
            holder = self.me.as_str(),
            scope = ?self.scope,
            "who acts is decided by lease"
        );
        let mut end = std::pin::pin!(end);
        loop {
            let started = clock::now().mono;
            {
                let mut round = std::pin::pin!(self.round());
                tokio::select! {
                    () = &mut end => {
                        // A write that is cut off may have been done, and what is given back then is old.
                        let _ = tokio::time::timeout(LAST_ROUND, round).await;
                        break;
                    }
                    () = &mut round => {}
                }
            }
            self.told.tell(&self.shared, &self.name);
            self.shared.settled.send_replace(true);
            let next = self.next_round(started);
            tokio::select! {
                () = &mut end => break,
                () = clock::sleep_until(next) => {}
            }
            // What lapsed meanwhile did so before it comes back, and what had to wait has waited.
            self.told.tell(&self.shared, &self.name);
        }
        self.release().await;
        self.told.tell(&self.shared, &self.name);
    }

    /// One look at everything, and one write where one is due.
    async fn round(&self) {
        match &self.scope {
            Scope::Cluster => self.keep_cluster().await,
            Scope::Namespaces(names) => {
                join_all(names.iter().map(|name| self.keep_namespace(name))).await;
            }
        }
    }

    /// The lease of the whole cluster, and those of others.
    async fn keep_cluster(&self) {
        // First, so that a slow listing does not use up its time.
        self.renew(WHOLE).await;
        self.look(WHOLE).await;
        if !self.is_ours(WHOLE) && self.take(WHOLE).await {
            // What was listed before does not count: who looked at that time did not know of us.
            self.look(WHOLE).await;
        }
        self.change(WHOLE, |seat| seat.make_clear(None));
    }

    /// The lease of one namespace.
    async fn keep_namespace(&self, namespace: &str) {
        self.renew(namespace).await;
        if !self.is_ours(namespace) && self.look(namespace).await {
            self.take(namespace).await;
        }
        if self.seat(namespace, Seat::is_unclear) {
            self.make_clear(namespace).await;
        }
    }

    /// Makes sure that no operator of the whole cluster acts in the namespace. One that gets its lease
    /// after ours was written sees ours before it acts; one that has its lease is given time to see it.
    async fn make_clear(&self, namespace: &str) {
        let is_free = namespace == WHOLE
            || match self.calls.get(WHOLE).await {
                Ok(record) => record.is_none_or(|record| record.holder.is_none()),
                Err(failure) => {
                    self.complain(WHOLE, &failure);
                    false
                }
            };
        let from = (!is_free).then(|| clock::now().mono + NOTICED);
        self.change(namespace, |seat| seat.make_clear(from));
    }

    /// Looks at a lease, or, for the whole cluster, at all of them; whether that worked.
    async fn look(&self, namespace: &str) -> bool {
        let asked = clock::now().mono;
        let looked = match self.scope {
            Scope::Namespaces(_) => self.calls.get(namespace).await.map(|record| {
                let now = clock::now().mono;
                self.change(namespace, |seat| seat.see(&self.me, record, now));
            }),
            Scope::Cluster => self.calls.list().await.map(|mut records| {
                let now = clock::now().mono;
                let whole = records.remove(WHOLE);
                if let Leases::Cluster { own, others } = &mut *self.shared.change() {
                    own.see(&self.me, whole, now);
                    others.listed(records, asked, now);
                }
            }),
        };
        match looked {
            Ok(()) => self.in_trouble.store(false, Ordering::Relaxed),
            Err(ref failure) => self.complain(namespace, failure),
        }
        looked.is_ok()
    }

    /// Takes a lease where it is free; whether it was taken.
    async fn take(&self, namespace: &str) -> bool {
        let now = clock::now().mono;
        match self.seat(namespace, |seat| seat.step(&self.me, now, stamp())) {
            Step::Write(record) => self.put(namespace, *record).await,
            Step::Wait(_) => false,
        }
    }

    /// Renews a lease that is ours.
    async fn renew(&self, namespace: &str) {
        if let Some(record) = self.seat(namespace, |seat| seat.record().cloned()) {
            let record = Record::held_by(&self.me, Some(&record), LASTS, stamp());
            self.put(namespace, record).await;
        }
    }

    /// Writes a lease; whether it is ours by that.
    async fn put(&self, namespace: &str, record: Record) -> bool {
        let asked = clock::now().mono;
        let written = match self.calls.put(namespace, &record).await {
            // Nobody can get a lease there any more, and all that is left to do is to release: that
            // must not stop, so whoever serves the namespace may.
            Err(Failure::Ending) => Ok(record),
            written => written,
        };
        match written {
            Ok(record) => {
                let now = clock::now().mono;
                self.change(namespace, |seat| seat.wrote(record, asked, now));
                self.in_trouble.store(false, Ordering::Relaxed);
                true
            }
            Err(Failure::Stale) => {
                self.look(namespace).await;
                false
            }
            Err(failure) => {
                self.complain(namespace, &failure);
                false
            }
        }
    }

    /// Gives back what is ours, so that another one need not wait until it lapses.
    async fn release(&self) {
        let names = match &self.scope {
            Scope::Cluster => vec![WHOLE.to_owned()],
            Scope::Namespaces(names) => names.clone(),
        };
        let release = async |namespace: String| {
            // Not ours from here on, whatever becomes of the write.
            let Some(record) = self.change(&namespace, Seat::give_up) else {
                return;
            };
            let mut written = self.calls.put(&namespace, &record.released(stamp())).await;
            if matches!(written, Err(Failure::Stale))
                && let Ok(Some(now)) = self.seen(&namespace).await
                && now.holder.as_deref() == Some(self.me.as_str())
            {
                // A renewal whose answer was lost.
                written = self.calls.put(&namespace, &now.released(stamp())).await;
            }
            match written {
                Ok(_) => tracing::info!(lease = self.name, namespace, "the lease is given back"),
                Err(failure) => self.complain(&namespace, &failure),
            }
        };
        join_all(names.into_iter().map(release)).await;
    }

    /// A lease of ours as it is now, by the right that the scope has.
    async fn seen(&self, namespace: &str) -> Result<Option<Record>, Failure> {
        match self.scope {
            Scope::Cluster => Ok(self.calls.list().await?.remove(namespace)),
            Scope::Namespaces(_) => self.calls.get(namespace).await,
        }
    }

    /// When the next round starts.
    fn next_round(&self, started: Duration) -> Duration {
        let now = clock::now().mono;
        let leases = self.shared.leases();
        let next = leases.seats().map(|(_, seat)| {
            let next = match seat.step(&self.me, now, stamp()) {
                Step::Wait(ends) => ends.min(started + LOOKS),
                Step::Write(_) if seat.is_in_force(now) => started + RENEWS,
                Step::Write(_) => started + TRIES_AGAIN,
            };
            seat.begins(now).map_or(next, |begins| begins.min(next))
        });
        next.min().unwrap_or(started + RENEWS).max(now + LEAST)
    }

    fn is_ours(&self, namespace: &str) -> bool {
        self.seat(namespace, Seat::is_ours)
    }

    /// Asks the seat of a namespace that this process wants.
    fn seat<T>(&self, namespace: &str, ask: impl FnOnce(&Seat) -> T) -> T {
        let leases = self.shared.leases();
        match leases.seats().find(|(name, _)| *name == namespace) {
            Some((_, seat)) => ask(seat),
            None => ask(&Seat::default()),
        }
    }

    /// Changes it.
    fn change<T>(&self, namespace: &str, change: impl FnOnce(&mut Seat) -> T) -> T {
        match self.shared.change().seat_mut(namespace) {
            Some(seat) => change(seat),
            None => change(&mut Seat::default()),
        }
    }

    fn complain(&self, place: &str, failure: &Failure) {
        let (lease, error) = (&self.name, failure as &dyn std::error::Error);
        if self.in_trouble.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                lease,
                place,
                error,
                "a lease still cannot be read or written"
            );
        } else {
            tracing::warn!(
                lease,
                place,
                error,
                "a lease cannot be read or written; trying again"
            );
        }
    }
}

/// For people who read the lease; nobody decides by it.
fn stamp() -> MicroTime {
    MicroTime(Timestamp::now())
}
