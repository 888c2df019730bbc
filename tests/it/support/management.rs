//! As much of RabbitMQ's management API as tests need to set a scene.
//!
//! It blocks, for some milliseconds: so a scene can also be taken down where nothing can be awaited.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// A broker that does not answer within this time does not answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The API of one node, as its administrator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Management {
    port: u16,
}

impl Management {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }

    pub(crate) fn port(self) -> u16 {
        self.port
    }

    /// Its address, as the relay's configuration has it.
    pub(crate) fn url(self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Creates or replaces what the path names.
    ///
    /// # Panics
    ///
    /// Where the broker refuses, with its words.
    pub(crate) fn put(self, path: &[&str], body: &Value) {
        self.demand("PUT", path, body);
    }

    /// Adds to what the path names; panics as [`Management::put`] does.
    pub(crate) fn post(self, path: &[&str], body: &Value) {
        self.demand("POST", path, body);
    }

    /// What the path names; `None` where it is not there.
    pub(crate) fn get(self, path: &[&str]) -> Option<Value> {
        let (code, body) = self.request("GET", path, "").expect("the management API");
        (code == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    /// The same where it does not matter that the broker may not answer.
    pub(crate) fn try_get(self, path: &[&str]) -> Option<Value> {
        let (_code, body) = self.request("GET", path, "").ok()?;
        serde_json::from_str(&body).ok()
    }

    /// Deletes what the path names, if it and the broker are there.
    pub(crate) fn delete(self, path: &[&str]) {
        let _gone = self.request("DELETE", path, "");
    }

    fn demand(self, method: &str, path: &[&str], body: &Value) {
        let (code, answer) = self
            .request(method, path, &body.to_string())
            .unwrap_or_else(|error| panic!("{method} {path:?}: {error}"));
        assert!((200..300).contains(&code), "{method} {path:?} {body}: {code} {answer}");
    }

    /// Status code and body. The parts of the path may hold any character.
    fn request(self, method: &str, path: &[&str], body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let path: String = path.iter().map(|part| format!("/{}", escape(part))).collect();
        let login = BASE64_STANDARD.encode("guest:guest");
        // Version 1.0: the body ends with the connection, and is not sent in chunks.
        let request = format!(
            "{method} /api{path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Ok((code, body.to_owned()))
    }
}

/// One part of a path or a URL, with all but the plainest characters as `%XX`.
pub(crate) fn escape(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    part.bytes().map(escape).collect()
}
