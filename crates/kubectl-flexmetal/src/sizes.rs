//! Numbers of bytes and their like in words.

/// Powers of 1000, as networks and disks are sold: `3.8 TB`.
pub fn decimal(bytes: i64) -> String {
    scale(bytes, 1000, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Powers of 1024, as memory is: `512 GiB`.
pub fn binary(bytes: i64) -> String {
    scale(bytes, 1024, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Powers of 1000 of a unit such as `bit/s` or `Hz`.
pub fn with_unit(number: i64, unit: &str) -> String {
    let units = ["", "k", "M", "G", "T"].map(|prefix| format!("{prefix}{unit}"));
    scale(number, 1000, &units.each_ref().map(String::as_str))
}

/// A number in the largest unit of which there is at least one; small ones with one digit after the point.
fn scale(number: i64, step: i64, units: &[&str]) -> String {
    let mut units = units.iter();
    let (mut unit, mut size) = (units.next(), 1_i64);
    while number / size >= step
        && let Some(next) = units.next()
    {
        (unit, size) = (Some(next), size * step);
    }
    let (whole, tenth) = (number / size, number % size / (size / 10).max(1));
    let unit = unit.copied().unwrap_or_default();
    match tenth.min(9) {
        1.. if whole < 100 && size > 1 => format!("{whole}.{} {unit}", tenth.min(9)),
        _ => format!("{whole} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_at_most_one_decimal_digit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (1999, "1.9 kB"),
            (3_840_000_000_000, "3.8 TB"),
            (512_345_000_000, "512 GB"),
            (i64::MAX, "9223 PB"),
        ] {
            assert_eq!(decimal(bytes), text);
        }
        assert_eq!(binary(512 << 30), "512 GiB");
        assert_eq!(binary((1 << 30) + (1 << 29)), "1.5 GiB");
        assert_eq!(binary((2 << 30) - 1), "1.9 GiB");
        assert_eq!(with_unit(10_000_000_000, "bit/s"), "10 Gbit/s");
    }
}
