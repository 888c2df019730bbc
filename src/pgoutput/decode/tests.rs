//! Streams recorded with `pg_logical_slot_peek_binary_changes` on the oldest and the newest server,
//! one message a line: a transaction with an origin, a type of its own, and each kind of change.

use proptest::prelude::*;

use super::*;
use crate::lsn::Lsn;

const POSTGRESQL_15: &str = include_str!("../recorded/postgresql-15.hex");
const POSTGRESQL_18: &str = include_str!("../recorded/postgresql-18.hex");

/// 2026-01-02T03:04:05Z.
const COMMIT_TIME_MICROS: i64 = 1_767_323_045_000_000;

fn bytes(line: &str) -> Bytes {
    (0..line.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
        .collect()
}

fn recorded(stream: &str) -> Vec<Bytes> {
    stream.lines().map(bytes).collect()
}

fn decoded(stream: &str) -> Vec<Message> {
    recorded(stream).into_iter().map(|line| Message::decode(line).unwrap()).collect()
}

/// The recorded message of this kind, on the newest server.
fn recorded_kind(kind: u8) -> Bytes {
    recorded(POSTGRESQL_18).into_iter().find(|message| message[0] == kind).unwrap()
}

fn column(key: bool, name: &str, type_oid: u32, type_modifier: i32) -> RelationColumn {
    RelationColumn { key, name: name.to_owned(), type_oid, type_modifier }
}

/// What both servers say between Begin and Commit, the Insert's row apart.
fn expected_changes(lsn: Lsn, tuple: RawTuple) -> Vec<Message> {
    vec![
        Message::Origin { commit_lsn: Lsn::new(0x1234), name: "elsewhere".to_owned() },
        Message::Type { id: 0x4006, schema: "public".to_owned(), name: "mood".to_owned() },
        Message::Relation(Relation {
            id: 0x400a,
            schema: "shop".to_owned(),
            name: "outbox".to_owned(),
            replica_identity: b'd',
            columns: vec![
                column(true, "id", 2950, -1),
                column(false, "aggregate_type", 25, -1),
                column(false, "aggregate_id", 25, -1),
                column(false, "event_type", 1043, 44),
                column(false, "payload", 3802, -1),
                column(false, "mood", 0x4006, -1),
            ],
        }),
        Message::Insert { relation_id: 0x400a, tuple },
        Message::Update { relation_id: 0x400a },
        Message::Delete { relation_id: 0x400a },
        Message::Truncate { relation_ids: vec![0x400a], options: 3 },
        Message::LogicalMessage {
            transactional: true,
            lsn,
            prefix: "pgoutbox".to_owned(),
            content: Bytes::from_static(b"hello"),
        },
    ]
}

#[track_caller]
fn check_recorded(stream: &str, xid: u32, commit_lsn: &str, end_lsn: &str) {
    let commit_lsn: Lsn = commit_lsn.parse().unwrap();
    let row = recorded(stream).into_iter().find(|message| message[0] == b'I').unwrap().slice(8..);
    let mut expected =
        vec![Message::Begin { final_lsn: commit_lsn, commit_time_micros: COMMIT_TIME_MICROS, xid }];
    expected.extend(expected_changes(commit_lsn, RawTuple { columns: 6, bytes: row }));
    expected.push(Message::Commit {
        flags: 0,
        commit_lsn,
        end_lsn: end_lsn.parse().unwrap(),
        commit_time_micros: COMMIT_TIME_MICROS,
    });
    assert_eq!(decoded(stream), expected);
}

#[test]
fn the_oldest_server_is_understood() {
    check_recorded(POSTGRESQL_15, 742, "0/196F2B0", "0/196F430");
}

#[test]
fn the_newest_server_is_understood() {
    check_recorded(POSTGRESQL_18, 769, "0/1B50E58", "0/1B50FD8");
}

#[test]
fn a_row_and_a_content_are_slices_of_what_was_read() {
    let insert = recorded_kind(b'I');
    let Ok(Message::Insert { tuple, .. }) = Message::decode(insert.clone()) else { panic!() };
    assert!(insert.as_ptr_range().contains(&tuple.bytes.as_ptr()));
    let message = recorded_kind(b'M');
    let Ok(Message::LogicalMessage { content, .. }) = Message::decode(message.clone()) else {
        panic!()
    };
    assert!(message.as_ptr_range().contains(&content.as_ptr()));
}

#[test]
fn a_message_cut_anywhere_is_an_error() {
    for message in recorded(POSTGRESQL_18) {
        // Row images are the caller's to check: what decides here is their frame.
        let least = if b"IUD".contains(&message[0]) { 8 } else { message.len() };
        for length in 0..least {
            assert!(Message::decode(message.slice(..length)).is_err(), "{message:?} {length}");
        }
    }
}

#[test]
fn bytes_after_a_message_are_an_error() {
    for kind in b"BCORYTM" {
        let mut message = recorded_kind(*kind).to_vec();
        message.push(0);
        let decoded = Message::decode(message.into());
        assert!(matches!(decoded, Err(DecodeError::Trailing { bytes: 1, .. })), "{decoded:?}");
    }
}

#[test]
fn counts_and_lengths_are_checked_before_they_are_used() {
    let error = |bytes: &'static [u8]| Message::decode(Bytes::from_static(bytes)).unwrap_err();
    assert_eq!(
        error(b"T\x7f\xff\xff\xff\0\0\0\0\x01"),
        DecodeError::Truncated { message: "Truncate", field: "relation ids" }
    );
    assert_eq!(
        error(b"T\xff\xff\xff\xff\0"),
        DecodeError::Negative { message: "Truncate", field: "relation count", value: -1 }
    );
    assert_eq!(
        error(b"R\0\0\0\x01a\0b\0d\xff\xff"),
        DecodeError::Truncated { message: "Relation", field: "columns" }
    );
    assert_eq!(
        error(b"M\0\0\0\0\0\0\0\0\x01p\0\x7f\xff\xff\xffx"),
        DecodeError::Truncated { message: "Message", field: "content" }
    );
    assert_eq!(
        error(b"I\0\0\0\x01N\0\x02n"),
        DecodeError::Truncated { message: "Insert", field: "row" }
    );
}

#[test]
fn a_name_in_another_encoding_is_an_error() {
    let decoded = Message::decode(Bytes::from_static(b"Y\0\0\0\x01public\0m\xff\0"));
    assert_eq!(decoded, Err(DecodeError::NotUtf8 { message: "Type", field: "name" }));
}

#[test]
fn what_protocol_1_does_not_have_is_an_error() {
    let error = |bytes: &'static [u8]| Message::decode(Bytes::from_static(bytes)).unwrap_err();
    assert_eq!(error(b""), DecodeError::Empty);
    // Stream Start, of protocol 2.
    assert_eq!(error(b"S\0\0\0\x01\x01"), DecodeError::Kind(b'S'));
    assert_eq!(
        error(b"I\0\0\0\x01K\0\0"),
        DecodeError::Unexpected { message: "Insert", field: "row kind", byte: b'K' }
    );
}

proptest! {
    #[test]
    fn any_bytes_give_an_error_or_a_message(bytes: Vec<u8>) {
        // Either will do: that it returns is the point.
        drop(Message::decode(bytes.into()));
    }

    #[test]
    fn a_flipped_stream_gives_errors_or_messages(
        line in 0_usize..10,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let mut message = recorded(POSTGRESQL_18)[line].to_vec();
        for (at, byte) in flips {
            *at.get_mut(&mut message) = byte;
        }
        message.truncate(1 + cut.index(message.len()));
        drop(Message::decode(message.into()));
    }
}
