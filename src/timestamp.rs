//! Points in time as people and JSON see them: RFC 3339, UTC, to the microsecond.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use time::OffsetDateTime;

/// A point in time: microseconds since 1970-01-01T00:00:00Z.
///
/// `Display` and JSON give `2026-01-02T03:04:05.000006Z`, always with six digits, so that texts
/// sort as times do; a time outside of the years -9999 to 9999 is given as its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `micros` microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// This moment.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Seconds from `earlier` to `self`; zero where `earlier` is not earlier, as it can be when two
    /// machines' clocks differ.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        let micros = u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0);
        std::time::Duration::from_micros(micros).as_secs_f64()
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let micros =
            |duration: std::time::Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(time) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1000) else {
            return self.0.fmt(f);
        };
        let (year, month, day) = time.to_calendar_date();
        let month = u8::from(month);
        let (hour, minute, second, micros) = time.to_hms_micro();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: i64, text: &str) {
        assert_eq!(Timestamp::from_micros(micros).to_string(), text);
    }

    #[test]
    fn a_time_has_six_digits_after_the_second() {
        check(0, "1970-01-01T00:00:00.000000Z");
        check(1_767_323_045_000_006, "2026-01-02T03:04:05.000006Z");
        check(-1, "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn a_time_beyond_all_calendars_is_a_number() {
        check(i64::MAX, "9223372036854775807");
    }

    #[test]
    fn an_age_is_never_negative() {
        let (early, late) = (Timestamp::from_micros(1_000_000), Timestamp::from_micros(3_500_000));
        assert!((late.seconds_since(early) - 2.5).abs() < f64::EPSILON);
        assert!(early.seconds_since(late).abs() < f64::EPSILON);
    }

    #[test]
    fn the_systems_clock_becomes_microseconds() {
        let time = UNIX_EPOCH + std::time::Duration::from_millis(1500);
        assert_eq!(Timestamp::from(time), Timestamp::from_micros(1_500_000));
    }
}
