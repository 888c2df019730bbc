//! Percent-encoding in URLs (RFC 3986, section 2.1).

/// What is wrong with an encoded text; it never holds a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PercentError {
    /// `%` without its digits.
    #[error("`%` must be followed by two hexadecimal digits (write a `%` itself as `%25`)")]
    Digits,
    /// The bytes that it stands for are no text.
    #[error("a percent-encoded value is not UTF-8")]
    Utf8,
}

/// `text` with what `%` and two digits stand for; a `+` stays one.
pub(crate) fn percent_decode(text: &str) -> Result<String, PercentError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_first_chunk::<2>().ok_or(PercentError::Digits)?;
        rest = tail;
        bytes.push(hexadecimal(*digits).ok_or(PercentError::Digits)?);
    }
    String::from_utf8(bytes).map_err(|_| PercentError::Utf8)
}

fn hexadecimal([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_digits_stand_for_goes_in() {
        assert_eq!(percent_decode("a%2Fb%c3%A9+").as_deref(), Ok("a/b\u{e9}+"));
        assert_eq!(percent_decode("%"), Err(PercentError::Digits));
        assert_eq!(percent_decode("%g0"), Err(PercentError::Digits));
        assert_eq!(percent_decode("%ff"), Err(PercentError::Utf8));
    }
}
