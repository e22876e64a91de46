//! What is known of one object.

use super::{
    FirstObservation, Guarded, claims::ObjectClaim, packed_object::PackedObject,
    queues::QueuePosition, references::ReferenceKeys, summary::ObjectSummary, users::Counted,
};
use api::Kind;
use flexmetal_core::backoff::Backoff;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use std::{sync::Arc, time::Duration};

/// An object as observed, decoded or not.
#[derive(Clone, Debug)]
pub enum ObservedObject<K> {
    /// The object decodes.
    Decoded(Arc<K>),
    /// The object does not decode: its metadata and the error.
    Undecodable(Arc<InvalidObject>),
}

impl<K: Kind> ObservedObject<K> {
    /// Takes an object as the API server returned it.
    pub fn from_guarded(object: Guarded<K>) -> Self {
        match object.0 {
            Ok(object) => Self::Decoded(Arc::new(object)),
            Err(invalid) => Self::Undecodable(Arc::new(invalid)),
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta(),
            Self::Undecodable(object) => &object.metadata,
        }
    }
}

/// State of one object.
pub(super) struct ObjectEntry<K, M> {
    pub(super) form: PackedObject<K>,
    /// What gauges show of it, in this form.
    pub(super) summary: ObjectSummary,
    /// How it counts among the users of accounts, in this form.
    pub(super) counted: Option<Counted>,
    /// Its claim at its account.
    pub(super) claim: Option<ObjectClaim>,
    /// Its position in a queue.
    pub(super) queue_position: Option<QueuePosition>,
    /// What it refers to.
    pub(super) refers: ReferenceKeys,
    /// The watch that shows it, and the number of that watch's last list that contained it.
    pub(super) watch: usize,
    pub(super) listing: u64,
    pub(super) first_observation: FirstObservation,
    /// When this process last read or wrote it, or the watch showed a newer form.
    pub(super) learned: Duration,
    /// Hash of what triggers a reconcile, as last observed.
    pub(super) triggers: u64,
    pub(super) alias: Option<Arc<str>>,
    pub(super) memory: M,
    pub(super) phase: Phase,
    /// Backoff after failed work items.
    pub(super) pause: Backoff,
    /// Backoff after failed status updates.
    pub(super) reports: Backoff,
    /// Hash of the reason of the last failure. Each reason is reported once.
    pub(super) reported_failure: Option<u64>,
    /// The newest version that was reported as undecodable, and the message.
    pub(super) defect: Option<Box<(u64, String)>>,
    /// It is deleted, and gets a final reconcile.
    pub(super) gone: bool,
}

/// Schedule of an object.
pub(super) enum Phase {
    /// Waits until this time, or until it is enqueued.
    Waiting(Option<Duration>),
    /// Reconciled as soon as possible; in the queue since this moment.
    Queued(Duration),
    /// Being reconciled; another work item follows if it was enqueued meanwhile.
    Running { again: bool },
}

impl<K: Kind, M: Default> ObjectEntry<K, M> {
    pub(super) fn new(
        form: PackedObject<K>,
        watch: usize,
        triggers: u64,
        first_observation: FirstObservation,
    ) -> Self {
        Self {
            form,
            summary: ObjectSummary::default(),
            counted: None,
            claim: None,
            queue_position: None,
            refers: ReferenceKeys::new(),
            watch,
            listing: 0,
            first_observation,
            learned: Duration::ZERO,
            triggers,
            alias: None,
            memory: M::default(),
            phase: Phase::Waiting(None),
            pause: Backoff::default(),
            reports: Backoff::default(),
            reported_failure: None,
            defect: None,
            gone: false,
        }
    }
}
