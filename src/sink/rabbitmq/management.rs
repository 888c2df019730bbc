//! Reads a virtual host's exchanges, queues and bindings from RabbitMQ's management API.
//!
//! Only `check` asks it: what a relay needs to run it learns from the broker itself.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls;
use super::topology::Topology;
use crate::config::{ManagementConfig, RabbitMqTls};
use crate::failure::Failure;

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest answer that is read; tens of thousands of queues fit.
const MAX_ANSWER: usize = 32 << 20;

/// What is asked of a queue: without this, the broker would count its messages.
const QUEUE_COLUMNS: &str =
    "?columns=name,type,durable,auto_delete,exclusive,arguments,effective_policy_definition";

/// Everything of the virtual host `vhost`.
///
/// # Errors
///
/// Fixable where the API refuses us or does not understand; transient where nobody answers.
pub async fn topology(
    config: &ManagementConfig,
    files: &RabbitMqTls,
    vhost: &str,
) -> Result<Topology, Failure> {
    let api = Api { config, files };
    let vhost = encode(vhost);
    let exchanges = api.get(&format!("/api/exchanges/{vhost}")).await?;
    let queues = api.get(&format!("/api/queues/{vhost}{QUEUE_COLUMNS}")).await?;
    let bindings = api.get(&format!("/api/bindings/{vhost}")).await?;
    // A user with the tag `management` alone may not see policies; they only add alternate exchanges.
    let policies = match api.get(&format!("/api/policies/{vhost}")).await {
        Ok(policies) => policies,
        Err(failure) if is_refusal(failure.peer_code()) => Vec::new(),
        Err(failure) => return Err(failure),
    };
    Ok(Topology::new(exchanges, queues, bindings, policies))
}

fn is_refusal(code: Option<&str>) -> bool {
    matches!(code, Some("401" | "403"))
}

struct Api<'a> {
    config: &'a ManagementConfig,
    files: &'a RabbitMqTls,
}

impl Api<'_> {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let answer = tokio::time::timeout(PATIENCE, self.exchange(path)).await;
        let answer = answer
            .map_err(|_| self.transient(&format!("no answer within {} s", PATIENCE.as_secs())))??;
        self.judge(answer.status())?;
        let body = tokio::time::timeout(PATIENCE, Limited::new(answer, MAX_ANSWER).collect()).await;
        let body = body
            .map_err(|_| self.transient("the answer does not end"))?
            .map_err(|error| self.transient(&format!("the answer cannot be read: {error}")))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| {
            let said = "is no answer of RabbitMQ's management API";
            Failure::fixable(format!("`{}{path}` {said}", self.config.url)).cause(error)
        })
    }

    /// One request on a connection of its own.
    async fn exchange(&self, path: &str) -> Result<Response<Incoming>, Failure> {
        let place = Place::of(&self.config.url)
            .ok_or_else(|| Failure::fixable(format!("`{}` has no port", self.config.url)))?;
        let socket = TcpStream::connect((place.host, place.port))
            .await
            .map_err(|error| self.transient("cannot connect").cause(error))?;
        let request = self.request(&place, path)?;
        if place.is_tls {
            let socket = tls::connect(self.files, place.host, socket).await?;
            self.send(socket, request).await
        } else {
            self.send(socket, request).await
        }
    }

    fn request(&self, place: &Place<'_>, path: &str) -> Result<Request<Empty<Bytes>>, Failure> {
        let ManagementConfig { username, password, .. } = self.config;
        let login = STANDARD.encode(format!("{username}:{}", password.expose()));
        Request::get(format!("{}{path}", place.prefix))
            .header(HOST, place.authority)
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, format!("Basic {login}"))
            .body(Empty::new())
            .map_err(|_| Failure::fixable(format!("`{}` is no URL", self.config.url)))
    }

    async fn send(
        &self,
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let lost = |error| self.transient("the connection broke").cause(error);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(lost)?;
        // It ends with its one exchange, or with the answer that is not read.
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(lost)
    }

    fn judge(&self, status: StatusCode) -> Result<(), Failure> {
        let ManagementConfig { url, username, .. } = self.config;
        let code = status.as_str();
        match status {
            StatusCode::OK => Ok(()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let message =
                    format!("user `{username}` may not read the management API at `{url}`");
                let hint = format!(
                    "name one who may (`management: {{username: …, password: …}}`), or let this one: \
                     rabbitmqctl set_user_tags {username} management"
                );
                Err(Failure::fixable(message).code(code).hint(hint))
            }
            StatusCode::NOT_FOUND => {
                let message =
                    format!("the management API at `{url}` does not know the virtual host");
                Err(Failure::fixable(message).code(code))
            }
            _ => Err(self.transient("refused to answer").code(code)),
        }
    }

    fn transient(&self, what: &str) -> Failure {
        Failure::transient(format!("management API at `{}`: {what}", self.config.url))
    }
}

/// A URL taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    is_tls: bool,
    /// Host and port as they were written.
    authority: &'a str,
    host: &'a str,
    port: u16,
    /// Where a proxy has put the API; empty, or with a slash before it.
    prefix: &'a str,
}

impl<'a> Place<'a> {
    /// `http://host:port/prefix`, as `config` has checked it.
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

/// `text` as one segment of a path.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
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

    #[test]
    fn a_virtual_host_is_one_segment() {
        assert_eq!(encode("/"), "%2F");
        assert_eq!(encode("shop a\u{e9}%"), "shop%20a%C3%A9%25");
    }
}
