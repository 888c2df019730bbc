//! Reads a virtual host's exchanges, queues and bindings from RabbitMQ's management API.
//!
//! Only `check` asks it: what a relay needs to run it learns from the broker itself.

use hyper::StatusCode;
use serde::de::DeserializeOwned;

use super::topology::Topology;
use crate::config::{Login, ManagementConfig, TlsFiles};
use crate::failure::Failure;
use crate::http_client::{HttpError, Peer};

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
    files: &TlsFiles,
    vhost: &str,
) -> Result<Topology, Failure> {
    let login =
        Login::Password { username: config.username.clone(), password: config.password.clone() };
    let api = Api { config, files, login };
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
    files: &'a TlsFiles,
    login: Login,
}

impl Api<'_> {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let Self { config, files, login } = self;
        let peer = Peer { url: &config.url, name: "RabbitMQ", login: Some(login), tls: files };
        let answer = peer.get(path).await.map_err(|error| self.no_answer(error))?;
        self.judge(answer.status)?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            let said = "is no answer of RabbitMQ's management API";
            Failure::fixable(format!("`{}{path}` {said}", self.config.url)).cause(error)
        })
    }

    fn no_answer(&self, error: HttpError) -> Failure {
        let url = &self.config.url;
        match error {
            HttpError::Tls(failure) => failure,
            HttpError::Url => Failure::fixable(format!("`{url}` is no URL")),
            error => Failure::transient(format!("management API at `{url}`")).cause(error),
        }
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
    fn a_virtual_host_is_one_segment() {
        assert_eq!(encode("/"), "%2F");
        assert_eq!(encode("shop a\u{e9}%"), "shop%20a%C3%A9%25");
    }
}
