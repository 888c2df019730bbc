//! From an address to a transport: TCP or unix socket, with TLS or without.

use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use tokio::time::Instant;

use super::super::socket::{Socket, Transport};
use super::lost;
use crate::failure::Failure;
use crate::postgres::{self, Host, Settings, SslMode};

/// Connects to the settings' host.
pub(super) fn open(settings: &Settings) -> Result<Transport, Failure> {
    match &settings.host {
        Host::Unix(_) => open_unix(settings),
        Host::Tcp(host) => {
            let socket = open_tcp(settings, host)?;
            encrypt(settings, host, socket)
        }
    }
}

fn open_unix(settings: &Settings) -> Result<Transport, Failure> {
    let path = settings.socket_path().unwrap_or_default();
    let stream = UnixStream::connect(&path).and_then(Socket::unix).map_err(|error| {
        Failure::transient(format!("cannot connect to `{}`", path.display())).cause(error)
    })?;
    Ok(Transport::Plain(stream))
}

/// Tries the host's addresses in turn, within one connect timeout.
fn open_tcp(settings: &Settings, host: &str) -> Result<Socket, Failure> {
    let port = settings.port;
    let failed =
        |error| Failure::transient(format!("cannot connect to `{host}` port {port}")).cause(error);
    let deadline = Instant::now() + settings.connect_timeout;
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(failed)?.collect();
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match Socket::connect(address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// Asks for TLS where the settings want it (PostgreSQL manual, "SSL Session Encryption").
fn encrypt(settings: &Settings, host: &str, socket: Socket) -> Result<Transport, Failure> {
    if settings.ssl_mode == SslMode::Disable {
        return Ok(Transport::Plain(socket));
    }
    let mut transport = Transport::Plain(socket);
    let doing = "ask for TLS";
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let mut answer = [0];
    // One byte and no more: what a man in the middle sent after it must not be taken for the
    // server's first encrypted words.
    transport
        .set_read_timeout(settings.connect_timeout)
        .and_then(|()| transport.write_all(&request))
        .and_then(|()| transport.read_exact(&mut answer))
        .map_err(|error| lost(doing, error))?;
    let Transport::Plain(socket) = transport else { return Ok(transport) };
    match (answer, settings.ssl_mode) {
        ([b'S'], _) => start_tls(settings, host, socket),
        ([b'N'], SslMode::Prefer) => Ok(Transport::Plain(socket)),
        ([b'N'], _) => Err(Failure::fixable(format!(
            "the server at `{host}` does not support TLS"
        ))
        .hint("set `ssl = on` on the server, or `sslmode=disable` where the network is trusted")),
        _ => Err(Failure::transient(format!("`{host}` does not answer as PostgreSQL does"))),
    }
}

fn start_tls(settings: &Settings, host: &str, socket: Socket) -> Result<Transport, Failure> {
    let config = postgres::tls::client_config(settings)?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Failure::configuration(format!("bad host `{host}`")).cause(error))?;
    Transport::tls(socket, config, name)
        .map_err(|error| Failure::fixable(format!("cannot start TLS with `{host}`")).cause(error))
}
