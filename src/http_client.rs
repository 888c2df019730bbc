//! One HTTP request on a connection of its own: to RabbitMQ's management API, to those who are told
//! of alerts.
//!
//! Nothing here prints an address: it may be a secret. Who asks knows what may be shown.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::{Login, TlsFiles};
use crate::failure::Failure;
use crate::tls;

/// For the head of an answer, and again for the rest of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest answer that is read.
const MAX_ANSWER: usize = 32 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is none.
    #[error("the URL cannot be used")]
    Url,
    /// User, password or token cannot stand in a header.
    #[error("user, password or token cannot stand in a header")]
    Login,
    /// Nobody listens.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// No TLS.
    #[error("{0}")]
    Tls(Failure),
    /// The connection broke.
    #[error("the connection broke")]
    Lost(#[source] hyper::Error),
    /// Nobody answers.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// The answer does not end.
    #[error("the answer does not end")]
    Endless,
    /// The answer breaks off, or is too long.
    #[error("the answer cannot be read: {0}")]
    Unreadable(Box<dyn std::error::Error + Send + Sync>),
}

/// Whom to ask.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// `http://host:port/path` or `https://…`, as `config` has checked it.
    pub url: &'a str,
    /// What it is called in messages about TLS.
    pub name: &'a str,
    /// Who says that we may ask.
    pub login: Option<&'a Login>,
    /// Files for `https`; read at every connection.
    pub tls: &'a TlsFiles,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whatever it is.
    pub status: StatusCode,
    /// Of a bounded size.
    pub body: Bytes,
}

impl Peer<'_> {
    /// Asks for what is at `path`, which follows the URL.
    ///
    /// # Errors
    ///
    /// Where there is no whole answer; whatever its status, an answer is none.
    pub async fn get(&self, path: &str) -> Result<Answer, HttpError> {
        self.exchange(Method::GET, path, Bytes::new()).await
    }

    /// Sends a JSON document to `path`, which follows the URL.
    ///
    /// # Errors
    ///
    /// As [`Peer::get`].
    pub async fn post_json(&self, path: &str, json: Bytes) -> Result<Answer, HttpError> {
        self.exchange(Method::POST, path, json).await
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, HttpError> {
        let answer = timeout(PATIENCE, self.begin(method, path, body));
        let answer = answer.await.map_err(|_| HttpError::Silent)??;
        let status = answer.status();
        let body = timeout(PATIENCE, Limited::new(answer, MAX_ANSWER).collect()).await;
        let body = body.map_err(|_| HttpError::Endless)?.map_err(HttpError::Unreadable)?;
        Ok(Answer { status, body: body.to_bytes() })
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, HttpError> {
        let place = Place::of(self.url).ok_or(HttpError::Url)?;
        let request = self.request(&place, method, path, body)?;
        let socket =
            TcpStream::connect((place.host, place.port)).await.map_err(HttpError::Connect)?;
        if place.is_tls {
            let socket = tls::connect(self.tls, self.name, place.host, socket).await;
            send(socket.map_err(HttpError::Tls)?, request).await
        } else {
            send(socket, request).await
        }
    }

    fn request(
        &self,
        place: &Place<'_>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder()
            .method(method)
            .uri(match (place.prefix, path) {
                ("", "") => "/".to_owned(),
                (prefix, path) => format!("{prefix}{path}"),
            })
            .header(HOST, place.authority)
            .header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(login) = self.login {
            request = request.header(AUTHORIZATION, authorization(login)?);
        }
        request.body(Full::new(body)).map_err(|_| HttpError::Url)
    }
}

fn authorization(login: &Login) -> Result<HeaderValue, HttpError> {
    let text = match login {
        Login::Password { username, password } => {
            format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.expose())))
        }
        Login::Token(token) => format!("Bearer {}", token.expose()),
    };
    let mut value = HeaderValue::try_from(text).map_err(|_| HttpError::Login)?;
    value.set_sensitive(true);
    Ok(value)
}

async fn send(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, HttpError> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(socket)).await.map_err(HttpError::Lost)?;
    // It ends with its one exchange, or with the answer that is not read.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(HttpError::Lost)
}

/// A URL taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    is_tls: bool,
    /// Host and port as they were written.
    authority: &'a str,
    host: &'a str,
    port: u16,
    /// Path and query; empty, or with a slash before it.
    prefix: &'a str,
}

impl<'a> Place<'a> {
    /// `http://host:port/prefix`.
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = scheme == "https";
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if is_tls => 443,
            None => 80,
        };
        Some(Self { is_tls, authority, host, port, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let place = |url| Place::of(url).map(|it| (it.is_tls, it.host, it.port, it.prefix));
        assert_eq!(place("http://one:15672"), Some((false, "one", 15672, "")));
        assert_eq!(place("https://one/rabbit"), Some((true, "one", 443, "/rabbit")));
        assert_eq!(place("http://[::1]:15672"), Some((false, "::1", 15672, "")));
        assert_eq!(place("http://[::1]"), Some((false, "::1", 80, "")));
        assert_eq!(place("http://one:x"), None);
    }
}
