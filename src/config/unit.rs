//! Durations (`30s`) and sizes (`8MiB`).

use std::time::Duration;

/// `250ms`, `30s`, `5m`, `1h`: a whole number and its unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// `8MiB`, `16MB`, `1GiB`: a whole number of bytes, or of a unit.
pub(super) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1000 * 1000,
        "GB" => 1000 * 1000 * 1000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes).and_then(|bytes| usize::try_from(bytes).ok())
}

/// `bytes` in the largest binary unit that it is a whole number of.
pub(super) fn show_size(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    whole.map_or_else(|| bytes.to_string(), |(size, unit)| format!("{}{unit}", bytes / size))
}

/// `duration` in its two largest units: `1h30m`, `5m`, `2s`, `250ms`.
pub(crate) fn show_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let pair = |major: u64, unit: &str, minor: u64, smaller: &str| match minor {
        0 => format!("{major}{unit}"),
        _ => format!("{major}{unit}{minor}{smaller}"),
    };
    match seconds {
        0 if millis > 0 => format!("{millis}ms"),
        0..60 => format!("{seconds}s"),
        60..3600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
        for wrong in ["30", "s", "-1s", "1.5s", "30 sec", "99999999999999999999s", ""] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_bytes_where_no_unit_says_otherwise() {
        assert_eq!(size("8MiB"), Some(8 << 20));
        assert_eq!(size("16MB"), Some(16_000_000));
        assert_eq!(size("1 GiB"), Some(1 << 30));
        assert_eq!(size("1048576"), Some(1 << 20));
        for wrong in
            ["8M", "MiB", "-1", "1.5MiB", "99999999999999999999", "18446744073709551615GiB"]
        {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_duration_is_shown_in_its_two_largest_units() {
        let show = |millis| show_duration(Duration::from_millis(millis));
        assert_eq!(show(250), "250ms");
        assert_eq!(show(0), "0s");
        assert_eq!(show(90_000), "1m30s");
        assert_eq!(show(6 * 3_600_000), "6h");
        assert_eq!(show(26 * 3_600_000), "1d2h");
    }

    #[test]
    fn a_size_is_shown_in_its_largest_whole_unit() {
        assert_eq!(show_size(16 << 20), "16MiB");
        assert_eq!(show_size(1 << 30), "1GiB");
        assert_eq!(show_size(1000), "1000");
    }
}
