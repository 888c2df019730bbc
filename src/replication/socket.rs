//! A blocking socket that can let bytes gather.
//!
//! The walsender sends each pgoutput message with a `send` of its own, and a reader that wakes for
//! each makes each `send` dearer. While the relay is behind, a pause after a short read (fixed, or on
//! loopback as long as the wanted bytes take) lets the kernel hand over many at once; when it has
//! caught up it reads plainly, so latency is not touched. The pause stands below TLS, where reads are
//! still the kernel's.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::{Domain, Type};

/// A read of fewer bytes leaves a pause before the next.
const SHORT_READ: usize = 32 * 1024;
/// Long enough for tens of messages to gather, short enough that a unix socket's buffer (208 KiB)
/// does not fill.
const UNIX_PAUSE: Duration = Duration::from_micros(100);
/// TCP's buffers are larger, and its wake-ups dearer.
const TCP_PAUSE: Duration = Duration::from_micros(500);
/// Between these, a loopback connection's pause is as long as [`GATHERED`] takes to come.
const LOOPBACK_PAUSES: (Duration, Duration) =
    (Duration::from_micros(500), Duration::from_millis(6));
/// More than the window, so that it fills, and less than the walsender's own buffer, so that it does
/// not wait: measured with 1, 10 and 1000 rows a transaction. 300 KiB are a little faster, 450 KiB much
/// slower.
const GATHERED: usize = 240 * 1024;
/// Bytes that a loopback connection may have on their way. While the window is full, the kernel
/// appends what the walsender sends to the packet that waits, which is cheap; with room in it, each
/// `send` becomes a packet of its own.
const LOOPBACK_WINDOW: usize = 128 * 1024;
/// Size of a loopback connection's segments, in bytes; 64 KiB where nobody asks for less. A sender whose
/// segment does not fit into the rest of the window waits for a larger one, and a receiver tells only
/// of one that has doubled (RFC 9293, section 3.8.6.2): with segments of half the window both wait,
/// until the sender's timer probes after 200 ms.
const LOOPBACK_SEGMENT: u32 = 16 * 1024;
const _: () = assert!(LOOPBACK_WINDOW >= 8 * LOOPBACK_SEGMENT as usize, "few segments stall");
/// A status update that cannot be written for this long has found a dead connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Shorter than any timer of tokio's, on a thread that has nothing else to do.
#[expect(clippy::disallowed_methods, reason = "what is waited for is that bytes gather")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}

/// The pause after one in which `gathered` bytes came: at most twice or half as long, within bounds.
#[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
fn next_pause(pause: Duration, gathered: usize) -> Duration {
    let wanted = pause.mul_f64(GATHERED as f64 / gathered.max(1) as f64);
    wanted.clamp(pause / 2, pause * 2).clamp(LOOPBACK_PAUSES.0, LOOPBACK_PAUSES.1)
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connected socket.
#[derive(Debug)]
pub(super) struct Socket {
    kind: Kind,
    gathering: bool,
    pause: Duration,
    /// Whether the pause follows what gathers in it.
    adapts: bool,
    /// Bytes read since the last pause.
    gathered: usize,
}

impl Socket {
    /// Connects to `address`.
    pub(super) fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let is_loopback = address.ip().is_loopback();
        let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // Before connecting: the window's scale and the segment's size are settled in the handshake. Where
        // the kernel does not take the segment's size, a small window would stall.
        if is_loopback && socket.set_tcp_mss(LOOPBACK_SEGMENT).is_ok() {
            socket.set_recv_buffer_size(LOOPBACK_WINDOW)?;
        }
        socket.connect_timeout(&address.into(), timeout)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let pause = if is_loopback { LOOPBACK_PAUSES.1 } else { TCP_PAUSE };
        let kind = Kind::Tcp(stream);
        Ok(Self { kind, gathering: false, pause, adapts: is_loopback, gathered: 0 })
    }

    pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let kind = Kind::Unix(stream);
        Ok(Self { kind, gathering: false, pause: UNIX_PAUSE, adapts: false, gathered: 0 })
    }

    fn gather(&mut self) {
        if self.adapts {
            self.pause = next_pause(self.pause, self.gathered);
        }
        self.gathered = 0;
        pause(self.pause);
    }

    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Kind::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.kind {
            Kind::Tcp(stream) => stream.read(buffer)?,
            Kind::Unix(stream) => stream.read(buffer)?,
        };
        self.gathered = self.gathered.saturating_add(read);
        if self.gathering && read < SHORT_READ.min(buffer.len()) {
            self.gather();
        }
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Tcp(stream) => stream.write(buffer),
            Kind::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Tcp(stream) => stream.flush(),
            Kind::Unix(stream) => stream.flush(),
        }
    }
}

/// A socket, encrypted or not.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Transport {
    /// Puts TLS on `socket`; the handshake is made by the first write.
    pub(super) fn tls(
        socket: Socket,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let client = ClientConnection::new(config, name)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(client, socket))))
    }

    /// A read that brings nothing for so long fails with `WouldBlock` or `TimedOut`.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)
    }

    /// Whether short reads are followed by a pause.
    pub(super) fn set_gathering(&mut self, gathering: bool) {
        match self {
            Self::Plain(socket) => socket.gathering = gathering,
            Self::Tls(stream) => stream.sock.gathering = gathering,
        }
    }

    /// Whether others on the way cannot read along: TLS, or a unix socket.
    pub(super) fn is_private(&self) -> bool {
        match self {
            Self::Plain(socket) => matches!(socket.kind, Kind::Unix(_)),
            Self::Tls(_) => true,
        }
    }

    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_becomes_as_long_as_the_wanted_bytes_take() {
        // 100 bytes a microsecond.
        let mut pause = LOOPBACK_PAUSES.1;
        for _ in 0..10 {
            pause = next_pause(pause, usize::try_from(pause.as_micros()).unwrap() * 100);
        }
        // To the microsecond, in which it is measured here.
        assert!(pause.as_micros().abs_diff(GATHERED as u128 / 100) <= 1, "{pause:?}");
    }

    #[test]
    fn a_pause_stays_within_its_bounds() {
        let (shortest, longest) = LOOPBACK_PAUSES;
        assert_eq!(next_pause(longest, 0), longest);
        assert_eq!(next_pause(shortest, usize::MAX), shortest);
    }
}
