//! Somebody who is told by HTTP: keeps every body, and can refuse.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A listener on loopback; it ends when this is dropped.
pub(crate) struct Webhook {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    code: AtomicU16,
    requests: Mutex<Vec<Request>>,
}

/// What came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its first line and its headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Webhook {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared =
            Arc::new(Shared { code: AtomicU16::new(200), requests: Mutex::new(Vec::new()) });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Answers with this code from now on.
    pub(crate) fn answer(&self, code: u16) {
        self.shared.code.store(code, Ordering::SeqCst);
    }

    /// Everything that came so far, refused or not.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _gone = answer(stream, &shared).await;
        });
    }
}

async fn answer(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = serde_json::from_slice(&body).unwrap();
    shared.requests.lock().unwrap().push(Request { head, body });
    let code = shared.code.load(Ordering::SeqCst);
    let answer = format!("HTTP/1.1 {code} So\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.get_mut().write_all(answer.as_bytes()).await
}
