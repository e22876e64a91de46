//! What is kept of one object.

use super::Guarded;
use crate::{kinds::Kind, runtime::backoff::Backoff};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use std::{sync::Arc, time::Duration};

/// An object as it is shown: decoded, or what is left of it.
#[derive(Clone, Debug)]
pub enum Shown<K> {
    /// It decodes.
    Decoded(Arc<K>),
    /// It does not: its metadata and the error.
    Undecodable(Arc<InvalidObject>),
}

impl<K: Kind> Shown<K> {
    pub(super) fn of(object: Guarded<K>) -> Self {
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
pub(super) struct Entry<K, M> {
    pub(super) shown: Shown<K>,
    /// Which watch shows it, and which of its listings did last.
    pub(super) watch: usize,
    pub(super) listing: u64,
    /// When this process last read or wrote it.
    pub(super) learned: Duration,
    /// What people say by it, as the watch last showed it.
    pub(super) triggers: u64,
    pub(super) alias: Option<String>,
    pub(super) memory: M,
    pub(super) phase: Phase,
    /// Rows of passes in a row that failed.
    pub(super) pause: Backoff,
    /// Writes of its status that failed in a row.
    pub(super) reports: Backoff,
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

impl<K, M: Default> Entry<K, M> {
    pub(super) fn new(shown: Shown<K>, watch: usize, triggers: u64) -> Self {
        Self {
            shown,
            watch,
            listing: 0,
            learned: Duration::ZERO,
            triggers,
            alias: None,
            memory: M::default(),
            phase: Phase::Waiting(None),
            pause: Backoff::default(),
            reports: Backoff::default(),
            gone: false,
        }
    }
}

/// Resource versions are opaque by contract and ordered numbers in fact; one that is no number
/// counts as oldest.
pub(super) fn version<K: Kind>(shown: &Shown<K>) -> u64 {
    let version = shown.meta().resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}
