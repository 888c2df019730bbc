//! What a broker refuses, known before it is sent.
//!
//! RabbitMQ answers each of these by closing the channel or the connection, which takes everything
//! along that is on its way: the bounds are AMQP 0-9-1's own (a short string has one byte for its
//! length; a content header is one frame) and `max_message_size`.

use super::greeting::Greeting;

/// The most bytes of a short string: names, keys, most properties.
pub(super) const SHORT: usize = 255;

/// A frame's type, channel, size and end.
const FRAME: usize = 8;

/// A content header before its properties: class, weight, body size, property flags.
const HEADER: usize = 2 + 2 + 8 + 2;

const MIB: usize = 1024 * 1024;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of a frame, as negotiated.
    pub(super) frame: usize,
    /// Bytes of a message's body.
    pub(super) body: usize,
}

impl Limits {
    /// The bounds of a connection with frames of `frame` bytes to a server that greeted with
    /// `greeting`; `max_message_size` is the configuration's word, which goes first.
    pub(super) fn new(
        frame: u32,
        greeting: Option<&Greeting>,
        max_message_size: Option<usize>,
    ) -> Self {
        let body = max_message_size.unwrap_or_else(|| default_body(greeting));
        Self { frame: usize::try_from(frame).unwrap_or(usize::MAX), body }
    }

    /// Whether properties of `size` bytes and a body of `body` bytes fit.
    ///
    /// # Errors
    ///
    /// What does not fit.
    pub(super) fn check(&self, properties: usize, body: usize) -> Result<(), TooLarge> {
        let header = FRAME + HEADER + properties;
        if header > self.frame {
            return Err(TooLarge::Header { size: header, limit: self.frame });
        }
        if body > self.body {
            return Err(TooLarge::Body { size: body, limit: self.body });
        }
        Ok(())
    }
}

/// RabbitMQ's `max_message_size` where nobody changed it: 128 MiB up to 3.x, 16 MiB from 4.0.
fn default_body(greeting: Option<&Greeting>) -> usize {
    let major = greeting
        .filter(|greeting| greeting.product == "RabbitMQ")
        .and_then(|greeting| greeting.version.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(major) if major < 4 => 128 * MIB,
        _ => 16 * MIB,
    }
}

/// What exceeds a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    /// A text that must be a short string.
    #[error("its {what} has {size} bytes, and AMQP takes at most {SHORT}")]
    Short { what: &'static str, size: usize },
    /// A header's name.
    #[error("the name of a header has {size} bytes, and AMQP takes at most {SHORT}")]
    HeaderName { size: usize },
    /// Properties and headers together.
    #[error("its headers make a frame of {size} bytes, and the broker takes at most {limit}")]
    Header { size: usize, limit: usize },
    /// The body.
    #[error("its payload has {size} bytes, and the broker takes at most {limit}")]
    Body { size: usize, limit: usize },
}

/// Whether a text fits into a short string.
pub(super) fn check_short(what: &'static str, text: &[u8]) -> Result<(), TooLarge> {
    if text.len() > SHORT { Err(TooLarge::Short { what, size: text.len() }) } else { Ok(()) }
}

/// Whether a header's name fits.
pub(super) fn check_header_name(name: &str) -> Result<(), TooLarge> {
    if name.len() > SHORT { Err(TooLarge::HeaderName { size: name.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(product: &str, version: &str) -> Greeting {
        Greeting { product: product.to_owned(), version: version.to_owned(), ..Greeting::default() }
    }

    #[test]
    fn the_largest_body_is_the_configurations_or_the_versions() {
        let body = |greeting: Option<&Greeting>, configured| {
            Limits::new(131_072, greeting, configured).body / MIB
        };
        assert_eq!(body(Some(&greeting("RabbitMQ", "3.10.8")), None), 128);
        assert_eq!(body(Some(&greeting("RabbitMQ", "4.0.5")), None), 16);
        assert_eq!(body(Some(&greeting("RabbitMQ", "5.0.0-rc.1")), None), 16);
        assert_eq!(body(Some(&greeting("LavinMQ", "2.3.0")), None), 16);
        assert_eq!(body(None, None), 16);
        assert_eq!(body(Some(&greeting("RabbitMQ", "4.0.5")), Some(64 * MIB)), 64);
    }

    #[test]
    fn a_bound_is_the_last_that_fits() {
        let limits = Limits { frame: 4096, body: 100 };
        let most = 4096 - FRAME - HEADER;
        assert_eq!(limits.check(most, 100), Ok(()));
        assert_eq!(limits.check(most + 1, 0), Err(TooLarge::Header { size: 4097, limit: 4096 }));
        assert_eq!(limits.check(0, 101), Err(TooLarge::Body { size: 101, limit: 100 }));
        assert!(check_short("id", &[b'x'; 255]).is_ok());
        assert!(check_short("id", &[b'x'; 256]).is_err());
        assert!(check_header_name(&"x".repeat(256)).is_err());
    }
}
