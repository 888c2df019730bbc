#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::unused_async,
    clippy::manual_is_multiple_of
)]

mod kafka_sink;
