//! The release limit of an account: how many releases of servers begin within a window; the others wait until a user
//! acknowledges them. So a Git folder that was emptied by mistake costs no more servers than that.

use super::interval::Interval;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many releases of live servers begin within a window. Further ones wait until a user acknowledges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseLimit {
    /// Maximum number of releases of live servers that begin within `window`, from 1 to 100. Required. Mutable: a higher
    /// number lets more begin.
    #[schemars(range(min = 1, max = 100))]
    pub max_releases: i32,
    /// Length of the window that releases are counted in: a duration from 1m to 168h, for example `1h`. Required.
    /// Mutable.
    #[x_kube(validation = kube_core::Rule::new("duration(self) >= duration('1m') && duration(self) <= duration('168h')").message("spec.releaseLimit.window must be from 1m to 168h"))]
    pub window: Interval,
}

/// The releases that the release limit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseLimitStatus {
    /// Releases that began within the window, the oldest first, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub releases: Vec<CountedRelease>,
    /// Time since which further releases wait until a user acknowledges them. Unset while none waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_since: Option<Time>,
}

/// A release that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountedRelease {
    /// UUID of the server.
    #[schemars(length(max = 36))]
    pub uuid: String,
    /// Time at which the release was counted, right before it began.
    pub started_at: Time,
}

/// Whether one release may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It was counted before and goes on.
    AlreadyCounted,
    /// It may begin once this status is written.
    Count(ReleaseLimitStatus),
    /// It waits; with the status to write, unless that says so already.
    Block(Option<ReleaseLimitStatus>),
}

impl ReleaseLimit {
    /// Whether the release of this server may begin at `now`, in seconds since 1970.
    pub fn admit(self, status: &ReleaseLimitStatus, uuid: &str, now: i64) -> Admission {
        if status.counts(uuid) {
            return Admission::AlreadyCounted;
        }
        if self.blocks(status) {
            return Admission::Block(None);
        }
        let at = Time(Timestamp::from_second(now).unwrap_or_default());
        let window = i64::try_from(self.window.0.as_secs()).unwrap_or(i64::MAX);
        let is_within =
            |r: &&CountedRelease| now.saturating_sub(r.started_at.0.as_second()) < window;
        let mut releases: Vec<CountedRelease> =
            status.releases.iter().filter(is_within).cloned().collect();
        if releases.len() >= self.maximum() {
            return Admission::Block(Some(ReleaseLimitStatus {
                releases,
                blocked_since: Some(at),
            }));
        }
        releases.push(CountedRelease {
            uuid: uuid.to_owned(),
            started_at: at,
        });
        Admission::Count(ReleaseLimitStatus {
            releases,
            blocked_since: None,
        })
    }

    /// Whether every further release waits. A higher `maxReleases` lets more begin, as an acknowledgement does.
    pub fn blocks(self, status: &ReleaseLimitStatus) -> bool {
        status.blocked_since.is_some() && status.releases.len() >= self.maximum()
    }

    fn maximum(self) -> usize {
        usize::try_from(self.max_releases).unwrap_or(1)
    }
}

impl ReleaseLimitStatus {
    /// Whether the release of this server is counted.
    pub fn counts(&self, uuid: &str) -> bool {
        self.releases
            .iter()
            .any(|release| release.uuid.eq_ignore_ascii_case(uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: i64 = 1_790_000_000;

    fn limit(max_releases: i32) -> ReleaseLimit {
        ReleaseLimit {
            max_releases,
            window: Interval(Duration::from_secs(3600)),
        }
    }

    /// The releases that begin one after the other, as many as there are names.
    fn begin(limit: ReleaseLimit, names: &[&str], at: i64) -> (ReleaseLimitStatus, usize) {
        let mut status = ReleaseLimitStatus::default();
        let mut begun = 0;
        for name in names {
            match limit.admit(&status, name, at) {
                Admission::AlreadyCounted => begun += 1,
                Admission::Count(next) => {
                    status = next;
                    begun += 1;
                }
                Admission::Block(next) => status = next.unwrap_or(status),
            }
        }
        (status, begun)
    }

    #[test]
    fn as_many_begin_as_are_let_and_each_counts_once() {
        let (status, begun) = begin(limit(2), &["a", "b", "A", "c", "d"], NOW);
        assert_eq!((begun, status.releases.len()), (3, 2));
        assert!(limit(2).blocks(&status));
        // What was counted goes on, whatever happens beside it.
        assert_eq!(limit(2).admit(&status, "b", NOW), Admission::AlreadyCounted);
        assert_eq!(limit(2).admit(&status, "e", NOW), Admission::Block(None));
        // As many as are let and no one more: none waits.
        let (status, _) = begin(limit(2), &["a", "b"], NOW);
        assert!(!limit(2).blocks(&status) && status.blocked_since.is_none());
    }

    #[test]
    fn time_alone_makes_room_only_before_one_was_held() {
        let (status, _) = begin(limit(1), &["a"], NOW);
        let later = |at| limit(1).admit(&status, "b", at);
        assert!(matches!(later(NOW + 3599), Admission::Block(Some(_))));
        assert!(matches!(later(NOW + 3600), Admission::Count(next) if next.releases.len() == 1));
        assert!(
            matches!(later(NOW - 9999), Admission::Block(Some(_))),
            "turned"
        );
        let (held, _) = begin(limit(1), &["a", "b"], NOW);
        assert_eq!(
            limit(1).admit(&held, "b", NOW + 99_999),
            Admission::Block(None)
        );
        // A higher number is a person's word, too.
        assert!(matches!(
            limit(2).admit(&held, "b", NOW),
            Admission::Count(_)
        ));
    }
}
