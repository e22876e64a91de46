//! A duration, written as in Go: `90s`, `10m`, `1h30m`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr, time::Duration};

/// A duration. In manifests a string such as `90s`, `10m` or `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(pub Duration);

/// The form of an interval, for the schema and for CEL.
pub const PATTERN: &str = "^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$";

/// Most characters of an interval.
const LONGEST: usize = 20;

/// A CEL rule on the interval at this path. It accepts an invalid interval, which the schema refuses: `duration()`
/// would fail, and a failing rule would block every write.
pub(super) fn guarded(path: &str, rule: &str) -> String {
    format!("{path}.size() > {LONGEST} || !{path}.matches('{PATTERN}') || ({rule})")
}

/// The same for the field itself, which is from `least` to `most`.
pub(super) fn from_to(least: &str, most: &str) -> String {
    let rule =
        format!("duration(self) >= duration('{least}') && duration(self) <= duration('{most}')");
    guarded("self", &rule)
}

impl Interval {
    /// An interval of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The parser below panics if the value does not fit into a `Duration`.
        let is_sane = |part: &str| part.len() <= 9;
        if !text.split(|c: char| !c.is_ascii_digit()).all(is_sane) {
            return Err(format!("{text:?} is longer than any duration"));
        }
        if text.is_empty() || text.contains('-') {
            return Err(format!("{text:?} is not a positive duration"));
        }
        let parsed: kube_core::Duration = text
            .parse()
            .map_err(|e| format!("{text:?} is not a duration such as 90s or 10m: {e}"))?;
        // As precise as it is written, so that it reads and writes the same.
        let millis = std::time::Duration::from(parsed).as_millis();
        let millis = u64::try_from(millis).map_err(|_| format!("{text:?} is too long"))?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Interval {
    /// Hours, minutes and seconds without zeros, to the millisecond: `1h30m`, `1m30s`, `1.5s`, `300ms`. Parsing it
    /// gives the same interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.as_secs();
        let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
        let millis = self.0.subsec_millis();
        for (number, unit) in [(hours, "h"), (minutes, "m")] {
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        match (seconds, millis) {
            (0, 0) if all > 0 => Ok(()),
            (seconds, 0) => write!(f, "{seconds}s"),
            (0, millis) => write!(f, "{millis}ms"),
            (seconds, millis) => {
                let fraction = format!("{millis:03}");
                write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
            }
        }
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interval".into()
    }

    /// Short on purpose: every match is less than the 292 years at which durations in CEL rules overflow with an
    /// obscure message.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": LONGEST,
            "pattern": PATTERN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(text: &str) -> Interval {
        text.parse().unwrap()
    }

    #[test]
    fn intervals_are_written_without_what_is_zero() {
        let cases = [
            ("600s", "10m"),
            ("90s", "1m30s"),
            ("1.5s", "1.5s"),
            ("1500ms", "1.5s"),
            ("300ms", "300ms"),
            ("30000.5ms", "30s"),
            ("1.05s", "1.05s"),
            ("0.5h", "30m"),
            ("24h", "24h"),
            ("3600.25s", "1h250ms"),
            ("200s", "3m20s"),
            ("0s", "0s"),
        ];
        for (written, shown) in cases {
            assert_eq!(interval(written).to_string(), shown);
        }
    }

    #[test]
    fn invalid_intervals_are_refused() {
        for text in [
            "",
            "-1s",
            "1s-2s",
            "s",
            "10",
            "1d",
            "99999999999999999999h",
            "ten",
        ] {
            let read = text.parse::<Interval>();
            assert!(read.is_err(), "{text:?}: {read:?}");
        }
    }

    proptest! {
        #[test]
        fn interval_survives_display_and_parse(millis in 0_u64..100_000_000_000) {
            let first = Interval(Duration::from_millis(millis));
            let again = interval(&first.to_string());
            prop_assert_eq!(first, again);
            prop_assert_eq!(first.to_string(), again.to_string());
        }
    }
}
