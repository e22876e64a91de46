//! Backoff of failed status updates, and which failures were reported.

use super::{Objects, packed_object::version};
use crate::runtime::clock;
use api::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

/// Longest delay between two tries.
const LONGEST: Duration = Duration::from_secs(300);

/// A failed status update.
pub(in crate::controllers) struct FailedStatusWrite {
    /// Delay until the next try.
    pub(in crate::controllers) rest: Duration,
    /// Whether the last failure since a successful update had another reason.
    pub(in crate::controllers) is_news: bool,
}

impl<K: Kind, M: Clone + Default + Send> Objects<K, M> {
    /// Remaining backoff of the object's status updates.
    pub(in crate::controllers) fn report_rest(&self, uid: &str) -> Option<Duration> {
        let inner = self.lock();
        inner.entries.get(uid)?.reports.remaining(clock::now().mono)
    }

    /// Records a failed status update and its reason.
    pub(in crate::controllers) fn report_failed(
        &self,
        uid: &str,
        reason: &str,
    ) -> FailedStatusWrite {
        let now = clock::now().mono;
        let mut hash = DefaultHasher::new();
        reason.hash(&mut hash);
        let reason_hash = hash.finish();
        match self.lock().entries.get_mut(uid) {
            Some(entry) => FailedStatusWrite {
                rest: entry.reports.fail(now, LONGEST),
                is_news: entry.reported_failure.replace(reason_hash) != Some(reason_hash),
            },
            None => FailedStatusWrite {
                rest: LONGEST,
                is_news: true,
            },
        }
    }

    /// Records a successful status update.
    pub(in crate::controllers) fn reported(&self, uid: &str) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            entry.reports.reset();
            entry.reported_failure = None;
        }
    }

    /// The message that was reported of an undecodable object, in this version or a later one.
    pub(in crate::controllers) fn reported_defect(
        &self,
        uid: &str,
        meta: &ObjectMeta,
    ) -> Option<String> {
        let inner = self.lock();
        let (reported, message) = inner.entries.get(uid)?.defect.as_deref()?;
        (version(meta) <= *reported).then(|| message.clone())
    }

    /// Records that an object was reported as undecodable, in this version.
    pub(in crate::controllers) fn record_defect(
        &self,
        uid: &str,
        meta: &ObjectMeta,
        message: &str,
    ) {
        if let Some(entry) = self.lock().entries.get_mut(uid) {
            entry.defect = Some(Box::new((version(meta), message.to_owned())));
        }
    }
}
