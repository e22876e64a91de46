//! Leader election by a Lease (`coordination.k8s.io/v1`). Times are spans of each process's own monotonic clock: a
//! leader that cannot renew stops before another may start. The order itself, not the Lease, prevents double orders.

#[cfg(test)]
mod tests;

use super::{clients::post_params, clock};
use hosting_types::text::clean;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, Error};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Maximum lease duration that counts, whatever the Lease says.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum bytes of a Lease's holder in the log.
const MOST_SHOWN: usize = 256;

/// The Lease and its times.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Name of this process's pod, if any.
    pub pod: Option<String>,
    /// A Lease that is not renewed may be taken after this time.
    pub lease_duration: Duration,
    /// How long a leader that cannot renew stays leader, from the request of its last renewal. The rest of the lease
    /// duration is for calls in progress and for clock drift.
    pub renew_deadline: Duration,
    /// Time between two tries to take or renew it.
    pub retry_period: Duration,
}

impl Election {
    /// Checks that the times fit together.
    ///
    /// # Errors
    /// Which time does not fit, and what would.
    pub fn checked(self) -> Result<Self, String> {
        let (lasts, acts) = (self.lease_duration, self.renew_deadline);
        if lasts > LONGEST || lasts.is_zero() || lasts.subsec_nanos() > 0 {
            return Err(
                "--leader-election-lease-duration: whole seconds, between 1s and 60s".into(),
            );
        }
        if acts * 3 > lasts * 2 {
            return Err("--leader-election-renew-deadline: at most two thirds of --leader-election-lease-duration".into());
        }
        if self.retry_period * 4 > acts || self.retry_period.is_zero() {
            return Err("--leader-election-retry-period: at most a quarter of --leader-election-renew-deadline, and not zero".into());
        }
        Ok(self)
    }
}

/// Whether this process is the leader. A clone shares the state.
#[derive(Clone)]
pub struct Leadership(Arc<LeadershipState>);

struct LeadershipState {
    lease: watch::Sender<LeaseState>,
    /// Since when it leads, as last published. The outer `None`: the Lease was not read yet.
    reported: watch::Sender<Option<Option<Duration>>>,
}

impl Leadership {
    /// The leadership of a process without an election.
    #[cfg(test)]
    pub fn always() -> Self {
        let since = Duration::ZERO;
        let lease_state = LeaseState {
            term: Some(Term {
                since,
                unbroken_since: since,
                until: Duration::MAX,
            }),
            ..LeaseState::default()
        };
        Self(Arc::new(LeadershipState {
            lease: watch::Sender::new(lease_state),
            reported: watch::Sender::new(Some(Some(since))),
        }))
    }

    /// The leadership of a process that the elector elects.
    pub fn by_lease(client: Client, election: Election) -> (Self, Elector) {
        let pod = election.pod.as_deref().map(|pod| format!("{pod}/"));
        let pod = pod.unwrap_or_default();
        let state = Arc::new(LeadershipState {
            lease: watch::Sender::new(LeaseState {
                me: format!("{pod}{:08x}", rand::random::<u32>()),
                pod,
                lasts: election.lease_duration,
                acts: election.renew_deadline,
                ..LeaseState::default()
            }),
            reported: watch::Sender::default(),
        });
        let elector = Elector {
            api: Api::namespaced(client, &election.namespace),
            lease: format!("{}/{}", election.namespace, election.name),
            election,
            state: state.clone(),
        };
        (Self(state), elector)
    }

    /// Since when this process is the leader, on the monotonic clock, checked now. `None` if it is not.
    pub fn leader_since(&self) -> Option<Duration> {
        self.0.lease.borrow().leader_since(clock::now().mono)
    }

    /// The same, but starts again after the Lease expired, even if no other process took it.
    pub fn unbroken_since(&self) -> Option<Duration> {
        let lease_state = self.0.lease.borrow();
        lease_state.leader_since(clock::now().mono)?;
        Some(lease_state.term?.unbroken_since)
    }

    /// Each change of leadership. The outer `None`: the Lease was not read yet.
    pub fn changes(&self) -> watch::Receiver<Option<Option<Duration>>> {
        self.0.reported.subscribe()
    }
}

/// The Lease as this process sees it. Plain data.
#[derive(Clone, Debug, Default)]
struct LeaseState {
    /// The holder identity of this process, and the prefix of all identities of its pod.
    me: String,
    pod: String,
    lasts: Duration,
    acts: Duration,
    /// What was last observed. `None` before the first read.
    seen: Option<LeaseObservation>,
    term: Option<Term>,
}

/// The observed Lease, and when this content was first observed. Without metadata it does not exist.
#[derive(Clone, Debug)]
struct LeaseObservation {
    meta: Option<ObjectMeta>,
    spec: LeaseSpec,
    at: Duration,
}

/// The term in which this process leads.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// Since when no other process held the Lease.
    since: Duration,
    /// Since when the Lease has not expired.
    unbroken_since: Duration,
    until: Duration,
}

impl LeaseState {
    fn leader_since(&self, now: Duration) -> Option<Duration> {
        let term = self.term.filter(|term| now < term.until)?;
        Some(term.since)
    }

    fn holder(&self) -> Option<&str> {
        let holder = self.seen.as_ref()?.spec.holder_identity.as_deref();
        holder.filter(|holder| !holder.is_empty())
    }

    /// The holder for the log. Any writer of the Lease can put any text there.
    fn shown_holder(&self) -> Option<String> {
        self.holder().map(|holder| clean(holder, MOST_SHOWN))
    }

    fn is_mine(&self) -> bool {
        self.holder() == Some(self.me.as_str())
    }

    /// Applies a read of the Lease. A change of labels and the like is no renewal.
    fn observe_lease(&mut self, lease: Option<Lease>, now: Duration) {
        let before = self.seen.take();
        let (meta, spec) = match lease {
            Some(lease) => (Some(lease.metadata), lease.spec.unwrap_or_default()),
            // The Lease was deleted. Its holder notices at the next renewal, so the Lease counts a while longer.
            None => (
                None,
                before.as_ref().map(|b| b.spec.clone()).unwrap_or_default(),
            ),
        };
        let same = |b: &&LeaseObservation| b.meta.is_some() == meta.is_some() && b.spec == spec;
        let at = before.as_ref().filter(same).map_or(now, |b| b.at);
        let is_first = before.is_none();
        self.seen = Some(LeaseObservation { meta, spec, at });
        // A container restarts only after the previous one has ended. Only at the first read: a process that comes
        // later runs next to this one, whatever its name.
        let is_previous = |holder: &str| !self.pod.is_empty() && holder.starts_with(&self.pod);
        if is_first
            && self.holder().is_some_and(is_previous)
            && let Some(seen) = &mut self.seen
        {
            seen.spec.holder_identity = None;
        }
        if !self.is_mine() {
            self.term = None;
        }
    }

    /// When the Lease of another process may be taken. `None` if no other process has it.
    fn free_at(&self) -> Option<Duration> {
        let seen = self.seen.as_ref()?;
        self.holder().filter(|_| !self.is_mine())?;
        let seconds_in_lease = seen.spec.lease_duration_seconds.unwrap_or_default();
        let lasts = match u64::try_from(seconds_in_lease) {
            Ok(seconds) if seconds > 0 => Duration::from_secs(seconds).min(LONGEST),
            _ => self.lasts,
        };
        Some(seen.at + lasts)
    }

    /// The Lease that takes or renews what was observed. The write fails if the Lease has changed since.
    fn claim(&self, name: &str, stamp: MicroTime) -> Lease {
        let spec = self.seen.as_ref().map(|seen| seen.spec.clone());
        let is_mine = self.is_mine();
        let transitions = spec.as_ref().and_then(|spec| spec.lease_transitions);
        let acquired = spec.and_then(|spec| spec.acquire_time).filter(|_| is_mine);
        let spec = LeaseSpec {
            holder_identity: Some(self.me.clone()),
            acquire_time: acquired.or(Some(stamp.clone())),
            renew_time: Some(stamp),
            lease_duration_seconds: i32::try_from(self.lasts.as_secs()).ok(),
            lease_transitions: Some(transitions.map_or(0, |n| n + i32::from(!is_mine))),
            ..LeaseSpec::default()
        };
        self.lease(name, spec)
    }

    /// The Lease to write to release it. `None` if another process has it.
    fn give_up(&mut self, name: &str, stamp: MicroTime) -> Option<Lease> {
        self.term = None;
        let seen = self.seen.as_ref().filter(|_| self.is_mine())?;
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            renew_time: Some(stamp),
            ..seen.spec.clone()
        };
        Some(self.lease(name, spec))
    }

    fn lease(&self, name: &str, spec: LeaseSpec) -> Lease {
        let meta = self.seen.as_ref().and_then(|seen| seen.meta.clone());
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            managed_fields: None,
            ..meta.unwrap_or_default()
        };
        let spec = Some(spec);
        Lease { metadata, spec }
    }

    /// Records a successful write that was requested at `asked`.
    fn record_write(&mut self, lease: Lease, asked: Duration, now: Duration) {
        self.seen = Some(LeaseObservation {
            meta: Some(lease.metadata),
            spec: lease.spec.unwrap_or_default(),
            at: now,
        });
        let unbroken = self.term.filter(|term| now < term.until);
        self.term = Some(Term {
            since: self.term.map_or(now, |term| term.since),
            unbroken_since: unbroken.map_or(now, |term| term.unbroken_since),
            until: asked + self.acts,
        });
    }
}

/// Takes and renews the Lease for one process.
pub struct Elector {
    api: Api<Lease>,
    /// Namespace and name.
    lease: String,
    election: Election,
    state: Arc<LeadershipState>,
}

impl Elector {
    /// Takes and renews the Lease until `end`, then releases it.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            let started = clock::now().mono;
            let mut attempt = std::pin::pin!(self.acquire_or_renew());
            tokio::select! {
                () = &mut end => {
                    // A cancelled write may have been done, and the release would use an outdated version.
                    attempt.await;
                    break;
                }
                () = &mut attempt => self.publish_leadership(),
            }
            // Publishes also when a Lease or the term expires.
            let lease_state = self.state.lease.borrow().clone();
            let soon = [
                lease_state.free_at(),
                lease_state.term.map(|term| term.until),
            ];
            let soon = soon.into_iter().flatten().filter(|at| *at > started);
            let next = soon.fold(started + self.election.retry_period, Duration::min);
            tokio::select! {
                () = &mut end => break,
                () = clock::sleep_until(next) => self.publish_leadership(),
            }
        }
        self.release().await;
        self.publish_leadership();
    }

    /// Takes or renews the Lease, if it may.
    async fn acquire_or_renew(&self) {
        if let Err(error) = self.try_acquire_or_renew().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(lease = self.lease, error, "lease request failed");
        }
    }

    async fn try_acquire_or_renew(&self) -> Result<(), LeaseError> {
        if !self.state.lease.borrow().is_mine() {
            self.read_lease().await?;
        }
        let asked = clock::now().mono;
        let claim = {
            let lease_state = self.state.lease.borrow();
            let is_free = lease_state.free_at().is_none_or(|at| at <= asked);
            is_free.then(|| lease_state.claim(&self.election.name, stamp()))
        };
        let Some(claim) = claim else {
            return Ok(());
        };
        match self.put(&claim).await {
            Ok(lease) => {
                let now = clock::now().mono;
                self.state
                    .lease
                    .send_modify(|lease_state| lease_state.record_write(lease, asked, now));
                Ok(())
            }
            Err(failure) if failure.is_stale() => self.read_lease().await,
            Err(failure) => Err(failure),
        }
    }

    async fn read_lease(&self) -> Result<(), LeaseError> {
        let lease = self.bounded(self.api.get_opt(&self.election.name)).await?;
        let now = clock::now().mono;
        self.state
            .lease
            .send_modify(|lease_state| lease_state.observe_lease(lease, now));
        Ok(())
    }

    /// Replaces the Lease at the version that was read, or creates it.
    async fn put(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let (name, params) = (&self.election.name, post_params());
        match lease.metadata.resource_version {
            Some(_) => self.bounded(self.api.replace(name, &params, lease)).await,
            None => self.bounded(self.api.create(&params, lease)).await,
        }
    }

    /// Releases the Lease, so that another process need not wait for it to expire.
    async fn release(&self) {
        // A second time after a renewal whose answer was lost.
        for _ in 0..2 {
            let mut mine = None;
            let name = &self.election.name;
            self.state
                .lease
                .send_modify(|lease_state| mine = lease_state.give_up(name, stamp()));
            let Some(lease) = mine else {
                return;
            };
            match self.put(&lease).await {
                Err(failure) if failure.is_stale() && self.read_lease().await.is_ok() => {}
                _ => return,
            }
        }
    }

    /// Publishes a change to the controllers and the log.
    fn publish_leadership(&self) {
        let lease_state = self.state.lease.borrow().clone();
        let now = Some(lease_state.leader_since(clock::now().mono));
        let is_news = self
            .state
            .reported
            .send_if_modified(|reported| std::mem::replace(reported, now) != now);
        if is_news {
            let (lease, identity) = (&self.lease, &lease_state.me);
            let holder = lease_state.shown_holder();
            match now.flatten() {
                Some(_) => tracing::info!(lease, identity, "leadership gained"),
                None => tracing::info!(lease, identity, holder, "entered standby"),
            }
        }
    }

    /// Limits a call: two tries fit into the renew deadline.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, LeaseError> {
        let longest = self.election.renew_deadline.mul_f64(0.4);
        match tokio::time::timeout(longest, call).await {
            Ok(result) => result.map_err(|error| LeaseError::Api(Box::new(error))),
            Err(_) => Err(LeaseError::Deadline),
        }
    }
}

/// A call without a result.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    /// The API server refused, or was not reachable.
    #[error("the API server did not do it")]
    Api(#[source] Box<Error>),
    /// No answer in time.
    #[error("the API server did not answer in time")]
    Deadline,
}

impl LeaseError {
    /// Whether another process wrote the Lease, or it is deleted.
    fn is_stale(&self) -> bool {
        matches!(self, Self::Api(e) if matches!(&**e, Error::Api(s) if matches!(s.code, 404 | 409)))
    }
}

/// For users who read the Lease; no decision uses it.
fn stamp() -> MicroTime {
    MicroTime(Timestamp::now())
}
