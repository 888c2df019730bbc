//! A network of the test's own: a TCP proxy on loopback that can be cut and frozen.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Connections stay open and nothing comes through: a network that drops packets.
    Freeze,
    /// Connections are closed, new ones at once.
    Cut,
}

/// One address that leads to another; it works as long as the test's runtime.
pub(crate) struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Leads to `127.0.0.1:port`.
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, watching) = watch::channel(Mode::Pass);
        let acceptor = tokio::spawn(accept(listener, port, watching));
        Self { address, mode, acceptor }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on nothing comes through, and nobody is told.
    pub(crate) fn freeze(&self) {
        self.mode.send_replace(Mode::Freeze);
    }

    /// Closes every connection, and each new one.
    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Lets everything through again, also what was held up.
    pub(crate) fn resume(&self) {
        self.mode.send_replace(Mode::Pass);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, port: u16, mode: watch::Receiver<Mode>) {
    while let Ok((client, _)) = listener.accept().await {
        if *mode.borrow() != Mode::Cut {
            tokio::spawn(connect(client, port, mode.clone()));
        }
    }
}

async fn connect(client: TcpStream, port: u16, mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::spawn(forward(client_reads, server_writes, mode.clone()));
    tokio::spawn(forward(server_reads, client_writes, mode));
}

/// Moves bytes one way until an end of the connection closes or the proxy is cut.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 64 * 1024];
    while may_pass(&mut mode).await {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            Ok(()) = mode.changed() => continue,
        };
        let Ok(length @ 1..) = read else { return };
        if !may_pass(&mut mode).await || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits out a freeze; false once the proxy is cut.
async fn may_pass(mode: &mut watch::Receiver<Mode>) -> bool {
    match mode.wait_for(|mode| *mode != Mode::Freeze).await {
        Ok(mode) => *mode == Mode::Pass,
        Err(_) => false,
    }
}
