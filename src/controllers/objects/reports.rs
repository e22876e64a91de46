//! How often a status that is refused is tried again, and told.

use super::{Objects, packed_object::version};
use crate::runtime::clock;
use api::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

/// Longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(300);

/// A write of a status that failed.
pub(in crate::controllers) struct FailedStatusWrite {
    /// When to try the next.
    pub(in crate::controllers) rest: Duration,
    /// Whether this cause was not told since a status of the object was written.
    pub(in crate::controllers) is_news: bool,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// How long its status is not written, after writes that failed.
    pub(in crate::controllers) fn report_rest(&self, uid: &str) -> Option<Duration> {
        let inner = self.lock();
        inner.entries.get(uid)?.reports.rest(clock::now().mono)
    }

    /// A write of its status failed, for this cause.
    pub(in crate::controllers) fn report_failed(
        &self,
        uid: &str,
        cause: &str,
    ) -> FailedStatusWrite {
        let now = clock::now().mono;
        let mut hash = DefaultHasher::new();
        cause.hash(&mut hash);
        let cause = hash.finish();
        match self.lock().entries.get_mut(uid) {
            Some(entry) => FailedStatusWrite {
                rest: entry.reports.fail(now, LONGEST),
                is_news: entry.reported_failure.replace(cause) != Some(cause),
            },
            None => FailedStatusWrite {
                rest: LONGEST,
                is_news: true,
            },
        }
    }

    /// A status was written.
    pub(in crate::controllers) fn reported(&self, uid: &str) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            entry.reports.reset();
            entry.reported_failure = None;
        }
    }

    /// What was told of an object that does not decode, in this version or a later one.
    pub(in crate::controllers) fn reported_defect(
        &self,
        uid: &str,
        meta: &ObjectMeta,
    ) -> Option<String> {
        let inner = self.lock();
        let (told, note) = inner.entries.get(uid)?.defect.as_deref()?;
        (version(meta) <= *told).then(|| note.clone())
    }

    /// It was told that an object does not decode, in this version of it.
    pub(in crate::controllers) fn record_defect(&self, uid: &str, meta: &ObjectMeta, note: &str) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            entry.defect = Some(Box::new((version(meta), note.to_owned())));
        }
    }
}
