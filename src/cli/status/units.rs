//! Figures as people read them.

/// `512 B`, `1.5 GiB`: three digits at most, but for bytes.
pub(super) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes.abs() < 1024.0 {
        return format!("{bytes:.0} B");
    }
    let (mut size, mut unit) = (bytes, "B");
    for next in UNITS {
        if size.abs() < 1023.5 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    let digits = usize::from(size.abs() < 99.95);
    format!("{size:.digits$} {unit}")
}

/// `1.2s`, `3m 20s`, `2h 5m`, `4d 3h`: the two largest units.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{:.1}s", seconds.max(0.0));
    }
    // Beyond ten thousand years nobody counts hours.
    let whole = seconds.round().min(3e11);
    let (days, rest) = parts(whole, 86_400.0);
    let (hours, rest) = parts(rest, 3600.0);
    let (minutes, left) = parts(rest, 60.0);
    if days > 0.0 {
        format!("{days}d {hours}h")
    } else if hours > 0.0 {
        format!("{hours}h {minutes}m")
    } else if minutes > 0.0 {
        format!("{minutes}m {left}s")
    } else {
        format!("{left}s")
    }
}

/// `0.4/s`, `1234/s`.
pub(super) fn rate(per_second: f64) -> String {
    let digits = usize::from(per_second < 99.95);
    format!("{per_second:.digits$}/s")
}

/// `1 event`, `2 events`.
pub(super) fn counted(count: f64, noun: &str) -> String {
    let plural = if count == 1.0 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// How often `unit` goes into `whole`, and what is left.
fn parts(whole: f64, unit: f64) -> (f64, f64) {
    ((whole / unit).floor(), whole % unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_they_fill() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(1_048_575.0), "1.0 MiB");
        assert_eq!(bytes(-3.0 * 1_073_741_824.0), "-3.0 GiB");
    }

    #[test]
    fn durations_have_their_two_largest_units() {
        assert_eq!(seconds(-1.0), "0.0s");
        assert_eq!(seconds(1.25), "1.2s");
        assert_eq!(seconds(9.99), "10s");
        assert_eq!(seconds(59.7), "1m 0s");
        assert_eq!(seconds(200.0), "3m 20s");
        assert_eq!(seconds(7500.0), "2h 5m");
        assert_eq!(seconds(356_400.0), "4d 3h");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(0.0, "event"), "0 events");
        assert_eq!(counted(1.0, "event"), "1 event");
        assert_eq!(counted(2.0, "reconnect"), "2 reconnects");
    }

    #[test]
    fn a_rate_has_a_digit_while_it_says_something() {
        assert_eq!(rate(0.0), "0.0/s");
        assert_eq!(rate(12.34), "12.3/s");
        assert_eq!(rate(1234.5), "1234/s");
    }
}
