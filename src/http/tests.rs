//! Requests as they go over the wire.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::metrics::Metrics;
use crate::relay::liveness::Liveness;
use crate::relay::state::RelayStatus;
use crate::slot_monitor::SlotReport;

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn server(state: State) -> (watch::Sender<RelayStatus>, Server) {
    let (sender, relay) = watch::channel(RelayStatus { state, ..RelayStatus::default() });
    let metrics = Arc::new(Metrics::new("orders", ["events"]).unwrap());
    let status = Status::new("orders", relay, no_reports(), metrics, Liveness::new());
    (sender, bind(ANY_PORT).await.unwrap().serve(status))
}

fn no_reports() -> watch::Receiver<SlotReport> {
    watch::Sender::new(SlotReport::default()).subscribe()
}

/// Everything that comes back until the server closes the connection.
async fn exchange(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // Closing with a request half read is a reset; what was answered before it is there.
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap()
}

/// Status code, head and body of the answer to `GET path`.
async fn get_path(server: &Server, path: &str) -> (u16, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = exchange(server, request.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, head.to_owned(), body.to_owned())
}

#[track_caller]
fn check(answer: &(u16, String, String), code: u16, body: &str) {
    assert_eq!((answer.0, answer.2.as_str()), (code, body), "{answer:?}");
}

#[tokio::test]
async fn ready_is_streaming_or_standby() {
    let (state, server) = server(State::Streaming).await;
    check(&get_path(&server, "/readyz").await, 200, "streaming\n");
    let holder = "pid 7 (`pgoutbox:orders`)".to_owned();
    state.send_modify(|status| status.state = State::Standby { holder });
    let words = "standby: the slot is held by pid 7 (`pgoutbox:orders`)\n";
    check(&get_path(&server, "/readyz").await, 200, words);
    state.send_modify(|status| status.slot = Some("a".to_owned()));
    let words = "standby: slot `a` is held by pid 7 (`pgoutbox:orders`)\n";
    check(&get_path(&server, "/readyz").await, 200, words);
}

#[tokio::test]
async fn not_ready_says_why_and_the_way_out() {
    let (state, server) = server(State::default()).await;
    check(
        &get_path(&server, "/readyz").await,
        503,
        "starting: connecting to PostgreSQL and the brokers\n",
    );
    let reason = "event `1` is too large".to_owned();
    let halted = State::Halted { reason, hint: Some("run --skip 1".to_owned()) };
    state.send_modify(|status| status.state = halted);
    let words = "halted: event `1` is too large\nhint: run --skip 1\n";
    check(&get_path(&server, "/readyz").await, 503, words);
}

#[tokio::test]
async fn a_relay_that_is_not_ready_is_alive_all_the_same() {
    let (_state, server) = server(State::Blocked { reason: "no broker".to_owned() }).await;
    check(&get_path(&server, "/livez").await, 200, "alive\n");
}

#[tokio::test]
async fn metrics_and_status_say_what_they_are() {
    let (_state, server) = server(State::Streaming).await;
    let (code, head, body) = get_path(&server, "/metrics").await;
    assert_eq!(code, 200);
    assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(body.contains(r#"pgoutbox_state{state="streaming",relay="orders"} 1"#), "{body}");

    let (code, head, body) = get_path(&server, "/status").await;
    assert_eq!(code, 200);
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&json["name"], &json["state"]), (&"orders".into(), &"streaming".into()));
}

#[tokio::test]
async fn other_paths_methods_and_heads_are_refused() {
    let (_state, server) = server(State::Streaming).await;
    assert_eq!(get_path(&server, "/secrets").await.0, 404);
    let answer = exchange(&server, b"DELETE /status HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    let mut huge = b"GET /livez HTTP/1.1\r\nX: ".to_vec();
    huge.resize(MAX_HEAD, b'x');
    let answer = exchange(&server, &huge).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_connection_carries_one_request() {
    let (_state, server) = server(State::Streaming).await;
    let (_, head, _) = get_path(&server, "/livez").await;
    assert!(head.to_lowercase().contains("connection: close"), "{head}");
}

#[tokio::test]
async fn a_body_is_not_waited_for() {
    let (_state, server) = server(State::Streaming).await;
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
    assert!(exchange(&server, request).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_finishes_its_request_is_dropped() {
    let (_state, server) = server(State::Streaming).await;
    assert_eq!(exchange(&server, b"GET /livez HTTP/1.1\r\n").await, "");
}

#[tokio::test]
async fn a_port_in_use_names_the_setting() {
    let (_state, server) = server(State::Streaming).await;
    let failure = bind(server.address()).await.unwrap_err();
    let text = failure.to_string();
    assert!(text.contains("`http.listen`") && text.contains("Address already in use"), "{text}");
}

#[tokio::test]
async fn dropping_the_server_frees_its_port() {
    let (_state, server) = server(State::Streaming).await;
    let address = server.address();
    drop(server);
    // The task ends at its next step.
    while TcpListener::bind(address).await.is_err() {
        tokio::task::yield_now().await;
    }
}
