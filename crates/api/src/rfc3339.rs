//! Times that code counts in Unix seconds and manifests show as RFC 3339.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

/// The time for a status field; None if it is outside of the calendar.
pub(super) fn time(unix: i64) -> Option<Time> {
    Timestamp::from_second(unix).ok().map(Time)
}

/// Writes the time. A time beyond the calendar is written as the calendar's end. Fails only if the serializer does.
// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub fn serialize<S: Serializer>(unix: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    moment(*unix).serialize(serializer)
}

/// Reads the time, in whole seconds. Fails if the text is no RFC 3339 time.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    let moment: Timestamp = text
        .parse()
        .map_err(|e| D::Error::custom(format!("{text:?} is no RFC 3339 time: {e}")))?;
    Ok(moment.as_second())
}

fn moment(unix: i64) -> Timestamp {
    Timestamp::from_second(unix).unwrap_or(match unix {
        ..0 => Timestamp::MIN,
        0.. => Timestamp::MAX,
    })
}

/// The same for an optional time.
pub mod option {
    use serde::{Deserializer, Serializer};

    /// Writes the time, if there is one. Fails only if the serializer does.
    // serde passes a reference to the field.
    #[allow(clippy::ref_option)]
    pub fn serialize<S: Serializer>(unix: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
        match unix {
            Some(unix) => super::serialize(unix, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a present time; an absent field has its default. Fails if the text is no RFC 3339 time.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<i64>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct TestTimes {
        #[serde(with = "super")]
        at: i64,
        #[serde(
            default,
            with = "super::option",
            skip_serializing_if = "Option::is_none"
        )]
        end: Option<i64>,
    }

    fn parse_times(value: Value) -> Option<TestTimes> {
        serde_json::from_value(value).ok()
    }

    #[test]
    fn times_are_written_and_read_as_rfc3339() {
        let both = TestTimes {
            at: 1_790_000_000,
            end: Some(0),
        };
        let shown = json!({"at": "2026-09-21T14:13:20Z", "end": "1970-01-01T00:00:00Z"});
        assert_eq!(serde_json::to_value(&both).unwrap(), shown);
        assert_eq!(parse_times(shown), Some(both));
        let at = |at| TestTimes { at, end: None };
        assert_eq!(
            parse_times(json!({"at": "1970-01-01T01:00:01.5+01:00"})),
            Some(at(1))
        );
        for wrong in [
            json!({"at": 1}),
            json!({"at": "soon"}),
            json!({"at": null}),
            json!({}),
        ] {
            assert_eq!(parse_times(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn a_moment_beyond_the_calendar_is_its_end() {
        for (unix, year) in [(i64::MAX, "9999-"), (i64::MIN, "-009999-")] {
            let shown = serde_json::to_value(TestTimes {
                at: unix,
                end: None,
            })
            .unwrap();
            assert!(shown["at"].as_str().unwrap().starts_with(year), "{shown}");
        }
    }
}
