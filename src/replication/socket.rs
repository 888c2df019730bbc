//! A blocking socket that can let bytes gather.
//!
//! The walsender sends each pgoutput message with a `send` of its own, and a reader that wakes for
//! each makes each `send` dearer. While the relay is behind, a pause of a tenth of a millisecond
//! after a short read lets the kernel hand over many at once; when it has caught up it reads plainly,
//! so latency is not touched. The pause stands below TLS, where reads are still the kernel's.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A read of fewer bytes leaves a pause before the next.
const SHORT_READ: usize = 32 * 1024;
/// Long enough for tens of messages to gather, short enough that a unix socket's buffer (208 KiB)
/// does not fill.
const UNIX_PAUSE: Duration = Duration::from_micros(100);
/// TCP's buffers are larger, and its wake-ups dearer.
const TCP_PAUSE: Duration = Duration::from_micros(500);
/// A status update that cannot be written for this long has found a dead connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Shorter than any timer of tokio's, on a thread that has nothing else to do.
#[expect(clippy::disallowed_methods, reason = "what is waited for is that bytes gather")]
fn pause(duration: Duration) {
    thread::sleep(duration);
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
}

impl Socket {
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self { kind: Kind::Tcp(stream), gathering: false })
    }

    pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self { kind: Kind::Unix(stream), gathering: false })
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
        if self.gathering && read < SHORT_READ.min(buffer.len()) {
            pause(match self.kind {
                Kind::Tcp(_) => TCP_PAUSE,
                Kind::Unix(_) => UNIX_PAUSE,
            });
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
