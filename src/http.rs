//! The HTTP endpoint: metrics, probes and status.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | Prometheus' text format |
//! | `/livez` | 200 while the relay's loop turns, whatever PostgreSQL and the brokers do |
//! | `/readyz` | 200 in `streaming` and `standby`, else 503, with state and reason as text |
//! | `/status` | the status as JSON |
//! | `/alerts` | the alert rules and how they stand, as JSON |
//!
//! Every connection carries one request and ends within [`CONNECTION_TIMEOUT`], so neither a slow
//! nor a greedy client can hold anything for long.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::failure::Failure;
use crate::relay::state::{RelayStatus, State};
use crate::status::Status;

/// From accepting a connection to the last byte of the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections served at once; more of them wait in the system's queue.
const MAX_CONNECTIONS: usize = 64;

/// Most bytes of a request's head.
const MAX_HEAD: usize = 16 * 1024;

/// Before the next try when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A running endpoint; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    status: Arc<watch::Sender<Status>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Where it listens: the port is the one bound where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers for another relay from now on: the one that took over at a reload.
    pub fn show(&self, status: Status) {
        self.status.send_replace(status);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address that is ours, where nobody answers yet: who connects waits.
#[derive(Debug)]
pub struct Bound {
    address: SocketAddr,
    listener: TcpListener,
}

/// Takes the address `listen`.
///
/// # Errors
///
/// A failure that names `http.listen` where it cannot be had.
pub async fn bind(listen: SocketAddr) -> Result<Bound, Failure> {
    let refused = |error| {
        Failure::fixable(format!("`http.listen` cannot have `{listen}`"))
            .hint("set `http.listen` to a free address")
            .cause(error)
    };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok(Bound { address, listener })
}

impl Bound {
    /// Starts to answer questions about `status`.
    pub fn serve(self, status: Status) -> Server {
        let Self { address, listener } = self;
        tracing::info!(%address, "http endpoint listens");
        let status = Arc::new(watch::Sender::new(status));
        let task = tokio::spawn(accept(listener, router(Arc::clone(&status))));
        Server { address, status, task }
    }
}

/// The relay that is answered for.
type Shown = Shared<Arc<watch::Sender<Status>>>;

fn router(status: Arc<watch::Sender<Status>>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/status", get(json))
        .route("/alerts", get(alerts))
        .with_state(status)
}

async fn accept(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(answer(stream, router.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "http endpoint cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "http connection failed"),
        Err(_) => tracing::debug!("http connection took too long"),
    }
}

async fn metrics(Shared(status): Shown) -> Response {
    match status.borrow().metrics() {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => broken(&error),
    }
}

async fn livez(Shared(status): Shown) -> (StatusCode, &'static str) {
    if status.borrow().is_alive() {
        return (StatusCode::OK, "alive\n");
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the relay's loop does not turn\n")
}

async fn readyz(Shared(status): Shown) -> (StatusCode, String) {
    let RelayStatus { state, slot, .. } = status.borrow().relay();
    let code = if state.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, in_words(&state, slot.as_deref()))
}

async fn json(Shared(status): Shown) -> Response {
    as_json(status.borrow().json())
}

async fn alerts(Shared(status): Shown) -> Response {
    as_json(status.borrow().alerts())
}

fn as_json(json: serde_json::Result<String>) -> Response {
    match json {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => broken(&error),
    }
}

/// The state's name, its reason after a colon, and the hint on a line of its own.
fn in_words(state: &State, slot: Option<&str>) -> String {
    let name = state.name();
    match state {
        State::Standby { holder } => {
            let slot = slot.map_or_else(|| "the slot".to_owned(), |slot| format!("slot `{slot}`"));
            format!("{name}: {slot} is held by {holder}\n")
        }
        State::Halted { reason, hint: Some(hint) } => format!("{name}: {reason}\nhint: {hint}\n"),
        state => match state.reason() {
            Some(reason) => format!("{name}: {reason}\n"),
            None => format!("{name}\n"),
        },
    }
}

fn broken(error: &dyn std::error::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

#[cfg(test)]
mod tests;
