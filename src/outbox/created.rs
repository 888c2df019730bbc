//! When a row says that it was written.
//!
//! Only for the figure of how long events take from there to their acknowledgement: a column named
//! `created_at` is taken for it, whatever else it is used for.

use time::{Date, Month, Time};

use super::{Column, OutboxEvent, Value};

/// The column's name.
const NAME: &str = "created_at";

/// Type OIDs of `timestamptz` and `timestamp` (PostgreSQL's `pg_type.dat`). The sessions pin the
/// time zone to UTC and the date style to ISO; a `timestamp` without zone is taken to be UTC.
const TYPES: [u32; 2] = [1184, 1114];

/// Index of the column that tells when a row was written.
pub(super) fn column(columns: &[Column]) -> Option<usize> {
    let tells = |column: &Column| column.name == NAME && TYPES.contains(&column.type_oid);
    columns.iter().position(tells)
}

impl OutboxEvent {
    /// When the row says that it was written, in microseconds since 1970-01-01T00:00:00Z; `None`
    /// where it does not.
    pub fn created_at_micros(&self) -> Option<i64> {
        match self.tuple.value(self.shape.created_at?)? {
            Value::Text(text) => micros(text),
            Value::Null | Value::Unchanged | Value::Omitted(_) => None,
        }
    }
}

/// Reads `2026-11-30 09:05:00.00025+00`, with up to six digits behind the point or none, and with or
/// without the zone, which is UTC. Anything else (`infinity`, a year of five digits) is not read.
fn micros(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_suffix("+00").unwrap_or(text);
    let (date, time) = text.split_once(' ')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    let byte = |number: i32| u8::try_from(number).ok();
    let time = Time::from_hms(byte(hour)?, byte(minute)?, byte(second)?).ok()?;
    let seconds = date.with_time(time).assume_utc().unix_timestamp();
    seconds.checked_mul(1_000_000)?.checked_add(fraction_micros(fraction)?)
}

fn numbers(text: &str, between: char) -> Option<[i32; 3]> {
    let mut parts = text.split(between).map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn fraction_micros(digits: &str) -> Option<i64> {
    let places = u32::try_from(digits.len()).ok()?;
    match places {
        0 => Some(0),
        1..=6 => Some(i64::from(digits.parse::<u32>().ok()?) * 10_i64.pow(6 - places)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgresqls_own_form_is_read() {
        for (text, expected) in [
            ("1970-01-01 00:00:00+00", Some(0)),
            ("2026-11-30 09:05:00.00025+00", Some(1_796_029_500_000_250)),
            ("2026-11-30 09:05:00.5", Some(1_796_029_500_500_000)),
            ("1969-12-31 23:59:59.999999+00", Some(-1)),
            ("infinity", None),
            ("12026-11-30 09:05:00+00", None),
            ("2026-02-30 09:05:00+00", None),
            ("2026-11-30 09:05:00.1234567", None),
            ("2026-11-30", None),
            ("0044-03-15 12:00:00+00 BC", None),
        ] {
            assert_eq!(micros(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_column_of_another_type_does_not_tell() {
        let column_of = |type_oid| [Column { name: NAME.to_owned(), type_oid }];
        assert_eq!(column(&column_of(1184)), Some(0));
        assert_eq!(column(&column_of(25)), None);
    }
}
