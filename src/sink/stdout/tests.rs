//! Lines, and a reader that is slow or gone.

use std::sync::mpsc;

use bytes::Bytes;
use smallvec::smallvec;

use super::*;
use crate::lsn::Lsn;
use crate::outbox::{Column, OutboxEvent, RoleSource, Shape, Transaction, Tuple, Value};
use crate::routing::{Destination, Headers, SinkIndex};

const JSONB: u32 = 3802;
const BYTEA: u32 = 17;

fn event(payload_type: u32, payload: Option<&'static [u8]>) -> RoutedEvent {
    let column = |name: &str, type_oid| Column { name: name.to_owned(), type_oid };
    let shape = Shape {
        schema: "public".to_owned(),
        table: "outbox".to_owned(),
        columns: vec![
            column("id", 2950),
            column("aggregate_id", 25),
            column("event_type", 25),
            column("payload", payload_type),
        ],
        roles: [
            RoleSource::Column(0),
            RoleSource::Literal(Bytes::from_static(b"order")),
            RoleSource::Column(1),
            RoleSource::Column(2),
            RoleSource::Column(3),
        ],
        created_at: None,
    };
    let payload_value = payload.map_or(Value::Null, Value::Text);
    let row = [Value::Text(b"7b0f"), Value::Text(b"42"), Value::Null, payload_value];
    RoutedEvent {
        id: Bytes::from_static(b"7b0f"),
        sink: SinkIndex(0),
        destination: Destination::Topic("outbox.event.order".into()),
        key: Some(Bytes::from_static(b"42")),
        value: payload.map(Bytes::from_static),
        headers: Headers {
            names: ["id".into(), "eventType".into()].into(),
            values: smallvec![(0, Some(Bytes::from_static(b"7b0f"))), (1, None)],
        },
        event: OutboxEvent { shape: Arc::new(shape), tuple: Tuple::from_values(row) },
        transaction: Transaction {
            xid: 769,
            commit_lsn: Lsn::new(0x1B5_0E58),
            commit_time_micros: 1_767_323_045_000_006,
        },
        ordering_key: None,
    }
}

fn line(event: &RoutedEvent) -> String {
    serde_json::to_string(&Line(event)).unwrap()
}

/// Every report that came until one fits.
async fn reports_until(mailbox: &Mailbox, fits: impl Fn(&Report) -> bool) -> Vec<Report> {
    let mut all = Vec::new();
    while !all.iter().any(&fits) {
        mailbox.arrived().await;
        let mut reports = Vec::new();
        mailbox.take(&mut reports);
        all.append(&mut reports);
    }
    all
}

fn acknowledges(report: &Report, id: u64) -> bool {
    matches!(report, Report::Outcome(DeliveryId(found), Outcome::Acknowledged) if *found == id)
}

/// An output that tells what it was given, once it is allowed to take it.
struct Gate {
    open: mpsc::Receiver<()>,
    written: mpsc::SyncSender<Vec<u8>>,
}

impl Gate {
    fn new() -> (Self, mpsc::SyncSender<()>, mpsc::Receiver<Vec<u8>>) {
        let (permits, open) = mpsc::sync_channel(100);
        let (written, chunks) = mpsc::sync_channel(100);
        (Self { open, written }, permits, chunks)
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.open.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.written.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_has_every_field_in_the_promised_order() {
    assert_eq!(
        line(&event(JSONB, Some(br#"{"total": 1}"#))),
        concat!(
            r#"{"id":"7b0f","aggregate_type":"order","aggregate_id":"42","event_type":null,"#,
            r#""topic":"outbox.event.order","key":"42","headers":{"id":"7b0f","eventType":null},"#,
            r#""payload":"{\"total\": 1}","lsn":"0/1B50E58","#,
            r#""commit_time":"2026-01-02T03:04:05.000006Z"}"#,
        )
    );
}

#[test]
fn bytea_is_base64_and_a_null_payload_is_null() {
    assert!(line(&event(BYTEA, Some(b"hi"))).contains(r#""payload_base64":"aGk=","lsn""#));
    assert!(line(&event(BYTEA, None)).contains(r#""payload":null,"lsn""#));
}

#[test]
fn bytes_that_are_no_text_are_base64_under_another_name() {
    let mut event = event(JSONB, Some(b"\xff"));
    event.key = Some(Bytes::from_static(b"\xfe\xff"));
    let line = line(&event);
    assert!(line.contains(r#""key_base64":"/v8=""#), "{line}");
    assert!(line.contains(r#""payload_base64":"/w==""#), "{line}");
}

#[tokio::test]
async fn lines_are_written_in_order_and_acknowledged_once_they_are() {
    let (gate, permits, chunks) = Gate::new();
    let mailbox = Mailbox::default();
    let mut sink = StdoutSink::start_with(gate, mailbox.clone()).unwrap();
    for (id, payload) in [(0, b"a"), (1, b"b"), (2, b"c")] {
        assert!(sink.enqueue(DeliveryId(id), &event(JSONB, Some(payload))));
    }
    sink.seal();
    permits.send(()).unwrap();
    let reports = reports_until(&mailbox, |report| acknowledges(report, 2)).await;
    assert!((0..3).zip(&reports).all(|(id, report)| acknowledges(report, id)), "{reports:?}");
    let written = String::from_utf8(chunks.recv().unwrap()).unwrap();
    let payloads: Vec<String> = written
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["payload"].to_string())
        .collect();
    assert_eq!(payloads, [r#""a""#, r#""b""#, r#""c""#]);
}

#[tokio::test]
async fn a_reader_that_sleeps_stops_the_taking_and_room_follows() {
    let (gate, permits, _chunks) = Gate::new();
    let mailbox = Mailbox::default();
    let mut sink = StdoutSink::start_with(gate, mailbox.clone()).unwrap();
    let large = event(JSONB, Some(&[b'x'; 100_000]));
    let mut take_all = || (0..100).take_while(|id| sink.enqueue(DeliveryId(*id), &large)).count();
    let is_room = |report: &Report| matches!(report, Report::Room);

    // One buffer goes to the writer, which stays in its write; the other one fills.
    assert_eq!(take_all(), 11);
    reports_until(&mailbox, is_room).await;
    assert_eq!(take_all(), 11);

    permits.send(()).unwrap();
    let reports = reports_until(&mailbox, is_room).await;
    assert!(acknowledges(&reports[0], 0), "{reports:?}");
    assert_eq!(take_all(), 11);
}

#[tokio::test]
async fn a_reader_that_has_gone_acknowledges_nothing_and_is_named() {
    let (gate, permits, _chunks) = Gate::new();
    drop(permits);
    let mailbox = Mailbox::default();
    let mut sink = StdoutSink::start_with(gate, mailbox.clone()).unwrap();
    sink.enqueue(DeliveryId(0), &event(JSONB, None));
    sink.seal();
    let reports = reports_until(&mailbox, |_| true).await;
    let [Report::Blocked { destination: None, failure }] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!((failure.class(), failure.to_string().as_str()), (Class::Definite, "stdout closed"));
}

#[tokio::test]
async fn stopping_writes_what_was_taken() {
    let (gate, permits, chunks) = Gate::new();
    let mut sink = StdoutSink::start_with(gate, Mailbox::default()).unwrap();
    sink.enqueue(DeliveryId(0), &event(JSONB, None));
    permits.send(()).unwrap();
    sink.stop(Duration::from_secs(60)).await;
    assert!(chunks.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_a_reader_beyond_the_grace_period() {
    let (gate, permits, _chunks) = Gate::new();
    let mut sink = StdoutSink::start_with(gate, Mailbox::default()).unwrap();
    sink.enqueue(DeliveryId(0), &event(JSONB, None));
    sink.stop(Duration::from_secs(60)).await;
    drop(permits);
}
