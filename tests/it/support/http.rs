//! As much of HTTP as it takes to ask a relay how it is.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(5);

/// Status code and body of `GET path`; `None` where nobody answers.
pub(crate) async fn get(port: u16, path: &str) -> Option<(u16, String)> {
    timeout(PATIENCE, exchange(port, path)).await.ok()?
}

async fn exchange(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    // Version 1.0: the body ends with the connection, and is not sent in chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}
