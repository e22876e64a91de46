//! How often an account is polled and how long the operator waits: what may be set, and what is in force.

use super::interval::{Interval, guarded};
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The bounds of one time. The API server refuses a value above the maximum; below the minimum, the minimum is in
/// force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingBounds {
    /// Its field in `spec.timing`.
    pub field: &'static str,
    /// The least that is in force.
    pub minimum: Interval,
    /// What is in force if the field is unset.
    pub default: Interval,
    /// The most that may be set.
    pub maximum: Interval,
    /// The minimum if minimums are lifted, so that no loop spins.
    pub floor: Interval,
}

/// The least time between two polls, whatever is set.
const FASTEST: Interval = Interval(Duration::from_millis(100));

/// Bounds of `absenceGracePeriod`.
pub const ABSENCE_GRACE_PERIOD: TimingBounds = TimingBounds {
    field: "absenceGracePeriod",
    minimum: Interval::seconds(2 * 60),
    default: Interval::seconds(10 * 60),
    maximum: Interval::seconds(60 * 60),
    // A quarter of it, the send window of an order, must not be too short.
    floor: Interval(Duration::from_millis(400)),
};

/// Bounds of `absenceCheckInterval`.
pub const ABSENCE_CHECK_INTERVAL: TimingBounds = TimingBounds {
    field: "absenceCheckInterval",
    minimum: Interval::seconds(30),
    default: Interval::seconds(60),
    maximum: Interval::seconds(10 * 60),
    floor: FASTEST,
};

/// Bounds of `activePollInterval`.
pub const ACTIVE_POLL_INTERVAL: TimingBounds = TimingBounds {
    field: "activePollInterval",
    minimum: Interval::seconds(5),
    default: Interval::seconds(30),
    maximum: Interval::seconds(5 * 60),
    floor: FASTEST,
};

/// Bounds of `idlePollInterval`.
pub const IDLE_POLL_INTERVAL: TimingBounds = TimingBounds {
    field: "idlePollInterval",
    minimum: Interval::seconds(30),
    default: Interval::seconds(5 * 60),
    maximum: Interval::seconds(60 * 60),
    floor: FASTEST,
};

/// Bounds of `orphanScanInterval`.
pub const ORPHAN_SCAN_INTERVAL: TimingBounds = TimingBounds {
    field: "orphanScanInterval",
    minimum: Interval::seconds(60),
    default: Interval::seconds(30 * 60),
    maximum: Interval::seconds(24 * 60 * 60),
    floor: FASTEST,
};

/// Bounds of `orderTimeout`.
pub const ORDER_TIMEOUT: TimingBounds = TimingBounds {
    field: "orderTimeout",
    minimum: Interval::seconds(10),
    default: Interval::seconds(180),
    maximum: Interval::seconds(200),
    floor: FASTEST,
};

/// The bounds of all times.
pub const BOUNDS: [TimingBounds; 6] = [
    ABSENCE_GRACE_PERIOD,
    ABSENCE_CHECK_INTERVAL,
    ACTIVE_POLL_INTERVAL,
    IDLE_POLL_INTERVAL,
    ORPHAN_SCAN_INTERVAL,
    ORDER_TIMEOUT,
];

/// Whether the minimum of each time applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    /// It applies.
    #[default]
    Kept,
    /// Only the floor applies: for tests and demonstrations.
    Lifted,
}

impl TimingBounds {
    /// What is in force if this value, or none, is set.
    fn in_force(&self, written: Option<Interval>, minimum: Minimum) -> Interval {
        let least = match minimum {
            Minimum::Kept => self.minimum,
            Minimum::Lifted => self.floor,
        };
        // The maximum too, since an object may be older than the rule that would refuse it.
        written.unwrap_or(self.default).clamp(least, self.maximum)
    }

    /// The rule of the field.
    fn rule(&self) -> Rule {
        let Self { field, maximum, .. } = self;
        let rule =
            format!("duration(self) > duration('0s') && duration(self) <= duration('{maximum}')");
        Rule::new(guarded("self", &rule)).message(&*format!(
            "timing.{field} must be longer than 0s and at most {maximum}"
        ))
    }

    /// A CEL term: the value of the field, or its default.
    fn effective(&self) -> String {
        let Self { field, default, .. } = self;
        format!("(has(self.{field}) ? self.{field} : '{default}')")
    }
}

/// The grace period must be longer than an order can take.
fn grace_outlasts_orders() -> Rule {
    let (grace, order) = (ABSENCE_GRACE_PERIOD.effective(), ORDER_TIMEOUT.effective());
    // A sum may overflow if the order timeout is longer than its maximum.
    let maximum = ORDER_TIMEOUT.maximum;
    let rule = format!(
        "duration({order}) > duration('{maximum}') || duration({grace}) >= duration({order}) + duration({order})"
    );
    Rule::new(guarded(&grace, &guarded(&order, &rule))).message(&*format!(
        "timing.{} (default {}) must be at least twice timing.{} (default {})",
        ABSENCE_GRACE_PERIOD.field,
        ABSENCE_GRACE_PERIOD.default,
        ORDER_TIMEOUT.field,
        ORDER_TIMEOUT.default,
    ))
}

/// How often to look and how long to wait. All are durations such as `90s` or `10m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = grace_outlasts_orders())]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// A missing server counts as gone, and an order of unknown outcome as absent, no earlier than this long after the
    /// operator starts or first sees the record of the order. A server must also be failed or released for this long
    /// before `failurePolicy: Replace` or `externalReleasePolicy: Reorder` acts. At least twice `orderTimeout`. Minimum
    /// 2m, default: 10m, maximum 1h. A shorter value is raised to 2m, unless the operator runs with
    /// `--short-intervals`; `status.timing` shows what is in force. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ABSENCE_GRACE_PERIOD.rule())]
    pub absence_grace_period: Option<Interval>,
    /// Time between lists for an order of unknown outcome, and least time between two lists that together confirm that
    /// a tag, a key or a host is absent (for servers always 60s). Minimum 30s, default: 1m, maximum 10m. A shorter
    /// value is raised to 30s, unless the operator runs with `--short-intervals`; `status.timing` shows what is in
    /// force. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ABSENCE_CHECK_INTERVAL.rule())]
    pub absence_check_interval: Option<Interval>,
    /// Time between reads of the servers that are being delivered or released; a quarter of it while these are at most
    /// 3. Minimum 5s, default: 30s, maximum 5m. A shorter value is raised to 5s, unless the operator runs with
    /// `--short-intervals`; `status.timing` shows what is in force. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ACTIVE_POLL_INTERVAL.rule())]
    pub active_poll_interval: Option<Interval>,
    /// Time between lists of the delivered servers, and between reads of a server that has been pending for more than
    /// an hour. Minimum 30s, default: 5m, maximum 1h. A shorter value is raised to 30s, unless the operator runs with
    /// `--short-intervals`; `status.timing` shows what is in force. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = IDLE_POLL_INTERVAL.rule())]
    pub idle_poll_interval: Option<Interval>,
    /// Time between complete lists that search for orphans. Minimum 1m, default: 30m, maximum 24h. A shorter value is
    /// raised to 1m, unless the operator runs with `--short-intervals`; `status.timing` shows what is in force.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ORPHAN_SCAN_INTERVAL.rule())]
    pub orphan_scan_interval: Option<Interval>,
    /// How long to wait for the answer to an order. Minimum 10s, default: 3m, maximum 3m20s.
    /// A shorter value is raised to 10s, unless the operator runs with `--short-intervals`; `status.timing` shows what is in
    /// force. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ORDER_TIMEOUT.rule())]
    pub order_timeout: Option<Interval>,
}

impl Timing {
    /// The values in force: the set ones or the defaults, within the bounds. The order timeout is at most half the
    /// absence grace period: a server counts as absent only when no order can still arrive.
    pub fn in_force(&self, minimum: Minimum) -> TimingInForce {
        let grace = ABSENCE_GRACE_PERIOD.in_force(self.absence_grace_period, minimum);
        let order = ORDER_TIMEOUT.in_force(self.order_timeout, minimum);
        TimingInForce {
            absence_grace_period: grace,
            absence_check_interval: ABSENCE_CHECK_INTERVAL
                .in_force(self.absence_check_interval, minimum),
            active_poll_interval: ACTIVE_POLL_INTERVAL.in_force(self.active_poll_interval, minimum),
            idle_poll_interval: IDLE_POLL_INTERVAL.in_force(self.idle_poll_interval, minimum),
            orphan_scan_interval: ORPHAN_SCAN_INTERVAL.in_force(self.orphan_scan_interval, minimum),
            order_timeout: order.min(Interval(grace.0 / 2)),
        }
    }
}

/// The times in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimingInForce {
    /// A missing server counts as gone, and an order of unknown outcome as absent, no earlier than this long after the
    /// operator starts or first sees the record of the order. A server must also be failed or released for this long
    /// before `failurePolicy: Replace` or `externalReleasePolicy: Reorder` acts.
    pub absence_grace_period: Interval,
    /// Least time between two lists that together confirm that something is absent.
    pub absence_check_interval: Interval,
    /// Time between reads of the servers that are being delivered or released.
    pub active_poll_interval: Interval,
    /// Time between lists of the delivered servers.
    pub idle_poll_interval: Interval,
    /// Time between complete lists that search for orphans.
    pub orphan_scan_interval: Interval,
    /// How long to wait for the answer to an order.
    pub order_timeout: Interval,
}

impl Default for TimingInForce {
    fn default() -> Self {
        Timing::default().in_force(Minimum::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// All times with the same value.
    fn timing(text: &str) -> Timing {
        let fields = BOUNDS.map(|b| (b.field.to_owned(), Value::from(text)));
        serde_json::from_value(fields.into_iter().collect::<serde_json::Map<_, _>>().into())
            .unwrap()
    }

    #[test]
    fn timing_is_defaulted_and_bounded() {
        let shown =
            |timing: Timing, minimum| serde_json::to_value(timing.in_force(minimum)).unwrap();
        for bounds in BOUNDS {
            let of = |timing, minimum| shown(timing, minimum)[bounds.field].clone();
            let text = |interval: Interval| json!(interval.to_string());
            assert_eq!(of(Timing::default(), Minimum::Kept), text(bounds.default));
            assert_eq!(of(timing("1ms"), Minimum::Kept), text(bounds.minimum));
            assert_eq!(of(timing("1ms"), Minimum::Lifted), text(bounds.floor));
            assert_eq!(of(timing("500h"), Minimum::Kept), text(bounds.maximum));
            assert_eq!(of(timing("500h"), Minimum::Lifted), text(bounds.maximum));
            assert!(bounds.floor < bounds.minimum && bounds.minimum < bounds.default);
            assert!(bounds.default < bounds.maximum);
        }
        let default = Timing::default();
        assert_eq!(
            shown(default, Minimum::Lifted),
            shown(default, Minimum::Kept)
        );
    }

    #[test]
    fn order_timeout_is_at_most_half_the_grace() {
        for (grace, order, minimum, awaited) in [
            ("1h", "200s", Minimum::Kept, "3m20s"),
            ("2m", "200s", Minimum::Kept, "1m"),
            ("1s", "10s", Minimum::Kept, "10s"),
            ("3s", "1500ms", Minimum::Lifted, "1.5s"),
            ("1s", "10s", Minimum::Lifted, "500ms"),
        ] {
            let written = json!({"absenceGracePeriod": grace, "orderTimeout": order});
            let timing: Timing = serde_json::from_value(written).unwrap();
            let in_force = timing.in_force(minimum);
            assert_eq!(
                in_force.order_timeout.to_string(),
                awaited,
                "{grace} {order}"
            );
        }
    }

    #[test]
    fn timing_descriptions_state_their_bounds() {
        let schema = schemars::schema_for!(Timing);
        for bounds in BOUNDS {
            let text = schema.as_value()["properties"][bounds.field]["description"]
                .as_str()
                .unwrap()
                .replace('\n', " ");
            let expected = format!(
                "Minimum {minimum}, default: {}, maximum {}. A shorter value is raised to {minimum}, unless the operator runs with `--short-intervals`; `status.timing` shows what is in force.",
                bounds.default,
                bounds.maximum,
                minimum = bounds.minimum,
            );
            assert!(
                text.contains(&expected),
                "{}: {text}: {expected}",
                bounds.field
            );
        }
    }
}
