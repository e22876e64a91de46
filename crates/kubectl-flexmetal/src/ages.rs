//! Durations and moments in words, as kubectl shows them.

use jiff::Timestamp;

/// How long ago, such as `45s`, `12m`, `5h` or `3d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    shorten(now.as_second().saturating_sub(since.as_second()))
}

/// A duration in its two largest units, such as `2m30s`; large ones in one unit.
pub fn shorten(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..7_200 => format!("{minutes}m"),
        7_200..172_800 if hours < 10 && minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        7_200..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// The clock of this machine.
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (660, "11m"),
            (7_260, "2h1m"),
            (40_000, "11h"),
            (200_000, "2d"),
        ] {
            assert_eq!(shorten(seconds), text);
        }
    }
}
