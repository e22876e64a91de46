//! The release limit of an account: how many releases of live servers begin within a window, before the others wait for
//! an acknowledgement. It bounds the damage of a Git folder that is emptied by mistake.

use super::{
    account_sizes::LARGEST_RELEASES,
    bounds::stored_size,
    interval::{Interval, from_to},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of `blockedSince`, in bytes.
const BLOCKED: usize = 40;
/// Most namespaces in which releases count.
const MOST_NAMESPACES: usize = 100;

/// How many releases of live servers of one namespace begin within a window. Further ones of that namespace wait until a
/// user acknowledges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseLimit {
    /// Maximum number of releases of live servers of one namespace that begin within `window`, from 1 to 100. Required.
    /// Mutable; a higher number lets more begin.
    #[schemars(range(min = 1, max = 100))]
    pub max_releases: i32,
    /// Length of the window in which releases are counted: a duration such as `1h`, from 1m to 168h. Required. Mutable.
    #[x_kube(validation = kube_core::Rule::new(from_to("1m", "168h")).message("releaseLimit.window must be from 1m to 168h"))]
    pub window: Interval,
}

/// The releases that the release limit counts, for each namespace by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseLimitStatus {
    /// Namespaces in which releases count, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"]))]
    pub namespaces: Vec<NamespaceReleases>,
}

/// The releases of one namespace that the release limit counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceReleases {
    /// Name of the namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Releases that began within the window, oldest first, at most 100: the newest ones, if there is not space for
    /// all.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub releases: Vec<CountedRelease>,
    /// Releases that count and are not listed. Unset while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<UnlistedReleases>,
    /// Time since which further releases wait until a user acknowledges them. Unset while none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Releases that count and are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlistedReleases {
    /// Number of releases, from 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub count: i32,
    /// Time at which the newest of them was counted. All of them count until it is outside of the window.
    pub last_started_at: Time,
}

/// Whether one release may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It was counted before and continues.
    AlreadyCounted,
    /// It may begin once this status is written.
    Count(ReleaseLimitStatus),
    /// It waits; with the status to write, unless that already says so.
    Block(Option<ReleaseLimitStatus>),
}

impl ReleaseLimit {
    /// Whether the release of this server of a namespace may begin at `now`, in seconds since 1970.
    pub fn admit(
        self,
        status: &ReleaseLimitStatus,
        namespace: &str,
        uuid: &str,
        now: i64,
    ) -> Admission {
        if status.counts(uuid) {
            return Admission::AlreadyCounted;
        }
        if self.blocks(status, namespace) {
            return Admission::Block(None);
        }
        let at = Time(Timestamp::from_second(now).unwrap_or_default());
        let window = i64::try_from(self.window.0.as_secs()).unwrap_or(i64::MAX);
        let is_within = |started: &Time| now.saturating_sub(started.0.as_second()) < window;
        let is_it = |of: &NamespaceReleases| of.namespace == namespace;
        let mut next = status.clone();
        let own = next.namespaces.extract_if(.., |of| is_it(of)).next();
        let mut own = own.unwrap_or_else(|| NamespaceReleases {
            namespace: namespace.to_owned(),
            releases: Vec::new(),
            unlisted: None,
            blocked_since: None,
        });
        own.blocked_since = None;
        own.retain_releases(is_within);
        // While a namespace is blocked, its counted releases stay until a user acknowledges.
        for other in &mut next.namespaces {
            if other.blocked_since.is_none() {
                other.retain_releases(is_within);
            }
        }
        next.namespaces.retain(|of| of.count() > 0);
        let is_let = own.count() < self.maximum();
        match is_let {
            true => own.releases.push(CountedRelease {
                uuid: uuid.to_owned(),
                started_at: at,
            }),
            false => own.blocked_since = Some(at),
        }
        next.namespaces.push(own);
        // Without space in status, the release waits for the end of another namespace's window.
        match next.fit() {
            false => Admission::Block(None),
            true if is_let => Admission::Count(next),
            true => Admission::Block(Some(next)),
        }
    }

    /// Whether every further release of a namespace waits. A higher `maxReleases` lets more begin, like an
    /// acknowledgement.
    pub fn blocks(self, status: &ReleaseLimitStatus, namespace: &str) -> bool {
        self.blocked(status).any(|of| of.namespace == namespace)
    }

    /// The namespaces whose further releases wait.
    pub fn blocked(self, status: &ReleaseLimitStatus) -> impl Iterator<Item = &NamespaceReleases> {
        let namespaces = status.namespaces.iter();
        namespaces.filter(move |of| of.blocked_since.is_some() && of.count() >= self.maximum())
    }

    fn maximum(self) -> usize {
        usize::try_from(self.max_releases).unwrap_or(1)
    }
}

impl ReleaseLimitStatus {
    /// Whether the release of this server is counted.
    pub fn counts(&self, uuid: &str) -> bool {
        let mut releases = self.namespaces.iter().flat_map(|of| &of.releases);
        releases.any(|release| release.uuid.eq_ignore_ascii_case(uuid))
    }

    /// Lists only the newest releases if there is no space for all. False: no space for the minimum.
    fn fit(&mut self) -> bool {
        while stored_size(self) + BLOCKED * self.namespaces.len() > LARGEST_RELEASES {
            // The release that was just counted stays listed, since it continues in any case.
            let last = self.namespaces.len().saturating_sub(1);
            let all = self.namespaces.iter_mut().enumerate();
            let all = all.filter(|(at, of)| of.releases.len() > usize::from(*at == last));
            let oldest = all.min_by_key(|(_, of)| of.releases.first().map(|r| r.started_at.0));
            let Some((_, oldest)) = oldest else {
                return false;
            };
            oldest.unlist_first();
        }
        self.namespaces.len() <= MOST_NAMESPACES
    }
}

impl NamespaceReleases {
    /// How many releases count.
    pub fn count(&self) -> usize {
        let unlisted = self.unlisted.as_ref().map_or(0, |more| more.count);
        self.releases.len() + usize::try_from(unlisted).unwrap_or(0)
    }

    /// Keeps only the counted releases that started at such a time.
    fn retain_releases(&mut self, is_within: impl Fn(&Time) -> bool) {
        self.releases
            .retain(|release| is_within(&release.started_at));
        let unlisted = self.unlisted.take();
        self.unlisted = unlisted.filter(|more| is_within(&more.last_started_at));
    }

    fn unlist_first(&mut self) {
        let first = self.releases.remove(0).started_at;
        let (count, last) = match self.unlisted.take() {
            Some(more) => (more.count, more.last_started_at.0.max(first.0)),
            None => (0, first.0),
        };
        self.unlisted = Some(UnlistedReleases {
            count: count.saturating_add(1),
            last_started_at: Time(last),
        });
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

    fn admit(limit: ReleaseLimit, status: &ReleaseLimitStatus, name: &str, at: i64) -> Admission {
        limit.admit(status, "team", name, at)
    }

    /// Admits one release after the other, as many as there are names.
    fn begin(limit: ReleaseLimit, names: &[&str], at: i64) -> (ReleaseLimitStatus, usize) {
        let mut status = ReleaseLimitStatus::default();
        let mut begun = 0;
        for name in names {
            match admit(limit, &status, name, at) {
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

    fn counted(status: &ReleaseLimitStatus) -> usize {
        status.namespaces.iter().map(NamespaceReleases::count).sum()
    }

    #[test]
    fn limit_admits_maximum_counting_each_once() {
        let (status, begun) = begin(limit(2), &["a", "b", "A", "c", "d"], NOW);
        assert_eq!((begun, counted(&status)), (3, 2));
        assert!(limit(2).blocks(&status, "team"));
        // A counted release continues, whatever else happens.
        assert_eq!(
            admit(limit(2), &status, "b", NOW),
            Admission::AlreadyCounted
        );
        assert_eq!(admit(limit(2), &status, "e", NOW), Admission::Block(None));
        // Exactly as many as are allowed: none waits.
        let (status, _) = begin(limit(2), &["a", "b"], NOW);
        assert!(!limit(2).blocks(&status, "team"));
        assert!(status.namespaces[0].blocked_since.is_none());
    }

    #[test]
    fn each_namespace_counts_by_itself() {
        let (status, _) = begin(limit(1), &["a", "b"], NOW);
        let Admission::Count(both) = limit(1).admit(&status, "other", "c", NOW + 99_999) else {
            panic!("the other one is not held")
        };
        assert!(limit(1).blocks(&both, "team") && !limit(1).blocks(&both, "other"));
        assert_eq!(
            both.namespaces[0], status.namespaces[0],
            "what blocks stands"
        );
        assert_eq!(admit(limit(1), &both, "b", NOW), Admission::Block(None));
        let blocked = limit(1).admit(&both, "other", "d", NOW + 99_999);
        let Admission::Block(Some(blocked)) = blocked else {
            panic!("{blocked:?}")
        };
        assert_eq!(limit(1).blocked(&blocked).count(), 2);
        // A namespace whose releases are outside of the window is dropped.
        let Admission::Count(later) = limit(1).admit(&both, "third", "e", NOW + 999_999) else {
            panic!("the third one is not held")
        };
        let names = later.namespaces.iter().map(|of| &*of.namespace);
        assert_eq!(names.collect::<Vec<_>>(), ["team", "third"]);
    }

    #[test]
    fn no_namespace_loses_its_count_for_another() {
        let (limit, mut status) = (limit(30), ReleaseLimitStatus::default());
        let mut begun = [0; 9];
        for number in 0..40 {
            for (team, begun) in begun.iter_mut().enumerate() {
                let (name, uuid) = (format!("{team:063}"), format!("{number:030}-{team:05}"));
                match limit.admit(&status, &name, &uuid, NOW + number) {
                    Admission::Count(next) => {
                        *begun += 1;
                        status = next;
                    }
                    Admission::Block(next) => status = next.unwrap_or(status),
                    Admission::AlreadyCounted => panic!("{uuid} is a new one"),
                }
            }
            assert!(stored_size(&status) <= LARGEST_RELEASES);
        }
        assert_eq!(begun, [30; 9]);
        assert_eq!(limit.blocked(&status).count(), 9);
        // An unlisted release counts until the newest of them is outside of the window.
        let higher = ReleaseLimit {
            max_releases: 31,
            ..limit
        };
        let name = format!("{:063}", 0);
        let after = |at| higher.admit(&status, &name, "next", at);
        let Admission::Count(next) = after(NOW + 60) else {
            panic!("one more is let")
        };
        assert_eq!(next.namespaces.last().unwrap().count(), 31);
        let Admission::Count(next) = after(NOW + 9_999) else {
            panic!("the window is over")
        };
        assert_eq!(next.namespaces.last().unwrap().count(), 1);
    }

    #[test]
    fn full_status_blocks_only_new_namespaces() {
        let (mut status, _) = begin(limit(1), &["a", "b"], NOW);
        let mut begun = 0;
        for number in 0..200 {
            let (name, uuid) = (format!("{number:063}"), format!("{number:036}"));
            match limit(1).admit(&status, &name, &uuid, NOW + 1) {
                Admission::Count(next) => {
                    begun += 1;
                    status = next;
                }
                other => assert_eq!(other, Admission::Block(None)),
            }
        }
        assert!(begun >= 30, "{begun}");
        assert_eq!(status.namespaces.len(), begun + 1);
        assert!(stored_size(&status) <= LARGEST_RELEASES);
        assert!(limit(1).blocks(&status, "team"));
    }

    #[test]
    fn elapsed_time_admits_only_before_a_block() {
        let (status, _) = begin(limit(1), &["a"], NOW);
        let later = |at| admit(limit(1), &status, "b", at);
        assert!(matches!(later(NOW + 3599), Admission::Block(Some(_))));
        assert!(matches!(later(NOW + 3600), Admission::Count(next) if counted(&next) == 1));
        assert!(
            matches!(later(NOW - 9999), Admission::Block(Some(_))),
            "turned"
        );
        let (held, _) = begin(limit(1), &["a", "b"], NOW);
        assert_eq!(
            admit(limit(1), &held, "b", NOW + 99_999),
            Admission::Block(None)
        );
        // A higher number is like an acknowledgement.
        assert!(matches!(
            admit(limit(2), &held, "b", NOW),
            Admission::Count(_)
        ));
    }
}
