//! What is kept of one object.

use super::{
    FirstObservation, Guarded, claims::ObjectClaim, packed_object::PackedObject,
    queues::QueuePosition, references::ReferenceKeys, users::Counted,
};
use api::Kind;
use flexmetal_core::backoff::Backoff;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use std::{sync::Arc, time::Duration};

/// An object as it is shown: decoded, or what is left of it.
#[derive(Clone, Debug)]
pub enum ObservedObject<K> {
    /// It decodes.
    Decoded(Arc<K>),
    /// It does not: its metadata and the error.
    Undecodable(Arc<InvalidObject>),
}

impl<K: Kind> ObservedObject<K> {
    /// An object as the API server gave it.
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

/// One object.
pub(super) struct ObjectEntry<K, M> {
    pub(super) form: PackedObject<K>,
    /// What it counts as among the users of accounts, in this form.
    pub(super) counted: Option<Counted>,
    /// What of its account it wants for itself.
    pub(super) claim: Option<ObjectClaim>,
    /// The row in which it waits for its turn.
    pub(super) queue_position: Option<QueuePosition>,
    /// What it refers to.
    pub(super) refers: ReferenceKeys,
    /// Which watch shows it, and which of its listings did last.
    pub(super) watch: usize,
    pub(super) listing: u64,
    pub(super) first_observation: FirstObservation,
    /// When this process last read or wrote it, or the watch showed what it did not know.
    pub(super) learned: Duration,
    /// What people say by it, as the watch last showed it.
    pub(super) triggers: u64,
    pub(super) alias: Option<Arc<str>>,
    pub(super) memory: M,
    pub(super) phase: Phase,
    /// Rows of passes in a row that failed.
    pub(super) pause: Backoff,
    /// Writes of its status that failed in a row.
    pub(super) reports: Backoff,
    /// Why the last of them failed, as a hash; that is told once.
    pub(super) reported_failure: Option<u64>,
    /// The newest version of which was told that it does not decode, and what.
    pub(super) defect: Option<Box<(u64, String)>>,
    /// It is gone, and gets a last pass.
    pub(super) gone: bool,
}

/// Where an object is between two passes.
pub(super) enum Phase {
    /// It waits, until this moment or until it is woken.
    Waiting(Option<Duration>),
    /// It gets the next free pass.
    Queued,
    /// It has its pass; another one follows when it was woken meanwhile.
    Running { again: bool },
}

impl<K: Kind, M: Default> ObjectEntry<K, M> {
    pub(super) fn new(
        form: PackedObject<K>,
        watch: usize,
        triggers: u64,
        sight: FirstObservation,
    ) -> Self {
        Self {
            form,
            counted: None,
            claim: None,
            queue_position: None,
            refers: ReferenceKeys::new(),
            watch,
            listing: 0,
            first_observation: sight,
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
