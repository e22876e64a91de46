//! The facts and the memory of one object, for all kinds that share this module.

use super::{Decision, Ended};
use crate::{
    account::view::AccountView,
    backoff::{Backoff, LONGEST_PAUSE},
    cluster_id::{ClusterId, OwnerHash},
    explanation::Explanation,
    last_error::{LastError, is_over_by_answers},
    moment::Moment,
    reconcile_request::ReconcileRequest,
    reference_grace::ReferenceGrace,
    resolved_account::ResolvedAccount,
    restore_backoff::RestoreBackoff,
};
use api::{Interval, Kind, Reason, conditions, names::OBJECT_FINALIZER};
use std::{sync::Arc, time::Duration};

/// How soon the operator checks again whether the CRD is being deleted.
pub const CRD_RETRY: Duration = Duration::from_secs(10);

/// What this process remembers of an object. Losing it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory<T> {
    /// What it waits for, and since when.
    pub grace: ReferenceGrace,
    /// Effects that failed in a row.
    pub backoff: Backoff,
    /// Why the last of them failed.
    pub last_error: Option<LastError>,
    /// Since when its account answers again, as far as the errors above know.
    pub answers_since: Option<Duration>,
    /// Whether it is in the queue of its account.
    pub queued: bool,
    /// How often our finalizer was restored.
    pub finalizer_restores: RestoreBackoff,
    /// When this process last wrote its status.
    pub reported: Option<Duration>,
    /// Whether our finalizer was removed: the object ends.
    pub finalizer_removed: bool,
    /// The requested reconcile.
    pub request: ReconcileRequest,
    /// Since when this process is leader, as far as this memory knows.
    pub leader_since: Duration,
    /// What the kind remembers.
    pub own: T,
}

impl<T: Default> Memory<T> {
    /// Sets since when this process is leader. Older memory goes: another leader may have written newer facts, and no
    /// clock shows that.
    pub fn set_leader_since(&mut self, since: Duration) {
        if self.leader_since != since {
            *self = Self {
                leader_since: since,
                // The queue position belongs to this process.
                queued: self.queued,
                ..Self::default()
            };
        }
    }
}

impl<T> Memory<T> {
    /// Records how an effect ended.
    pub fn record_effect(&mut self, ended: Ended, now: Duration) {
        match ended {
            Ended::Done => {
                self.backoff.reset();
                self.last_error = None;
            }
            // Two writers in conflict must not spin.
            Ended::Stale => drop(self.backoff.fail(now, LONGEST_PAUSE)),
            Ended::Failed(error) => self.record_failure(error, now),
        }
    }

    /// Records since when the account answers.
    pub fn record_answers_since(&mut self, since: Option<Duration>) {
        if is_over_by_answers(&mut self.answers_since, since, self.last_error.as_ref()) {
            self.backoff.reset();
            self.last_error = None;
        }
    }

    /// Records a failed effect.
    pub fn record_failure(&mut self, error: LastError, now: Duration) {
        self.last_error = Some(error);
        self.backoff.fail(now, LONGEST_PAUSE);
    }
}

/// The facts that every such kind has.
#[derive(Clone)]
pub struct Subject<K, T> {
    /// The moment of the decision.
    pub now: Moment,
    /// Since when, by the monotonic clock, this process is leader for the object's namespace.
    pub leader_since: Duration,
    /// When this process first saw the object.
    pub first_seen: Duration,
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// Whether the CRD is being deleted, so that everything stays at the provider; None: unknown.
    pub kind_deleting: Option<bool>,
    /// The account.
    pub account: ResolvedAccount,
    /// Whether the operator is read-only.
    pub read_only: bool,
    /// What this process remembers of the object.
    pub memory: Memory<T>,
    /// The newest version of the object that this process has seen.
    pub object: Arc<K>,
}

impl<K: Kind, T> Subject<K, T> {
    /// Namespace of the object.
    pub fn namespace(&self) -> &str {
        self.object.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.object.meta().name.as_deref().unwrap_or_default()
    }

    /// UID of the object.
    pub fn uid(&self) -> &str {
        self.object.meta().uid.as_deref().unwrap_or_default()
    }

    /// The hash that names the object at the provider.
    pub fn owner_hash(&self) -> OwnerHash {
        self.cluster
            .object_hash(self.namespace(), self.name(), self.uid())
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    /// Whether our finalizer is on the object. In read-only mode none is added, and what would follow it is decided.
    pub fn has_finalizer(&self) -> bool {
        let mut finalizers = self.object.meta().finalizers.iter().flatten();
        self.read_only && !self.is_deleting() || finalizers.any(|f| f == OBJECT_FINALIZER)
    }

    /// An annotation of the object.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.object.meta().annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    /// The status as it is.
    pub fn status(&self) -> K::Status {
        self.object.status().cloned().unwrap_or_default()
    }

    /// The account at this moment, if it exists.
    pub fn view(&self) -> Option<&AccountView> {
        self.account.view()
    }

    /// Whether the CRD is being deleted, so that everything stays at the provider. Fails if that is unknown; the
    /// operator checks again after [`CRD_RETRY`].
    pub fn is_crd_deleting(&self) -> Result<bool, Explanation> {
        self.kind_deleting.ok_or_else(|| {
            let message = format!(
                "Cannot see whether the CustomResourceDefinition of this kind is being deleted; if it is, everything stays at the provider; checked every {}. If this lasts, grant the operator get on CustomResourceDefinitions",
                Interval(CRD_RETRY)
            );
            Explanation::waits(Reason::ChecksFailed, message)
        })
    }

    /// The account ID, which shows that a record is of this account. Fails until the account has it.
    pub fn account_id(&self) -> Result<&str, Explanation> {
        let account_id = self.view().and_then(|view| view.account_id.as_deref());
        account_id.ok_or_else(|| {
            let message = "Waiting for the first complete list of the account; continues as soon as it is there";
            Explanation::waits(Reason::WaitingForListing, message)
        })
    }

    /// The later of two moments: when this process first saw the object, and when it became leader. Earlier
    /// observations miss what others have done since.
    pub fn observations_count_from(&self) -> Duration {
        self.first_seen.max(self.leader_since)
    }

    /// Whether the object has had our finalizer before, by its conditions.
    pub fn had_finalizer(&self) -> bool {
        let status = self.object.status();
        status.is_some_and(|status| !conditions::is_new(K::conditions(status)))
    }

    /// The decision of an object without our finalizer: add it, with growing delays if something keeps removing it.
    pub fn add_finalizer<E>(&self, effect: E) -> Decision<K::Status, E> {
        let now = self.now.mono;
        let decision = Decision::unchanged(self);
        match self.memory.finalizer_restores.remaining(now) {
            None => decision.with(effect),
            Some(rest)
                if self
                    .memory
                    .finalizer_restores
                    .conflict_shown_for(now)
                    .is_some() =>
            {
                let message = format!(
                    "Something keeps removing the finalizer {OBJECT_FINALIZER}. Find it in metadata.managedFields, and stop it"
                );
                decision
                    .because(Explanation::stalled(Reason::MetadataConflict, message))
                    .requeue_after(rest)
            }
            Some(rest) => decision.requeue_after(rest),
        }
    }
}
