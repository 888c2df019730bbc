//! Asks a relay.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::Value;
use tokio::time::Instant;

use super::StatusArgs;
use super::look::Look;
use crate::config::TlsFiles;
use crate::failure::Failure;
use crate::http_client::{HttpError, Peer};

/// Where a relay answers.
#[derive(Debug)]
pub(super) struct Relay {
    url: String,
}

impl Relay {
    /// At `--url`, or where the configuration says.
    pub(super) fn of(arguments: &StatusArgs) -> Result<Self, Failure> {
        if let Some(url) = &arguments.url {
            return Self::at(url);
        }
        match arguments.config.load()?.http_listen {
            Some(listen) => Ok(Self { url: format!("http://{}", reached(listen)) }),
            None => Err(Failure::configuration("`http.listen` is `off`: there is nobody to ask")
                .hint("set `http.listen`, and start the relay again")),
        }
    }

    fn at(url: &str) -> Result<Self, Failure> {
        if ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Ok(Self { url: url.trim_end_matches('/').to_owned() });
        }
        let message = format!("`--url {url}` does not begin with `http://` or `https://`");
        Err(Failure::configuration(message).hint("as in `--url http://127.0.0.1:7432`"))
    }

    /// One look at it.
    pub(super) async fn look(&self) -> Result<Look, Failure> {
        let url = &self.url;
        let tls = TlsFiles::default();
        let peer = Peer { url, name: url, login: None, tls: &tls };
        let answer = peer.get("/status").await.map_err(|error| self.unanswered(error))?;
        let at = Instant::now();
        if !answer.status.is_success() {
            let message = format!("`{url}/status` answered {}", answer.status);
            return Err(Failure::definite(message).hint("is that a relay's `http.listen`?"));
        }
        match serde_json::from_slice::<Value>(&answer.body) {
            Ok(status) if status.get("state").is_some() => Ok(Look { status, at }),
            _ => Err(Failure::definite(format!("`{url}/status` is not a relay's"))
                .hint("is that a relay's `http.listen`?")),
        }
    }

    fn unanswered(&self, error: HttpError) -> Failure {
        let url = &self.url;
        let failure = match error {
            HttpError::Connect(_) => {
                Failure::transient(format!("no relay runs at `{url}`, or it cannot be reached"))
            }
            _ => Failure::transient(format!("the relay at `{url}` does not answer")),
        };
        let hint = "start it (`pgoutbox run`), or say where it answers: `--url http://HOST:PORT`";
        failure.cause(error).hint(hint)
    }
}

/// Where a listener is reached from its own machine.
fn reached(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_listens_everywhere_is_asked_at_home() {
        let reached = |listen: &str| reached(listen.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:7432"), "127.0.0.1:7432");
        assert_eq!(reached("[::]:7432"), "[::1]:7432");
        assert_eq!(reached("10.0.0.7:80"), "10.0.0.7:80");
    }

    #[test]
    fn an_address_needs_its_scheme() {
        assert_eq!(Relay::at("http://one:7432/").unwrap().url, "http://one:7432");
        let failure = Relay::at("one:7432").unwrap_err();
        assert!(failure.to_string().contains("`--url one:7432`"), "{failure}");
    }
}
