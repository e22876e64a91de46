//! How long deliveries took, by place and type: from that follows when the next one is to be expected.
//!
//! What is on record is the last deliveries themselves and no mean of them: one of before is known again by its moment,
//! so a machine that is listed a thousand times counts once.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Most places and types of which deliveries are remembered.
const MOST_LINES: usize = 24;
/// Most deliveries of one.
const MOST_DELIVERIES: usize = 8;
/// So many tell what is usual.
const ENOUGH: usize = 3;
/// From so many on, the shortest and the longest are left out.
const MANY: usize = 5;
/// What takes longer is no delivery: a record whose times mean something else.
const LONGEST: i64 = 24 * 3600;
/// So far ahead of ours the provider's clock may be, in seconds. What says more is no moment that has come.
const CLOCK_SLACK: i64 = 300;
/// A place and type of which nothing was delivered for so long gives way to another one, in seconds.
const STALE: i64 = 30 * 24 * 3600;
/// Longest name of a place or a type, in bytes, as in the spec of a server.
const LONGEST_NAME: usize = 128;

/// How long the last deliveries of one type of machine at one place took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryTimes {
    /// Name of the location.
    #[schemars(length(max = 128))]
    pub location: String,
    /// Name of the instance type.
    #[schemars(length(max = 128))]
    pub instance_type: String,
    /// The last deliveries, at most 8, the latest last.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub deliveries: Vec<Delivery>,
}

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// When the provider delivered the machine.
    pub delivered_at: Time,
    /// Seconds from the creation of the server record to that.
    pub seconds: i64,
}

/// Within which time deliveries usually come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// Few come sooner.
    pub soonest: Duration,
    /// Few come later.
    pub latest: Duration,
}

impl fmt::Display for Usual {
    /// `11 to 16 minutes`; under two minutes `20 to 40 seconds`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, unit) = match self.latest.as_secs() {
            120.. => (60, "minutes"),
            _ => (1, "seconds"),
        };
        let from = (self.soonest.as_secs() / size).max(1);
        match self.latest.as_secs().div_ceil(size) {
            to if from == to => write!(f, "{to} {unit}"),
            to => write!(f, "{from} to {to} {unit}"),
        }
    }
}

impl DeliveryTimes {
    /// Within which time deliveries usually come; None: too few are known.
    pub fn usual(&self) -> Option<Usual> {
        let mut all: Vec<i64> = self.deliveries.iter().map(|d| d.seconds).collect();
        all.sort_unstable();
        let all = match all.len() {
            ..ENOUGH => return None,
            ENOUGH..MANY => &all[..],
            many => &all[1..many - 1],
        };
        let span = |seconds: &i64| Duration::from_secs(u64::try_from(*seconds).unwrap_or(0));
        Some(Usual {
            soonest: all.first().map(span)?,
            latest: all.last().map(span)?,
        })
    }

    fn is_of(&self, location: &str, instance_type: &str) -> bool {
        self.location == location && self.instance_type == instance_type
    }

    fn latest(&self) -> Option<&Time> {
        self.deliveries.last().map(|d| &d.delivered_at)
    }

    /// Whether people would read the same in both, so that one need not be written in the place of the other.
    fn says_the_same(&self, other: &Self) -> bool {
        let words = |of: &Self| of.usual().map(|usual| usual.to_string());
        self.deliveries.len() == other.deliveries.len() && words(self) == words(other)
    }
}

/// What is known of the deliveries of an account, in the order of places and types. Bounded, whatever comes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deliveries(Vec<DeliveryTimes>);

impl Deliveries {
    /// Takes in a delivery, by the Unix seconds of both ends and of now. Returns whether that is news.
    pub fn note(
        &mut self,
        (location, instance_type): (&str, &str),
        (created, at): (i64, i64),
        now: i64,
    ) -> bool {
        if created <= 0 || at > now.saturating_add(CLOCK_SLACK) {
            return false;
        }
        let Ok(delivered_at) = Timestamp::from_second(at).map(Time) else {
            return false;
        };
        let delivery = Delivery {
            delivered_at,
            seconds: at.saturating_sub(created),
        };
        self.put(location, instance_type, delivery)
    }

    /// Takes in what was on record.
    pub fn recall(&mut self, record: &[DeliveryTimes]) {
        for line in record {
            for delivery in &line.deliveries {
                self.put(&line.location, &line.instance_type, delivery.clone());
            }
        }
    }

    /// Within which time deliveries of this type at this place usually come.
    pub fn usual(&self, location: &str, instance_type: &str) -> Option<Usual> {
        let mut lines = self.0.iter();
        lines
            .find(|line| line.is_of(location, instance_type))?
            .usual()
    }

    /// What is to be on record, where this was: a line that says the same stays as it is.
    pub fn record(&self, before: &[DeliveryTimes]) -> Vec<DeliveryTimes> {
        let as_before = |line: &DeliveryTimes| {
            let mut before = before.iter();
            let former = before.find(|b| b.is_of(&line.location, &line.instance_type));
            former.filter(|former| former.says_the_same(line)).cloned()
        };
        let lines = self.0.iter();
        lines
            .map(|line| as_before(line).unwrap_or_else(|| line.clone()))
            .collect()
    }

    fn put(&mut self, location: &str, instance_type: &str, delivery: Delivery) -> bool {
        let is_name = |name: &str| !name.is_empty() && name.len() <= LONGEST_NAME;
        let is_sane = is_name(location)
            && is_name(instance_type)
            && (1..=LONGEST).contains(&delivery.seconds)
            && delivery.delivered_at.0.as_second() > 0;
        if !is_sane {
            return false;
        }
        let place = |line: &DeliveryTimes| {
            let key = (line.location.as_str(), line.instance_type.as_str());
            key.cmp(&(location, instance_type))
        };
        let mut found = self.0.binary_search_by(place);
        if found.is_err() {
            if !self.has_room(&delivery) {
                return false;
            }
            found = self.0.binary_search_by(place);
        }
        let at = match found {
            Ok(at) => at,
            Err(at) => {
                let line = DeliveryTimes {
                    location: location.to_owned(),
                    instance_type: instance_type.to_owned(),
                    deliveries: Vec::new(),
                };
                self.0.insert(at, line);
                at
            }
        };
        let known = &mut self.0[at].deliveries;
        let is_before = |d: &Delivery| {
            (d.delivered_at.0, d.seconds) < (delivery.delivered_at.0, delivery.seconds)
        };
        let place = known.partition_point(is_before);
        let is_new =
            known.get(place) != Some(&delivery) && !(place == 0 && known.len() == MOST_DELIVERIES);
        if is_new {
            known.insert(place, delivery);
            if known.len() > MOST_DELIVERIES {
                known.remove(0);
            }
        }
        is_new
    }

    /// Whether there is room for one line more. One that is long out of use gives way; what is in use never does, or more
    /// than fit would drive each other out before any of them tells something.
    fn has_room(&mut self, delivery: &Delivery) -> bool {
        let now = delivery.delivered_at.0.as_second();
        let is_in_use = |line: &DeliveryTimes| {
            let latest = line.latest().map_or(i64::MIN, |time| time.0.as_second());
            now.saturating_sub(latest) < STALE
        };
        if self.0.len() >= MOST_LINES {
            self.0.retain(is_in_use);
        }
        self.0.len() < MOST_LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: (&str, &str) = ("EU: Rotterdam", "bm7.std.8");
    const NOW: i64 = 1_800_000_000;

    /// Deliveries of one type at one place, an hour apart, that took so long.
    fn of(seconds: &[i64]) -> Deliveries {
        let mut known = Deliveries::default();
        for (n, took) in seconds.iter().enumerate() {
            let at = 1_700_000_000 + 3600 * i64::try_from(n).unwrap();
            assert!(known.note(WHAT, (at - took, at), NOW));
        }
        known
    }

    fn words(known: &Deliveries) -> Option<String> {
        let usual = known.usual("EU: Rotterdam", "bm7.std.8")?;
        Some(usual.to_string())
    }

    #[test]
    fn what_is_usual_is_told_from_three_on_and_without_extremes_from_five_on() {
        for (seconds, told) in [
            (&[843, 843][..], None),
            (&[843, 700, 950], Some("11 to 16 minutes")),
            (&[843, 700, 950, 10, 9000], Some("11 to 16 minutes")),
            (&[600, 600, 600], Some("10 minutes")),
            (&[20, 40, 33], Some("20 to 40 seconds")),
            (&[3, 3, 3], Some("3 seconds")),
            (&[59, 90, 130], Some("1 to 3 minutes")),
        ] {
            assert_eq!(words(&of(seconds)).as_deref(), told, "{seconds:?}");
        }
        assert_eq!(of(&[1, 2, 3]).usual("JP: Tokyo", "bm7.std.8"), None);
    }

    #[test]
    fn a_delivery_counts_once_and_only_the_last_ones_do() {
        let mut known = of(&[60, 120, 180, 240, 300, 360, 420, 480]);
        let before = known.clone();
        let at = 1_700_000_000;
        assert!(!known.note(WHAT, (at - 60, at), NOW), "seen again");
        assert!(!known.note(WHAT, (at - 900, at - 1), NOW), "older than all");
        assert_eq!(known, before);
        assert!(known.note(WHAT, (at + 90_000, at + 90_600), NOW));
        assert_eq!(known.0[0].deliveries.len(), MOST_DELIVERIES);
        assert_eq!(words(&known).as_deref(), Some("3 to 8 minutes"));
    }

    #[test]
    fn what_is_no_delivery_is_not_taken_for_one() {
        let mut known = Deliveries::default();
        for (location, created, at) in [
            ("EU: Rotterdam", 100, 100),
            ("EU: Rotterdam", 200, 100),
            ("EU: Rotterdam", 1, LONGEST + 2),
            ("EU: Rotterdam", -700, -100),
            ("EU: Rotterdam", NOW, NOW + 301),
            ("EU: Rotterdam", i64::MIN, i64::MAX),
            ("EU: Rotterdam", i64::MAX - 9, i64::MAX),
            ("", 100, 200),
            (&"x".repeat(129), 100, 200),
        ] {
            assert!(!known.note((location, "bm7.std.8"), (created, at), NOW));
        }
        // Nor where it is on record: a status may be written by others.
        let mut record = of(&[60, 60, 60]).record(&[]);
        for delivery in &mut record[0].deliveries {
            delivery.seconds = i64::MAX;
        }
        known.recall(&record);
        assert_eq!(known, Deliveries::default());
    }

    #[test]
    fn an_account_that_names_ever_new_places_is_remembered_within_bounds() {
        let mut known = Deliveries::default();
        let mut deliver = |place: i64, at: i64| {
            let place = format!("place {place}");
            known.note((&place, "bm7.std.8"), (at - 60, at), NOW)
        };
        // More than fit, in turns: those that are in use tell something all the same.
        for round in 1..4 {
            for place in 0..1000 {
                assert_eq!(deliver(place, 1000 * round + place), place < 24, "{place}");
            }
        }
        assert!(
            deliver(2000, 5000 + STALE),
            "in the place of what is long out of use"
        );
        assert_eq!(known.0.len(), 1);
    }

    #[test]
    fn a_record_is_written_again_only_where_people_would_read_something_else() {
        let known = of(&[600, 610, 620, 630, 640, 650, 660, 670]);
        let record = known.record(&[]);
        let mut recalled = Deliveries::default();
        recalled.recall(&record);
        assert_eq!(recalled, known, "nothing is lost by a restart");

        let mut more = known.clone();
        let at = 1_700_100_000;
        more.note(WHAT, (at - 640, at), NOW);
        assert_ne!(more, known);
        assert_eq!(more.record(&record), record, "the same words");
        for n in 1..4 {
            more.note(WHAT, (at - 2000, at + n), NOW);
        }
        assert_ne!(more.record(&record), record);
    }
}
