//! Virtual time: starts at the wall clock, then runs at a given speed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::time::Instant;

/// A point in virtual time, kept as the time since the Unix epoch: in whole
/// microseconds, so that JSON keeps its seconds exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    micros: u64,
}

impl Moment {
    /// The moment `seconds` after the Unix epoch.
    pub(crate) fn from_unix(seconds: u64) -> Self {
        Self::whole(Duration::from_secs(seconds))
    }

    /// Whole Unix seconds, as the API's records show them.
    pub(crate) fn unix(self) -> u64 {
        self.span().as_secs()
    }

    /// Unix milliseconds.
    pub(crate) fn unix_ms(self) -> u64 {
        self.micros / 1_000
    }

    /// This much later.
    pub(crate) fn after(self, span: Duration) -> Self {
        Self::whole(self.span().saturating_add(span))
    }

    fn whole(since: Duration) -> Self {
        Self {
            micros: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// The time since the Unix epoch.
    fn span(self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// The time from `earlier` to here; none when it is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros.saturating_sub(earlier.micros))
    }

    /// A date and time as in HTTP's headers.
    pub(crate) fn http_date(self) -> String {
        self.written("%a, %d %b %Y %H:%M:%S GMT")
    }

    /// A date and time with milliseconds and `Z`.
    pub(crate) fn iso(self) -> String {
        self.written("%Y-%m-%dT%H:%M:%S%.3fZ")
    }

    fn written(self, format: &str) -> String {
        let ms = i64::try_from(self.unix_ms()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(ms)
            .unwrap_or(jiff::Timestamp::MAX)
            .strftime(format)
            .to_string()
    }

    /// This much earlier, at the earliest the Unix epoch.
    pub(crate) fn before(self, span: Duration) -> Self {
        Self::whole(self.span().saturating_sub(span))
    }
}

/// Unix seconds with their fraction.
impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.span().as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let since = Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)?;
        // To the nearest microsecond: a double is finer than that.
        Ok(Self::whole(since.saturating_add(Duration::from_nanos(500))))
    }
}

/// Maps real time onto virtual time.
///
/// Virtual time never goes back: a new speed starts from the moment reached.
#[derive(Debug)]
pub(crate) struct Clock {
    base: Duration,
    since: Instant,
    speed: f64,
    /// The moment up to which answers may be given: it is in the state file, or
    /// being written there. `None` when another one has to be written.
    horizon: Option<Moment>,
}

/// How far the horizon is ahead, in real time: the longer, the fewer lines are
/// written, and the further a restart jumps.
const HORIZON: Duration = Duration::from_secs(1);

impl Clock {
    /// Starts at `start`, or at the wall clock. `speed` is virtual seconds per
    /// real second; with 0 time moves only by [`Clock::advance`].
    pub(crate) fn new(start: Option<Moment>, speed: f64) -> Self {
        Self {
            base: start.map_or_else(wall, Moment::span),
            since: Instant::now(),
            speed,
            horizon: None,
        }
    }

    /// The present virtual moment.
    pub(crate) fn now(&self) -> Moment {
        let passed = scaled(self.since.elapsed(), self.speed);
        Moment::whole(self.base.saturating_add(passed))
    }

    /// Jumps ahead.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.base = self.base.saturating_add(by);
    }

    /// Whether time has passed its horizon: an answer given now would show what a
    /// restart could undo.
    pub(crate) fn beyond(&self) -> bool {
        self.horizon.is_none_or(|horizon| self.now() > horizon)
    }

    /// Moves the horizon; the state file must hold it. For a clock that stands
    /// still it is the present moment.
    pub(crate) fn look_ahead(&mut self) -> Moment {
        let horizon = self.now().after(scaled(HORIZON, self.speed));
        self.horizon = Some(horizon);
        horizon
    }

    /// Virtual seconds per real second.
    pub(crate) fn speed(&self) -> f64 {
        self.speed
    }

    /// Goes on from the present moment at another speed.
    pub(crate) fn set_speed(&mut self, speed: f64) {
        self.base = self.now().span();
        self.since = Instant::now();
        self.speed = speed;
        // A slower clock must not jump as far as the faster one would.
        self.horizon = None;
    }
}

fn scaled(real: Duration, speed: f64) -> Duration {
    // At the end of time it stays there: it must not step back.
    Duration::try_from_secs_f64(real.as_secs_f64() * speed).unwrap_or(Duration::MAX)
}

/// A span given in seconds by a person or a test; `None` unless it is finite,
/// not negative and at most a hundred years.
pub(crate) fn span(seconds: f64) -> Option<Duration> {
    const CENTURY: f64 = 100.0 * 366.0 * 86_400.0;
    (seconds <= CENTURY)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

/// Real Unix milliseconds, for the ledger.
pub(crate) fn real_ms() -> u64 {
    Moment::whole(wall()).unix_ms()
}

/// The wall clock, as the time since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "all other simulated time starts here"
)]
fn wall() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driven_clock_moves_only_by_advance() {
        let mut clock = Clock::new(Some(Moment::from_unix(1_000)), 0.0);
        assert_eq!(clock.now(), Moment::from_unix(1_000));
        clock.advance(Duration::from_millis(2_500));
        assert_eq!(clock.now().unix(), 1_002);
        assert_eq!(clock.now().unix_ms(), 1_002_500);
    }

    #[test]
    fn changing_speed_never_moves_time_back() {
        let mut clock = Clock::new(Some(Moment::from_unix(0)), 1_000_000.0);
        while clock.now() < Moment::from_unix(10) {
            std::thread::yield_now();
        }
        let reached = clock.now();
        clock.set_speed(0.0);
        assert!(clock.now() >= reached);
        assert_eq!(clock.now(), clock.now());
    }

    #[test]
    fn horizon_is_ahead_only_while_clock_runs() {
        let mut clock = Clock::new(Some(Moment::from_unix(1_000)), 0.0);
        assert!(clock.beyond());
        assert_eq!(clock.look_ahead(), Moment::from_unix(1_000));
        assert!(!clock.beyond());
        clock.advance(Duration::from_millis(1));
        assert!(clock.beyond());
        clock.set_speed(60.0);
        assert!(clock.look_ahead() >= Moment::from_unix(1_060));
        // The minute ahead has not passed yet, and must be undone.
        clock.set_speed(0.0);
        assert!(clock.beyond() && clock.look_ahead() == clock.now());
    }

    #[test]
    fn scaled_time_never_decreases_at_any_speed() {
        let hour = Duration::from_hours(1);
        for speed in [0.0, 5e-324, 1.0, 1e19, 1e308, f64::MAX] {
            assert!(scaled(hour, speed) >= scaled(hour / 2, speed), "{speed}");
            assert!(speed < 1.0 || scaled(hour, speed) >= hour, "{speed}");
        }
    }

    #[test]
    fn moments_come_back_from_json_as_they_were() {
        for micros in [0, 1, 1_700_000_000_123_457, 4_102_444_800_999_999] {
            let moment = Moment::whole(Duration::from_micros(micros));
            let text = serde_json::to_string(&moment).unwrap();
            assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment);
        }
        assert_eq!(
            Moment::from_unix(1_700_000_000).iso(),
            "2023-11-14T22:13:20.000Z"
        );
    }

    #[test]
    fn spans_from_outside_are_checked() {
        assert_eq!(span(1.5), Some(Duration::from_millis(1_500)));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(span(bad), None);
        }
    }
}
