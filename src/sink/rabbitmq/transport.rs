//! The byte stream under lapin: plain or TLS, and one that can be cut.
//!
//! lapin's thread ends only when its connection does: while the broker blocks the connection or says
//! nothing during the login, neither `close` nor a drop ends it. A cut does, at once.
//!
//! What the server says first (`connection.start`) is read on its way through, since lapin keeps its
//! version and mechanisms to itself. What lapin sends on a channel after its end is
//! [left out](Frames).

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::frames::{Frames, Step};
use super::greeting::{Greeting, Peek};

/// A socket to a broker.
#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket that can be cut.
#[derive(Debug)]
pub(super) struct Transport {
    socket: Socket,
    cut: Cut,
    peek: Peek,
    frames: Frames,
}

impl Transport {
    /// The transport, what cuts it, and where the server's greeting will be.
    pub(super) fn new(socket: Socket) -> (Self, Cut, Arc<OnceLock<Greeting>>) {
        let (cut, peek) = (Cut::default(), Peek::default());
        let greeting = peek.greeting();
        let frames = Frames::default();
        (Self { socket, cut: cut.clone(), peek, frames }, cut, greeting)
    }
}

/// Cuts a transport: whoever reads or writes it from then on gets an error, also who waits for it
/// already.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<CutState>);

#[derive(Debug, Default)]
struct CutState {
    is_cut: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Cut {
    pub(super) fn cut(&self) {
        self.0.is_cut.store(true, Ordering::SeqCst);
        if let Some(reader) = self.reader().take() {
            reader.wake();
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.0.is_cut.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Notes who waits, before it is looked at whether there still is something to wait for.
    fn note(&self, context: &Context<'_>) {
        let mut reader = self.reader();
        if !reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            *reader = Some(context.waker().clone());
        }
    }

    fn reader(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.0.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.cut.note(context);
        self.cut.check()?;
        let mut read = ReadBuf::new(buffer);
        let poll = match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_read(context, &mut read),
            Socket::Tls(socket) => Pin::new(socket).poll_read(context, &mut read),
        };
        poll.map_ok(|()| {
            self.peek.look(read.filled());
            read.filled().len()
        })
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        let step = self.frames.step(bytes);
        let count = match step {
            Step::Drop(count) => count,
            Step::Send(count) => {
                let bytes = first(bytes, count);
                let sent = match &mut self.socket {
                    Socket::Plain(socket) => Pin::new(socket).poll_write_vectored(context, &bytes),
                    Socket::Tls(socket) => Pin::new(socket).poll_write_vectored(context, &bytes),
                };
                ready!(sent)?
            }
        };
        self.frames.done(step, count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(context),
            Socket::Tls(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    /// Never waits: lapin's thread would wait with it, for a peer that may be gone.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Tls(socket) => Pin::new(socket).poll_shutdown(context),
        };
        Poll::Ready(match poll {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Ok(()),
        })
    }
}

/// The first so many of these bytes; lapin has them in two pieces at most.
fn first<'a>(bytes: &'a [io::IoSlice<'_>], mut count: usize) -> [io::IoSlice<'a>; 2] {
    let mut pieces = bytes.iter().map(|piece| {
        let (piece, _rest) = piece.split_at(piece.len().min(count));
        count -= piece.len();
        io::IoSlice::new(piece)
    });
    std::array::from_fn(|_| pieces.next().unwrap_or(io::IoSlice::new(&[])))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Transport, Cut, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (transport, cut, _) = Transport::new(Socket::Plain(client.unwrap()));
        (transport, cut, server.unwrap().0)
    }

    async fn read(transport: &mut Transport) -> io::Result<usize> {
        let mut buffer = [0; 16];
        poll_fn(|context| Pin::new(&mut *transport).poll_read(context, &mut buffer)).await
    }

    #[tokio::test]
    async fn a_cut_ends_who_waits_already() {
        let (mut transport, cut, mut server) = pair().await;
        server.write_all(b"hello").await.unwrap();
        assert_eq!(read(&mut transport).await.unwrap(), 5);
        let waiting = tokio::spawn(async move { read(&mut transport).await });
        tokio::task::yield_now().await;
        cut.cut();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    async fn write(transport: &mut Transport, pieces: [&[u8]; 2]) -> io::Result<usize> {
        let pieces = pieces.map(io::IoSlice::new);
        poll_fn(|context| Pin::new(&mut *transport).poll_write_vectored(context, &pieces)).await
    }

    #[tokio::test]
    async fn nothing_is_written_after_a_cut() {
        let (mut transport, cut, _server) = pair().await;
        cut.cut();
        assert!(write(&mut transport, [b"x", b""]).await.is_err());
    }

    #[tokio::test]
    async fn what_follows_the_end_of_a_channel_is_written_nowhere() {
        let (mut transport, _cut, mut server) = pair().await;
        let close_ok = b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x29\xCE";
        let (late, other) =
            (b"\x03\x00\x01\x00\x00\x00\x01x\xCE", b"\x03\x00\x02\x00\x00\x00\x01x\xCE");
        assert_eq!(write(&mut transport, [close_ok, late]).await.unwrap(), close_ok.len());
        assert_eq!(write(&mut transport, [late, other]).await.unwrap(), late.len());
        assert_eq!(write(&mut transport, [other, b""]).await.unwrap(), other.len());
        let mut read = [0; 21];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(read[..12], close_ok[..]);
        assert_eq!(read[12..], other[..]);
    }
}
