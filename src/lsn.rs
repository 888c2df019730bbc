//! Positions in PostgreSQL's write-ahead log, in PostgreSQL's own notation.

use std::fmt;
use std::str::FromStr;

/// A byte position in the WAL (`pg_lsn`), written `16/B374D848`: two hexadecimal halves.
///
/// Source: PostgreSQL manual, "pg_lsn Type".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// `0/0`, PostgreSQL's "invalid" position: before everything.
    pub const ZERO: Self = Self(0);

    /// The position `bytes` bytes into the WAL.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes from the beginning of the WAL.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Bytes from `earlier` to `self`; zero where `earlier` is not earlier.
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// A text that is not a `pg_lsn`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an LSN (two hexadecimal numbers, as in `16/B374D848`)")]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseLsnError(text.to_owned());
        let (high, low) = text.split_once('/').ok_or_else(error)?;
        let half = |digits: &str| {
            let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if hexadecimal { u32::from_str_radix(digits, 16).ok() } else { None }
        };
        let high = half(high).ok_or_else(error)?;
        let low = half(low).ok_or_else(error)?;
        Ok(Self(u64::from(high) << 32 | u64::from(low)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_agree_both_ways() {
        let lsn: Lsn = "16/B374D848".parse().unwrap();
        assert_eq!(lsn.as_u64(), 0x16_B374_D848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!("0/0".parse(), Ok(Lsn::ZERO));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "16", "16/", "/1", "+1/2", "1/2/3", "G/0", "123456789/0"] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
    }
}
