//! Who acts: one operator a namespace, by a Lease of Kubernetes (`coordination.k8s.io/v1`).
//!
//! The operator of the whole cluster holds the lease in the namespace `default`; one of some
//! namespaces holds one in each of them. The former leaves alone the namespaces whose lease another
//! one holds. A process that holds none watches, and takes over when the holder ends or is lost.
//!
//! Times are spans of each process's own monotonic clock. A holder that could not renew stops before
//! anybody else may start, also one that was paused: whoever asks [`Leadership::acts`] is answered by
//! the clock of that very moment. The lease keeps two operators from working against each other; that
//! no machine is ordered twice rests on the order itself (`docs/guarantees.md`).

mod calls;
mod keeper;
mod others;
mod record;
mod seat;
#[cfg(test)]
mod tests;
mod told;

use super::clock;
use others::Others;
use seat::Seat;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};
use tokio::sync::watch;

pub use keeper::Keeper;

/// A lease that nobody renews holds this long; then another one may take it.
const LASTS: Duration = Duration::from_secs(15);
/// A holder that could not renew acts this long, counted from when it asked for the last renewal that
/// worked. The rest of [`LASTS`] is for what it has begun by then, and for clocks that run differently.
const ACTS: Duration = Duration::from_secs(10);
/// An operator of the whole cluster trusts a listing of the leases of others this long.
const TRUSTED: Duration = Duration::from_secs(7);
/// One of some namespaces waits this long where an operator of the whole cluster may not know of it
/// yet: longer than [`TRUSTED`].
const NOTICED: Duration = Duration::from_secs(8);
/// The namespace of the lease of the whole cluster.
const WHOLE: &str = "default";

/// Where a process wants to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In these namespaces.
    Namespaces(Vec<String>),
}

/// Who a process is, and what it wants to act on.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Identity of the cluster in the marks of machines: operators with different ones do not meet.
    pub cluster: String,
    /// Namespace of the operator.
    pub namespace: String,
    /// Name of its pod, where it has one.
    pub pod: Option<String>,
    /// Where it wants to act.
    pub scope: Scope,
}

/// Where this process acts. A clone is the same.
#[derive(Clone)]
pub struct Leadership {
    /// None: everywhere and always.
    shared: Option<Arc<Shared>>,
}

struct Shared {
    leases: RwLock<Leases>,
    news: watch::Sender<News>,
    /// Every lease was looked at once, or that failed.
    settled: watch::Sender<bool>,
}

/// How often it has changed where this process acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Somewhere it began to act anew: what it knows from before may be old.
    pub gains: u64,
    /// Any change.
    pub changes: u64,
}

/// All leases that concern a process, as it sees them.
#[derive(Clone, Debug)]
// There is one in a process.
#[allow(clippy::large_enum_variant)]
enum Leases {
    Cluster { own: Seat, others: Others },
    Namespaces(BTreeMap<String, Seat>),
}

/// Where a process acts at one moment, and since when. The name None: all other namespaces, and what
/// has none.
type Acting = BTreeMap<Option<String>, Option<Duration>>;

impl Leadership {
    /// For a process that is alone.
    pub fn always() -> Self {
        Self { shared: None }
    }

    /// For one that has to ask; the keeper does that.
    pub fn by_lease(client: kube::Client, candidate: &Candidate) -> (Self, Keeper) {
        let shared = Arc::new(Shared {
            leases: RwLock::new(Leases::new(&candidate.scope)),
            news: watch::Sender::default(),
            settled: watch::Sender::new(false),
        });
        let keeper = Keeper::new(client, candidate, shared.clone());
        let leadership = Self {
            shared: Some(shared),
        };
        (leadership, keeper)
    }

    /// Whether this process acts in a namespace, at this very moment; None: on what has no namespace.
    pub fn acts(&self, namespace: Option<&str>) -> bool {
        self.since(namespace).is_some()
    }

    /// Since which monotonic moment it does; None: it does not.
    pub fn since(&self, namespace: Option<&str>) -> Option<Duration> {
        match &self.shared {
            None => Some(Duration::ZERO),
            Some(shared) => shared.leases().since(namespace, clock::now().mono),
        }
    }

    /// Whether the matter is another one's, as far as is known. A lease of our own that lapsed, and
    /// that nobody is known to have taken, is still ours.
    pub fn is_anothers(&self, namespace: Option<&str>) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.leases().is_anothers(namespace))
    }

    /// Waits until it is known for the first time who acts, or cannot be known.
    pub async fn settled(&self) {
        if let Some(shared) = &self.shared {
            let mut settled = shared.settled.subscribe();
            // The sender lives as long as `self`.
            let _ = settled.wait_for(|settled| *settled).await;
        }
    }

    /// Tells of changes; None: there are none.
    pub fn news(&self) -> Option<watch::Receiver<News>> {
        Some(self.shared.as_ref()?.news.subscribe())
    }
}

impl Shared {
    fn leases(&self) -> RwLockReadGuard<'_, Leases> {
        // A panic elsewhere does not make plain data wrong.
        self.leases.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Leases> {
        self.leases.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases {
    fn new(scope: &Scope) -> Self {
        match scope {
            Scope::Cluster => Self::Cluster {
                own: Seat::default(),
                others: Others::default(),
            },
            Scope::Namespaces(names) => {
                let seats = names.iter().map(|name| (name.clone(), Seat::default()));
                Self::Namespaces(seats.collect())
            }
        }
    }

    /// The leases that this process wants, by namespace.
    fn seats(&self) -> impl Iterator<Item = (&str, &Seat)> {
        let (own, some) = match self {
            Self::Cluster { own, .. } => (Some((WHOLE, own)), None),
            Self::Namespaces(seats) => (None, Some(seats)),
        };
        let some = some.into_iter().flatten();
        own.into_iter()
            .chain(some.map(|(name, seat)| (name.as_str(), seat)))
    }

    /// The lease that this process wants in a namespace.
    fn seat_mut(&mut self, namespace: &str) -> Option<&mut Seat> {
        match self {
            Self::Cluster { own, .. } => (namespace == WHOLE).then_some(own),
            Self::Namespaces(seats) => seats.get_mut(namespace),
        }
    }

    /// Since when the process acts there; None: it does not.
    fn since(&self, namespace: Option<&str>, now: Duration) -> Option<Duration> {
        match (self, namespace) {
            (Self::Cluster { own, others }, namespace) => {
                let since = own.since(now)?;
                let Some(namespace) = namespace else {
                    return Some(since);
                };
                let is_known = others.is_known(own.gained()?, now);
                let is_ours = is_known && !others.has(namespace);
                is_ours.then(|| since.max(others.freed(namespace).unwrap_or_default()))
            }
            (Self::Namespaces(seats), Some(namespace)) => seats.get(namespace)?.since(now),
            (Self::Namespaces(_), None) => None,
        }
    }

    fn is_anothers(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::Cluster { own, others }, namespace) => {
                !own.is_ours() || namespace.is_some_and(|namespace| others.has(namespace))
            }
            (Self::Namespaces(seats), Some(namespace)) => {
                !seats.get(namespace).is_some_and(Seat::is_ours)
            }
            (Self::Namespaces(_), None) => true,
        }
    }

    /// Where the process acts now.
    fn acting(&self, now: Duration) -> Acting {
        let apart: Vec<&String> = match self {
            Self::Cluster { others, .. } => others.namespaces().collect(),
            Self::Namespaces(seats) => seats.keys().collect(),
        };
        let mut acting: Acting = apart
            .into_iter()
            .map(|name| (Some(name.clone()), self.since(Some(name), now)))
            .collect();
        if let Self::Cluster { .. } = self {
            // Of a namespace that nobody ever held.
            acting.insert(None, self.since(Some(WHOLE), now));
        }
        acting
    }
}
