//! What a server says of itself before anybody has logged in.

use std::sync::{Arc, OnceLock};

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::connection::AMQPMethod;
use amq_protocol::types::{AMQPValue, FieldTable};

/// More than any greeting; what has not become one by then never will.
const LONGEST: usize = 64 * 1024;

/// What `connection.start` holds that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Greeting {
    /// `RabbitMQ`.
    pub(super) product: String,
    /// `4.0.5`.
    pub(super) version: String,
    /// SASL mechanisms, with a space between them.
    pub(super) mechanisms: String,
}

impl Greeting {
    pub(super) fn offers(&self, mechanism: &str) -> bool {
        self.mechanisms.split_whitespace().any(|offered| offered == mechanism)
    }
}

/// Looks at the first bytes that come from a server.
#[derive(Debug, Default)]
pub(super) struct Peek {
    greeting: Arc<OnceLock<Greeting>>,
    bytes: Vec<u8>,
    is_over: bool,
}

impl Peek {
    /// Where the greeting will be once it has been read.
    pub(super) fn greeting(&self) -> Arc<OnceLock<Greeting>> {
        Arc::clone(&self.greeting)
    }

    pub(super) fn look(&mut self, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        match parse_frame(self.bytes.as_slice()) {
            Ok((_, frame)) => {
                if let Some(greeting) = greeting(&frame) {
                    // Set here only, and only once.
                    self.greeting.get_or_init(|| greeting);
                }
                self.is_over = true;
            }
            Err(error) => self.is_over = !error.is_incomplete() || self.bytes.len() > LONGEST,
        }
        if self.is_over {
            self.bytes = Vec::new();
        }
    }
}

fn greeting(frame: &AMQPFrame) -> Option<Greeting> {
    let AMQPFrame::Method(0, AMQPClass::Connection(AMQPMethod::Start(start))) = frame else {
        return None;
    };
    Some(Greeting {
        product: text(&start.server_properties, "product"),
        version: text(&start.server_properties, "version"),
        mechanisms: start.mechanisms.to_string(),
    })
}

fn text(table: &FieldTable, key: &str) -> String {
    match table.inner().get(key) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `connection.start` as RabbitMQ sends it, shortened.
    fn frame() -> Vec<u8> {
        let mut table = Vec::new();
        for (key, value) in [("product", "RabbitMQ"), ("version", "4.0.5")] {
            table.push(u8::try_from(key.len()).unwrap());
            table.extend(key.as_bytes());
            table.push(b'S');
            table.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
            table.extend(value.as_bytes());
        }
        let mut payload = vec![0, 10, 0, 10, 0, 9];
        for part in [table.as_slice(), b"PLAIN AMQPLAIN", b"en_US"] {
            payload.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            payload.extend(part);
        }
        let mut frame = vec![1, 0, 0];
        frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        frame.extend(payload);
        frame.push(0xce);
        frame
    }

    #[test]
    fn a_greeting_is_read_however_it_comes() {
        let frame = frame();
        for size in [1, 7, frame.len()] {
            let mut peek = Peek::default();
            let greeting = peek.greeting();
            frame.chunks(size).for_each(|bytes| peek.look(bytes));
            let greeting = greeting.get().unwrap();
            assert_eq!((&*greeting.product, &*greeting.version), ("RabbitMQ", "4.0.5"));
            assert!(greeting.offers("PLAIN") && !greeting.offers("EXTERNAL"));
        }
    }

    #[test]
    fn what_is_no_greeting_is_let_through() {
        let mut peek = Peek::default();
        peek.look(b"HTTP/1.1 400 Bad Request\r\n");
        assert!(peek.is_over && peek.greeting().get().is_none());
    }
}
