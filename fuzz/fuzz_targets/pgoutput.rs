//! Any bytes are an error or a message, and any row an error or as many values as it announced.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use pgoutbox::outbox::Tuple;
use pgoutbox::pgoutput::Message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::decode(Bytes::copy_from_slice(bytes)) else { return };
    let Message::Insert { tuple, .. } = message else { return };
    let columns = usize::from(tuple.columns);
    if let Ok(row) = Tuple::parse(tuple.bytes, columns) {
        assert_eq!(row.values().count(), columns);
    }
});
