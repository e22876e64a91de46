//! What a lease says, and in whose name this process writes one.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use std::time::Duration;

/// Longest time for which a lease is believed, whatever it says of itself.
const LONGEST: Duration = Duration::from_secs(60);

/// Who this process is among all that want the same lease.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// What all processes of this pod have in common, with one after the other; None outside a pod.
    pod: Option<String>,
    text: String,
}

impl Identity {
    /// A new one: `nonce` tells this process from all others.
    pub(super) fn new(namespace: &str, pod: Option<&str>, nonce: &str) -> Self {
        let pod = pod.map(|pod| format!("{namespace}/{pod}/"));
        let start = pod.clone().unwrap_or_else(|| format!("{namespace}/"));
        Self {
            text: format!("{start}{nonce}"),
            pod,
        }
    }

    /// As it stands in a lease.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the holder is an earlier process of this pod. A container is started again only after
    /// the one before has ended.
    pub(super) fn is_former(&self, holder: &str) -> bool {
        let of_pod = self.pod.as_deref().is_some_and(|p| holder.starts_with(p));
        of_pod && holder != self.text
    }
}

/// What a lease says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// None: nobody holds it.
    pub(super) holder: Option<String>,
    /// How long it holds after each renewal.
    pub(super) lasts: Duration,
    /// How often it went to another holder.
    pub(super) transitions: i32,
    acquired: Option<MicroTime>,
    renewed: Option<MicroTime>,
    meta: ObjectMeta,
}

impl Record {
    /// Reads a lease. One that does not say how long it holds does so for `usual`.
    pub(super) fn of(lease: Lease, usual: Duration) -> Self {
        let spec = lease.spec.unwrap_or_default();
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let seconds = u64::try_from(seconds).unwrap_or_default();
        Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            lasts: match seconds {
                0 => usual,
                seconds => Duration::from_secs(seconds).min(LONGEST),
            },
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            meta: ObjectMeta {
                managed_fields: None,
                ..lease.metadata
            },
        }
    }

    /// Whether nobody has renewed, taken or released it between the two. What people write on a lease,
    /// labels for instance, is none of that.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let said = |r: &Self| (r.holder.clone(), r.transitions, r.renewed.clone(), r.lasts);
        said(self) == said(other)
    }

    /// The lease that this process writes over `before`: it takes it or renews it.
    pub(super) fn held_by(
        me: &Identity,
        before: Option<&Self>,
        lasts: Duration,
        now: MicroTime,
    ) -> Self {
        let is_mine = before.is_some_and(|b| b.holder.as_deref() == Some(me.as_str()));
        let transitions = before.map_or(0, |before| before.transitions + i32::from(!is_mine));
        let acquired = before.and_then(|before| before.acquired.clone());
        Self {
            holder: Some(me.as_str().to_owned()),
            lasts,
            transitions,
            acquired: acquired.filter(|_| is_mine).or(Some(now.clone())),
            renewed: Some(now),
            meta: before.map(|before| before.meta.clone()).unwrap_or_default(),
        }
    }

    /// The lease that this process writes when it gives it back.
    pub(super) fn released(&self, now: MicroTime) -> Self {
        Self {
            holder: None,
            renewed: Some(now),
            ..self.clone()
        }
    }

    /// As Kubernetes writes it: under the condition that nobody wrote since it was read.
    pub(super) fn lease(&self, name: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..self.meta.clone()
            },
            spec: Some(LeaseSpec {
                acquire_time: self.acquired.clone(),
                holder_identity: Some(self.holder.clone().unwrap_or_default()),
                lease_duration_seconds: i32::try_from(self.lasts.as_secs()).ok(),
                lease_transitions: Some(self.transitions),
                renew_time: self.renewed.clone(),
                ..LeaseSpec::default()
            }),
        }
    }
}
