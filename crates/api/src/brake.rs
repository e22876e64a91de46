//! The brake of an account: how many releases begin within a time before a person is asked.
//!
//! A deletion cannot be taken back, the release of a machine can wait. So a Git folder that was emptied by mistake costs
//! as many machines as the brake lets go, and no more.

use super::interval::Interval;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How many releases begin within a time before a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseBrake {
    /// Most releases of live machines that begin within `window`. Mutable: a higher number lets more begin.
    #[schemars(range(min = 1, max = 100))]
    pub max_releases: i32,
    /// The time within which they are counted: a span such as `1h`, from 1m to 168h. Mutable.
    #[x_kube(validation = kube_core::Rule::new("duration(self) >= duration('1m') && duration(self) <= duration('168h')").message("releaseBrake.window must be from 1m to 168h"))]
    pub window: Interval,
}

/// What the brake has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BrakeStatus {
    /// The releases that count, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub begun: Vec<BegunRelease>,
    /// When one more was asked for than may begin. From then on each further one is held until a user acknowledges
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engaged_since: Option<Time>,
}

/// A release that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BegunRelease {
    /// The provider's identifier of the machine.
    pub uuid: String,
    /// When it was about to begin.
    pub at: Time,
}

/// What the brake says of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Braking {
    /// It was counted before.
    Counted,
    /// It may begin once this is on record.
    Count(BrakeStatus),
    /// It is held; with what is to be put on record, where that is not there yet.
    Hold(Option<BrakeStatus>),
}

impl ReleaseBrake {
    /// What the brake says of the release of this machine, at this moment in seconds since 1970.
    pub fn judge(self, status: &BrakeStatus, uuid: &str, now: i64) -> Braking {
        if status.counts(uuid) {
            return Braking::Counted;
        }
        if self.holds(status) {
            return Braking::Hold(None);
        }
        let at = Time(Timestamp::from_second(now).unwrap_or_default());
        let window = i64::try_from(self.window.0.as_secs()).unwrap_or(i64::MAX);
        let counts = |begun: &&BegunRelease| now.saturating_sub(begun.at.0.as_second()) < window;
        let mut begun: Vec<BegunRelease> = status.begun.iter().filter(counts).cloned().collect();
        if begun.len() >= self.most() {
            return Braking::Hold(Some(BrakeStatus {
                begun,
                engaged_since: Some(at),
            }));
        }
        begun.push(BegunRelease {
            uuid: uuid.to_owned(),
            at,
        });
        Braking::Count(BrakeStatus {
            begun,
            engaged_since: None,
        })
    }

    /// Whether each further release is held. A higher number lets more begin, as an acknowledgement does.
    pub fn holds(self, status: &BrakeStatus) -> bool {
        status.engaged_since.is_some() && status.begun.len() >= self.most()
    }

    fn most(self) -> usize {
        usize::try_from(self.max_releases).unwrap_or(1)
    }
}

impl BrakeStatus {
    /// Whether the release of this machine is counted.
    pub fn counts(&self, uuid: &str) -> bool {
        self.begun
            .iter()
            .any(|begun| begun.uuid.eq_ignore_ascii_case(uuid))
    }

    /// The releases that count and since when more are held, in short: of another time or others it is another word.
    pub fn word(&self) -> String {
        let mut hash = Sha256::new();
        let since = self.engaged_since.iter().map(|time| time.0.as_second());
        hash.update(since.sum::<i64>().to_be_bytes());
        for begun in &self.begun {
            hash.update(begun.uuid.as_bytes());
            hash.update([0]);
            hash.update(begun.at.0.as_second().to_be_bytes());
        }
        let digits = hash.finalize();
        let digits: String = digits[..6].iter().map(|b| format!("{b:02x}")).collect();
        format!("{}-{digits}", self.begun.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: i64 = 1_790_000_000;

    fn brake(max_releases: i32) -> ReleaseBrake {
        ReleaseBrake {
            max_releases,
            window: Interval(Duration::from_secs(3600)),
        }
    }

    /// The releases that begin one after the other, as many as there are names.
    fn begin(brake: ReleaseBrake, names: &[&str], at: i64) -> (BrakeStatus, usize) {
        let mut status = BrakeStatus::default();
        let mut begun = 0;
        for name in names {
            match brake.judge(&status, name, at) {
                Braking::Counted => begun += 1,
                Braking::Count(next) => {
                    status = next;
                    begun += 1;
                }
                Braking::Hold(next) => status = next.unwrap_or(status),
            }
        }
        (status, begun)
    }

    #[test]
    fn as_many_begin_as_are_let_and_each_counts_once() {
        let (status, begun) = begin(brake(2), &["a", "b", "A", "c", "d"], NOW);
        assert_eq!((begun, status.begun.len()), (3, 2));
        assert!(brake(2).holds(&status));
        // What was counted goes on, whatever happens beside it.
        assert_eq!(brake(2).judge(&status, "b", NOW), Braking::Counted);
        assert_eq!(brake(2).judge(&status, "e", NOW), Braking::Hold(None));
        // As many as are let and no one more: nothing is engaged.
        let (status, _) = begin(brake(2), &["a", "b"], NOW);
        assert!(!brake(2).holds(&status) && status.engaged_since.is_none());
    }

    #[test]
    fn time_alone_makes_room_only_before_one_was_held() {
        let (status, _) = begin(brake(1), &["a"], NOW);
        let later = |at| brake(1).judge(&status, "b", at);
        assert!(matches!(later(NOW + 3599), Braking::Hold(Some(_))));
        assert!(matches!(later(NOW + 3600), Braking::Count(next) if next.begun.len() == 1));
        assert!(
            matches!(later(NOW - 9999), Braking::Hold(Some(_))),
            "turned"
        );
        let (held, _) = begin(brake(1), &["a", "b"], NOW);
        assert_eq!(
            brake(1).judge(&held, "b", NOW + 99_999),
            Braking::Hold(None)
        );
        // A higher number lifts it, too.
        assert!(matches!(brake(2).judge(&held, "b", NOW), Braking::Count(_)));
    }

    #[test]
    fn a_word_is_of_one_time_and_of_these_releases() {
        let word = |names: &[&str], at| begin(brake(2), names, at).0.word();
        assert_eq!(word(&["a", "b", "c"], NOW), word(&["a", "b", "d"], NOW));
        assert_ne!(word(&["a", "b", "c"], NOW), word(&["a", "c", "b"], NOW));
        assert_ne!(word(&["a", "b", "c"], NOW), word(&["a", "b", "c"], NOW + 1));
        assert!(word(&["a", "b", "c"], NOW).starts_with("2-"));
    }
}
